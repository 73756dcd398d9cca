"""Serve the studio: a page of this machine for plans and runs."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, out
from fedcell.cli.options import DataDir, file, number
from fedcell.core.errors import BadFile, BadInput
from fedcell.learning.data.download import data_folder
from fedcell.scenario.load import SHIPPED
from fedcell.studio.planning import World
from fedcell.studio.routes import Studio
from fedcell.studio.server import PORT, StudioServer

Shown = Annotated[
    str,
    typer.Argument(
        help="Scenario or plan to begin with; or the folder of a run, of runs or of a sweep. "
        f"Shipped scenarios: {', '.join(SHIPPED)}."
    ),
]
PilotFile = Annotated[
    Path | None,
    file("Pilot of the scenario. Default: pilot-SCENARIO.json beside the scenario's file."),
]
Port = Annotated[
    int | None,
    number(f"Port. Default: {PORT} or the next free one; 0: any free one.", least=0, most=65535),
]
Quiet = Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")]


@command("fedcell studio digits", "fedcell studio results --port 8080")
def studio(
    shown: Shown = "digits",
    pilot: PilotFile = None,
    port: Port = None,
    no_browser: Quiet = False,
    data_dir: DataDir = None,
) -> None:
    """Open a local page: plans while you move sliders, and runs while they go on.

    The page shows the plan of fedcell plan for each question, what it is chosen from, and one round
    of it; and the runs of a folder, by default of this one. It is served to this machine only, at
    an address with a token. Ctrl-C ends it, and a pilot that it has started.
    """
    path = Path(shown)
    if path.is_dir():
        if pilot is not None:
            raise BadInput("--pilot is for a scenario, and this is a folder: leave it out")
        world, folders = None, (path,)
    else:
        world = World.of(shown, pilot)
        if pilot is not None and not pilot.is_file():
            raise BadFile(f"{pilot}: is no file: name a pilot, or leave --pilot out")
        folders = (path.parent if path.is_file() else Path(),)
    data_folder(data_dir)  # refuses what is none, before a page opens
    page = Studio(world, folders, data_dir)
    server = StudioServer(page, port)
    out.print(f"fedcell studio: {server.address}", soft_wrap=True)
    out.print("Ctrl-C ends it")
    if not no_browser:
        threading.Thread(target=webbrowser.open, args=[server.address], daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        out.print("ended")
    finally:
        server.server_close()
        page.close()
