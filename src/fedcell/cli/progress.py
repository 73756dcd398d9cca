"""Bars on the terminal for long work, if somebody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fedcell.network.ledger import Ledger
from fedcell.simulation.run import Watch
from fedcell.simulation.train import State

from .app import err


@contextmanager
def watching() -> Iterator[Watch]:
    """Bars on the terminal for downloads and rounds, if somebody looks."""
    if not err.is_terminal:
        yield Watch()
        return
    loads = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=err, transient=True
    )
    turns = Progress(
        *(TextColumn("round {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn()),
        *(TextColumn("{task.description}"),),
        console=err,
        transient=True,
    )
    bars: dict[str, Any] = {}

    def download(name: str, done: int, total: int | None) -> None:
        loads.start()
        if name not in bars:
            bars[name] = loads.add_task(name, total=total)
        loads.update(bars[name], completed=done, total=total)

    def each(state: State, network: Ledger, rounds: int) -> None:
        loads.stop()
        turns.start()
        if "run" not in bars:
            bars["run"] = turns.add_task("", total=rounds)
        known = state.records[:, 1][np.isfinite(state.records[:, 1])]
        loss, t = known[-1] if known.size else float("nan"), state.rounds
        text = f"loss {loss:.4f}, {network.seconds[t - 1]:.4g} s, {network.joules[t - 1]:.4g} J"
        turns.update(bars["run"], completed=t, description=text)

    def compiling() -> Any:
        loads.stop()
        return err.status("making the engine ready (compiled once on a machine: half a minute)")

    try:
        yield Watch(download=download, compile=compiling, round=each)
    finally:
        loads.stop()
        turns.stop()


@contextmanager
def spending(budget: float, what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar over a budget of seconds: called with those that are spent, and what was last."""
    bar = Progress(
        *(TextColumn(what), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} s")),
        *(TextColumn("{task.description}"),),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    task = bar.add_task("", total=budget)
    with bar:
        yield lambda spent, last: bar.update(task, completed=min(spent, budget), description=last)
