"""Files and folders that are being written, aside from their place, and what a kill leaves.

Whoever writes holds a lock on it, which ends with the process; so what is not locked was left
by one that was killed, and the next that writes to the same folder takes it away.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .locks import lock

ASIDE = re.compile(r"\.fedcell-\d+-[0-9a-f]{16}-")  # begins the name of what is being written
_swept: set[Path] = set()  # folders in which this process has looked for what others left


@contextmanager
def aside(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A new file, or folder, beside `path` and of nobody else; gone at the end, if not renamed."""
    # A name that nobody can foresee, made anew: no link that lies in wait is followed.
    temporary = path.parent / f".fedcell-{os.getpid()}-{secrets.token_hex(8)}-{path.name}"
    home = _opened(path.parent.resolve())
    try:
        if home is not None:
            _sweep_once(path.parent, home)
            lock(home, shared=True, patience=0.5)  # one who sweeps must not come before our lock
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
    """Removes what killed processes left in a folder, the first time that one writes there."""
    if (real := folder.resolve()) in _swept:
        return
    _swept.add(real)
    if not lock(handle):
        return  # others begin to write just now, or there are no locks: nothing is known
    try:
        left = [entry for entry in os.scandir(folder) if ASIDE.match(entry.name)]
        for entry in left:
            if (own := _opened(Path(entry.path))) is not None:
                if lock(own):
                    _remove(Path(entry.path))
                os.close(own)
    except OSError:
        pass  # a folder that cannot be listed keeps what it has
    finally:
        lock(handle, release=True)


def _opened(path: Path) -> int | None:
    """A handle to lock a file or a folder by; None where there is no such thing."""
    quick = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, no pipe
    for how in (os.O_RDWR, os.O_RDONLY):  # some file systems lock what can be written to
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
    """Brings the content of a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Brings a renamed name to the disk, where folders can be opened for that."""
    with suppress(OSError):  # some file systems, and Windows, have no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def made_folder(folder: Path) -> Iterator[Path]:
    """A folder, made with those above it if need be; those that stay empty are taken away."""
    made = [f for f in (folder, *folder.parents) if not os.path.lexists(f)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    finally:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()
