"""Files are opened here: regular ones only, and without waiting.

A pipe in place of a file waits for a writer that may never come, and a device may have no end. A
file is opened so that nothing waits, and then looked at through its handle: what was looked at is
what is read or written.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_WAITING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def open_handle(path: Path, flags: int = os.O_RDONLY) -> int:
    """A handle on a regular file; an OSError says what else is there. Files that are written to
    are opened with `NO_LINKS`."""
    try:
        handle = os.open(path, flags | NOT_WAITING, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a pipe that is written to and not read
            raise _not_regular(path, os.stat(path).st_mode) from error
        if flags & NO_LINKS and path.is_symlink():
            why = "it is a link: put a file in its place, or remove it"
            raise OSError(errno.ELOOP, why, str(path)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _not_regular(path, mode)
    return handle


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open to be read as bytes."""
    return os.fdopen(open_handle(path), "rb")


def open_log(path: Path) -> BinaryIO:
    """A regular file, made if need be, to add bytes to; links are not followed."""
    return os.fdopen(open_handle(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINKS), "ab")


def _not_regular(path: Path, mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return OSError(
        errno.EINVAL, f"it is {kind}: save what it holds as a file, and name that", str(path)
    )
