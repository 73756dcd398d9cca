"""Temporary files and folders that are renamed into place, and the removal of leftovers.

The writing process holds a lock on them, which ends with the process. So an unlocked one was left
by a killed process, and the next process that writes to the same folder removes it.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .locks import lock

ASIDE = re.compile(r"\.fedcell-\d+-[0-9a-f]{16}-")  # start of a temporary name
_swept: set[Path] = set()  # folders that this process has cleaned of leftovers


@contextmanager
def aside(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Create a temporary file, or folder, beside `path`; remove it at the end if not renamed."""
    # The name cannot be predicted and the file is new, so that no prepared link is followed.
    temporary = path.parent / f".fedcell-{os.getpid()}-{secrets.token_hex(8)}-{path.name}"
    home = _opened(path.parent.resolve())
    try:
        if home is not None:
            _sweep_once(path.parent, home)
            lock(home, shared=True, patience=0.5)  # no cleaning between creation and lock
        if folder:
            temporary.mkdir(mode=0o700)
        else:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        if (held := _opened(temporary)) is not None:
            lock(held)
    finally:
        if home is not None:
            os.close(home)
    try:
        yield temporary
    finally:
        if held is not None:
            os.close(held)
        _remove(temporary)


def _sweep_once(folder: Path, handle: int) -> None:
    """Remove what killed processes left in a folder, before this process first writes there."""
    if (real := folder.resolve()) in _swept:
        return
    _swept.add(real)
    if not lock(handle):
        return  # another process is creating a file, or there are no locks
    try:
        left = [entry for entry in os.scandir(folder) if ASIDE.match(entry.name)]
        for entry in left:
            if (own := _opened(Path(entry.path))) is not None:
                if lock(own):
                    _remove(Path(entry.path))
                os.close(own)
    except OSError:
        pass  # a folder that cannot be listed keeps its content
    finally:
        lock(handle, release=True)


def _opened(path: Path) -> int | None:
    """Return a handle for locking a file or a folder; None if it cannot be opened."""
    quick = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, no pipe
    for how in (os.O_RDWR, os.O_RDONLY):  # some file systems lock only what can be written
        with suppress(OSError):
            return os.open(path, how | quick)
    return None


def _remove(temporary: Path) -> None:
    with suppress(OSError):
        if temporary.is_dir() and not temporary.is_symlink():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush the content of a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a renamed entry to the disk, where folders can be opened for that."""
    with suppress(OSError):  # some file systems, and Windows, do not support it
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def made_folder(folder: Path) -> Iterator[Path]:
    """Create a folder with its parents if needed; remove at the end those that stayed empty."""
    made = [f for f in (folder, *folder.parents) if not os.path.lexists(f)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    finally:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
