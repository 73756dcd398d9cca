"""Strict tables: every wrong key and value is reported at once, from a file or from Python.

msgspec knows the types and ranges and converts one value at a time. This module collects all
faults, suggests a name for a misspelt key, and refuses infinite numbers and NaN. The meaning of a
field is data: `help`, commented files, the reference page and errors read it from its `Doc`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Meta

from .errors import BadInput

MIN_SIMILARITY = 0.75  # of a suggestion, from 0 to 1: typing errors have it, other words do not
# Characters: in a name this short one wrong letter weighs more, and is seldom the first.
SHORT_NAME, MIN_SIMILARITY_SHORT = 5, 0.65
MIN_PART = 3  # characters of a name that stands for the one known name that contains it
LARGE, SMALL = 1e60, 1e-60  # numbers beyond these could overflow when multiplied

fields_of = cache(msgspec.structs.fields)  # slow: read from annotations

Positive = Annotated[
    float, Meta(ge=SMALL, le=LARGE, description="a number above 0 (1e-60 to 1e60)")
]
NotNegative = Annotated[float, Meta(ge=0, le=LARGE, description="a number from 0 to 1e60")]
Gain = Annotated[
    float, Meta(ge=SMALL, le=1, description="a gain above 0 and up to 1 (linear, not dB)")
]
Fraction = Annotated[float, Meta(ge=0, lt=1, description="a number from 0 to below 1")]
Text = Annotated[str, Meta(min_length=1, description="text")]
Whole = Annotated[int, Meta(ge=0, le=10**7, description="a whole number from 0 to 1e7")]
Count = Annotated[int, Meta(ge=1, le=10**7, description="a whole number from 1 to 1e7")]


@dataclass(frozen=True)
class Doc:
    """The meaning of a field in words, with the paper's symbol and the SI unit if it has them."""

    text: str
    symbol: str = ""
    unit: str = ""
    open: bool = False  # the paper leaves its value open
    example: str = ""  # a line for a commented file, where the field is left out by default

    def __str__(self) -> str:
        words = f"{self.symbol}, {self.text}" if self.symbol else self.text
        return f"{words} [{self.unit}]" if self.unit else words

    def __repr__(self) -> str:  # short: `help` shows it in signatures
        return f"{self.symbol} [{self.unit}]" if self.unit else self.symbol or "Doc"


