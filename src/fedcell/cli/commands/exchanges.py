"""The command that shows what the devices of a federation did."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, draw_if_asked, figure_target, out
from fedcell.cli.options import AsJson
from fedcell.deploy.exchanges import load_exchanges
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json


@app.command()
def exchanges(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of a run on a federation.")
    ],
    figure: Annotated[
        Path | None, typer.Option(help="Draw uploads and times of devices to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the devices of a federation did, by the model and by the clock."""
    target = figure_target(figure)
    report = load_exchanges(folder)
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(out, report)
    draw_if_asked(report, target, figure, quiet=as_json)
