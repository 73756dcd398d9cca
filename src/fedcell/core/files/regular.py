"""Open regular files only, without blocking.

Opening a pipe blocks until a writer comes, and a device may have no end. So a file is opened
without blocking and then checked through its handle: the checked file is the one that is used.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_WAITING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def open_handle(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return a handle on a regular file; raise OSError for anything else. Files to be written are
    opened with `NO_LINKS`."""
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
    """Open a regular file to read bytes."""
    return os.fdopen(open_handle(path), "rb")


def open_log(path: Path) -> BinaryIO:
    """Open a regular file to append bytes; create it if it is missing; follow no links."""
    return os.fdopen(open_handle(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINKS), "ab")


def _not_regular(path: Path, mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return OSError(
        errno.EINVAL, f"it is {kind}: save what it holds as a file, and name that", str(path)
    )
