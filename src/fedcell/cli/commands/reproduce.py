"""Reproduce figures of the paper."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.cli.app import DEFAULT_STORE, check_folder, command, draw, out
from fedcell.cli.options import (
    MAX_SEEDS,
    AsJson,
    Cluster,
    DataDir,
    Retry,
    StoreFolder,
    Workers,
    number,
    out_folder,
)
from fedcell.cli.signals import keeping_finished_runs
from fedcell.cli.sweeps import engine_of, exit_with_failures, sweep_bars, sweep_reporter, write_page
from fedcell.experiments.store import Store
from fedcell.paper.catalogue import PANELS
from fedcell.paper.reproduce import panel_text, reproduce
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Panels = Annotated[
    list[str] | None, typer.Argument(help=f"Any of: {', '.join(PANELS)}. Default: all.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Rough version on digits, in minutes.")]
OutFolder = Annotated[Path, out_folder("Folder of the tables and figures.")]
Seeds = Annotated[
    int | None, number("Number of seeds. Default: 20; with --quick, 4.", most=MAX_SEEDS)
]


@command("fedcell reproduce --quick", "fedcell reproduce fig3a fig3c --seeds 5 --workers 4")
def reproduce_command(
    panels: Panels = None,
    quick: Quick = False,
    folder: OutFolder = Path("reproduction"),
    store: StoreFolder = DEFAULT_STORE,
    workers: Workers = None,
    cluster: Cluster = None,
    seeds: Seeds = None,
    retry: Retry = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Reproduce figures of the paper: run, draw, and check its claims.

    MNIST and CIFAR-10 take hours; finished trainings are stored, and the same command resumes. Each
    panel gets a folder with its runs, verdicts, figure (.png, .pdf) and report.html.
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
        with keeping_finished_runs(), sweep_bars() as bars:
            result = reproduce(
                panel,
                Store(store),
                engine,
                quick=quick,
                retry=retry,
                seeds=seeds,
                data_dir=data_dir,
                report=sweep_reporter(bars),
            )
        failures |= set(result.failures)
        result.save(folder / panel)
        answers += result.rows()
        if not as_json:
            print_result(out, result)
        draw(result, folder / panel / f"{panel}.png")
        draw(result, folder / panel / f"{panel}.pdf", columns=1)
        if not as_json:
            words = f"written to {folder / panel}: runs.csv, verdicts.csv, {panel}.png, {panel}.pdf"
            out.print(words, soft_wrap=True)
        write_page(folder / panel, result, quiet=as_json)
    if as_json:
        print_json(answers)
    if failures:
        exit_with_failures(failures)
