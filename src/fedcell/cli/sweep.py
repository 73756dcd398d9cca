"""The command that runs experiments."""

import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fedcell.core.errors import BadFile
from fedcell.experiments.engines import DaskCluster, LocalProcesses, SweepEngine
from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import SweepProgress, run_sweep
from fedcell.paper.reproduce import PANELS, panel_text, reproduce
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

from .app import AsJson, DataDir, app, draw, draw_if_asked, err, figure_target, file_stem, out
from .signals import keeping_what_is_done

RUNS = Path("fedcell-runs")
StoreFolder = Annotated[
    Path, typer.Option("--store", help="Where trainings are kept, for all experiments.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Processes. Default: all processors.")
]
Cluster = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, as tcp://host:8786.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Make trainings again that failed before.")]
EVERY = 30.0  # [s] between two lines where nobody looks at a bar


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment: a TOML or JSON file.")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where tables go. Default: sweep-FILE.")
    ] = None,
    store: StoreFolder = RUNS,
    workers: Workers = None,
    cluster: Cluster = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many. Default: the file's.")
    ] = None,
    retry: Retry = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw rounds to the target over the longest axis.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment: every setting of its lists, on all seeds, each training once.

    Trainings are kept by what they depend on. The same command goes on after an interrupt or
    kill -9; more --seeds are added; other experiments share what is there. The folder gets
    runs.csv, a row for each run.
    """
    target = figure_target(figure)
    experiment = load_experiment(file).with_seeds(seeds)
    folder = folder or Path(f"sweep-{file_stem(str(file))}")
    if folder.exists() and not folder.is_dir():
        raise BadFile(f"{folder}: is not a folder: choose another --out")
    with keeping_what_is_done(), _bars() as bars:
        result = run_sweep(
            experiment,
            Store(store),
            _engine(workers, cluster),
            data_dir=data_dir,
            retry=retry,
            report=_reporter(bars),
        )
    result.save(folder)
    if as_json:
        print_json({"title": experiment.title, "made": result.made, "runs": result.rows()})
    else:
        print_result(out, result)
        out.print(f"{result.made} trainings made; written to {folder}: runs.csv", soft_wrap=True)
    draw_if_asked(result, target, figure, quiet=as_json)
    if result.failures:
        _fail(result.failures)


def _engine(workers: int | None, cluster: str | None) -> SweepEngine:
    return DaskCluster(cluster) if cluster else LocalProcesses(workers)


def _fail(failures: Collection[str]) -> NoReturn:
    words = f"{len(failures)} trainings failed; to make them again, give --retry"
    print(f"fedcell: {words}", file=sys.stderr)
    sys.exit(2)


def _bars() -> Bars:
    """A bar over all trainings, where somebody looks."""
    return Bars(
        *(TextColumn("trainings {task.completed}/{task.total}"), BarColumn()),
        *(TimeRemainingColumn(), TextColumn("{task.description}")),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def _reporter(bars: Bars) -> Callable[[SweepProgress], None]:
    """A bar where somebody looks, else a line now and then."""
    task = bars.add_task("", total=None)
    last = time.monotonic()

    def report(progress: SweepProgress) -> None:
        nonlocal last
        failed = f"{progress.failed} failed" if progress.failed else ""
        done = progress.done + progress.failed
        bars.update(task, completed=done, total=progress.total, description=failed)
        if not err.is_terminal and time.monotonic() - last >= EVERY:
            last = time.monotonic()
            left = f"{progress.seconds_left / 60:.0f} min left"
            print(f"trainings {done}/{progress.total}, {left} {failed}".rstrip(), file=sys.stderr)

    return report


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

    MNIST and CIFAR-10 take hours; what is made is kept, and the same command goes on.
    """
    for panel in panels or ():
        panel_text(panel)  # refused before any work
    engine = _engine(workers, cluster)
    answers: list[dict[str, Any]] = []
    failures: set[str] = set()
    for panel in panels or PANELS:
        with keeping_what_is_done(), _bars() as bars:
            found = reproduce(
                panel,
                Store(store),
                engine,
                quick=quick,
                retry=retry,
                seeds=seeds,
                data_dir=data_dir,
                report=_reporter(bars),
            )
        failures |= set(found.result.failures)
        found.result.save(folder / panel)
        answers += found.rows()
        if not as_json:
            print_result(out, found)
        draw(found, folder / panel / f"{panel}.png")
        if not as_json:
            out.print(f"written to {folder / panel}: runs.csv, {panel}.png", soft_wrap=True)
    if as_json:
        print_json(answers)
    if failures:
        _fail(failures)
