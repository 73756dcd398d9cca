"""Real clients from headings and cells: units by the ending of a heading, blank cells, labels."""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.core.showing import client_title
from fedcell.core.types import Array

from .arrays import NUMBERS, ClientTable

MAX_FAULTS = 20  # of a table of clients; more would hide the first
MAX_LABEL_SIMILARITY = (
    0.85  # a heading of texts that is so like a column's is not taken for a label's
)
COLUMNS = ("name", *NUMBERS)

Convert = Callable[[Array], Array]  # values as given, to SI


def _times(factor: float) -> Convert:
    return lambda x: x * factor


def _from_decibels(x: Array) -> Array:
    return np.asarray(10.0 ** (x / 10))


# Ending: the quantities that may have it, and how it comes to SI. A power per hertz is a density,
# p_j^0; one without is what the device sends with when it has the whole band, p_j^0 B, and is kept
# as such: the band may change.
FREQUENCY, LENGTH, GAIN = ("freq_min", "freq_max"), ("distance",), ("gain",)
POWER, ENERGY, SHARE = ("power",), ("battery",), ("loss_rate",)
UNITS: Mapping[str, tuple[Sequence[str], Convert]] = {
    "hz": (FREQUENCY, _times(1.0)),
    "mhz": (FREQUENCY, _times(1e6)),
    "ghz": (FREQUENCY, _times(1e9)),
    "m": (LENGTH, _times(1.0)),
    "km": (LENGTH, _times(1e3)),
    "db": (GAIN, _from_decibels),
    "w_per_hz": (POWER, _times(1.0)),
    "dbm_per_hz": (POWER, lambda x: 1e-3 * _from_decibels(x)),
    "w": (POWER, _times(1.0)),
    "mw": (POWER, _times(1e-3)),
    "dbm": (POWER, lambda x: 1e-3 * _from_decibels(x)),
    "j": (ENERGY, _times(1.0)),
    "kj": (ENERGY, _times(1e3)),
    "wh": (ENERGY, _times(3600.0)),
    "percent": (SHARE, _times(0.01)),
}
OVER_THE_BAND = ("w", "mw", "dbm")  # endings of powers that stand in the column power_w
QUANTITIES = tuple(column for column in NUMBERS if column != "power_w")


def client_table(columns: Mapping[str, Sequence[Any]]) -> ClientTable:
    """Clients from columns by heading, as `Clients(table=...)` takes them: numbers, None where a
    cell is blank, and texts. A quantity may stand in several units, each client having one.

    >>> table = client_table({"freq_max_ghz": [2.0, None], "site": ["roof", "cellar"]})
    >>> table.freq_max.tolist(), table.labels
    ([2000000000.0, nan], {'site': ('roof', 'cellar')})
    """
    faults: list[str] = []
    found: dict[str, Any] = {}
    labels: dict[str, tuple[Any, ...]] = {}
    headings: dict[str, list[str]] = {}  # of each quantity
    for heading, cells in columns.items():
        try:
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
            found[column] = _merged(found[column], values) if column in found else values
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(*faults[:MAX_FAULTS])
    return ClientTable(**found, labels=labels)


def holds_numbers(heading: str) -> bool:
    """Whether a heading names a column of numbers, in some unit."""
    named = _column_of(heading)
    return named is not None and named[0] != "name"


def _check_apart(columns: Mapping[str, Sequence[Any]], one: str, other: str) -> None:
    """Refuses two headings of one quantity where a client has both."""
    if len(columns[one]) != len(columns[other]):
        raise BadInput(f"clients.table: {one!r} and {other!r} have different lengths")
    names = columns.get("name", ())
    for j, cells in enumerate(zip(columns[one], columns[other], strict=True)):
        if None not in cells:
            who = client_title(j, names[j] if j < len(names) else None)
            raise BadInput(f"clients.table: {who} has both {one!r} and {other!r}: give one of them")


def _merged(cells: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Two columns of one quantity as one: each client has at most one of them."""
    pairs = zip(cells, others, strict=True)
    return [other if cell is None else cell for cell, other in pairs]


def _column_of(heading: Any) -> tuple[str, str] | None:
    """The column and the unit that a heading names; None where it names no column."""
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
    return ("power_w" if unit in OVER_THE_BAND else column), unit


def _label(heading: str, cells: Sequence[Any]) -> tuple[str, ...]:
    """A column of texts that is not one of ours; a misspelt one, or one of numbers, is refused."""
    given = [cell for cell in cells if cell is not None]
    known = [*COLUMNS, *(f"{c}_{unit}" for unit, (of, _) in UNITS.items() for c in of)]
    likeness = max(SequenceMatcher(None, heading.lower(), name).ratio() for name in known)
    if any(isinstance(cell, str) for cell in given) and likeness < MAX_LABEL_SIMILARITY:
        return tuple("" if cell is None else str(cell) for cell in cells)
    close = suggestion(heading, known)
    ways = close if close.startswith("did") else f"known: {', '.join(COLUMNS)}"
    raise BadInput(f"clients.table: {heading!r} is not a column; {ways}")


def _in_si(heading: str, unit: str, cells: Sequence[Any]) -> list[float | None]:
    """Cells in a unit as SI values, None where they are blank."""
    convert = UNITS[unit][1]
    try:
        values = np.array([np.nan if cell is None else cell for cell in cells], float)
    except (ValueError, TypeError) as error:
        raise BadInput(f"clients.table: {heading!r} is not a column of numbers: {error}") from error
    with np.errstate(all="ignore"):  # ClientTable refuses what is out of range
        si = convert(values).tolist()
    return [None if cell is None else x for cell, x in zip(cells, si, strict=True)]
