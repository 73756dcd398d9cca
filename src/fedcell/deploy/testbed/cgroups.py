"""How much of a processor the processes of a client get: control groups of Linux, of either
version. A process is in the group of the one that started it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedcell.core.errors import NoTestbed

# [us]. A group runs until its share of a period is used up, then stands still: the shorter, the
# shorter the work that is slowed down evenly. The kernel wants 1 ms of running time, and 1 s at
# the most.
PERIOD, LEAST_QUOTA, LONGEST_PERIOD = 10_000, 1_000, 1_000_000
LEAST_SHARE = LEAST_QUOTA / LONGEST_PERIOD


@dataclass(frozen=True)
class Groups:
    """The control groups of this machine that limit the use of processors."""

    root: Path
    version: int  # of control groups: 1 or 2

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())

    def add(self, name: str) -> None:
        with _explained(self.root / name):
            (self.root / name).mkdir()
        self.limit(name, None)  # a kernel that cannot is found out now

    def entry(self, name: str) -> Path:
        """A process whose number is written into this file is in the group."""
        return self.root / name / "cgroup.procs"

    def members(self, name: str) -> set[int]:
        """The numbers of the processes in a group; none, where there is no such group."""
        try:
            return {int(line) for line in self.entry(name).read_text().split()}
        except OSError:
            return set()

    def limit(self, name: str, share: float | None) -> None:
        """Gives a group so much of one processor's time; None: as much as there is."""
        period = PERIOD
        if share is not None:
            period = max(PERIOD, min(round(LEAST_QUOTA / share), LONGEST_PERIOD))
        quota = None if share is None else max(LEAST_QUOTA, round(share * period))
        folder = self.root / name
        with _explained(folder):
            if self.version == 2:
                (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
            else:
                (folder / "cpu.cfs_period_us").write_text(str(period))
                (folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def free(self, pid: int) -> None:
        """Takes a process out of all groups; those that it started before stay where they are."""
        with _explained(self.root):
            (self.root / "cgroup.procs").write_text(str(pid))

    def remove(self, name: str) -> bool:
        """Takes a group away; whether it is gone: it stays while processes are in it."""
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
    """The control groups of processors, from the table of mounts. Groups of a testbed stand at
    their root: with version 2, no others may have groups inside while they have processes."""
    if mounts is None:
        mounts = Path("/proc/mounts").read_text()
    for _, folder, kind, options, *_ in map(str.split, mounts.splitlines()):
        if kind == "cgroup" and "cpu" in options.split(","):
            return Groups(Path(folder), 1)
        if kind == "cgroup2" and "cpu" in _handed_down(Path(folder)):
            return Groups(Path(folder), 2)
    raise NoTestbed(
        "the processor's time cannot be limited here: no control groups with the controller cpu "
        "are mounted; leave the clients at the machine's own speed"
    )


def _handed_down(root: Path) -> list[str]:
    """The controllers that groups below the root of version 2 have."""
    try:
        return (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
