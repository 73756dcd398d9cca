"""The command that proves the cost model on links and processors of this machine."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, draw_if_asked, figure_target
from fedcell.cli.app import out as screen
from fedcell.cli.federation import RunWatch, with_devices
from fedcell.cli.options import AsJson, DataDir, Rounds, Seed
from fedcell.core.errors import BadInput, NoTestbed
from fedcell.core.quantities import parse_duration
from fedcell.deploy.testbed.cleanup import remove_leftovers
from fedcell.deploy.testbed.emulate import emulate, usual_world
from fedcell.deploy.testbed.testbed import why_not
from fedcell.network.policies.names import NAMED
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json


@app.command("testbed")
def on_testbed(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="A scenario file with few clients. Default: four devices, a band with some "
            "Mbit/s for each, a model of a megabyte."
        ),
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, max=50, help="How many devices. Default: the scenario's.")
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            metavar="HZ", help="Band of the cell, instead of the scenario's: the links follow."
        ),
    ] = None,
    policy: Annotated[str, typer.Option(help=f"{', '.join(NAMED)}.")] = "distributed",
    rounds: Rounds = None,
    seed: Seed = 0,
    deadline: Annotated[
        str, typer.Option(help="How long a round waits for its devices, as 90s or 5min.")
    ] = "5min",
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Keep the run and the logs in this folder. Default: neither."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw measured and modelled uploads to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run a federation over shaped links of this machine, and compare uploads with the model.

    Linux only, as root. The server and each device get a network of their own; in every round each
    link is set to the share of the band that the schedule gives (a_j B r_j^0), each processor to
    its part (f_j). Inside runs the same Flower app as `fedcell deploy`. At the end the machine is
    as before, whatever happens; what a killed one has left is removed by the next.
    """
    target = figure_target(figure)
    if policy not in NAMED:
        raise BadInput(f"--policy {policy}: a federation runs one of: {', '.join(NAMED)}")
    world = usual_world() if scenario is None else load_scenario(scenario)
    world = with_devices(world, devices, any_number=False)
    if bandwidth is not None:
        world = world.using(cell={"bandwidth": bandwidth})
    seconds = parse_duration(deadline, "--deadline")

    def tell(words: str) -> None:
        if not as_json:
            print(f"fedcell: {words}", file=sys.stderr, flush=True)

    for name in remove_leftovers():
        tell(f"removed what a testbed had left: {name}")
    if (reason := why_not()) is not None:
        raise NoTestbed(reason)
    with tempfile.TemporaryDirectory(prefix="fedcell-testbed-") as scratch:
        place = Path(scratch) / "testbed" if folder is None else folder
        watch = RunWatch(place / "run", tell)
        report = emulate(
            world,
            place,
            rounds=rounds,
            seed=seed,
            policy=policy,
            deadline=seconds,
            data_dir=data_dir,
            message=tell,
            pause=watch.look,
        )
        watch.look()
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(screen, report)
    draw_if_asked(report, target, figure, quiet=as_json)
