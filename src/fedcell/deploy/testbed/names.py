"""What the parts of a testbed are called: a name tells whose it is, so that left-overs are known.

fedcell-PID-STARTED-COUNT-PLACE: the process that made it, the clock tick in which that began (the
number of a process is given again one day), which of its testbeds, and `server` or a client.
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
    """Begins the names of a new testbed of this process."""
    return f"fedcell-{os.getpid()}-{_started(os.getpid())}-{next(_count)}"


def name(token: str, place: Place) -> str:
    """What the namespace, and the group of processes, of a client or of the server is called."""
    return f"{token}-{place}"


def token_of(name: str) -> str | None:
    """With what the names of the testbed begin that something belongs to; None: it is not ours."""
    found = _NAME.fullmatch(name)
    return found and found[1]


def owner_lives(name: str) -> bool:
    """Whether the process is still there that made a testbed with such a name."""
    found = _NAME.fullmatch(name)
    return found is not None and _started(int(found[2])) == int(found[3])


def _started(pid: int) -> int | None:
    """The clock tick since the boot in which a process began; None: it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, *others = text.rpartition(")")[2].split()  # what is before is free text
    return None if state in "ZX" else int(others[18])


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
