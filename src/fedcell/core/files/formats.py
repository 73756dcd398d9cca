"""Read TOML, JSON and CSV strictly, and write any file atomically.

A file is written under a temporary name, flushed to the disk and renamed into place. So a file is
always complete, and a power cut does not undo a state that counts as saved.
"""

import csv
import io
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from fedcell.core.errors import UNPRINTABLE, BadFile, BadInput
from fedcell.core.version import __version__

from .atomic import aside, sync, sync_folder
from .regular import NO_LINKS, open_handle, open_regular

MAX_DEPTH = 40  # of nested tables
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # start of a spreadsheet formula, escaped or not
MAX_TEXT_BYTES = 2**30  # of a table or a scenario: a device has no end


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_TEXT_BYTES + 1)
        if len(content) > MAX_TEXT_BYTES:
            raise BadFile(f"{path}: is longer than a gigabyte of text: name another file")
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except BadFile:
        raise
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path}: is not a text file in UTF-8") from error
    except ValueError as error:  # a null byte in the path
        raise BadFile(f"{path!r}: is not a path: {error}") from error


def read_tables(path: Path) -> dict[str, Any]:
    """Return the plain content of a TOML or JSON file."""
    text = read_text(path)
    try:
        if is_json := path.suffix.lower() == ".json" or text.lstrip().startswith("{"):
            content = json.loads(text, object_pairs_hook=_no_twins)
        else:
            content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        kind = "JSON" if is_json else "TOML"
        raise BadFile(f"{path}: the syntax is wrong, read as {kind}: {error}") from error
    except RecursionError as error:
        raise BadFile(f"{path}: nested too deeply") from error
    except (ValueError, OverflowError) as error:  # a number or a date that Python cannot hold
        raise BadFile(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise BadFile(f"{path}: expected tables with keys, not a {type(content).__name__}")
    with naming(path):
        _check_plain(content)
    return content


def _check_plain(content: dict[str, Any]) -> None:
    """Refuse values that can be written in a file but neither computed with nor shown."""
    inside: list[tuple[str, Any, int]] = [("", content, 0)]
    while inside:
        where, value, depth = inside.pop()
        if depth > MAX_DEPTH:
            raise BadInput(f"{where[:80]}...: nested too deeply")
        if isinstance(value, dict):
            for key, item in value.items():
                name = f"{where}.{key}" if where else key
                if UNPRINTABLE.search(key):
                    raise BadInput(f"{name}: the key holds a character that cannot be shown")
                inside.append((name, item, depth + 1))
        elif isinstance(value, list):
            inside += [(f"{where}[{i}]", item, depth + 1) for i, item in enumerate(value)]
        elif isinstance(value, str) and UNPRINTABLE.search(value):
            raise BadInput(f"{where} = {value[:80]!r}: holds a character that cannot be shown")
        elif isinstance(value, int) and value.bit_length() > 1023:  # too many digits to print
            raise BadInput(f"{where}: a whole number of {value.bit_length()} bits is too large")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key stands twice in one table")
    return table


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of the file before each fault that is found in it."""
    try:
        yield
    except BadInput as error:
        raise BadFile(*(f"{path}: {fault}" for fault in error.faults)) from error


def stamp(what: str, version: int) -> dict[str, Any]:
    """Return the first keys of every file that fedcell writes: its kind and its format."""
    return {"fedcell": __version__, "what": what, "format": version}


def check_stamp(content: Mapping[str, Any], what: str, known: Iterable[int], way_out: str) -> int:
    """Return the format of a file that fedcell wrote; refuse one that this version cannot read."""
    version, kind = content.get("format"), content.get("what", what)
    if not isinstance(version, int) or isinstance(version, bool) or "fedcell" not in content:
        raise BadInput(f"is not a {what} that fedcell wrote: {way_out}")
    if kind != what:
        raise BadInput(f"holds a {kind}, not a {what}: name another file")
    if version not in (formats := list(known)):
        age = "an older" if version < min(formats) else "a newer"
        raise BadInput(
            f"is a {what} of {age} fedcell ({content['fedcell']}, format {version}; this one reads "
            f"{' and '.join(map(str, formats))}): {way_out}"
        )
    return version


def check_target(path: Path, endings: Iterable[str]) -> Path:
    """Return the place to write a file, links resolved; refuse one that cannot be written."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise BadFile(f"{path}: cannot be written: {error}") from error
    if target.suffix.lower().lstrip(".") not in endings:
        raise BadFile(f"{path}: the name must end in one of: {', '.join(endings)}")
    if target.exists() and not target.is_file():
        raise BadFile(f"{path}: cannot be written: it is a folder or a device")
    if not target.parent.is_dir():
        raise BadFile(f"{path}: cannot be written: there is no folder {target.parent}")
    return target


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary path, and rename the file into place.

    File and folder are on the disk when this returns.
    """
    try:
        with aside(path) as temporary:
            write(temporary)
            sync(temporary)
            os.replace(temporary, path)
            sync_folder(path.parent)
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from error
    except UnicodeError as error:
        raise BadFile(f"{path}: cannot be written: a name in it is not text: {error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""

    def write(aside: Path) -> None:
        aside.write_text(text, "utf-8")

    write_file(path, write)


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table, whole or not at all."""

    def write(aside: Path) -> None:
        with aside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(map(_escaped, chain([names], rows)))

    write_file(path, write)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, which include their ends, whole or not at all."""

    def write(aside: Path) -> None:
        with aside.open("w", newline="", encoding="utf-8") as file:
            file.writelines(lines)

    write_file(path, write)


def _escaped(row: Iterable[Any]) -> list[Any]:
    """Put an apostrophe before texts that a spreadsheet would compute; numbers stay plain."""
    return [f"'{v}" if isinstance(v, str) and FORMULA.match(v) else v for v in row]


@contextmanager
def open_csv(path: Path) -> Iterator[Iterator[str]]:
    """Open a CSV table in UTF-8, to be read with `csv_rows`."""
    with open_regular(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        yield file


def csv_rows(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the cells of a table that `write_csv` wrote, with texts as they were given."""
    for row in csv.reader(lines):
        yield [c[1:] if c.startswith("'") and FORMULA.match(c) else c for c in row]


def append_text(path: Path, text: str, *, create: bool = False) -> None:
    """Append whole lines to a file in one write; with `create`, create the file if missing."""
    rest = text.encode()
    flags = os.O_WRONLY | os.O_APPEND | NO_LINKS | (os.O_CREAT if create else 0)
    try:
        handle = open_handle(path, flags)
        try:
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from error


def is_intact(path: Path, size: int) -> bool:
    """Return whether a growing file still exists with the size that it was left with."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_size == size


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Return lines of a CSV table, to be appended to it."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(map(_escaped, rows))
    return lines.getvalue()


def as_json(value: Any) -> str:
    """Return plain values as strict JSON: numbers that are not finite become null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
