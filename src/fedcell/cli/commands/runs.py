"""List runs."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, out
from fedcell.cli.options import AsJson, name_of
from fedcell.show.tables.console import print_json
from fedcell.show.tables.runs import print_runs
from fedcell.simulation.folder.listing import list_runs

Folders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders of runs, or folders that hold some. Default: this one."),
]
Policy = Annotated[
    str | None, name_of("Show the costs under this policy. Default: the first of each run.")
]


@command("fedcell runs", "fedcell runs run-digits-seed0 results --policy optimal")
def runs(folders: Folders = None, policy: Policy = None, as_json: AsJson = False) -> None:
    """List runs side by side: settings, progress and costs.

    Nothing is simulated; a run that is in progress is listed, too.
    """
    entries = list_runs(folders or [Path()])
    if as_json:
        print_json([entry.to_dict(policy) for entry in entries])
    else:
        print_runs(out, entries, policy)
