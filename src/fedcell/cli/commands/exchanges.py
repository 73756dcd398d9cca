"""Show what the devices of a federation did."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, draw_if_asked, figure_target, out
from fedcell.cli.options import AsJson, figure_of
from fedcell.deploy.exchanges import load_exchanges
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder that fedcell deploy --out wrote.")
]
Figure = Annotated[Path | None, figure_of("upload times of the devices")]


@command(
    "fedcell exchanges deploy-digits-seed0",
    "fedcell exchanges deploy-digits-seed0 --figure uploads.png",
)
def exchanges(folder: Folder, figure: Figure = None, as_json: AsJson = False) -> None:
    """Show what each device of a federation did, modelled and measured."""
    target = figure_target(figure)
    report = load_exchanges(folder)
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(out, report)
    draw_if_asked(report, target, figure, quiet=as_json)
