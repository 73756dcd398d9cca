"""Real clients from headings and cells: units by the ending of a heading, blank cells, labels."""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.core.types import Array

from .arrays import NUMBERS, ClientTable

MOST_FAULTS = 20  # of a table of clients; more would hide the first
MISSPELT = 0.85  # a heading of texts that is so like a column's is not taken for a label's
COLUMNS = ("name", *NUMBERS)

Convert = Callable[[Array, float], Array]  # values as given and the band B [Hz], to SI


def _times(factor: float) -> Convert:
    return lambda x, _: x * factor


def _from_decibels(x: Array) -> Array:
    return np.asarray(10.0 ** (x / 10))


# Ending: the columns that may have it, and how it comes to SI. Power is a density here, p_j^0
# [W/Hz]; a power without "per hertz" is what the device sends with when it has the whole band:
# p_j^0 B, as p_j = p_j^0 a_j B at a_j = 1.
FREQUENCY, LENGTH, GAIN = ("freq_min", "freq_max"), ("distance",), ("gain",)
POWER, ENERGY, SHARE = ("power",), ("battery",), ("loss_rate",)
UNITS: Mapping[str, tuple[Sequence[str], Convert]] = {
    "hz": (FREQUENCY, _times(1.0)),
    "mhz": (FREQUENCY, _times(1e6)),
    "ghz": (FREQUENCY, _times(1e9)),
    "m": (LENGTH, _times(1.0)),
    "km": (LENGTH, _times(1e3)),
    "db": (GAIN, lambda x, _: _from_decibels(x)),
    "w_per_hz": (POWER, _times(1.0)),
    "dbm_per_hz": (POWER, lambda x, _: 1e-3 * _from_decibels(x)),
    "w": (POWER, lambda x, band: x / band),
    "mw": (POWER, lambda x, band: 1e-3 * x / band),
    "dbm": (POWER, lambda x, band: 1e-3 * _from_decibels(x) / band),
    "j": (ENERGY, _times(1.0)),
    "kj": (ENERGY, _times(1e3)),
    "wh": (ENERGY, _times(3600.0)),
    "percent": (SHARE, _times(0.01)),
}
OF_THE_BAND = ("w", "mw", "dbm")


def client_table(
    columns: Mapping[str, Sequence[Any]], bandwidth: float | None = None
) -> ClientTable:
    """Clients from columns by heading, as `Clients(table=...)` takes them: numbers, None where a
    cell is blank, and texts. `bandwidth` [Hz] is that of the cell, for powers of the whole band.

    >>> table = client_table({"freq_max_ghz": [2.0, None], "site": ["roof", "cellar"]})
    >>> table.freq_max.tolist(), table.labels
    ([2000000000.0, nan], {'site': ('roof', 'cellar')})
    """
    faults: list[str] = []
    found: dict[str, Any] = {}
    labels: dict[str, tuple[Any, ...]] = {}
    heading_of: dict[str, str] = {}
    for heading, cells in columns.items():
        try:
            named = _column_of(heading)
            if named is None:
                labels[heading] = _label(heading, cells)
                continue
            column, unit = named
            if column in heading_of:
                both = f"{heading_of[column]!r} and {heading!r}"
                raise BadInput(f"clients.table: {both} are one column: give one of them")
            heading_of[column] = heading
            found[column] = _in_si(heading, unit, cells, bandwidth) if unit else cells
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(*faults[:MOST_FAULTS])
    return ClientTable(**found, labels=labels)


def holds_numbers(heading: str) -> bool:
    """Whether a heading names a column of numbers, in some unit."""
    named = _column_of(heading)
    return named is not None and named[0] != "name"


def _column_of(heading: Any) -> tuple[str, str] | None:
    """The column and the unit that a heading names; None where it names no column."""
    if not isinstance(heading, str) or not heading.strip():
        raise BadInput("clients.table: a column has no name: give it one, or take it out")
    if heading in COLUMNS:
        return heading, ""
    longest_first = sorted(NUMBERS, key=len, reverse=True)
    column = next((c for c in longest_first if heading.startswith(f"{c}_")), None)
    unit = heading[len(column) + 1 :].lower() if column else ""
    if column is None or unit not in UNITS:
        return None
    if column not in UNITS[unit][0]:
        ways = [column, *(f"{column}_{u}" for u, (of, _) in UNITS.items() if column in of)]
        raise BadInput(
            f"clients.table: {heading!r}: {column} has no such unit; known: {', '.join(ways)}"
        )
    return column, unit


def _label(heading: str, cells: Sequence[Any]) -> tuple[str, ...]:
    """A column of texts that is not one of ours; a misspelt one, or one of numbers, is refused."""
    given = [cell for cell in cells if cell is not None]
    known = [*COLUMNS, *(f"{c}_{unit}" for unit, (of, _) in UNITS.items() for c in of)]
    likeness = max(SequenceMatcher(None, heading.lower(), name).ratio() for name in known)
    if any(isinstance(cell, str) for cell in given) and likeness < MISSPELT:
        return tuple("" if cell is None else str(cell) for cell in cells)
    close = suggestion(heading, known)
    ways = close if close.startswith("did") else f"known: {', '.join(COLUMNS)}"
    raise BadInput(f"clients.table: {heading!r} is not a column; {ways}")


def _in_si(
    heading: str, unit: str, cells: Sequence[Any], bandwidth: float | None
) -> list[float | None]:
    """Cells in a unit as SI values, None where they are blank."""
    if unit in OF_THE_BAND and bandwidth is None:
        raise BadInput(
            f"clients.table: {heading!r} is of the whole band, which is not known here: give power "
            "in W/Hz, or take client_table(columns, bandwidth)"
        )
    convert = UNITS[unit][1]
    try:
        values = np.array([np.nan if cell is None else cell for cell in cells], float)
    except (ValueError, TypeError) as error:
        raise BadInput(f"clients.table: {heading!r} is not a column of numbers: {error}") from error
    with np.errstate(all="ignore"):  # ClientTable refuses what is out of range
        si = convert(values, bandwidth or np.nan).tolist()
    return [None if cell is None else x for cell, x in zip(cells, si, strict=True)]
