"""What commands that run sweeps share: executors, progress and the page of results."""

import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from fedcell.experiments.executors import DaskCluster, Executor, LocalProcesses
from fedcell.experiments.league.league import League
from fedcell.experiments.sweep import SweepProgress
from fedcell.experiments.table import SweepTable
from fedcell.paper.reproduce import Reproduction

from .app import err, out
from .progress import ProgressLines


def write_page(folder: Path, result: SweepTable | Reproduction | League, quiet: bool) -> None:
    """Write report.html to a folder, and print its path."""
    from fedcell.show.html import write_report

    write_report(folder / "report.html", result, command_line())
    if not quiet:
        out.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["fedcell", *sys.argv[1:]])


def engine_of(workers: int | None, cluster: str | None) -> Executor:
    """Return what trains: processes of this machine, or a cluster."""
    return DaskCluster(cluster) if cluster else LocalProcesses(workers)


def exit_with_failures(failures: Collection[str]) -> NoReturn:
    """Exit with code 2 because some trainings failed; the others are written."""
    words = f"{len(failures)} trainings failed; to repeat them, give --retry"
    print(f"fedcell: {words}", file=sys.stderr)
    sys.exit(2)


def sweep_bars() -> Bars:
    """Return a bar over all trainings for a terminal."""
    return Bars(
        *(TextColumn("trainings {task.completed}/{task.total}"), BarColumn()),
        *(TimeRemainingColumn(), TextColumn("{task.description}")),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def sweep_reporter(bars: Bars) -> Callable[[SweepProgress], None]:
    """Return a callback that moves the bar, or prints lines where there is no terminal."""
    task = bars.add_task("", total=None)
    lines = ProgressLines()

    def report(progress: SweepProgress) -> None:
        failed = f"{progress.failed} failed" if progress.failed else ""
        done = progress.done + progress.failed
        bars.update(task, completed=done, total=progress.total, description=failed)
        if not err.is_terminal and lines.due():
            left = f"{progress.seconds_left / 60:.0f} min left"
            lines.print(f"trainings {done}/{progress.total}, {left} {failed}".rstrip())

    return report
