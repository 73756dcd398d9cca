"""The processes of a testbed: those in its namespaces and control groups."""

import os
from collections.abc import Iterable

from .links import NAMESPACES
from .processor import Groups


def inside(names: Iterable[str], groups: Groups | None) -> set[int]:
    """The numbers of all processes in the namespaces or control groups with these names."""
    names = list(names)
    found = set().union(*(groups.members(name) for name in names)) if groups else set()
    wanted = {_identity(str(NAMESPACES / name)) for name in names} - {None}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if _identity(f"/proc/{pid}/ns/net") in wanted:
            found.add(pid)
    return found - {os.getpid()}


def _identity(path: str) -> tuple[int, int] | None:
    """What is the same for a namespace under all its paths; None: it, or its process, is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
