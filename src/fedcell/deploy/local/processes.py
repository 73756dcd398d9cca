"""Processes that are started together and end together, whatever else happens."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from fedcell.core.errors import BadInput
from fedcell.core.files.regular import open_log
from fedcell.core.showing import shortened

from .process_tree import GRACE, MARK, Family, command_of, end, marked, process_table
from .watcher import Record, Watcher, make_scratch

LONGEST = 500  # characters of what a process said last
FRAME = " │╭╮╰╯─"  # what Flower draws around its errors
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


def answers(trial: socket.socket, host: str, port: int) -> bool:
    """Whether a socket can be connected to a process that listens.

    A socket whose own port happens to be that port connects to itself: then nothing listens.
    """
    trial.settimeout(0.5)
    if trial.connect_ex((host, port)) != 0:
        return False
    return bool(trial.getsockname() != trial.getpeername())


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
        self._record: Record | None = None
        self._path = folder  # of the record
        self._watcher: Watcher | None = None

    def __enter__(self) -> "Processes":
        return self

    def _begin(self) -> None:
        """Before the first is started: a record of what is, and a watcher that reads it when this
        process was killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        me, scratch = os.getpid(), make_scratch(self._mark)
        born = process_table()[me].born
        self._record = Record(mark=self._mark, owner=me, owner_born=born, scratch=scratch)
        self._path = self._record.write(self.folder)
        self._watcher = Watcher(self._path, self._testbeds())
        self.env["RAY_TMPDIR"] = scratch

    def _testbeds(self) -> Sequence[str]:
        """Testbeds that a watcher removes, too, when this process was killed."""
        return ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, title: str, command: Sequence[str], place: int | None = None) -> Process:
        """Starts a command of the server, or of a client; what it prints goes to TITLE.log."""
        if self._watcher is None:
            self._begin()
        log = self.folder / f"{title}.log"
        process = Process(title, log, self._open(command, log, place))
        self.all.append(process)
        self._keep(process)
        return process

    def _open(
        self,
        command: Sequence[str],
        log: Path,
        place: int | None,  # noqa: ARG002
    ) -> "subprocess.Popen[bytes]":
        with open_log(log) as out:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )

    def reachable(self, host: str, port: int) -> bool:
        """Whether a process listens there."""
        with socket.socket() as trial:
            return answers(trial, host, port)

    def running(self, words: Sequence[str]) -> bool:
        """Whether a process of these, or one that descends from them, has one of these words in
        its command."""
        commands = [command_of(pid) for pid in marked(self._mark)]
        return any(word in command for command in commands for word in words)

    def stop(self, processes: Sequence[Process] | None = None) -> None:
        """End processes (all, where none are named) with all that they started."""
        some = list(self.all if processes is None else processes)
        groups = {process.pid for process in some}
        end(Family(self._mark if processes is None else None, groups), GRACE)
        for process in some:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.handle.wait(GRACE)
        self.all = [process for process in self.all if process not in some]

    def close(self) -> None:
        """End all processes, and remove what was needed for them."""
        self.stop()
        if self._record is None or self._watcher is None:
            return
        shutil.rmtree(self._record.scratch, ignore_errors=True)
        self._path.unlink(missing_ok=True)
        self._watcher.close()
        self._record = self._watcher = None

    def _keep(self, process: Process) -> None:
        """Add a process to the record."""
        stat = process_table().get(process.pid)
        if self._record is not None and stat is not None:
            started = self._record.started | {str(process.pid): stat.born}
            self._record = replace(self._record, started=started)
            self._path = self._record.write(self.folder)


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
