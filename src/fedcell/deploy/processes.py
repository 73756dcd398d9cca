"""Processes that are started together and end together, whatever else happens."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from uuid import uuid4

from fedcell.core.errors import BadInput
from fedcell.core.showing import shortened

LONGEST = 500  # characters of what a process said last
FRAME = " │╭╮╰╯─"  # what Flower draws around its errors
MARK = "FEDCELL_FEDERATION"  # variable by which what belongs together is found
GRACE = 5.0  # [s] to end in good order
QUIET = {  # nothing is told to anybody outside, nothing is downloaded (docs/deployment.md)
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True, eq=False)
class Process:
    """One that was started, in a session of its own, so that its children can be ended with it."""

    title: str
    log: Path
    handle: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        """Its number, which is that of its session."""
        return self.handle.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.handle.poll() is None

    def last_words(self) -> str:
        """The last line of its log that says something, or all lines of a frame that is last."""
        text = self.log.read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip(FRAME)]
        framed = len(lines)
        while framed and lines[framed - 1].startswith("│"):
            framed -= 1
        said = [line.strip(FRAME) for line in lines[framed:] or lines[-1:]]
        return shortened(" ".join(said), LONGEST) or "it said nothing"


class Processes:
    """Starts processes, each with a log of its own in a folder, and ends all of them at the end."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        # Whoever descends from these has it: Ray's processes leave their session.
        self._mark = f"{os.getpid()}-{uuid4().hex}"
        # Flower's programs look for each other, also where no environment is activated.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.env = {**os.environ, "PATH": path, **QUIET, **(env or {}), MARK: self._mark}
        self.all: list[Process] = []

    def __enter__(self) -> "Processes":
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, title: str, command: Sequence[str], place: int | None = None) -> Process:
        """Starts a command of the server, or of a client; what it prints goes to TITLE.log."""
        log = self.folder / f"{title}.log"
        process = Process(title, log, self._open(command, log, place))
        self.all.append(process)
        return process

    def _open(
        self,
        command: Sequence[str],
        log: Path,
        place: int | None,  # noqa: ARG002
    ) -> "subprocess.Popen[bytes]":
        with log.open("ab") as out:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )

    def reachable(self, host: str, port: int) -> bool:
        """Whether somebody listens there."""
        with socket.socket() as trial:
            trial.settimeout(0.5)
            return trial.connect_ex((host, port)) == 0

    def running(self, words: Sequence[str]) -> bool:
        """Whether a process of these, or one that descends from them, has one of these words in
        its command."""
        commands = [command_of(pid) for pid in marked(self._mark)]
        return any(word in command for command in commands for word in words)

    def stop(self, processes: Sequence[Process] | None = None) -> None:
        """Ends processes (all, where none are named) with their children: asked, then killed."""
        some = list(self.all if processes is None else processes)
        groups = {process.pid for process in some}
        strays: dict[int, str] = {}
        for number in (signal.SIGTERM, signal.SIGKILL):
            if processes is None:
                strays |= self._family()  # before any ends: whose parent is gone has none
            for group in groups:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, number)
            for pid, born in strays.items():
                if _stat(pid).born == born:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            end = time.monotonic() + GRACE
            while time.monotonic() < end and (any(map(_alive, groups)) or any(map(_runs, strays))):
                for process in some:
                    process.handle.poll()  # lest it stay a zombie
                time.sleep(0.05)
        for process in some:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.handle.wait(GRACE)
        self.all = [process for process in self.all if process not in some]

    def _family(self) -> dict[int, str]:
        """All that descend from these, and when each was born. Those that give themselves a title,
        as Ray's agents do, write it over the mark; but then their parents have it."""
        stats = {pid: _stat(pid) for pid in _pids()}
        found = {*marked(self._mark), *(process.pid for process in self.all if process.running)}
        more = set(found)
        while more:
            more = {pid for pid, stat in stats.items() if stat.parent in more} - found
            found |= more
        return {pid: stats[pid].born for pid in found if pid in stats}


def command_of(pid: int) -> str:
    """The words that a process was started with; none where it has ended."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


def marked(mark: str) -> Iterator[int]:
    """Processes that were started with a mark, or by one that was; where the system shows them."""
    wanted = f"{MARK}={mark}".encode()
    for pid in _pids():
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and _runs(pid):
                yield pid


def _pids() -> list[int]:
    proc = Path("/proc")
    return [int(e.name) for e in proc.iterdir() if e.name.isdigit()] if proc.is_dir() else []


class _Stat(NamedTuple):
    state: str = "X"  # where there is no such process
    parent: int = 0
    group: int = 0
    born: str = ""  # in ticks of the machine


def _stat(pid: int) -> _Stat:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _Stat()
    return _Stat(fields[0], int(fields[1]), int(fields[2]), fields[19])


def _runs(pid: int) -> bool:
    return _stat(pid).state not in "ZX"


def _alive(group: int) -> bool:
    """Whether a group has a process that is more than a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    found = [_stat(pid) for pid in _pids()]
    return not found or any(stat.group == group and stat.state not in "ZX" for stat in found)


class Waiting:
    """How long is waited for something, and who has to live meanwhile."""

    def __init__(self, seconds: float, what: str, processes: Sequence[Process] = ()) -> None:
        self._end = time.monotonic() + seconds
        self._seconds, self._what, self._processes = seconds, what, processes

    def pause(self) -> None:
        """A moment; or a sentence, where it takes too long or somebody has died."""
        for process in self._processes:
            if not process.running:
                raise BadInput(
                    f"{process.title} ended while {self._what}: {process.last_words()} "
                    f"(see {process.log})"
                )
        if time.monotonic() > self._end:
            raise BadInput(f"{self._what} took more than {self._seconds:.3g} s: see the logs")
        time.sleep(0.1)
