"""Run an experiment."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import (
    DEFAULT_STORE,
    check_folder,
    command,
    draw_if_asked,
    figure_target,
    file_stem,
    out,
)
from fedcell.cli.options import (
    MAX_SEEDS,
    SELECTOR,
    AsJson,
    Cluster,
    DataDir,
    Retry,
    StoreFolder,
    Workers,
    figure_of,
    name_of,
    number,
    out_folder,
    real,
)
from fedcell.cli.signals import keeping_finished_runs
from fedcell.cli.sweeps import engine_of, exit_with_failures, sweep_bars, sweep_reporter, write_page
from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.result import SweepResult
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_until_precise
from fedcell.experiments.table import widest_interval
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Experiment = Annotated[Path, typer.Argument(help="Experiment: a TOML or JSON file.")]
OutFolder = Annotated[Path | None, out_folder("Folder of the tables. Default: sweep-FILE.")]
Policies = Annotated[
    list[str] | None,
    name_of(
        "Price runs under this policy instead of the file's; also module:callable. Repeat it for "
        "several.",
        "--policy",
    ),
]
Selectors = Annotated[
    list[str] | None,
    name_of(f"{SELECTOR} Repeat it for an axis. Default: the file's.", "--select"),
]
Seeds = Annotated[int | None, number("Number of seeds. Default: the file's.", most=MAX_SEEDS)]
Precision = Annotated[
    float | None,
    real(
        "Add seeds until half the 95 % interval of rounds (of costs, if nothing is trained) is "
        "below this fraction of the mean at every point."
    ),
]
MostSeeds = Annotated[int, number("Most seeds that --precision may use.", most=MAX_SEEDS)]
Figure = Annotated[Path | None, figure_of("rounds to the target over the longest axis")]
Report = Annotated[
    bool, typer.Option("--report", help="Write report.html, a page without other files.")
]


@command(
    "fedcell sweep steps.toml --workers 4 --report",
    "fedcell sweep steps.toml --precision 0.05 --figure rounds.png",
)
def sweep(
    file: Experiment,
    folder: OutFolder = None,
    store: StoreFolder = DEFAULT_STORE,
    workers: Workers = None,
    cluster: Cluster = None,
    policy: Policies = None,
    select: Selectors = None,
    seeds: Seeds = None,
    precision: Precision = None,
    most_seeds: MostSeeds = 100,
    retry: Retry = False,
    figure: Figure = None,
    report: Report = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment: every setting of its lists on all seeds, each training once.

    Finished trainings are stored. The same command resumes after an interrupt or kill -9, more
    --seeds are added, and other experiments reuse them. The folder gets runs.csv, a row for each
    run.
    """
    target = figure_target(figure)
    experiment = load_experiment(file, policy, select).with_seeds(seeds)
    folder = folder or Path(f"sweep-{file_stem(str(file))}")
    check_folder(folder, "--out")
    check_folder(store, "--store")
    with keeping_finished_runs(), sweep_bars() as bars:
        result = run_until_precise(
            experiment,
            Store(store),
            engine_of(workers, cluster),
            precision=precision,
            max_seeds=most_seeds,
            data_dir=data_dir,
            retry=retry,
            report=sweep_reporter(bars),
        )
    result.save(folder)
    if as_json:
        print_json({"title": experiment.title, "made": result.made, "runs": result.rows()})
    else:
        _print_sweep(result, folder, precision or experiment.precision)
    draw_if_asked(result, target, figure, quiet=as_json)
    if report or (folder / "report.html").exists():
        write_page(folder, result.table, quiet=as_json)
    if result.failures:
        exit_with_failures(result.failures)


def _print_sweep(result: SweepResult, folder: Path, precision: float | None) -> None:
    """Print the table of a sweep, its files, and whether a precision was reached."""
    print_result(out, result)
    made = f"{result.made} trainings made; written to {folder}: runs.csv, ledgers.csv"
    out.print(made, soft_wrap=True)
    if precision is not None and (widest := widest_interval(result.table)) > precision:
        words = f"--precision {precision:g} was not reached: the widest is {widest:.2g} of its mean"
        out.print(f"note: {words}", soft_wrap=True)
