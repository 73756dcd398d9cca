"""Clean up after a `fedcell deploy` that was killed: a watcher process, and a record on disk.

`Processes` keeps a record of the processes that it starts. A watcher, a process in its own session,
waits for the end of a pipe. Only the starting process holds its other end, and the system closes it
however that process ends. A record that still exists then belongs to a dead process, and the
watcher clears it. The next start in the same folder does the same, in case the watcher was killed
too.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedcell.core.errors import FedcellError
from fedcell.core.files.formats import as_json, read_tables, write_text

from .process_tree import GRACE, PROC, ProcessTree, process_table, terminate

RECORD = "started-{mark}.json"
MARK_FORM = re.compile(r"\d+-[0-9a-f]{32}")
SCRATCH = "fedcell-"  # begins the name of a temporary folder
OWNED_BY = "federation"  # file in a temporary folder: the mark of the federation that made it
OWNER_EXIT_TIMEOUT = 2.0  # [s] that a killed process stays visible after its lock was released


@dataclass(frozen=True, kw_only=True)
class Record:
    """Processes that were started together: enough to find these again, and no others."""

    mark: str  # in the environment of all of them
    owner: int  # the process that started them
    owner_born: str
    scratch: str  # temporary folder
    machine: str = field(default_factory=socket.gethostname)
    started: dict[str, str] = field(default_factory=dict)  # pid -> start time

    def write(self, folder: Path) -> Path:
        """Write the record into a folder."""
        path = folder / RECORD.format(mark=self.mark)
        write_text(path, as_json(asdict(self)))
        return path

    @classmethod
    def read(cls, path: Path) -> "Record | None":
        """Read a record; None where the file is not one."""
        try:
            content: dict[str, Any] = read_tables(path)
            record = cls(**content)
            valid = MARK_FORM.fullmatch(record.mark) and path.name == RECORD.format(
                mark=record.mark
            )
            pids = {int(pid): str(born) for pid, born in record.started.items()}
        except (FedcellError, TypeError, ValueError, AttributeError):
            return None
        return record if valid and all(pid > 1 for pid in pids) else None

    def find(self) -> ProcessTree:
        """Return the processes that remain. They are known by their mark, which cannot be guessed,
        where the system shows environments; elsewhere by pid and start time."""
        if PROC.is_dir():
            return ProcessTree(self.mark)
        return ProcessTree(known={int(pid): born for pid, born in self.started.items()})


def make_scratch(mark: str) -> str:
    """Make a temporary folder with a short name: Ray puts sockets there."""
    folder = tempfile.mkdtemp(prefix=SCRATCH)
    (Path(folder) / OWNED_BY).write_text(mark, "utf-8")
    return folder


def _remove_scratch(record: Record) -> None:
    """Remove the temporary folder, if this federation made it."""
    folder = Path(record.scratch)
    with suppress(OSError, UnicodeDecodeError):
        own = folder.name.startswith(SCRATCH) and not folder.is_symlink()
        if own and (folder / OWNED_BY).read_text("utf-8") == record.mark:
            shutil.rmtree(folder, ignore_errors=True)


def clear_record(path: Path, grace: float = 0.0) -> set[int]:
    """Terminate the processes of a record, and remove its temporary folder and the record. Return
    the pids. A record of another machine, or one that cannot be read, is left alone."""
    record = Record.read(path)
    if record is None or record.machine != socket.gethostname():
        return set()
    find = record.find()
    pids = find()
    left = terminate(find, grace)
    _remove_scratch(record)
    if not left:
        with suppress(OSError):
            path.unlink()
    return pids - left


def clear_leftovers(folder: Path) -> set[int]:
    """Clear what killed processes left in this folder. Call it while holding the lock of the
    folder; keep the record of a living owner, where the system has no locks."""
    ended = set[int]()
    for path in sorted(folder.glob(RECORD.format(mark="*"))):
        record = Record.read(path)
        if record is not None and not _owner_lives(record):
            ended |= clear_record(path)
    return ended


def _owner_lives(record: Record) -> bool:
    """Return whether the process that wrote a record lives, after time to exit."""
    limit = time.monotonic() + OWNER_EXIT_TIMEOUT
    while True:
        stat = process_table().get(record.owner)
        if stat is None or stat.born != record.owner_born:
            return False
        if time.monotonic() > limit:
            return True
        time.sleep(0.02)


class Watcher:
    """A process that clears a record, and removes testbeds, when this process has died."""

    def __init__(self, record: Path, testbeds: Sequence[str] = ()) -> None:
        package = str(Path(__file__).parents[3])  # the folder that has `fedcell`
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-P", "-m", __name__, str(record.absolute()), *testbeds]
        self._handle = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            cwd="/",
            start_new_session=True,  # a signal to this process's group does not end it
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._handle.pid

    def close(self) -> None:
        """Let the watcher exit; call it after the record is removed."""
        assert self._handle.stdin is not None
        self._handle.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._handle.wait(GRACE)


def main(record: str, *testbeds: str) -> None:
    """Wait until the process at the other end of the pipe ends, and clear what it left."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.stdin.buffer.read()
    path = Path(record)
    if not path.exists():
        return  # the process closed its record itself
    clear_record(path, GRACE)
    for token in testbeds:
        from fedcell.deploy.testbed.cleanup import remove

        remove(token)


if __name__ == "__main__":
    main(*sys.argv[1:])
