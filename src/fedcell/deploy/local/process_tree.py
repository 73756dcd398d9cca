"""Find processes that belong together, by their mark and their parents, and terminate them."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

MARK = "FEDCELL_FEDERATION"  # variable by which the processes of one federation are found
GRACE = 5.0  # [s] between SIGTERM and SIGKILL
KILL_GRACE = 5.0  # [s] that the kernel may take to end a killed process
POLL = 0.02  # [s] between two polls for remaining processes
PROC = Path("/proc")


class Stat(NamedTuple):
    """A process in the table of the system."""

    state: str
    parent: int
    group: int
    born: str  # start time, as the system writes it: pids are reused, pairs with it are not


def process_table() -> dict[int, Stat]:
    """Return all processes that have not ended, by pid: from /proc, else from `ps` (macOS)."""
    if not PROC.is_dir():
        return table_of_ps()
    table = {}
    for pid in _pids():
        with contextlib.suppress(OSError):
            fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2]
            state, parent, group, *others = fields.split()
            if state not in "ZX":
                table[pid] = Stat(state, int(parent), int(group), others[16])
    return table


def table_of_ps() -> dict[int, Stat]:
    """Return the same table from `ps`."""
    command = ["ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="]
    env = {**os.environ, "LC_ALL": "C"}
    output = subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout
    table = {}
    for line in output.splitlines():
        pid, parent, group, state, born = line.split(None, 4)
        if not state.startswith("Z"):
            table[int(pid)] = Stat(state, int(parent), int(group), " ".join(born.split()))
    return table


def command_of(pid: int) -> str:
    """Return the command line of a process; empty where it has ended."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode(errors="replace")


def marked(mark: str) -> Iterator[int]:
    """Yield processes that have a mark in their environment, where /proc shows it."""
    wanted = f"{MARK}={mark}".encode()
    for pid in _pids():
        with contextlib.suppress(OSError):
            place = PROC / str(pid)
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                yield pid  # a zombie has no environment


def _pids() -> list[int]:
    return [int(e.name) for e in PROC.iterdir() if e.name.isdigit()] if PROC.is_dir() else []


class ProcessTree:
    """Processes with a mark, of some groups, or known by pid and start time, and all descendants.

    Call it to get the pids of those that have not ended. It remembers them: a process that
    overwrites its environment, as Ray's agents do, is found through its parent, and stays known
    after the parent has ended.
    """

    def __init__(
        self,
        mark: str | None = None,
        groups: Collection[int] = (),
        known: Mapping[int, str] | None = None,
    ) -> None:
        self._mark, self._groups, self._known = mark, groups, dict(known or {})

    def __call__(self) -> set[int]:
        table = process_table()
        pids = {pid for pid, stat in table.items() if self._known.get(pid) == stat.born}
        pids |= {pid for pid, stat in table.items() if stat.group in self._groups}
        if self._mark is not None:
            pids |= table.keys() & set(marked(self._mark))
        more = set(pids)
        while more:
            more = {pid for pid, stat in table.items() if stat.parent in more} - pids
            pids |= more
        pids -= {os.getpid()}
        self._known = {pid: table[pid].born for pid in pids}
        return pids


def terminate(find: Callable[[], set[int]], grace: float) -> set[int]:
    """Terminate the processes that `find` returns, and those that they start meanwhile: send
    SIGTERM, and SIGKILL after `grace` seconds. Return the pids that remain."""
    asked = set[int]()
    begin = time.monotonic()
    while (pids := find()) and (spent := time.monotonic() - begin) < grace + KILL_GRACE:
        for pid in pids - asked if spent < grace else pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM if spent < grace else signal.SIGKILL)
        asked |= pids
        time.sleep(POLL)
    return pids