@dataclass(frozen=True)
class FieldInfo:
    """A field of a table, as help, files and pages show it."""

    name: str
    doc: Doc
    expected: str  # what it takes, in words
    default: Any
    required: bool
    is_table: bool  # a nested table, or a list of them


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen table of settings that refuses values out of range."""

    table_name: ClassVar[str] = ""  # how messages call it

    def prepare(self) -> None:
        """Convert values that may be given in several forms, before the fields are checked."""

    def faults(self) -> list[str]:
        """Return what is wrong between valid fields; each sentence names its own field first."""
        return []

    def __post_init__(self) -> None:
        self.prepare()
        if faults := _check_fields(self, self.__struct_fields__):
            raise BadInput(*faults)


T = TypeVar("T", bound=Table)


def documented(kind: type[T]) -> type[T]:
    """Add the meaning of each field to the docstring of a table, for `help`."""
    lines = [
        f"{f.name}: {f.doc}" if f.is_table else f"{f.name} = {f.default!r}: {f.doc}"
        for f in field_infos(kind)
    ]
    kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n\n    " + "\n    ".join(lines) + "\n    "
    return kind


def field_infos(kind: type[Table]) -> Iterator[FieldInfo]:
    """Yield the fields of a table that have a description, in order."""
    for field in fields_of(kind):
        plain, doc = _without_doc(field.type)
        if doc is not None:
            default = None if field.required else field.default
            inner = _holds_tables(field.type) and _row_of(plain) is None
            yield FieldInfo(field.name, doc, _expected(plain), default, field.required, inner)


def decode(kind: type[T], given: Mapping[str, Any], faults: Sequence[str] = ()) -> T:
    """Return a table from plain dicts and lists; raise BadInput with all `faults`, old and new."""
    collected = list(faults)
    table: T = _read_table(kind, given, kind.table_name, collected, sound=not faults)
    if collected:
        raise BadInput(*collected)
    return table


def replace_fields(table: T, values: Mapping[str, Any], faults: Sequence[str] = ()) -> T:
    """Return a copy of a table with other values, of which only these are read and checked.

    Parameters
    ----------
    table : Table
        The table to copy; all its values are valid.
    values : mapping
        New values by field, as plain values, dicts and lists, or as tables.
    faults : sequence of str
        Faults that are known already. With any of them, checks between fields are left out.

    Returns
    -------
    Table
        The copy. Fields that are not in `values` are the same objects as before.

    Raises
    ------
    BadInput
        With every fault: unknown keys, bad values, and what is wrong between fields.
    """
    known = type(table).__struct_fields__
    collected = [*faults, *_unknown_keys(values, known, table.table_name)]
    changed = [name for name in known if name in values]
    replaced = copy(table)  # does not call __post_init__, which would read every field
    for name in changed:
        msgspec.structs.force_setattr(replaced, name, values[name])
    if not collected:
        replaced.prepare()
    collected += _check_fields(replaced, changed, between=not collected)
    if collected:
        raise BadInput(*collected)
    return replaced


def _check_fields(table: Table, names: Iterable[str], between: bool = True) -> list[str]:
    """Read the named fields of a table in place; return their faults, or those between fields."""
    faults: list[str] = []
    types = {field.name: field.type for field in fields_of(type(table))}
    for name in names:
        value = _read(types[name], getattr(table, name), _join(table.table_name, name), faults)
        msgspec.structs.force_setattr(table, name, value)
    if faults or not between:
        return faults
    return [_join(table.table_name, fault) for fault in table.faults()]


def _unknown_keys(given: Mapping[Any, Any], known: Iterable[str], path: str) -> list[str]:
    return [
        f"{_join(path, str(name))} is not a key; {suggestion(str(name), known, path)}"
        for name in given
        if name not in known
    ]


def _read(kind: Any, value: Any, path: str, faults: list[str]) -> Any:
    """Return `value` as a `kind`; append what is wrong with it to `faults`."""
    kind, doc = _without_doc(kind)
    if get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind):  # may be left out
        if value is None:
            return None
        (kind,) = (choice for choice in get_args(kind) if choice is not NoneType)
    if isinstance(kind, type) and issubclass(kind, Table):
        return value if isinstance(value, kind) else _read_table(kind, value, path, faults)
    if (row := _row_of(kind)) is not None:
        if not isinstance(value, list | tuple):
            faults.append(f"{path} = {_short(value)}: expected a list of tables")
            return None
        return tuple(_read(row, item, f"{path}[{i}]", faults) for i, item in enumerate(value))
    value = value.item() if isinstance(value, np.generic) else value
    try:
        converted = msgspec.convert(value, kind)
        if all(map(math.isfinite, _numbers(converted))):
            return converted
    except (msgspec.ValidationError, OverflowError):
        pass
    meaning = f"; it is {doc}" if doc else ""
    faults.append(f"{path} = {_short(value)}: expected {_expected(kind)}{meaning}")
    return None


def _read_table(kind: type[T], given: Any, path: str, faults: list[str], sound: bool = True) -> Any:
    """Return a table from a mapping. Nested tables are read first; the constructor reads the other
    values."""
    if not isinstance(given, Mapping):
        faults.append(f"{path or 'the file'} = {_short(given)}: expected a table")
        return None
    known = {field.name: field for field in fields_of(kind)}
    known_faults = len(faults)
    faults += _unknown_keys(given, known, path)
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name not in given:
            if field.required:
                expected = _expected(_without_doc(field.type)[0])
                faults.append(f"{_join(path, name)} is missing: expected {expected}")
        elif _holds_tables(field.type):
            values[name] = _read(field.type, given[name], _join(path, name), faults)
        else:
            values[name] = given[name]
    inside = len(faults) > known_faults
    try:
        if not inside and sound:
            return kind(**values)
        plain = {n: v for n, v in values.items() if not _holds_tables(known[n].type)}
        for name, value in plain.items():  # collect what else is wrong
            _read(known[name].type, value, _join(path, name), faults)
    except BadInput as error:
        inner = (fault.removeprefix(kind.table_name).removeprefix(".") for fault in error.faults)
        faults += (_join(path, fault) for fault in inner)
    return None


def _without_doc(kind: Any) -> tuple[Any, Doc | None]:
    """Return the type of a field without its description, and the description."""
    if get_origin(kind) is not Annotated:
        return kind, None
    base, *notes = get_args(kind)
    doc = next((note for note in notes if isinstance(note, Doc)), None)
    kept = [note for note in notes if not isinstance(note, Doc)]
    return (Annotated[base, *kept] if kept else base), doc


def _row_of(kind: Any) -> type[Table] | None:
    """Return the kind of table that a field holds a list of, if it does."""
    row = get_args(kind)[0] if get_origin(kind) is tuple else None
    return row if isinstance(row, type) and issubclass(row, Table) else None


def _holds_tables(kind: Any) -> bool:
    kind, _ = _without_doc(kind)
    inner = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return any(_row_of(k) or (isinstance(k, type) and issubclass(k, Table)) for k in inner)


def suggestion(name: str, known: Iterable[str], path: str = "") -> str:
    """Return the known name that was probably meant, or all known names where none is close.

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
        The names that could have been meant.
    path : str
        The table that holds the names, put before the suggestion.

    Returns
    -------
    str
        The end of a sentence: "did you mean ...?" or "known: ...".

    Examples
    --------
    >>> suggestion("bandwith", ["bandwidth", "noise"], "cell")
    'did you mean cell.bandwidth?'
    >>> suggestion("quantisation", ["partition", "rate"])
    'known: partition, rate'
    >>> suggestion("even", ["iid", "given"])
    'known: iid, given'
    """
    names = list(known)
    if len(name) > SHORT_NAME:
        close = get_close_matches(name, names, n=1, cutoff=MIN_SIMILARITY)
    else:
        alike = [other for other in names if other[:1] == name[:1]]
        close = get_close_matches(name, alike, n=1, cutoff=MIN_SIMILARITY_SHORT)
    if not close and len(name) >= MIN_PART:
        longer = [other for other in names if name in other]
        close = longer if len(longer) == 1 else []
    return f"did you mean {_join(path, close[0])}?" if close else f"known: {', '.join(names)}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _numbers(value: Any) -> list[float]:
    """Return the floats in a value; no range of msgspec refuses NaN or infinity."""
    if isinstance(value, tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, float) else []


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _expected(kind: Any) -> str:
    """Return in words what a field accepts."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_expected(k) for k in get_args(kind) if k is not NoneType)
    if get_origin(kind) is tuple:
        return f"a list, each {_expected(get_args(kind)[0])}"
    if get_origin(kind) is Annotated:
        return str(next(meta.description for meta in kind.__metadata__ if meta.description))
    if get_origin(kind) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    simple = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}
    simple[Any] = "an array, or the path of a file"
    return simple.get(kind, "a table")


def unused_options(
    table: Table,
    users: Mapping[str, tuple[str, Sequence[str]]],
    chosen: Mapping[str, str] | None = None,
) -> list[str]:
    """Return sentences on options that have no effect.

    `users` maps each option to the key, and to the values of that key, for which it has an effect.
    `chosen` has the values of keys that are left out.
    """
    default = {field.name: field.default for field in fields_of(type(table))}
    keys = {key for key, _ in users.values()}
    values = {key: getattr(table, key) for key in keys} | dict(chosen or {})
    return [
        f"{name} is for {' and '.join(choices)}, and "
        f'{table.table_name}.{key} is "{values[key]}": leave it out'
        for name, (key, choices) in users.items()
        if getattr(table, name) != default[name] and values[key] not in choices
    ]
