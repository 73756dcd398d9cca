"""Bars on the terminal for long work, if somebody looks."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fedcell.network.ledger import Ledger
from fedcell.planning.trial import Trial
from fedcell.simulation.history import State
from fedcell.simulation.run import Progress

from .app import EVERY, err


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Bars on the terminal for downloads and rounds, if somebody looks."""
    if not err.is_terminal:
        yield Progress()
        return
    loads = Bars(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=err, transient=True
    )
    turns = Bars(
        *(TextColumn("round {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn()),
        *(TextColumn("{task.description}"),),
        console=err,
        transient=True,
    )
    bars: dict[str, Any] = {}
    totals: dict[str, Any] = {}

    def download(name: str, done: int, total: int | None) -> None:
        loads.start()
        if name not in bars:
            bars[name] = loads.add_task(name, total=total)
        loads.update(bars[name], completed=done, total=total)

    def each_round(state: State, network: Ledger, rounds: int) -> None:
        loads.stop()
        turns.start()
        if "run" not in bars:
            bars["run"] = turns.add_task("", total=rounds)
        if "total" not in totals:  # once: a long run would sum ever more
            totals["total"] = network.total_duration, network.total_energy
        if math.isfinite(state.last_loss):
            totals["loss"] = state.last_loss
        duration, energy = (total[state.rounds - 1] for total in totals["total"])
        text = f"loss {totals.get('loss', math.nan):.4f}, {duration:.4g} s, {energy:.4g} J"
        turns.update(bars["run"], completed=state.rounds, description=text)

    def compiling() -> Any:
        loads.stop()
        return err.status("making the engine ready (compiled once on a machine: half a minute)")

    try:
        yield Progress(download=download, compile=compiling, round=each_round)
    finally:
        loads.stop()
        turns.stop()


@contextmanager
def trial_bar(budget: float) -> Iterator[Callable[[Trial, float], None]]:
    """A bar over a budget of seconds, told of each trial and of what is spent; a line now and then
    where nobody looks."""
    bar = Bars(
        *(TextColumn("runs"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} s")),
        *(TextColumn("{task.description}"),),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    task = bar.add_task("", total=budget)
    # Started by the first trial: while the engine is made ready, another bar is on the screen.

    runs, said = 0, time.monotonic()

    def report(trial: Trial, spent: float) -> None:
        nonlocal runs, said
        runs += 1
        last = f"{trial.setting}: {len(trial.losses)} rounds"
        bar.start()
        bar.update(task, completed=min(spent, budget), description=last)
        if not err.is_terminal and time.monotonic() - said >= EVERY:
            said = time.monotonic()
            print(f"{spent:.0f} of {budget:.0f} s, {runs} runs; {last}", file=sys.stderr)

    try:
        yield report
    finally:
        bar.stop()
