"""Limit the processor time of a client by control groups of Linux, version 1 or 2. A process is in
the group of its parent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedcell.core.errors import NoTestbed

# [us]. A group runs until its share of a period is used up, then waits: the shorter the period,
# the more even the speed. The kernel requires a quota of at least 1 ms and a period of at most 1 s.
PERIOD, MIN_QUOTA, MAX_PERIOD = 10_000, 1_000, 1_000_000
MIN_SHARE = MIN_QUOTA / MAX_PERIOD


@dataclass(frozen=True)
class Groups:
    """The control groups of this machine that limit processor time."""

    root: Path
    version: int  # of control groups: 1 or 2

    def names(self) -> list[str]:
        """Return the names of all groups."""
        return sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())

    def add(self, name: str) -> None:
        """Make a group without a limit."""
        with _explained(self.root / name):
            (self.root / name).mkdir()
        self.limit(name, None)  # raises now where the kernel cannot limit

    def entry(self, name: str) -> Path:
        """Return the file to which a pid is written to move the process into a group."""
        return self.root / name / "cgroup.procs"

    def members(self, name: str) -> set[int]:
        """Return the pids in a group; none where there is no such group."""
        try:
            return {int(line) for line in self.entry(name).read_text().split()}
        except OSError:
            return set()

    def limit(self, name: str, share: float | None) -> None:
        """Limit a group to a share of one processor's time; None: no limit."""
        period = PERIOD
        if share is not None:
            period = max(PERIOD, min(round(MIN_QUOTA / share), MAX_PERIOD))
        quota = None if share is None else max(MIN_QUOTA, round(share * period))
        folder = self.root / name
        with _explained(folder):
            if self.version == 2:
                (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(period))
                (folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def release(self, pid: int) -> None:
        """Move a process out of all groups; its children stay in theirs."""
        with _explained(self.root):
            (self.root / "cgroup.procs").write_text(str(pid))

    def remove(self, name: str) -> bool:
        """Remove a group. Return whether it is gone: it stays while processes are in it."""
        try:
            (self.root / name).rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoTestbed(
            f"the processor's time cannot be limited: {folder}: {error.strerror or error}"
        ) from error


def find_groups(mounts: str | None = None) -> Groups:
    """Find the control groups of processors in the table of mounts. Groups of a testbed are made at
    the root: with version 2, others may not contain groups while they have processes."""
    if mounts is None:
        mounts = Path("/proc/mounts").read_text()
    for _, folder, kind, options, *_ in map(str.split, mounts.splitlines()):
        if kind == "cgroup" and "cpu" in options.split(","):
            return Groups(Path(folder), 1)
        if kind == "cgroup2" and "cpu" in _controllers(Path(folder)):
            return Groups(Path(folder), 2)
    raise NoTestbed(
        "the processor's time cannot be limited here: no control groups with the controller cpu "
        "are mounted; leave the clients at the machine's own speed"
    )


def _controllers(root: Path) -> list[str]:
    """Return the controllers of groups below the root of version 2."""
    try:
        return (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
