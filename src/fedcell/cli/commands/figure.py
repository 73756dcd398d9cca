"""Draw a run, several seeds or a sweep from its folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.cli.app import command, draw, out
from fedcell.cli.options import name_of, number, out_file
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

Folder = Annotated[Path, typer.Argument(help="Folder that fedcell run, sweep or reproduce wrote.")]
OutFile = Annotated[
    Path | None,
    out_file(f"The figure ({', '.join(FORMATS)}). Default: a .png and a .pdf in the folder."),
]
By = Annotated[
    str | None, name_of("Column of runs.csv to draw, as rounds_to_hold or energy; for sweeps.")
]
Axis = Annotated[
    str | None, name_of("Axis of the sweep to draw over. Default: the one with most values.")
]
Columns = Annotated[
    int | None, number("Width in columns of a paper, 1 or 2. Default: a screen's.", most=2)
]


@command(
    "fedcell figure run-digits-seed0",
    "fedcell figure sweep-steps --by energy --columns 1 --out energy.pdf",
)
def figure_command(
    folder: Folder,
    out_path: OutFile = None,
    by: By = None,
    axis: Axis = None,
    columns: Columns = None,
) -> None:
    """Draw a run, several seeds or a sweep from its folder, without a simulation.

    Vector PDF with fonts that journals accept, and PNG. Reads only runs.csv and experiment.json of
    a sweep, and the ledgers of a run, which may be in progress.
    """
    options: dict[str, Any] = {"columns": columns}
    result, name = _drawable(folder)
    if isinstance(result, RunResult | SeedsResult):
        if by or axis:
            raise BadInput(f"{folder}: holds runs: --by and --axis are for sweeps")
    else:
        options |= {"by": by, "axis": axis}
    files = [out_path] if out_path else [folder / f"{name}.png", folder / f"{name}.pdf"]
    for file in files:
        check_target(file, FORMATS)
    for file in files:
        if not draw(result, file, **options):
            return  # the other would fail as well
        out.print(f"figure: {file}", soft_wrap=True)


def _drawable(folder: Path) -> tuple[Showable, str]:
    """Return what a folder holds, and the stem of its figure."""
    if (folder / IDENTITY).is_file():
        return load_run(folder), "loss"
    if any(folder.glob(f"seed*/{IDENTITY}")):
        return load_seeds(folder), "loss"
    table = load_sweep(folder)
    result = load_reproduction(folder) if "panel" in table.about else table
    return result, str(table.about.get("panel", "figure"))
