"""Processes that are started together and always terminated together."""

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

from .process_tree import GRACE, MARK, ProcessTree, command_of, marked, process_table, terminate
from .watcher import Record, Watcher, make_scratch

MAX_QUOTE = 500  # characters of a process's last output
FRAME = " │╭╮╰╯─"  # characters of the frame around errors of Flower
OFFLINE = {  # no telemetry, no update checks, no downloads (docs/tutorials/5-flower-tls.md)
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True, eq=False)
class Process:
    """A process in its own session, so that its children can be terminated with it."""

    title: str
    log: Path
    handle: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        """Process id, which is also that of its session."""
        return self.handle.pid

    @property
    def running(self) -> bool:
        """Whether it has not exited."""
        return self.handle.poll() is None

    def last_output(self) -> str:
        """Return the last line of its log that is not blank, or all lines of a last frame."""
        text = self.log.read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip(FRAME)]
        framed = len(lines)
        while framed and lines[framed - 1].startswith("│"):
            framed -= 1
        last = [line.strip(FRAME) for line in lines[framed:] or lines[-1:]]
        return shortened(" ".join(last), MAX_QUOTE) or "it printed nothing"


def connects(trial: socket.socket, host: str, port: int) -> bool:
    """Return whether a socket can be connected to a process that listens.

    A socket that happens to have that port itself connects to itself: then nothing listens.
    """
    trial.settimeout(0.5)
    if trial.connect_ex((host, port)) != 0:
        return False
    return bool(trial.getsockname() != trial.getpeername())


class Processes:
    """Starts processes, each with its own log in a folder, and terminates all of them on exit."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        # All descendants inherit the mark: Ray's processes leave their session.
        self._mark = f"{os.getpid()}-{uuid4().hex}"
        # Flower's programs start each other by name, also where no environment is activated.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.env = {**os.environ, "PATH": path, **OFFLINE, **(env or {}), MARK: self._mark}
        self.all: list[Process] = []
        self._record: Record | None = None
        self._path = folder  # of the record
        self._watcher: Watcher | None = None

    def __enter__(self) -> "Processes":
        return self

    def _begin(self) -> None:
        """Write the record, and start the watcher that reads it if this process is killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        me, scratch = os.getpid(), make_scratch(self._mark)
        born = process_table()[me].born
        self._record = Record(mark=self._mark, owner=me, owner_born=born, scratch=scratch)
        self._path = self._record.write(self.folder)
        self._watcher = Watcher(self._path, self._testbeds())
        self.env["RAY_TMPDIR"] = scratch

    def _testbeds(self) -> Sequence[str]:
        """Return the testbeds that the watcher removes, too."""
        return ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, title: str, command: Sequence[str], place: int | None = None) -> Process:
        """Start a command of the server, or of the client `place`; its output goes to TITLE.log."""
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
        """Return whether a process listens at an address."""
        with socket.socket() as trial:
            return connects(trial, host, port)

    def running(self, words: Sequence[str]) -> bool:
        """Return whether one of these processes or their descendants has one of these words in its
        command."""
        commands = [command_of(pid) for pid in marked(self._mark)]
        return any(word in command for command in commands for word in words)

    def stop(self, processes: Sequence[Process] | None = None) -> None:
        """Terminate processes (default: all) with their descendants."""
        some = list(self.all if processes is None else processes)
        groups = {process.pid for process in some}
        terminate(ProcessTree(self._mark if processes is None else None, groups), GRACE)
        for process in some:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.handle.wait(GRACE)
        self.all = [process for process in self.all if process not in some]

    def close(self) -> None:
        """Terminate all processes, and remove their record, watcher and temporary folder."""
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


class Deadline:
    """Time limit of a wait, during which some processes must stay alive."""

    def __init__(self, seconds: float, what: str, processes: Sequence[Process] = ()) -> None:
        self._end = time.monotonic() + seconds
        self._seconds, self._what, self._processes = seconds, what, processes

    def pause(self) -> None:
        """Sleep briefly; raise where the time is over or a process has exited."""
        for process in self._processes:
            if not process.running:
                raise BadInput(
                    f"{process.title} exited while {self._what}: {process.last_output()} "
                    f"(see {process.log})"
                )
        if time.monotonic() > self._end:
            raise BadInput(f"{self._what} took more than {self._seconds:.3g} s: see the logs")
        time.sleep(0.1)
