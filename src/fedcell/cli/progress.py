"""Bars on the terminal for long work, if somebody looks."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fedcell.core.errors import printable
from fedcell.core.quantities import readable_duration
from fedcell.planning.pilot.trial import Trial
from fedcell.simulation.run import Progress
from fedcell.simulation.summary import RoundReport

from .app import EVERY, err

COMPILING = "making the engine ready (compiled once on a machine: half a minute)"


@contextmanager
def progress_bars(what: str = "") -> Iterator[Progress]:
    """Bars on the terminal for downloads and rounds; where nobody looks, a line now and then.
    `what` is said before each: which of several runs it is."""
    if not err.is_terminal:
        yield progress_lines(what)
        return
    loads = Bars(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=err, transient=True
    )
    turns = Bars(
        *(TextColumn(f"{what}round {{task.completed}}/{{task.total}}"), BarColumn()),
        *(TimeRemainingColumn(), TextColumn("{task.description}")),
        console=err,
        transient=True,
    )
    bars: dict[str, Any] = {}
    loss = math.nan

    def download(name: str, done: int, total: int | None) -> None:
        loads.start()
        if name not in bars:
            bars[name] = loads.add_task(name, total=total)
        loads.update(bars[name], completed=done, total=total)

    def each_round(report: RoundReport) -> None:
        nonlocal loss
        loads.stop()
        turns.start()
        if "run" not in bars:
            bars["run"] = turns.add_task("", total=report.rounds)
        loss = report.train_loss if math.isfinite(report.train_loss) else loss
        duration, energy = (
            next(iter(t.values())) for t in (report.total_duration, report.total_energy)
        )
        text = f"loss {loss:.4f}, {duration:.4g} s, {energy:.4g} J"
        turns.update(bars["run"], completed=report.round, description=text)

    def compiling() -> Any:
        loads.stop()
        return err.status(COMPILING)

    try:
        yield Progress(download=download, compile=compiling, round=each_round)
    finally:
        loads.stop()
        turns.stop()


def progress_lines(what: str = "") -> Progress:
    """A line now and then, the first after half a minute: what a log file is to hold."""
    begin = said = time.monotonic()
    first: int | None = None  # round that is seen first: a run may be gone on with
    loss = math.nan

    def due() -> bool:
        nonlocal said
        if time.monotonic() - said < EVERY:
            return False
        said = time.monotonic()
        return True

    def download(name: str, done: int, total: int | None) -> None:
        if due():
            whole = "" if total is None else f" of {total / 1e6:.0f}"
            _say(f"{what}downloading {name}: {done / 1e6:.0f}{whole} MB")

    def each_round(report: RoundReport) -> None:
        nonlocal begin, first, loss
        loss = report.train_loss if math.isfinite(report.train_loss) else loss
        if first is None:
            begin, first = time.monotonic(), report.round
        elif due():
            pace = (time.monotonic() - begin) / (report.round - first)
            left = readable_duration((report.rounds - report.round) * pace)
            _say(f"{what}round {report.round}/{report.rounds}, loss {loss:.3g}, {left} left")

    @contextmanager
    def compiling() -> Iterator[None]:
        slow = threading.Timer(EVERY, _say, [f"{what}{COMPILING}"])
        slow.daemon = True
        slow.start()
        try:
            yield
        finally:
            slow.cancel()

    return Progress(download=download, compile=compiling, round=each_round)


def _say(words: str) -> None:
    print(printable(words), file=sys.stderr, flush=True)


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
