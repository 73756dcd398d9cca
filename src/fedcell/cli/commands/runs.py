"""The command that lists runs."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, out
from fedcell.cli.options import AsJson
from fedcell.show.tables.console import print_json
from fedcell.show.tables.runs import print_runs
from fedcell.simulation.folder.listing import list_runs


@app.command()
def runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs, or folders that hold some. Default: this one."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Show what this took. Default: the first of each run.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs side by side: what they are, how far they have come, and what that took.

    Nothing is simulated, and runs that are under way may be looked at.
    """
    found = list_runs(folders or [Path()])
    if as_json:
        print_json([entry.to_dict(policy) for entry in found])
    else:
        print_runs(out, found, policy)
