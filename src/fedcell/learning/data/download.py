"""Published files: found or downloaded, and never used before their checksum is right."""

import hashlib
import lzma
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from numpy.typing import NDArray

from fedcell.core.errors import BadFile, BadInput, DataUnavailable
from fedcell.core.files import write_file

TIMEOUT = 30.0  # [s] without a byte, after which a download is given up
BLOCK = 1 << 18  # [byte] between two reports

Arrays = dict[str, NDArray[Any]]  # by name
Report = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known


@dataclass(frozen=True)
class Source:
    """The files of a published dataset, where they come from and where they are looked for."""

    name: str
    url: str  # the folder online, with its last slash
    folders: tuple[str, ...]  # in the data directory; a download goes to the first
    files: Mapping[str, str]  # name: md5 as published, of the content if it lies there as .xz
    image: tuple[int, int, int]  # height, width, channels
    sizes: tuple[int, int]  # samples to train with, to test with
    decode: Callable[[Iterable[bytes]], Arrays]  # x_train, y_train, x_test, y_test
    archive: Mapping[str, str] = field(default_factory=dict)  # a .tar.gz of them all: its md5

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(self.files.values()).encode()).hexdigest()[:16]


def user_cache() -> Path:
    """$XDG_CACHE_HOME/fedcell, else ~/.cache/fedcell."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path("/", base, "fedcell")  # absolute, even where no home is known


def data_folder(folder: Path | None = None) -> Path:
    """Where datasets lie: `folder`, else $FEDCELL_DATA, else the user's cache directory."""
    chosen = Path(folder or os.environ.get("FEDCELL_DATA") or user_cache()).absolute()
    if os.path.lexists(chosen) and not os.path.isdir(chosen):
        raise BadInput(f"{chosen}: is not a folder: name the one that holds the datasets")
    return chosen


def contents(
    source: Source,
    folder: Path | None = None,
    mirror: str | None = None,
    report: Report | None = None,
) -> Iterator[bytes]:
    """The files of a dataset in order, checked; downloaded first where they are missing.

    `mirror`, else $FEDCELL_MIRROR, is the address of a folder that is laid out like a data
    directory and stands in for the published places: MIRROR/mnist/train-images-idx3-ubyte.gz.
    """
    roots = list(dict.fromkeys([data_folder(folder), user_cache()]))
    places = [root / name for root in roots for name in source.folders]
    paths = _find(source.files, places)
    if len(paths) == len(source.files):
        yield from (_read(paths[name], md5) for name, md5 in source.files.items())
        return
    wanted = source.archive or source.files
    paths = _find(wanted, places)
    if missing := [name for name in wanted if name not in paths]:
        home = _writable([root / source.folders[0] for root in roots], missing)
        mirror = mirror or os.environ.get("FEDCELL_MIRROR")
        base = f"{mirror.rstrip('/')}/{source.folders[0]}/" if mirror else source.url
        for i, name in enumerate(missing):
            try:
                paths[name] = _download(base + name, home / name, wanted[name], report)
            except DataUnavailable as error:
                rest = f"{', '.join(missing[i:])} from {source.url} into {home}"
                raise DataUnavailable(f"{error}; try again, or put {rest}") from error
    for name, md5 in wanted.items():
        if source.archive:
            yield from _members(paths[name], md5, source.files)
        else:
            yield _read(paths[name], md5)


def _find(names: Iterable[str], places: list[Path]) -> dict[str, Path]:
    """The first path at which each of the files lies, plain or as .xz; absent ones left out."""
    paths = {
        name: [
            path
            for place in places
            for path in (place / name, place / f"{name}.xz")
            if os.path.isfile(path)  # unlike Path's, false where looking is forbidden
        ]
        for name in names
    }
    return {name: paths[0] for name, paths in paths.items() if paths}


def _writable(homes: list[Path], missing: list[str]) -> Path:
    """The first of the folders in which files can be made, itself made if need be."""
    for home in homes:
        with suppress(OSError):
            home.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=home):
                return home
    names, places = ", ".join(missing), " or ".join(map(str, homes))
    raise DataUnavailable(f"{names}: missing, and cannot be downloaded into {places}: not writable")


def _read(path: Path, md5: str) -> bytes:
    """The content of a file, out of its .xz, if it is what was published."""
    try:
        content = path.read_bytes()
        content = lzma.decompress(content) if path.suffix == ".xz" else content
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error
    except lzma.LZMAError as error:
        raise _damaged(path, f"as .xz: {error}") from error
    return _checked(path, content, md5)


def _members(path: Path, md5: str, files: Mapping[str, str]) -> Iterator[bytes]:
    """The content of files in a .tar.gz, in one pass, as going back would unpack it anew."""
    contents = {}
    try:
        with path.open("rb") as file:
            if (digest := hashlib.file_digest(file, _md5).hexdigest()) != md5:
                raise _damaged(path, f"its md5 is {digest}, not {md5}")
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                for member in archive:
                    if member.name in files and (inside := archive.extractfile(member)):
                        contents[member.name] = inside.read()
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error
    yield from (_checked(path, contents[name], md5) for name, md5 in files.items())


def _checked(path: Path, content: bytes, md5: str) -> bytes:
    if (digest := _md5(content).hexdigest()) != md5:
        raise _damaged(path, f"its md5 is {digest}, not {md5}")
    return content


def _md5(content: bytes = b"") -> Any:
    return hashlib.md5(content, usedforsecurity=False)


def _damaged(path: Path, how: str) -> BadFile:
    return BadFile(
        f"{path}: is not the published file ({how}): "
        "delete it to download it again, or put the published file there"
    )


def _download(url: str, target: Path, md5: str, report: Report | None) -> Path:
    """`target`, which appears only once all of it has come and its checksum is right."""

    def write(temporary: Path) -> None:
        digest, done, total = _md5(), 0, None
        try:
            with urlopen(url, timeout=TIMEOUT) as answer, temporary.open("wb") as file:
                if length := answer.headers.get("Content-Length"):
                    total = int(length)
                while block := answer.read(BLOCK):
                    file.write(block)
                    digest.update(block)
                    done += len(block)
                    if report:
                        report(target.name, done, total)
        except HTTPError as error:
            error.close()  # it holds the connection
            raise DataUnavailable(f"{url} cannot be downloaded: {error}") from error
        except (OSError, HTTPException, ValueError) as error:  # ValueError: not an address
            reason = getattr(error, "reason", error)
            raise DataUnavailable(f"{url} cannot be downloaded: {reason}") from error
        if total not in (None, done):
            raise DataUnavailable(f"{url}: the download broke off after {done} of {total} bytes")
        if (found := digest.hexdigest()) != md5:
            raise DataUnavailable(f"{url} is not the published file: its md5 is {found}, not {md5}")

    write_file(target, write)
    return target
