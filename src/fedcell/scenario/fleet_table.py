"""Real clients from headings and cells: units by the suffix of a heading, blanks, labels."""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.core.showing import client_title
from fedcell.core.types import Array

from .arrays import NUMBERS, ClientTable
from .catalogue.entries import Catalogue, expand_columns

MAX_FAULTS = 20  # reported of a table of clients
MAX_LABEL_SIMILARITY = 0.85  # of a label's heading to a column's; above it is a typo
COLUMNS = ("name", *NUMBERS, "levels")
LEVELS = {"levels": 1.0, "levels_hz": 1.0, "levels_mhz": 1e6, "levels_ghz": 1e9}  # to cycle/s

Convert = Callable[[Array], Array]  # from given values to SI


def _times(factor: float) -> Convert:
    return lambda x: x * factor


def _from_decibels(x: Array) -> Array:
    return np.asarray(10.0 ** (x / 10))


# Suffix: the quantities that may have it, and the conversion to SI. A power per hertz is a density,
# p_j^0. A power without it is that over the whole band, p_j^0 B, and is stored as such: the band
# may change.
FREQUENCY, LENGTH, GAIN = ("freq_min", "freq_max"), ("distance",), ("gain",)
POWER, ENERGY, SHARE = ("power",), ("battery", "tail_energy"), ("loss_rate", "efficiency")
DRAWN = ("circuit_power", "receive_power", "idle_power", "busy_power", "sleep_power")
WATTS, SECONDS, CYCLE = ("power", "power_max", *DRAWN), ("memory_time",), ("energy_per_cycle",)
RATE = ("rate",)
UNITS: Mapping[str, tuple[Sequence[str], Convert]] = {
    "hz": (FREQUENCY, _times(1.0)),
    "mhz": (FREQUENCY, _times(1e6)),
    "ghz": (FREQUENCY, _times(1e9)),
    "m": (LENGTH, _times(1.0)),
    "km": (LENGTH, _times(1e3)),
    "db": (GAIN, _from_decibels),
    "w_per_hz": (POWER, _times(1.0)),
    "dbm_per_hz": (POWER, lambda x: 1e-3 * _from_decibels(x)),
    "w": (WATTS, _times(1.0)),
    "mw": (WATTS, _times(1e-3)),
    "dbm": (("power", "power_max"), lambda x: 1e-3 * _from_decibels(x)),
    "s": (SECONDS, _times(1.0)),
    "ms": (SECONDS, _times(1e-3)),
    "us": (SECONDS, _times(1e-6)),
    "j": ((*ENERGY, *CYCLE), _times(1.0)),
    "nj": (CYCLE, _times(1e-9)),
    "pj": (CYCLE, _times(1e-12)),
    "mj": (("tail_energy",), _times(1e-3)),
    "kj": (ENERGY, _times(1e3)),
    "wh": (ENERGY, _times(3600.0)),
    "percent": (SHARE, _times(0.01)),
    "kbps": (RATE, _times(1e3)),
    "mbps": (RATE, _times(1e6)),
}
OVER_THE_BAND = ("w", "mw", "dbm")  # suffixes of powers in the column power_w
QUANTITIES = tuple(column for column in NUMBERS if column != "power_w")


def client_table(
    columns: Mapping[str, Sequence[Any]], catalogue: Catalogue | None = None
) -> ClientTable:
    """Return clients from columns by heading, as `Clients(table=...)` accepts them.

    Parameters
    ----------
    columns : mapping of str to sequence
        Numbers, None where a cell is blank, or texts. A quantity may have columns in several
        units; each client then has a value in one of them. `device` and `radio` name entries of
        the catalogue, which fill cells that are blank.
    catalogue : Catalogue, optional
        Devices and radios by name; default: those of fedcell.

    Returns
    -------
    ClientTable
        The clients in SI units.

    Examples
    --------
    >>> table = client_table({"freq_max_ghz": [2.0, None], "site": ["roof", "cellar"]})
    >>> table.freq_max.tolist(), table.labels
    ([2000000000.0, nan], {'site': ('roof', 'cellar')})
    """
    faults: list[str] = []
    merged: dict[str, Any] = {}
    labels: dict[str, tuple[Any, ...]] = {}
    headings: dict[str, list[str]] = {}  # of each quantity
    for heading, cells in columns.items():
        try:
            if heading in LEVELS:
                if "levels" in merged:
                    raise BadInput(f"clients.table: {heading!r}: levels stand twice")
                merged["levels"] = _levels(heading, cells)
                continue
            named = _column_of(heading)
            if named is None:
                labels[heading] = _label(heading, cells)
                continue
            column, unit = named
            beside = headings.setdefault("power" if column == "power_w" else column, [])
            for other in beside:
                _check_apart(columns, other, heading)
            beside.append(heading)
            values = _in_si(heading, unit, cells) if unit else cells
            merged[column] = _merge(merged[column], values) if column in merged else values
        except BadInput as error:
            faults += error.faults
    try:
        of_catalogue = expand_columns(columns, (*NUMBERS, "levels"), catalogue or Catalogue.load())
    except BadInput as error:
        faults += (f"clients.table: {fault}" for fault in error.faults)
    if faults:
        raise BadInput(*faults[:MAX_FAULTS])
    for column, cells in of_catalogue.items():
        merged[column] = _filled(merged[column], cells) if column in merged else cells
    return ClientTable(**merged, labels=labels)


