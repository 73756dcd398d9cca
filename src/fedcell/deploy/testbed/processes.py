"""The processes of a testbed: who they are, and how they end."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from .links import NAMESPACES
from .processor import Groups

POLL = 0.02  # s
KILL_GRACE = 5.0  # s that the kernel may take to end what was killed


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


def end(find: Callable[[], set[int]], grace: float) -> set[int]:
    """Ends the processes that `find` finds, and those they start meanwhile: asks them (TERM),
    and kills them after `grace` seconds. Returns those that are there all the same."""
    asked = set[int]()
    begin = time.monotonic()
    while (there := find()) and (spent := time.monotonic() - begin) < grace + KILL_GRACE:
        for pid in there - asked if spent < grace else there:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if spent < grace else signal.SIGKILL)
        asked |= there
        time.sleep(POLL)
    return there
