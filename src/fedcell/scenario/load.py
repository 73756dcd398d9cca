"""Load scenarios from files, with the client tables and channel gains that they name."""

import bz2
import csv
import gzip
import lzma
import math
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import resources
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import MAX_TEXT_BYTES, naming, read_tables, read_text
from fedcell.core.files.npz import map_npy
from fedcell.core.files.regular import open_regular
from fedcell.core.schema import decode

from .arrays import ClientTable, Gains
from .catalogue.entries import Catalogue, expand
from .channel.measured import read_measured
from .fleet_table import MAX_FAULTS, client_table, holds_numbers
from .learning import dataset_path
from .save import commented
from .scenario import Scenario
from .tables import PAPER_TASK

PAPER_HEADER = """\
The world of the paper: Wan et al., "Convergence Analysis and System Design for Federated
Learning over Wireless Networks", Sections II and V. SI units. Every key may be left out;
these are the defaults. Keys marked * are left open by the paper and chosen by us.
"""
ROWS_AT_A_TIME = 10_000  # of a table that are in memory as text
SHIPPED = ("paper", "cnn", "digits", "mnist", "watch", "phones-5g", "factory", "meters", "pis-wifi")


def shipped(name: str) -> str:
    """Return the commented TOML text of a shipped scenario."""
    if name not in SHIPPED:
        raise BadInput(f"{name} is not a shipped scenario: choose {' or '.join(SHIPPED)}")
    if name == "paper":  # all keys with their defaults
        return commented(Scenario(task=PAPER_TASK), PAPER_HEADER)
    return (resources.files("fedcell.scenario") / "shipped" / f"{name}.toml").read_text("utf-8")


def shipped_scenario(name: str) -> Scenario:
    """Return a shipped scenario."""
    return scenario_of(tomllib.loads(shipped(name)), Path())


def load_scenario(source: str | Path) -> Scenario:
    """Load a scenario from a TOML or JSON file, or a shipped one by its name.

    Parameters
    ----------
    source : str or Path
        Path of a file, or "paper", "cnn", "digits", "mnist" or "watch". Paths in the file (gains, a
        table of clients, data, owners) are relative to its folder.

    Returns
    -------
    Scenario
        The scenario, with its files of gains and clients read.

    Raises
    ------
    BadFile
        With every fault of the file, each in a sentence.

    Examples
    --------
    >>> load_scenario("digits").clients.count
    50
    """
    if not isinstance(source, str | Path):
        raise BadInput(
            f"{source!r} is not the path of a scenario, nor a name: {', '.join(SHIPPED)}"
        )
    path = Path(source)
    if str(source) in SHIPPED and not path.is_file():
        return shipped_scenario(str(source))
    if not path.exists() and path.suffix == "":
        raise BadFile(f"{source} is no file and not a shipped scenario: {', '.join(SHIPPED)}")
    given = read_tables(path)
    if "bandwidth" in given:
        raise BadFile(f"{path}: is a single round, not a scenario: give it to `load_round`")
    with naming(path):
        return scenario_of(given, path.parent)


def scenario_of(given: dict[str, Any], folder: Path) -> Scenario:
    """Return a scenario from plain tables; paths in them are relative to `folder`."""
    faults: list[str] = []
    given = dict(given)
    own = given.pop("catalogue", None)
    if not isinstance(own, str | None):
        raise BadInput(f"catalogue = {own!r}: expected the path of a file of devices and radios")
    catalogue = Catalogue.load(None if own is None else folder / own)
    given = expand(given, catalogue)
    return decode(Scenario, _with_arrays(given, folder, faults, catalogue), faults)


def _with_arrays(
    given: dict[str, Any], folder: Path, faults: list[str], catalogue: Catalogue
) -> dict[str, Any]:
    """Return `given` with the named files read: gains, measured channels, a table of clients."""
    given = {name: dict(t) if isinstance(t, dict) else t for name, t in given.items()}
    if isinstance(given.get("learning"), dict):
        given["learning"] = _with_paths(given["learning"], folder)
    if isinstance(cell := given.get("cell"), dict) and isinstance(cell.get("channel"), dict):
        cell["channel"] = dict(cell["channel"])
    readers: dict[tuple[str, ...], Callable[[Any, Path], Any]] = {
        ("cell", "gains"): _gains,
        ("cell", "channel", "measured"): read_measured,
        ("clients", "table"): partial(_table, catalogue=catalogue),
    }
    for (*path, key), read in readers.items():
        inside: Any = given
        for name in path:
            inside = inside.get(name) if isinstance(inside, dict) else None
        if isinstance(inside, dict) and inside.get(key) is not None:
            try:
                inside[key] = read(inside[key], folder)
                if key == "table" and inside.get("count", inside[key].count) != inside[key].count:
                    raise BadInput("clients.count differs from clients.table: leave count out")
            except BadInput as error:
                faults += error.faults
                del inside[key]
    return given


