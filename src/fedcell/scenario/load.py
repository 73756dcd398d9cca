"""Files in, files out: scenarios with the client tables and channel gains that they name."""

import csv
import json
import math
import os
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import decode

from .arrays import ClientTable, Gains
from .tables import Scenario

SHIPPED = ("paper", "cnn", "digits", "mnist")
MOST_FAULTS = 20  # of a table of clients; more would hide the first


def shipped(name: str) -> str:
    """The text of a scenario that comes with the package."""
    if name not in SHIPPED:
        raise BadInput(f"{name} is not a shipped scenario: choose {' or '.join(SHIPPED)}")
    return (resources.files("fedcell.scenario") / "shipped" / f"{name}.toml").read_text("utf-8")


def shipped_scenario(name: str) -> Scenario:
    """A scenario that comes with the package."""
    return decode(Scenario, tomllib.loads(shipped(name)))


def load_scenario(source: str | Path) -> Scenario:
    """A scenario from a TOML or JSON file, or a shipped one by its name."""
    path = Path(source)
    if str(source) in SHIPPED and not path.is_file():
        return shipped_scenario(str(source))
    if not path.exists() and path.suffix == "":
        raise BadInput(f"{source} is no file and not a shipped scenario: {', '.join(SHIPPED)}")
    given = read_tables(path)
    if "bandwidth" in given:
        raise BadInput(f"{path}: is a single round, not a scenario: try fedcell schedule")
    with naming(path):
        return scenario_of(given, path.parent)


def scenario_of(given: dict[str, Any], folder: Path) -> Scenario:
    """A scenario from plain tables; the files that they name are seen from `folder`."""
    faults: list[str] = []
    return decode(Scenario, _with_arrays(given, folder, faults), faults)


def as_json(value: Any) -> str:
    """Plain values as JSON that every reader takes: what is not finite becomes null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_tables(path: Path) -> dict[str, Any]:
    """The plain content of a TOML or JSON file."""
    text = _read(path)
    try:
        if is_json := path.suffix.lower() == ".json" or text.lstrip().startswith("{"):
            content = json.loads(text, object_pairs_hook=_no_twins)
        else:
            content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        kind = "JSON" if is_json else "TOML"
        raise BadInput(f"{path}: the syntax is wrong, read as {kind}: {error}") from error
    except RecursionError as error:
        raise BadInput(f"{path}: nested too deeply") from error
    except (ValueError, OverflowError) as error:  # a number or a date that Python cannot hold
        raise BadInput(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path}: expected tables with keys, not a {type(content).__name__}")
    return content


def check_target(path: Path, endings: Iterable[str]) -> Path:
    """Where a file is to be written, links followed; refused if that cannot be."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise BadInput(f"{path}: cannot be written: {error}") from error
    if target.suffix.lower().lstrip(".") not in endings:
        raise BadInput(f"{path}: the name must end in one of: {', '.join(endings)}")
    if target.exists() and not target.is_file():
        raise BadInput(f"{path}: cannot be written: there is something that is not a file")
    if not target.parent.is_dir():
        raise BadInput(f"{path}: cannot be written: there is no folder {target.parent}")
    return target


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` with a temporary path beside `path` and renames the result into place."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as folder:
            temporary = Path(folder) / path.name
            write(temporary)
            os.replace(temporary, path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""

    def write(aside: Path) -> None:
        aside.write_text(text, "utf-8")

    write_atomically(path, write)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the name of the file before each fault that is found in it."""
    try:
        yield
    except BadInput as error:
        raise BadInput(*(f"{path}: {fault}" for fault in error.faults)) from error


def _with_arrays(given: dict[str, Any], folder: Path, faults: list[str]) -> dict[str, Any]:
    """`given` with the files that it names read: cell.gains and clients.table."""
    readers = {("cell", "gains"): _gains, ("clients", "table"): _table}
    given = {name: dict(t) if isinstance(t, dict) else t for name, t in given.items()}
    learning = given.get("learning")
    if isinstance(learning, dict) and str(learning.get("dataset", "")).lower().endswith(".npz"):
        learning["dataset"] = str(folder / learning["dataset"])  # as seen from the file
    for (table, key), read in readers.items():
        inside = given.get(table)
        if isinstance(inside, dict) and inside.get(key) is not None:
            try:
                inside[key] = read(inside[key], folder)
                if key == "table" and inside.get("count", inside[key].count) != inside[key].count:
                    raise BadInput("clients.count differs from clients.table: leave count out")
            except BadInput as error:
                faults += error.faults
                del inside[key]
    return given


def _gains(named: Any, folder: Path) -> Gains:
    if not isinstance(named, str):
        raise BadInput("cell.gains: expected the path of a .npy or .csv file")
    path = folder / named
    try:
        if path.suffix.lower() == ".npy":
            values = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with warnings.catch_warnings(action="ignore"):  # an empty file: its shape tells
                values = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"cell.gains: {path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy parses headers with much that can fail
        said = "" if path.suffix.lower() == ".npy" else f": {error}"
        raise BadInput(f"cell.gains: {path} is not a table of numbers{said}") from error
    return Gains(values)


def _table(given: Any, folder: Path) -> ClientTable:
    """Real clients, from the path of a CSV or from the rows themselves."""
    if isinstance(given, str):
        reader = csv.reader(_read(folder / given).splitlines(), skipinitialspace=True)
        place = f"clients.table: {given} line"
        try:
            lines = [(f"{place} {reader.line_num}", row) for row in reader if row]
        except csv.Error as error:
            raise BadInput(f"{place} {reader.line_num}: {error}") from error
        if len(lines) < 2:
            raise BadInput(
                f"clients.table: {given} needs a line of column names and one per client"
            )
        names, rows = [name.strip() for name in lines[0][1]], lines[1:]
    elif isinstance(given, list) and given and all(isinstance(row, dict) for row in given):
        names = list(given[0])
        other = [i for i, row in enumerate(given) if set(row) != set(names)]
        if other:
            raise BadInput(f"clients.table[{other[0]}] has other keys than the first client")
        rows = [(f"clients.table[{i}]", [row[n] for n in names]) for i, row in enumerate(given)]
    else:
        raise BadInput("clients.table: expected the path of a .csv file or a list of tables")
    known = ClientTable.__dataclass_fields__
    faults = [f"clients.table: {name!r} stands twice" for name in known if names.count(name) > 1]
    for place, row in rows:
        if len(row) != len(names):
            faults.append(f"{place} has {len(row)} values for {len(names)} columns")
            continue
        faults += [
            f"{place}: {name} = {value!r}: expected a number"
            for name, value in zip(names, row, strict=True)
            if _number(value) is None
        ]
    if faults:
        raise BadInput(*faults[:MOST_FAULTS])
    columns = zip(*(map(_number, row) for _, row in rows), strict=True)
    return ClientTable.of({name: np.array(c) for name, c in zip(names, columns, strict=True)})


def _number(value: Any) -> float | None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key stands twice in one table")
    return table


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not a text file in UTF-8") from error
    except ValueError as error:  # a null byte in the path
        raise BadInput(f"{path!r}: is not a path: {error}") from error
