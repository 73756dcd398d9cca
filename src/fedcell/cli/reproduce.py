"""Commands for the paper's figures: making panels anew, and drawing what a folder holds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.core.errors import BadInput
from fedcell.core.files import check_target
from fedcell.core.showing import Showable
from fedcell.experiments.seeds import load_seeds
from fedcell.experiments.seeds_result import SeedsResult
from fedcell.experiments.store import Store
from fedcell.experiments.table import load_sweep
from fedcell.paper.judges import PANELS
from fedcell.paper.reproduce import load_reproduction, panel_text, reproduce
from fedcell.show.figures.style import FORMATS
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.folder import IDENTITY
from fedcell.simulation.load import load_run
from fedcell.simulation.result import RunResult

from .app import RUNS, AsJson, DataDir, StoreFolder, Workers, app, check_folder, draw, out
from .signals import keeping_what_is_done
from .sweep import (
    Cluster,
    Retry,
    engine_of,
    exit_with_failures,
    sweep_bars,
    sweep_reporter,
    write_page,
)


@app.command("reproduce")
def reproduce_command(
    panels: Annotated[
        list[str] | None, typer.Argument(help=f"Any of: {', '.join(PANELS)}. Default: all.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A rough version on digits, in minutes.")
    ] = False,
    folder: Annotated[Path, typer.Option("--out", help="Where tables and figures go.")] = Path(
        "reproduction"
    ),
    store: StoreFolder = RUNS,
    workers: Workers = None,
    cluster: Cluster = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many. Default: 20; quick: 4.")
    ] = None,
    retry: Retry = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Make figures of the paper anew: run, draw, and judge what it says of them.

    MNIST and CIFAR-10 take hours; what is made is kept, and the same command goes on. Each panel
    gets a folder with its runs, verdicts, figure (.png, .pdf) and report.html.
    """
    for panel in panels or ():
        panel_text(panel)  # refused before any work
    check_folder(store, "--store")
    for panel in panels or PANELS:
        check_folder(folder / panel, "--out")
    engine = engine_of(workers, cluster)
    answers: list[dict[str, Any]] = []
    failures: set[str] = set()
    for panel in panels or PANELS:
        with keeping_what_is_done(), sweep_bars() as bars:
            found = reproduce(
                panel,
                Store(store),
                engine,
                quick=quick,
                retry=retry,
                seeds=seeds,
                data_dir=data_dir,
                report=sweep_reporter(bars),
            )
        failures |= set(found.failures)
        found.save(folder / panel)
        answers += found.rows()
        if not as_json:
            print_result(out, found)
        draw(found, folder / panel / f"{panel}.png")
        draw(found, folder / panel / f"{panel}.pdf", columns=1)
        if not as_json:
            words = f"written to {folder / panel}: runs.csv, verdicts.csv, {panel}.png, {panel}.pdf"
            out.print(words, soft_wrap=True)
        write_page(folder / panel, found, quiet=as_json)
    if as_json:
        print_json(answers)
    if failures:
        exit_with_failures(failures)


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
