"""Locks that the system releases when their process ends, however it ends."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedcell.core.errors import BadFile

from .regular import NO_LINKS, open_handle, open_regular

MAX_HOLDER_BYTES = 200  # read of a lock file

try:
    import fcntl
except ImportError:  # Windows has no such lock: no process is kept out
    fcntl = None  # type: ignore[assignment]


def lock(
    handle: int, *, shared: bool = False, release: bool = False, patience: float = 0.0
) -> bool | None:
    """Lock an open file or folder; return whether that worked, or None if locks are unsupported.

    Another process may hold the lock for up to `patience` seconds before this gives up.
    """
    if fcntl is None:
        return None
    kind = fcntl.LOCK_UN if release else fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.005)
        except OSError:  # some file systems
            return None


@contextmanager
def locked(path: Path, what: str) -> Iterator[Callable[[], None]]:
    """Hold the lock file `path`, so that one process at a time works on `what`.

    Yields a function that locks again if the file was removed meanwhile.
    """
    handle = _take(path, what)

    def renew() -> None:
        nonlocal handle
        if not _is_at(handle, path):
            fresh = _take(path, what)
            os.close(handle)
            handle = fresh

    try:
        yield renew
    finally:
        with suppress(OSError):
            if _is_at(handle, path):
                path.unlink()
        os.close(handle)


def _take(path: Path, what: str) -> int:
    """Return the lock file, open and locked; raise BadFile if another process holds it."""
    try:
        handle = _open_locked(path)
    except OSError as error:
        raise BadFile(f"{what}: cannot be written: {error.strerror or error}") from error
    if handle is None:
        holder = ""
        with suppress(OSError, UnicodeDecodeError):
            holder = read_holder(path)
        name = f" ({holder})" if holder else ""
        raise BadFile(f"{what}: another fedcell{name} is using it: wait until it is done")
    return handle


def _is_at(handle: int, path: Path) -> bool:
    """Return whether a path names this open file."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False


def read_holder(path: Path) -> str:
    """Return the text of a lock file, which names the process that holds it."""
    with open_regular(path) as file:
        return file.read(MAX_HOLDER_BYTES).decode("utf-8")


def _open_locked(path: Path) -> int | None:
    """Return the lock file, open and locked; None if another process holds it."""
    while True:
        handle = open_handle(path, os.O_CREAT | os.O_RDWR | NO_LINKS)
        try:
            if lock(handle) is False:
                os.close(handle)
                return None
            if _is_at(handle, path):
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return handle
        except OSError:
            os.close(handle)
            raise
        os.close(handle)  # its holder removed it between opening and locking
