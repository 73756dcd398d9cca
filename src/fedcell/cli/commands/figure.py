"""Draw what a folder holds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.cli.app import app, draw, out
from fedcell.core.errors import BadInput
from fedcell.core.files.formats import check_target
from fedcell.core.showing import Showable
from fedcell.experiments.seeds import SeedsResult, load_seeds
from fedcell.experiments.table import load_sweep
from fedcell.paper.reproduce import load_reproduction
from fedcell.show.figures.style import FORMATS
from fedcell.simulation.folder.load import load_run
from fedcell.simulation.folder.run_folder import IDENTITY
from fedcell.simulation.summary import RunResult


@app.command("figure")
def figure_command(
    folder: Annotated[Path, typer.Argument(help="What run, sweep or reproduce has written.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", help=f"One file, of {', '.join(FORMATS)}. Default: .png and .pdf."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Column of runs.csv to draw, as rounds_to_hold or energy."),
    ] = None,
    axis: Annotated[str | None, typer.Option(help="To draw over. Default: the longest.")] = None,
    columns: Annotated[
        int | None,
        typer.Option(min=1, max=2, help="As wide as 1 or 2 columns of a paper. Default: a screen."),
    ] = None,
) -> None:
    """Draw a run, several seeds of one, or a sweep again from its folder, without a simulation.

    Vector PDF with fonts that journals take, and PNG. Of a sweep it looks at runs.csv and
    experiment.json alone; of a run at its ledgers, also while it is under way.
    """
    options: dict[str, Any] = {"columns": columns}
    found, name = _drawable(folder)
    if isinstance(found, RunResult | SeedsResult):
        if by or axis:
            raise BadInput(f"{folder}: holds runs: --by and --axis are for sweeps")
    else:
        options |= {"by": by, "axis": axis}
    files = [target] if target else [folder / f"{name}.png", folder / f"{name}.pdf"]
    for file in files:
        check_target(file, FORMATS)
    for file in files:
        if not draw(found, file, **options):
            return  # the others would fail alike
        out.print(f"figure: {file}", soft_wrap=True)


def _drawable(folder: Path) -> tuple[Showable, str]:
    """What a folder holds, and what its picture is called."""
    if (folder / IDENTITY).is_file():
        return load_run(folder), "loss"
    if any(folder.glob(f"seed*/{IDENTITY}")):
        return load_seeds(folder), "loss"
    table = load_sweep(folder)
    found = load_reproduction(folder) if "panel" in table.about else table
    return found, str(table.about.get("panel", "figure"))
