"""Names of the parts of a testbed, which contain their owner, so that left-overs are recognised.

fedcell-PID-STARTED-COUNT-PLACE: the process that made it, the clock tick of its start (pids are
reused), the number of its testbed, and `server` or a client.
"""

import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from .cgroups import Groups
from .links import NAMESPACES

SERVER: Final = "server"
Place = int | Literal["server"]  # a client by its index, or the server

_NAME = re.compile(r"(fedcell-(\d+)-(\d+)-\d+)-(?:server|\d+)")
_count = itertools.count()


def new_token() -> str:
    """Return the prefix of all names of a new testbed of this process."""
    return f"fedcell-{os.getpid()}-{_started(os.getpid())}-{next(_count)}"


def part_name(token: str, place: Place) -> str:
    """Return the name of the namespace and of the control group of a client or of the server."""
    return f"{token}-{place}"


def token_of(name: str) -> str | None:
    """Return the prefix of the testbed that a name belongs to; None: it is of no testbed."""
    match = _NAME.fullmatch(name)
    return match and match[1]


def owner_lives(name: str) -> bool:
    """Return whether the process lives that made a testbed with such a name."""
    match = _NAME.fullmatch(name)
    return match is not None and _started(int(match[2])) == int(match[3])


def _started(pid: int) -> int | None:
    """Return the clock tick since boot in which a process began; None: it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *others = text.rpartition(")")[2].split()  # free text comes before
    return None if state in "ZX" else int(others[18])


def processes_in(names: Iterable[str], groups: Groups | None) -> set[int]:
    """Return the pids in the namespaces or control groups with these names."""
    names = list(names)
    pids = set().union(*(groups.members(name) for name in names)) if groups else set()
    wanted = {_identity(str(NAMESPACES / name)) for name in names} - {None}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if _identity(f"/proc/{pid}/ns/net") in wanted:
            pids.add(pid)
    return pids - {os.getpid()}


def _identity(path: str) -> tuple[int, int] | None:
    """Return what identifies a namespace under all its paths; None: it, or its process, is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
