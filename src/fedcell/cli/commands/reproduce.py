"""Reproduce figures of the paper."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.cli.app import RUNS, app, check_folder, draw, out
from fedcell.cli.options import AsJson, DataDir, StoreFolder, Workers
from fedcell.cli.signals import keeping_what_is_done
from fedcell.cli.sweeps import engine_of, exit_with_failures, sweep_bars, sweep_reporter, write_page
from fedcell.experiments.store import Store
from fedcell.paper.catalogue import PANELS
from fedcell.paper.reproduce import panel_text, reproduce
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

from .sweep import Cluster, Retry


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
