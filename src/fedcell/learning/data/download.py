"""Download missing published files, within a time limit, and check them."""

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPException
from pathlib import Path
from queue import Empty, Full, Queue
from tempfile import TemporaryFile
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from fedcell.core.errors import BadInput, DataUnavailable
from fedcell.core.files.atomic import made_folder
from fedcell.core.files.formats import write_file

from .sources import ARCHIVE, Download, Source
from .unpack import BLOCK, contents_here

TIMEOUT = 30.0  # [s] without a byte, after which a download fails
PATIENCE = 120.0  # [s] that any download may take,
SLOWEST = 50e3  # plus its size at this rate [byte/s]

Report = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known


def user_cache() -> Path:
    """$XDG_CACHE_HOME/fedcell, else ~/.cache/fedcell."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path("/", base, "fedcell")  # absolute, even where no home is known


def data_folder(folder: Path | None = None) -> Path:
    """Return the data directory: `folder`, else $FEDCELL_DATA, else the user's cache directory."""
    chosen = Path(folder or os.environ.get("FEDCELL_DATA") or user_cache()).absolute()
    if os.path.lexists(chosen) and not os.path.isdir(chosen):
        raise BadInput(f"{chosen}: is not a folder: name the one that holds the datasets")
    return chosen


def contents(
    source: Source,
    folder: Path | None = None,
    mirror: str | None = None,
    report: Report | None = None,
) -> list[bytes]:
    """Return the files of a dataset in order, unpacked and checked; download missing ones.

    `mirror`, else $FEDCELL_MIRROR, is the address of a folder that is laid out like a data
    directory and replaces the published addresses: MIRROR/mnist/train-images-idx3-ubyte.gz.
    """
    roots = list(dict.fromkeys([data_folder(folder), user_cache()]))
    places = [root / name for root in roots for name in source.folders]
    found = contents_here(source, places)
    missing = [name for name in source.contents if name not in found]
    if missing:
        wanted = [n for n in source.downloads if n.endswith(ARCHIVE) or n[:-3] in missing]
        homes = [root / source.folders[0] for root in roots]
        _download_all(source, wanted, homes, mirror or os.environ.get("FEDCELL_MIRROR"), report)
        found |= contents_here(source, places)
    return [found[name] for name in source.contents]


def _download_all(
    source: Source, names: list[str], homes: list[Path], mirror: str | None, report: Report | None
) -> None:
    base = f"{mirror.rstrip('/')}/{source.folders[0]}/" if mirror else source.url
    shown = re.sub(r"//[^/@]*@", "//", base)  # without a password
    with ExitStack() as folders:
        home = _writable(homes, names, folders)
        for i, name in enumerate(names):
            try:
                _download(base + name, shown + name, home / name, source.downloads[name], report)
            except DataUnavailable as error:
                rest = f"{', '.join(names[i:])} from {source.url} into {home}"
                raise DataUnavailable(f"{error}; try again, or put {rest}") from error


def _writable(homes: list[Path], missing: list[str], folders: ExitStack) -> Path:
    """Return the first folder in which files can be made, and make it if needed."""
    for home in homes:
        with suppress(OSError):
            folders.enter_context(made_folder(home))
            with TemporaryFile(dir=home):
                return home
    names, places = ", ".join(missing), " or ".join(map(str, homes))
    raise DataUnavailable(f"{names}: missing, and cannot be downloaded into {places}: not writable")


def _download(
    address: str, url: str, target: Path, published: Download, report: Report | None
) -> None:
    """Download `target`, which appears only when it is complete and its checksum is right.

    `url` is the address without a password, for messages.
    """

    def write(temporary: Path) -> None:
        digest, done = hashlib.md5(usedforsecurity=False), 0
        try:
            with temporary.open("wb") as file:
                for block in _blocks(address, url, published.size):
                    done += len(block)
                    if done > published.size:
                        raise DataUnavailable(
                            f"{url} is not the published file: it has more than {published.size} "
                            "bytes"
                        )
                    file.write(block)
                    digest.update(block)
                    if report:
                        report(target.name, done, published.size)
        except HTTPError as error:
            error.close()  # it holds the connection
            raise DataUnavailable(f"{url} cannot be downloaded: {error}") from error
        except (OSError, HTTPException, ValueError) as error:  # ValueError: not an address
            reason = getattr(error, "reason", error)
            raise DataUnavailable(f"{url} cannot be downloaded: {reason}") from error
        md5 = digest.hexdigest()
        if done < published.size and md5 != published.md5:
            raise DataUnavailable(
                f"{url}: the download broke off after {done} of {published.size} bytes"
            )
        if md5 != published.md5:
            raise DataUnavailable(
                f"{url} is not the published file: its md5 is {md5}, not {published.md5}"
            )

    write_file(target, write)


def _blocks(address: str, url: str, size: int) -> Iterator[bytes]:
    """Yield what an address answers, within a total time that slow headers cannot extend.

    A separate thread reads: a server that sends a byte now and then blocks only that thread.
    """
    end = time.monotonic() + PATIENCE + size / SLOWEST
    blocks: Queue[Any] = Queue(8)
    over = threading.Event()

    def put(item: Any) -> None:
        while not over.is_set():
            with suppress(Full):
                blocks.put(item, timeout=0.1)
                return

    def read() -> None:
        try:
            with urlopen(address, timeout=TIMEOUT) as answer:
                length = answer.headers.get("Content-Length")
                if length is not None and int(length) != size:
                    raise DataUnavailable(
                        f"{url} is not the published file: it has {length} bytes, not {size}"
                    )
                reader = getattr(answer, "read1", answer.read)  # what has arrived, not all of it
                while not over.is_set() and (block := reader(BLOCK)):
                    put(block)
            put(b"")
        except BaseException as error:  # raised in the calling thread
            put(error)

    threading.Thread(target=read, daemon=True, name="fedcell-download").start()
    try:
        while True:
            try:
                item = blocks.get(timeout=max(end - time.monotonic(), 0))
            except Empty:
                raise TimeoutError("it takes too long") from None
            if isinstance(item, BaseException):
                raise item
            if not item:
                return
            yield item
    finally:
        over.set()
