"""The command that runs experiments."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import RUNS, app, check_folder, draw_if_asked, figure_target, file_stem, out
from fedcell.cli.options import AsJson, DataDir, StoreFolder, Workers
from fedcell.cli.signals import keeping_what_is_done
from fedcell.cli.sweeps import engine_of, exit_with_failures, sweep_bars, sweep_reporter, write_page
from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_until_precise
from fedcell.experiments.table import widest_interval
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Cluster = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, as tcp://host:8786.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Make trainings again that failed before.")]
Report = Annotated[
    bool, typer.Option("--report", help="Write report.html, a page that needs nothing beside it.")
]


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment: a TOML or JSON file.")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where tables go. Default: sweep-FILE.")
    ] = None,
    store: StoreFolder = RUNS,
    workers: Workers = None,
    cluster: Cluster = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Price runs under these instead of the file's; module:callable, too."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many. Default: the file's.")
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            help="Add seeds until half of the 95 % interval of rounds (costs, where nothing is "
            "trained) is below this part of the mean at every point."
        ),
    ] = None,
    most_seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many seeds --precision adds up to.")
    ] = 100,
    retry: Retry = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw rounds to the target over the longest axis.")
    ] = None,
    report: Report = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment: every setting of its lists, on all seeds, each training once.

    Trainings are kept by what they depend on. The same command goes on after an interrupt or
    kill -9; more --seeds are added; other experiments share what is there. The folder gets
    runs.csv, a row for each run.
    """
    target = figure_target(figure)
    experiment = load_experiment(file, policy).with_seeds(seeds)
    folder = folder or Path(f"sweep-{file_stem(str(file))}")
    check_folder(folder, "--out")
    check_folder(store, "--store")
    with keeping_what_is_done(), sweep_bars() as bars:
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
        print_result(out, result)
        made = f"{result.made} trainings made; written to {folder}: runs.csv, ledgers.csv"
        out.print(made, soft_wrap=True)
    wanted = precision or experiment.precision
    if wanted is not None and not as_json and (widest := widest_interval(result.table)) > wanted:
        words = f"--precision {wanted:g} was not reached: the widest is {widest:.2g} of its mean"
        out.print(f"note: {words}", soft_wrap=True)
    draw_if_asked(result, target, figure, quiet=as_json)
    if report or (folder / "report.html").exists():
        write_page(folder, result.table, quiet=as_json)
    if result.failures:
        exit_with_failures(result.failures)
