"""Scenarios from files, with the client tables and channel gains that they name."""

import bz2
import csv
import gzip
import lzma
import math
import re
import tomllib
import warnings
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files import MOST_TEXT, naming, read_tables, read_text
from fedcell.core.schema import decode

from .arrays import ClientTable, Gains
from .fleet_table import MOST_FAULTS, client_table, holds_numbers
from .learning import dataset_path
from .save import commented
from .scenario import Scenario
from .tables import PAPER_TASK, Cell

PAPER_HEADER = """\
The world of the paper: Wan et al., "Convergence Analysis and System Design for Federated
Learning over Wireless Networks", Sections II and V. SI units. Every key may be left out;
these are the defaults. Keys marked * are left open by the paper and chosen by us.
"""
SHIPPED = ("paper", "cnn", "digits", "mnist")


def shipped(name: str) -> str:
    """The text of a scenario that comes with the package, commented, as TOML."""
    if name not in SHIPPED:
        raise BadInput(f"{name} is not a shipped scenario: choose {' or '.join(SHIPPED)}")
    if name == "paper":  # all keys with their defaults
        return commented(Scenario(task=PAPER_TASK), PAPER_HEADER)
    return (resources.files("fedcell.scenario") / "shipped" / f"{name}.toml").read_text("utf-8")


def shipped_scenario(name: str) -> Scenario:
    """A scenario that comes with the package."""
    return decode(Scenario, tomllib.loads(shipped(name)))


def load_scenario(source: str | Path) -> Scenario:
    """A scenario from a TOML or JSON file, or a shipped one by its name.

    Files that it names (gains, a table of clients, data, owners) are seen from its own folder.

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
    """A scenario from plain tables; the files that they name are seen from `folder`."""
    faults: list[str] = []
    return decode(Scenario, _with_arrays(given, folder, faults), faults)


def _with_arrays(given: dict[str, Any], folder: Path, faults: list[str]) -> dict[str, Any]:
    """`given` with the files that it names read: cell.gains and clients.table."""
    given = {name: dict(t) if isinstance(t, dict) else t for name, t in given.items()}
    if isinstance(given.get("learning"), dict):
        given["learning"] = _with_paths(given["learning"], folder)
    band = given["cell"].get("bandwidth") if isinstance(given.get("cell"), dict) else None
    bandwidth = _number(band) or Cell().bandwidth  # a wrong one is told with its own key

    def table(named: Any, folder: Path) -> ClientTable:
        return _table(named, folder, bandwidth)

    readers = {("cell", "gains"): _gains, ("clients", "table"): table}
    for (name, key), read in readers.items():
        inside = given.get(name)
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
    """[learning] with the paths of its data and its owners as they are seen from `folder`."""
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
    _check_regular(path, "cell.gains")
    try:
        if path.suffix.lower() == ".npy":
            values = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with warnings.catch_warnings(action="ignore"):  # an empty file: its shape tells
                values = np.loadtxt(_lines(path), delimiter=",", ndmin=2)
    except OSError as error:
        raise BadInput(f"cell.gains: {path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy parses headers with much that can fail
        reason = "" if path.suffix.lower() == ".npy" else f": {error}"
        raise BadInput(f"cell.gains: {path} is not a table of numbers{reason}") from error
    return Gains(values)


def _check_regular(path: Path, key: str) -> None:
    """Refuses a pipe or a device, which may have no end: a file does not name such a thing."""
    try:
        strange = path.exists() and not path.is_file()
    except ValueError:  # no path at all, which is told when it is read
        return
    if strange:
        raise BadFile(f"{key}: {path} is not a regular file")


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text, unpacked if need be, up to as much as any text may have."""
    packed: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    left = MOST_TEXT
    with packed.get(path.suffix.lower(), open)(path, "rt", encoding="utf-8-sig") as file:
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise ValueError("it is longer than a gigabyte of text")
            yield line


def _table(given: Any, folder: Path, bandwidth: float) -> ClientTable:
    """Real clients, from the path of a CSV or from the rows themselves."""
    if isinstance(given, str):
        return client_table(_csv_columns(given, folder), bandwidth)
    if not isinstance(given, list) or not given or not all(isinstance(r, dict) for r in given):
        raise BadInput("clients.table: expected the path of a .csv file or a list of tables")
    headings = dict.fromkeys(heading for row in given for heading in row)
    rows = [(f"clients.table[{i}]", [row.get(h) for h in headings]) for i, row in enumerate(given)]
    return client_table(_columns(list(headings), rows), bandwidth)


def _csv_columns(given: str, folder: Path) -> dict[str, list[Any]]:
    """The columns of a CSV by heading, cells as they stand there or None."""
    _check_regular(folder / given, "clients.table")
    reader = csv.reader(read_text(folder / given).splitlines(), skipinitialspace=True)
    place = f"clients.table: {given} line"
    try:
        lines = [(f"{place} {reader.line_num}", row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise BadInput(f"{place} {reader.line_num}: {error}") from error
    if len(lines) < 2:
        raise BadInput(f"clients.table: {given} needs a line of column names and one per client")
    headings = [heading.strip() for heading in lines[0][1]]
    if len(headings) == 1 and re.search(r"[;\t|]", headings[0]):
        raise BadInput(
            f"clients.table: {headings[0]!r} is not a column; are its columns separated by commas?"
        )
    if twice := [heading for heading in dict.fromkeys(headings) if headings.count(heading) > 1]:
        raise BadInput(*(f"clients.table: {heading!r} stands twice" for heading in twice))
    rows = [(at, [cell.strip() or None for cell in row]) for at, row in lines[1:]]
    columns = _columns(headings, rows)
    for heading, cells in columns.items():  # all of it is text here: a number is what looks so
        numbers = [None if cell is None else _number(cell) for cell in cells]
        if heading != "name" and numbers.count(None) == cells.count(None):
            columns[heading] = numbers
    return columns


def _columns(headings: list[str], rows: list[tuple[str, list[Any]]]) -> dict[str, list[Any]]:
    """Rows as columns, those of numbers read; faults have the place of the row."""
    faults = [
        f"{place} has {len(row)} values for {len(headings)} columns"
        for place, row in rows
        if len(row) != len(headings)
    ]
    if faults:
        raise BadInput(*faults[:MOST_FAULTS])
    columns: dict[str, list[Any]] = {}
    for i, heading in enumerate(headings):
        cells = columns[heading] = [row[i] for _, row in rows]
        if holds_numbers(heading):
            columns[heading] = [None if cell is None else _number(cell) for cell in cells]
            faults += [
                f"{place}: {heading} = {cell!r}: expected a number, or nothing for the default"
                for (place, _), cell, number in zip(rows, cells, columns[heading], strict=True)
                if number is None and cell is not None
            ]
    if faults:
        raise BadInput(*faults[:MOST_FAULTS])
    return columns


def _number(value: Any) -> float | None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
