"""What commands that run sweeps share: executors, progress and the page of results."""

import shlex
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fedcell.experiments.executors import DaskCluster, Executor, LocalProcesses
from fedcell.experiments.sweep import SweepProgress
from fedcell.experiments.table import SweepTable
from fedcell.paper.reproduce import Reproduction

from .app import EVERY, err, out


def write_page(folder: Path, found: SweepTable | Reproduction, quiet: bool) -> None:
    """Writes the report of a folder, and says where."""
    from fedcell.show.html import write_report

    write_report(folder / "report.html", found, command_line())
    if not quiet:
        out.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["fedcell", *sys.argv[1:]])


def engine_of(workers: int | None, cluster: str | None) -> Executor:
    """What trainings are made by: processes here, or a cluster."""
    return DaskCluster(cluster) if cluster else LocalProcesses(workers)


def exit_with_failures(failures: Collection[str]) -> NoReturn:
    """Ends a command whose trainings failed in part; what was made is written."""
    words = f"{len(failures)} trainings failed; to make them again, give --retry"
    print(f"fedcell: {words}", file=sys.stderr)
    sys.exit(2)


def sweep_bars() -> Bars:
    """A bar over all trainings, where somebody looks."""
    return Bars(
        *(TextColumn("trainings {task.completed}/{task.total}"), BarColumn()),
        *(TimeRemainingColumn(), TextColumn("{task.description}")),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def sweep_reporter(bars: Bars) -> Callable[[SweepProgress], None]:
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
