"""Read arrays of .npz and .npy files; shapes and types are checked before the values are read."""

import io
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedcell.core.errors import BadInput, FedcellError

from .regular import open_regular

Arrays = dict[str, NDArray[Any]]  # by name

HEADERS: dict[tuple[int, int], tuple[int, Callable[..., Any]]] = {  # bytes of its length, reader
    (1, 0): (2, npy.read_array_header_1_0),
    (2, 0): (4, npy.read_array_header_2_0),
}
MAX_HEADER_BYTES = 10_000  # of an array's header
UNPACKED = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
)  # can be unpacked in part


def read_npz(
    path: Path,
    names: Iterable[str],
    check: Callable[[Arrays], None],
    optional: Iterable[str] = (),
) -> Arrays:
    """Return the named arrays of a file, and the optional ones that it holds.

    `check` is called before anything is unpacked, with empty arrays of the same shapes and types
    that take no memory.
    """
    names = list(names)
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            members = {n.removesuffix(".npy"): n for n in archive.namelist() if n.endswith(".npy")}
            if missing := [name for name in names if name not in members]:
                held = ", ".join(members) or "nothing"
                raise BadInput(f"has no {', '.join(missing)}: it holds {held}")
            names += [name for name in optional if name in members]
            announced = {name: _announced(archive, members[name]) for name in names}
            check(announced)
            _check_memory(announced)
            return {name: _read(archive, members[name]) for name in names}
    except FedcellError:
        raise
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror or error}") from error
    except Exception as error:  # zip, zlib and numpy each have errors of their own
        raise BadInput(f"is not a sound .npz file of arrays: {error}") from error


def map_npy(path: Path) -> NDArray[Any]:
    """Return the array of an .npy file, memory-mapped; raise OSError or ValueError if it is bad."""
    with open_regular(path) as file:
        shape, by_columns, kind = _header(path.name, file)
        if kind.hasobject:
            raise ValueError(f"{path.name} holds Python objects")
        order: Literal["F", "C"] = "F" if by_columns else "C"
        opened: Any = file
        return np.memmap(opened, np.dtype(kind), "r", file.tell(), shape, order)


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of a file that `read_npz` has read."""
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        return [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]


def _announced(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """Return an array of the shape and type in the header, with one element for all."""
    info = archive.getinfo(member)
    if info.compress_type not in UNPACKED:
        raise ValueError(f"{member} is compressed in a way that numpy does not use")
    with archive.open(member) as file:
        shape, _, kind = _header(member, file)
        size = info.file_size - file.tell()
    array = np.broadcast_to(np.empty((), kind), shape)
    if not kind.hasobject and size != array.size * kind.itemsize:
        raise ValueError(f"{member} has {size} bytes for a shape of {shape}")
    return array


def _header(member: str, file: Any) -> Any:
    """Return shape, order and type; numpy itself would read a header of any length."""
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"{member} has a header of version {version}")
    digits, read = HEADERS[version]
    length = file.read(digits)
    if int.from_bytes(length, "little") > MAX_HEADER_BYTES:
        raise ValueError(f"{member} has a header of more than {MAX_HEADER_BYTES} bytes")
    rest = file.read(int.from_bytes(length, "little"))
    return read(io.BytesIO(length + rest))


def _check_memory(announced: Arrays) -> None:
    needed = sum(array.size * array.itemsize for array in announced.values())
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > memory:
        raise BadInput(
            f"unpacks to {needed / 1e9:.3g} GB, and this machine has {memory / 1e9:.3g} GB "
            "of memory"
        )


def _read(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    with archive.open(member) as file:
        array: NDArray[Any] = npy.read_array(
            file, allow_pickle=False, max_header_size=MAX_HEADER_BYTES
        )
        if file.read(1):
            raise ValueError(f"{member} holds more bytes after its array")
        return array