def _with_paths(learning: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return [learning] with the paths of data and owners relative to `folder`."""
    dataset, partition = learning.get("dataset"), learning.get("partition")
    if isinstance(dataset, str) and (path := dataset_path(dataset, folder)) is not None:
        learning = learning | {"dataset": str(path)}
    if isinstance(partition, dict) and isinstance(partition.get("owners"), str):
        owners = str(folder / partition["owners"])
        learning = learning | {"partition": partition | {"owners": owners}}
    return learning


def _gains(named: Any, folder: Path) -> Gains:
    if not isinstance(named, str):
        raise BadInput("cell.gains: expected the path of a .npy or .csv file")
    path = folder / named
    try:
        if path.suffix.lower() == ".npy":
            values: Any = map_npy(path)
        else:
            with warnings.catch_warnings(action="ignore"):  # an empty file: Gains refuses its shape
                values = np.loadtxt(_lines(path), delimiter=",", ndmin=2)
    except OSError as error:
        raise BadInput(f"cell.gains: {path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy parses headers with much that can fail
        reason = "" if path.suffix.lower() == ".npy" else f": {error}"
        raise BadInput(f"cell.gains: {path} is not a table of numbers{reason}") from error
    return Gains(values)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, unpacked if needed, up to the size limit."""
    packed: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    unpacked = packed.get(path.suffix.lower(), lambda file: file)
    left = MAX_TEXT_BYTES
    with open_regular(path) as raw, TextIOWrapper(unpacked(raw), "utf-8-sig") as file:
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise ValueError("it is longer than a gigabyte of text")
            yield line


def _table(given: Any, folder: Path, catalogue: Catalogue) -> ClientTable:
    """Return real clients, from the path of a CSV or from rows."""
    if isinstance(given, str):
        return client_table(_csv_columns(given, folder), catalogue)
    if not isinstance(given, list) or not given or not all(isinstance(r, dict) for r in given):
        raise BadInput("clients.table: expected the path of a .csv file or a list of tables")
    headings = dict.fromkeys(heading for row in given for heading in row)
    rows = [(i, [row.get(h) for h in headings]) for i, row in enumerate(given)]
    columns = _columns(list(headings), rows, "clients.table[{}]".format)
    return client_table(columns, catalogue)


def _csv_columns(given: str, folder: Path) -> dict[str, list[Any]]:
    """Return the columns of a CSV by heading; blank cells are None."""
    place = f"clients.table: {given} line"
    rows = _csv_rows(read_text(folder / given), place)
    _, names = next(rows, (0, []))
    some = list(islice(rows, ROWS_AT_A_TIME))
    if not some:
        raise BadInput(f"clients.table: {given} needs a line of column names and one per client")
    headings = [name or "" for name in names]
    if len(headings) == 1 and re.search(r"[;\t|]", headings[0]):
        raise BadInput(
            f"clients.table: {headings[0]!r} is not a column; are its columns separated by commas?"
        )
    if twice := [heading for heading in dict.fromkeys(headings) if headings.count(heading) > 1]:
        raise BadInput(*(f"clients.table: {heading!r} stands twice" for heading in twice))
    columns: dict[str, list[Any]] = {heading: [] for heading in headings}
    while some:
        for heading, values in _columns(headings, some, lambda n: f"{place} {n}").items():
            columns[heading] += values
        some = list(islice(rows, ROWS_AT_A_TIME))
    for heading, values in columns.items():  # all of it is text here: a number is what looks so
        if heading != "name" and not holds_numbers(heading):
            numbers = _numbers(values)
            if numbers.count(None) == values.count(None):
                columns[heading] = numbers
    return columns


def _csv_rows(text: str, place: str) -> Iterator[tuple[int, list[str | None]]]:
    """Yield line number and cells of each row of a CSV that is not blank; blank cells are None."""
    reader = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        for row in reader:
            cells = [cell.strip() or None for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise BadInput(f"{place} {reader.line_num}: {error}") from error


def _columns(
    headings: list[str], rows: Sequence[tuple[int, list[Any]]], place: Callable[[int], str]
) -> dict[str, list[Any]]:
    """Return numbered rows as columns, numbers converted; faults name the `place` of the row."""
    faults = [
        f"{place(n)} has {len(row)} values for {len(headings)} columns"
        for n, row in rows
        if len(row) != len(headings)
    ]
    if faults:
        raise BadInput(*faults[:MAX_FAULTS])
    columns: dict[str, list[Any]] = {}
    for heading, *cells in zip(headings, *(row for _, row in rows), strict=True):
        columns[heading] = cells
        if holds_numbers(heading):
            columns[heading] = _numbers(cells)
            faults += [
                f"{place(n)}: {heading} = {cell!r}: expected a number, or nothing for the default"
                for (n, _), cell, number in zip(rows, cells, columns[heading], strict=True)
                if number is None and cell is not None
            ]
    if faults:
        raise BadInput(*faults[:MAX_FAULTS])
    return columns


def _numbers(cells: list[Any]) -> list[float | None]:
    """Return each cell as a number; None where it is blank or not a number."""
    if set(map(type, cells)) <= {str, NoneType}:
        try:  # all at once
            numbers = [None if cell is None else float(cell) for cell in cells]
        except ValueError:
            numbers = [math.nan]
        if all(number is None or math.isfinite(number) for number in numbers):
            return numbers
    return [None if cell is None else _number(cell) for cell in cells]


def _number(value: Any) -> float | None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
