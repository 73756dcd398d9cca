"""Progress of long work: bars on a terminal, else a line every half minute, none with --json."""

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
from fedcell.simulation.compute import Observer
from fedcell.simulation.summary import RoundReport

from .app import err
from .words import option_value

PROGRESS_INTERVAL = 30.0  # [s] between two lines where stderr is not a terminal
COMPILING = "compiling the training engine (once per machine, about 30 s)"


class ProgressLines:
    """Prints a line to stderr when the last one is half a minute old; none with --json."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._quiet = bool(option_value("as_json"))

    def due(self) -> bool:
        """Return whether the next line is due, and if so count the interval from now."""
        if self._quiet or time.monotonic() - self._last < PROGRESS_INTERVAL:
            return False
        self._last = time.monotonic()
        return True

    def print(self, words: str) -> None:
        """Print one line, unless the command answers in JSON."""
        if not self._quiet:
            print(printable(words), file=sys.stderr, flush=True)


@contextmanager
def progress_bars(what: str = "") -> Iterator[Observer]:
    """Show downloads, compilation and rounds as bars on a terminal, else as lines.

    `what` stands before each: which of several runs it is."""
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
        yield Observer(download=download, compile=compiling, round=each_round, message=note)
    finally:
        loads.stop()
        turns.stop()


def note(sentence: str) -> None:
    """Print a sentence for the user."""
    err.print(f"note: {sentence}", highlight=False, soft_wrap=True)


def progress_lines(what: str = "") -> Observer:
    """Return progress callbacks that print lines for a log file, the first after half a minute."""
    lines = ProgressLines()
    begin = time.monotonic()
    first: int | None = None  # the first round of this process: a run may be resumed
    loss = math.nan

    def download(name: str, done: int, total: int | None) -> None:
        if lines.due():
            whole = "" if total is None else f" of {total / 1e6:.0f}"
            lines.print(f"{what}downloading {name}: {done / 1e6:.0f}{whole} MB")

    def each_round(report: RoundReport) -> None:
        nonlocal begin, first, loss
        loss = report.train_loss if math.isfinite(report.train_loss) else loss
        if first is None:
            begin, first = time.monotonic(), report.round
        elif lines.due():
            pace = (time.monotonic() - begin) / (report.round - first)
            left = readable_duration((report.rounds - report.round) * pace)
            lines.print(f"{what}round {report.round}/{report.rounds}, loss {loss:.3g}, {left} left")

    @contextmanager
    def compiling() -> Iterator[None]:
        slow = threading.Timer(PROGRESS_INTERVAL, lines.print, [f"{what}{COMPILING}"])
        slow.daemon = True
        slow.start()
        try:
            yield
        finally:
            slow.cancel()

    return Observer(download=download, compile=compiling, round=each_round, message=note)


@contextmanager
def trial_bar(budget: float) -> Iterator[Callable[[Trial, float], None]]:
    """Show the trials of a budget [s] as a bar on a terminal, else as lines; the callback takes
    each trial and the seconds spent so far."""
    bar = Bars(
        *(TextColumn("runs"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} s")),
        *(TextColumn("{task.description}"),),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    task = bar.add_task("", total=budget)
    # Started by the first trial: while the engine is compiled, another bar is on the screen.

    runs, lines = 0, ProgressLines()

    def report(trial: Trial, spent: float) -> None:
        nonlocal runs
        runs += 1
        last = f"{trial.setting}: {len(trial.losses)} rounds"
        bar.start()
        bar.update(task, completed=min(spent, budget), description=last)
        if not err.is_terminal and lines.due():
            lines.print(f"{spent:.0f} of {budget:.0f} s, {runs} runs; {last}")

    try:
        yield report
    finally:
        bar.stop()
