"""What ends a federation whose `fedcell deploy` was killed: a watcher, and a record for the next.

`Processes` writes a record of what it starts and keeps it while it works. A watcher, which is a
process in a session of its own, waits for the end of a pipe whose other end only the starting
process holds: however that ends, the system closes it. A record that is still there then belongs
to a dead process, and the watcher clears it. A later start in the same folder does the same, for
the case in which the watcher was killed too.
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

from .process_tree import GRACE, PROC, Family, end, process_table

RECORD = "started-{mark}.json"
MARK_FORM = re.compile(r"\d+-[0-9a-f]{32}")
SCRATCH = "fedcell-"  # begins the name of a temporary folder
OWNED_BY = "federation"  # file in a temporary folder: the mark of the federation that made it
DYING = 2.0  # [s] that a killed process may still be seen after its lock was released


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a process started: enough to find it again, and to touch nothing else."""

    mark: str  # in the environment of all that it started
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
        """Read a record; None where the file is none."""
        try:
            content: dict[str, Any] = read_tables(path)
            record = cls(**content)
            sound = MARK_FORM.fullmatch(record.mark) and path.name == RECORD.format(
                mark=record.mark
            )
            pids = {int(pid): str(born) for pid, born in record.started.items()}
        except (FedcellError, TypeError, ValueError, AttributeError):
            return None
        return record if sound and all(pid > 1 for pid in pids) else None

    def find(self) -> Family:
        """Find what is left of it. A mark cannot be guessed, so it is the proof where the system
        shows environments; elsewhere it is the start time beside the pid."""
        if PROC.is_dir():
            return Family(self.mark)
        return Family(known={int(pid): born for pid, born in self.started.items()})


def make_scratch(mark: str) -> str:
    """Make a temporary folder with a short name: Ray puts sockets there."""
    folder = tempfile.mkdtemp(prefix=SCRATCH)
    (Path(folder) / OWNED_BY).write_text(mark, "utf-8")
    return folder


def _remove_scratch(record: Record) -> None:
    """Remove the temporary folder, if it is one that this federation made."""
    folder = Path(record.scratch)
    with suppress(OSError, UnicodeDecodeError):
        own = folder.name.startswith(SCRATCH) and not folder.is_symlink()
        if own and (folder / OWNED_BY).read_text("utf-8") == record.mark:
            shutil.rmtree(folder, ignore_errors=True)


def clear(path: Path, grace: float = 0.0) -> set[int]:
    """End the processes of a record, remove its temporary folder and itself. Return what it ended.
    A record of another machine, or one that cannot be read, is left alone."""
    record = Record.read(path)
    if record is None or record.machine != socket.gethostname():
        return set()
    find = record.find()
    found = find()
    left = end(find, grace)
    _remove_scratch(record)
    if not left:
        with suppress(OSError):
            path.unlink()
    return found - left


def clear_leftovers(folder: Path) -> set[int]:
    """Clear what killed processes left that worked in this folder. Call it with the lock of the
    folder held; a record whose owner lives all the same, where there are no locks, is kept."""
    ended = set[int]()
    for path in sorted(folder.glob(RECORD.format(mark="*"))):
        record = Record.read(path)
        if record is not None and not _owner_lives(record):
            ended |= clear(path)
    return ended


def _owner_lives(record: Record) -> bool:
    """Whether the process that wrote a record is there, some time after its lock was released."""
    limit = time.monotonic() + DYING
    while True:
        stat = process_table().get(record.owner)
        if stat is None or stat.born != record.owner_born:
            return False
        if time.monotonic() > limit:
            return True
        time.sleep(0.02)


class Watcher:
    """A process that clears a record, and removes a testbed, when this process has died."""

    def __init__(self, record: Path, testbeds: Sequence[str] = ()) -> None:
        package = str(Path(__file__).parents[2])
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
        """Its process."""
        return self._handle.pid

    def close(self) -> None:
        """Let it end; call it when the record is removed."""
        assert self._handle.stdin is not None
        self._handle.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._handle.wait(GRACE)


def main(record: str, *testbeds: str) -> None:
    """Wait for the end of the process at the other end of the pipe, and clear what it left."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.stdin.buffer.read()
    path = Path(record)
    if not path.exists():
        return  # it ended in order
    clear(path, GRACE)
    for token in testbeds:
        from fedcell.deploy.testbed.cleanup import remove

        remove(token)


if __name__ == "__main__":
    main(*sys.argv[1:])
