"""Strict tables: every wrong key and value named at once, from a file or from Python.

msgspec knows the types and ranges and converts one value at a time; this adds that
all faults are gathered, that a misspelt key is met with a suggestion, and that no
number is infinite or NaN.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Meta

from .errors import BadInput

LARGE, SMALL = 1e60, 1e-60  # numbers beyond these could overflow when multiplied

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


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen table of settings that refuses what is out of range."""

    table_name: ClassVar[str] = ""  # how messages call it

    def faults(self) -> list[str]:
        """What is wrong between fields that are each right; each names its own field first."""
        return []

    def __post_init__(self) -> None:
        found: list[str] = []
        for field in msgspec.structs.fields(type(self)):
            path = _join(self.table_name, field.name)
            value = _read(field.type, getattr(self, field.name), path, found)
            msgspec.structs.force_setattr(self, field.name, value)
        found = found or [_join(self.table_name, fault) for fault in self.faults()]
        if found:
            raise BadInput(*found)


T = TypeVar("T", bound=Table)


def decode(kind: type[T], given: Mapping[str, Any], faults: Sequence[str] = ()) -> T:
    """A table from plain dicts and lists, or BadInput with every fault, those known included."""
    found = list(faults)
    table: T = _read_table(kind, given, kind.table_name, found, sound=not faults)
    if found:
        raise BadInput(*found)
    return table


def _read(kind: Any, value: Any, path: str, found: list[str]) -> Any:
    """`value` as a `kind`; what is wrong with it is appended to `found`."""
    if get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind):  # may be left out
        if value is None:
            return None
        kind = next(choice for choice in get_args(kind) if choice is not NoneType)
    if isinstance(kind, type) and issubclass(kind, Table):
        return value if isinstance(value, kind) else _read_table(kind, value, path, found)
    row = get_args(kind)[0] if get_origin(kind) is tuple else None
    if isinstance(row, type) and issubclass(row, Table):
        if not isinstance(value, list | tuple):
            found.append(f"{path} = {_short(value)}: expected a list of tables")
            return None
        return tuple(_read(row, item, f"{path}[{i}]", found) for i, item in enumerate(value))
    value = value.item() if isinstance(value, np.generic) else value
    try:
        converted = msgspec.convert(value, kind)
        if all(map(math.isfinite, _numbers(converted))):
            return converted
    except (msgspec.ValidationError, OverflowError):
        pass
    found.append(f"{path} = {_short(value)}: expected {_expected(kind)}")
    return None


def _read_table(kind: type[T], given: Any, path: str, found: list[str], sound: bool = True) -> Any:
    if not isinstance(given, Mapping):
        found.append(f"{path or 'the file'} = {_short(given)}: expected a table")
        return None
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    before = len(found)
    found += [
        f"{_join(path, str(name))} is not a key; {suggestion(str(name), known, path)}"
        for name in given
        if name not in known
    ]
    values = {}
    for name, field in known.items():
        if name in given:
            values[name] = _read(field.type, given[name], _join(path, name), found)
        elif field.required:
            found.append(f"{_join(path, name)} is missing: expected {_expected(field.type)}")
    if len(found) > before or not sound:
        return None
    try:
        return kind(**values)
    except BadInput as error:  # fields that do not go together
        found += (path + fault.removeprefix(kind.table_name) for fault in error.faults)
        return None


def suggestion(name: str, known: Iterable[str], path: str = "") -> str:
    """What may have been meant by a name that is not known."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {_join(path, close[0])}?" if close else f"known: {', '.join(names)}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _numbers(value: Any) -> list[float]:
    """The numbers in a value that may be NaN or infinite, which no range of msgspec refuses."""
    if isinstance(value, tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, float) else []


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _expected(kind: Any) -> str:
    """What a field takes, in words."""
    if get_origin(kind) is tuple:
        return f"a list, each {_expected(get_args(kind)[0])}"
    if get_origin(kind) is Annotated:
        return str(next(meta.description for meta in kind.__metadata__ if meta.description))
    if get_origin(kind) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    return {float: "a number", int: "a whole number", str: "text"}.get(kind, "a table")
