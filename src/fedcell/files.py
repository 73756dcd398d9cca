"""Files in, files out: scenarios, single rounds, client tables, channel gains."""

import csv
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BadInput
from .scenario import ClientTable, Gains, Scenario
from .strict import decode

SHIPPED = ("paper", "cnn")


def shipped(name: str) -> str:
    """The text of a scenario that comes with the package."""
    if name not in SHIPPED:
        raise BadInput(f"{name} is not a shipped scenario: choose {' or '.join(SHIPPED)}")
    return (resources.files("fedcell") / "scenarios" / f"{name}.toml").read_text("utf-8")


def load_scenario(source: str | Path) -> Scenario:
    """A scenario from a TOML or JSON file, or a shipped one by its name."""
    path = Path(source)
    if str(source) in SHIPPED and not path.exists():
        return decode(Scenario, tomllib.loads(shipped(str(source))))
    given = read_tables(path)
    with naming(path):
        return decode(Scenario, _with_arrays(given, path.parent))


def read_tables(path: Path) -> dict[str, Any]:
    """The plain content of a TOML or JSON file."""
    text = _read(path)
    try:
        if path.suffix.lower() == ".json":
            content = json.loads(text, object_pairs_hook=_no_twins)
        else:
            content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise BadInput(f"{path}: the syntax is wrong: {error}") from error
    except RecursionError as error:
        raise BadInput(f"{path}: nested too deeply") from error
    except (ValueError, OverflowError) as error:  # a number or a date that Python cannot hold
        raise BadInput(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path}: expected tables with keys, not a {type(content).__name__}")
    return content


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` with a temporary path beside `path` and renames the result into place."""
    try:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
        )
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from error
    os.close(handle)
    try:
        write(Path(name))
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the name of the file before each fault that is found in it."""
    try:
        yield
    except BadInput as error:
        raise BadInput(*(f"{path}: {fault}" for fault in error.faults)) from error


def _with_arrays(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`given` with the files that it names read: cell.gains and clients.table."""
    given = {
        name: dict(table) if isinstance(table, dict) else table for name, table in given.items()
    }
    cell, clients, faults = given.get("cell"), given.get("clients"), list[str]()
    if isinstance(cell, dict) and "gains" in cell:
        cell["gains"] = _gather(faults, lambda: _gains(cell["gains"], folder))
    if isinstance(clients, dict) and "table" in clients:
        clients["table"] = _gather(faults, lambda: _table(clients["table"], folder))
    if faults:
        raise BadInput(*faults)
    return given


def _gains(named: Any, folder: Path) -> Gains:
    if not isinstance(named, str):
        raise BadInput("cell.gains: expected the path of a .npy or .csv file")
    path = folder / named
    try:
        if path.suffix == ".npy":
            values = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            values = np.loadtxt(path, delimiter=",", ndmin=2)
        return Gains(values)
    except OSError as error:
        raise BadInput(f"cell.gains: {path} cannot be read: {error.strerror or error}") from error
    except BadInput:
        raise
    except (ValueError, TypeError) as error:
        raise BadInput(f"cell.gains: {path} is not a table of numbers: {error}") from error


def _table(given: Any, folder: Path) -> ClientTable:
    if isinstance(given, str):
        rows = list(csv.reader(_read(folder / given).splitlines(), skipinitialspace=True))
        if len(rows) < 2:
            raise BadInput(
                f"clients.table: {given} needs a line of column names and one per client"
            )
        names, rows = [name.strip() for name in rows[0]], [row for row in rows[1:] if row]
        where = [f"clients.table: {given} line {i}" for i in range(2, len(rows) + 2)]
    elif isinstance(given, list) and given and all(isinstance(row, dict) for row in given):
        names = list(given[0])
        where = [f"clients.table[{i}]" for i in range(len(given))]
        for place, row in zip(where, given, strict=True):
            if set(row) != set(names):
                raise BadInput(f"{place} has other keys than the first client: {', '.join(row)}")
        rows = [[row[name] for name in names] for row in given]
    else:
        raise BadInput("clients.table: expected the path of a .csv file or a list of tables")
    known = ClientTable.__dataclass_fields__
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"clients.table: {unknown[0]!r} is not a column; known: {', '.join(known)}")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for place, row in zip(where, rows, strict=True):
        if len(row) != len(names):
            raise BadInput(f"{place} has {len(row)} values for {len(names)} columns")
        for name, value in zip(names, row, strict=True):
            try:
                columns[name].append(_number(value))
            except (ValueError, OverflowError) as error:
                raise BadInput(f"{place}: {name} = {value!r}: expected a number") from error
    return ClientTable(**{name: np.array(values) for name, values in columns.items()})


def _number(value: Any) -> float:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError
    return float(value)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key stands twice in one table")
    return table


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not a text file in UTF-8") from error
    except ValueError as error:  # a null byte in the path
        raise BadInput(f"{path!r}: is not a path: {error}") from error


def _gather(faults: list[str], read: Callable[[], Any]) -> Any:
    try:
        return read()
    except BadInput as error:
        faults += error.faults
        return None