def holds_numbers(heading: str) -> bool:
    """Return whether a heading names a column of numbers, in some unit."""
    named = None if heading in LEVELS else _column_of(heading)
    return named is not None and named[0] != "name"


def _check_apart(columns: Mapping[str, Sequence[Any]], one: str, other: str) -> None:
    """Refuse two headings of one quantity if a client has both."""
    if len(columns[one]) != len(columns[other]):
        raise BadInput(f"clients.table: {one!r} and {other!r} have different lengths")
    names = columns.get("name", ())
    for j, cells in enumerate(zip(columns[one], columns[other], strict=True)):
        if None not in cells:
            client = client_title(j, names[j] if j < len(names) else None)
            raise BadInput(
                f"clients.table: {client} has both {one!r} and {other!r}: give one of them"
            )


def _merge(cells: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return two columns of one quantity as one; each client has at most one of them."""
    pairs = zip(cells, others, strict=True)
    return [other if cell is None else cell for cell, other in pairs]


def _filled(cells: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return a column whose blank cells are those of another one."""
    return [
        other if cell is None or cell != cell else cell
        for cell, other in zip(cells, others, strict=True)
    ]


def _column_of(heading: Any) -> tuple[str, str] | None:
    """Return the column and the unit that a heading names; None if it names no column."""
    if not isinstance(heading, str) or not heading.strip():
        raise BadInput("clients.table: a column has no name: give it one, or take it out")
    if heading in COLUMNS:
        return heading, ""
    longest_first = sorted(QUANTITIES, key=len, reverse=True)
    column = next((c for c in longest_first if heading.startswith(f"{c}_")), None)
    unit = heading[len(column) + 1 :].lower() if column else ""
    if column is None or unit not in UNITS:
        return None
    if column not in UNITS[unit][0]:
        ways = [column, *(f"{column}_{u}" for u, (of, _) in UNITS.items() if column in of)]
        raise BadInput(
            f"clients.table: {heading!r}: {column} has no such unit; known: {', '.join(ways)}"
        )
    over_the_band = column == "power" and unit in OVER_THE_BAND
    return ("power_w" if over_the_band else column), unit


def _levels(heading: str, cells: Sequence[Any]) -> list[tuple[float, ...] | None]:
    """Return clocks [cycle/s] from lists, or texts such as "0.6 1.0 1.5"; None where blank."""
    found: list[tuple[float, ...] | None] = []
    for cell in cells:
        if cell is None or cell == "":
            found.append(None)
            continue
        several = cell.replace(";", " ").split() if isinstance(cell, str) else cell
        several = [several] if isinstance(several, int | float) else several
        try:
            found.append(tuple(LEVELS[heading] * float(level) for level in several))
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"clients.table: {heading} = {cell!r}: expected clocks with blanks in between, "
                'such as "0.6 1.0 1.5"'
            ) from error
    return found


def _label(heading: str, cells: Sequence[Any]) -> tuple[str, ...]:
    """Return a label column of texts; refuse a misspelt known heading, or a column of numbers."""
    given = [cell for cell in cells if cell is not None]
    known = [*COLUMNS, *LEVELS, *(f"{c}_{unit}" for unit, (of, _) in UNITS.items() for c in of)]
    similarity = max(SequenceMatcher(None, heading.lower(), name).ratio() for name in known)
    if any(isinstance(cell, str) for cell in given) and similarity < MAX_LABEL_SIMILARITY:
        return tuple("" if cell is None else str(cell) for cell in cells)
    close = suggestion(heading, known)
    ways = close if close.startswith("did") else f"known: {', '.join(COLUMNS)}"
    raise BadInput(f"clients.table: {heading!r} is not a column; {ways}")


def _in_si(heading: str, unit: str, cells: Sequence[Any]) -> list[float | None]:
    """Return cells in a unit as SI values, None where they are blank."""
    convert = UNITS[unit][1]
    try:
        values = np.array([np.nan if cell is None else cell for cell in cells], float)
    except (ValueError, TypeError) as error:
        raise BadInput(f"clients.table: {heading!r} is not a column of numbers: {error}") from error
    with np.errstate(all="ignore"):  # ClientTable refuses values out of range
        si = convert(values).tolist()
    return [None if cell is None else x for cell, x in zip(cells, si, strict=True)]
