"""Find the files of a dataset, unpack them up to their published size, and check them.

A copy is good if its content is what was published, however it is packed: plain, as .gz or .xz,
or in an archive. Nothing is unpacked beyond the size that it must have.
"""

import gzip
import hashlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Self

from fedcell.core.errors import BadFile
from fedcell.core.files.regular import open_regular

from .sources import ARCHIVE, PUBLISHED, Content, Source

BLOCK = 1 << 18  # [byte] read at a time
PACKED: dict[str, Callable[[BinaryIO], Any]] = {  # how it is unpacked, by its ending
    "": nullcontext,
    ".gz": gzip.open,
    ".xz": lzma.open,
}
BROKEN = (gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError, zlib.error, EOFError)


class NotPublished(BadFile):
    """A file with other content than the published one."""

    sha256: str | None = None  # of that content, where all of it was read

    @classmethod
    def because(cls, path: Path, how: str, sha256: str | None = None) -> Self:
        error = cls(
            f"{path}: is not the published file ({how}): "
            "delete it to download it again, or put the published file there"
        )
        error.sha256 = sha256
        return error


def contents_here(source: Source, places: Iterable[Path]) -> dict[str, bytes]:
    """Return the files of a dataset that lie in some of the places, by name."""
    found, refused = {}, []
    places = list(places)
    for name, content in source.contents.items():
        for path in _here(places, [name + ending for ending in PACKED]):
            try:
                found[name] = _read(path, PACKED[_ending(path, name)], content)
                break
            except NotPublished as error:
                refused.append((name, error))
    if len(found) < len(source.contents):
        archives = [name for name in source.downloads if name.endswith(ARCHIVE)]
        for path in _here(places, archives):
            try:
                return _members(path, source.contents)
            except NotPublished as error:
                refused.append((path.name, error))
    others = {c.sha256 for s in PUBLISHED.values() if s is not source for c in s.contents.values()}
    for name, refusal in refused:  # of a file that is another dataset's nothing is said
        if name not in found and refusal.sha256 not in others:
            raise refusal
    return found


def _here(places: Iterable[Path], names: Iterable[str]) -> list[Path]:
    every = [place / name for name in names for place in places]
    return [path for path in every if os.path.isfile(path)]  # false where looking is forbidden


def _ending(path: Path, name: str) -> str:
    return path.name[len(Path(name).name) :]


def _read(path: Path, unpacked: Callable[[BinaryIO], Any], content: Content) -> bytes:
    """Return the content of a file; refuse other content than the published one."""
    try:
        with open_regular(path) as packed, unpacked(packed) as file:
            return _check_content(path, file, content)
    except BROKEN as error:
        raise NotPublished.because(path, str(error) or type(error).__name__) from error
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error


def _check_content(path: Path, file: Any, content: Content) -> bytes:
    """Read and hash a file, no further than its published size."""
    digest, blocks, size = hashlib.sha256(), [], 0
    while block := file.read(min(BLOCK, content.size + 1 - size)):
        digest.update(block)
        blocks.append(block)
        size += len(block)
        if size > content.size:
            raise NotPublished.because(path, f"it holds more than {content.size} bytes")
    if size < content.size:
        raise NotPublished.because(path, f"it holds {size} bytes, not {content.size}")
    if (sha256 := digest.hexdigest()) != content.sha256:
        raise NotPublished.because(path, f"its sha256 is {sha256}, not {content.sha256}", sha256)
    return b"".join(blocks)


class _Bounded:
    """A file that is read from front to back, up to a limit."""

    def __init__(self, path: Path, file: Any, most: int) -> None:
        self.path, self.file, self.left = path, file, most

    def read(self, size: int) -> bytes:
        block: bytes = self.file.read(min(size, self.left + 1))
        self.left -= len(block)
        if self.left < 0:
            raise NotPublished.because(self.path, "it unpacks to more than it should")
        return block


def _members(path: Path, contents: Mapping[str, Content]) -> dict[str, bytes]:
    """Return the content of files in a .tar.gz, in one pass: going back would unpack it again."""
    found: dict[str, bytes] = {}
    most = sum(content.size for content in contents.values()) + (1 << 24)  # headers, read-mes
    try:
        with open_regular(path) as packed, gzip.open(packed) as file:
            bounded: Any = _Bounded(path, file, most)
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for member in archive:
                    if member.name in contents and (inside := archive.extractfile(member)):
                        found[member.name] = _check_content(path, inside, contents[member.name])
    except BadFile:
        raise
    except BROKEN as error:
        raise NotPublished.because(path, str(error) or type(error).__name__) from error
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # headers of an archive can be wrong in many ways
        raise NotPublished.because(path, f"{type(error).__name__}: {error}") from error
    if missing := [name for name in contents if name not in found]:
        raise NotPublished.because(path, f"it has no {', '.join(missing)}")
    return {name: found[name] for name in contents}
