"""Published files that are not here: downloaded, with an end, and never used unchecked."""

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

TIMEOUT = 30.0  # [s] without a byte, after which a download is given up
PATIENCE = 120.0  # [s] that any download may take in all,
SLOWEST = 50e3  # and longer where it is large: at this rate [byte/s]

Report = Callable[[str, int, int | None], None]  # file, bytes so far, bytes in all if known


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
) -> list[bytes]:
    """The files of a dataset in order, unpacked and checked; downloaded where they are missing.

    `mirror`, else $FEDCELL_MIRROR, is the address of a folder that is laid out like a data
    directory and stands in for the published places: MIRROR/mnist/train-images-idx3-ubyte.gz.
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
    """The first of the folders in which files can be made, itself made if need be."""
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
    """Makes `target`, which appears only once all of it has come and its checksum is right;
    `url` is the address as it is told."""

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
        found = digest.hexdigest()
        if done < published.size and found != published.md5:
            raise DataUnavailable(
                f"{url}: the download broke off after {done} of {published.size} bytes"
            )
        if found != published.md5:
            raise DataUnavailable(
                f"{url} is not the published file: its md5 is {found}, not {published.md5}"
            )

    write_file(target, write)


def _blocks(address: str, url: str, size: int) -> Iterator[bytes]:
    """What an address answers, within a time in all that even headers cannot stretch.

    A thread of its own reads: a server that sends a byte now and then holds that thread, and
    not us.
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
                told = answer.headers.get("Content-Length")
                if told is not None and int(told) != size:
                    raise DataUnavailable(
                        f"{url} is not the published file: it has {told} bytes, not {size}"
                    )
                reader = getattr(answer, "read1", answer.read)  # what has come, not all that may
                while not over.is_set() and (block := reader(BLOCK)):
                    put(block)
            put(b"")
        except BaseException as error:  # to be raised where somebody hears it
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
