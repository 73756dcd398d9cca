"""Reproduce figures of the paper."""

from collections.abc import Sequence
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
    name_of,
    number,
    out_folder,
)
from fedcell.cli.signals import keeping_finished_runs
from fedcell.cli.sweeps import engine_of, exit_with_failures, sweep_bars, sweep_reporter, write_page
from fedcell.core.errors import BadInput
from fedcell.experiments.store import Store
from fedcell.paper.catalogue import PANELS, REGIMES
from fedcell.paper.load import Edition, load_edition, panels_of
from fedcell.paper.reproduce import reproduce
from fedcell.paper.tally import tally
from fedcell.paper.verdicts import Verdict
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Panels = Annotated[
    list[str] | None, typer.Argument(help=f"Any of: {', '.join(PANELS)}. Default: all.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Rough version on digits, in minutes.")]
Regime = Annotated[
    str | None,
    name_of(
        f"Run panels in another regime than the paper's choices: {' or '.join(REGIMES)}.",
        "--regime",
    ),
]
Only = Annotated[
    str | None, name_of("Run one dataset of the panels, such as MNIST or CIFAR-10.", "--only")
]
OutFolder = Annotated[Path, out_folder("Folder of the tables and figures.")]
Seeds = Annotated[
    int | None,
    number("Number of seeds. Default: the panel's, 20 for most; with --quick, 4.", most=MAX_SEEDS),
]


@command(
    "fedcell reproduce --quick",
    "fedcell reproduce fig3a --only MNIST",
)
def reproduce_command(
    panels: Panels = None,
    quick: Quick = False,
    regime: Regime = None,
    only: Only = None,
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
    edition = Edition(quick=quick, regime=regime, only=only)
    chosen = panels or panels_of(edition)
    if not chosen:
        raise BadInput(f"`only` = {only}: no panel has it; give MNIST or CIFAR-10")
    for panel in chosen:
        load_edition(panel, edition)  # refused before any work
        check_folder(folder / edition.folder(panel), "--out")
    check_folder(store, "--store")
    engine = engine_of(workers, cluster)
    answers: list[dict[str, Any]] = []
    verdicts: dict[str, Sequence[Verdict]] = {}
    failures: set[str] = set()
    for panel in chosen:
        place = folder / edition.folder(panel)
        with keeping_finished_runs(), sweep_bars() as bars:
            result = reproduce(
                panel,
                Store(store),
                engine,
                edition=edition,
                retry=retry,
                seeds=seeds,
                data_dir=data_dir,
                report=sweep_reporter(bars),
            )
        failures |= set(result.failures)
        result.save(place)
        answers += result.rows()
        verdicts[panel] = result.verdicts
        if not as_json:
            print_result(out, result)
        draw(result, place / f"{panel}.png")
        draw(result, place / f"{panel}.pdf", columns=1)
        if not as_json:
            words = f"written to {place}: runs.csv, verdicts.csv, {panel}.png, {panel}.pdf"
            out.print(words, soft_wrap=True)
        write_page(place, result, quiet=as_json)
    if as_json:
        print_json(answers)
    elif len(verdicts) > 1:
        for sentence in tally({regime or "": verdicts}).sentences():
            out.print(sentence, soft_wrap=True)
    if failures:
        exit_with_failures(failures)
