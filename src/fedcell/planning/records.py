"""Read dataclasses from the tables of a file.

A strict table is made of the fields of a dataclass, so that a field is written once. Its type says
what the file may hold: ranges are the `Meta` of its annotation, and `Stored` is for values that a
file holds in another form.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta

from fedcell.core.errors import BadInput
from fedcell.core.schema import NotNegative, Positive, Table, decode

D = TypeVar("D")
Row = Any  # a Table made here, with the fields of a dataclass
Check = Callable[[Row], list[str]]  # faults between fields, each naming its own field first

FLAT = "flat"  # in an annotation: the fields of a dataclass stand among those of its owner


@dataclass(frozen=True)
class Stored:
    """The form of a value in a file, where it is not that in memory."""

    kind: Any  # type in the file
    read: Callable[[Any], Any] = lambda value: value  # value in memory, from that in the file
    default: Any = NODEFAULT  # in the file, of a field that has a default


def infinite(value: float | None) -> float:
    """Return infinity for null, which JSON has in its place."""
    return math.inf if value is None else value


def not_evaluated(values: Iterable[float | None]) -> tuple[float, ...]:
    """Return values with NaN for null, which JSON has in its place."""
    return tuple(math.nan if value is None else value for value in values)


FileTable = Annotated[dict[str, Any], Meta(description="a table")]
Seed = Annotated[int, Meta(ge=0, description="a whole number from 0")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
NotNegativeOrInfinite = Annotated[float, Stored(NotNegative | None, infinite)]
PositiveOrInfinite = Annotated[float, Stored(Positive | None, infinite)]
PositiveLimit = Annotated[float, Stored(Positive | None, infinite, default=None)]


@dataclass(frozen=True, eq=False)
class Record(Generic[D]):
    """A value as it stands in a file: a strict table of its fields, and how to make it."""

    make: Callable[..., D]
    table: type[Table]
    readers: Mapping[str, Callable[[Any], Any]]  # of each field
    flat: Mapping[str, "Record[Any]"]  # fields whose own fields stand in the same table

    def decode(self, content: Mapping[str, Any]) -> D:
        """Return the value that plain tables hold, or raise BadInput with every fault."""
        return self.value(decode(self.table, content))

    def value(self, row: Row) -> D:
        """Return the value of a table that was read."""
        given = {name: read(getattr(row, name)) for name, read in self.readers.items()}
        return self.make(**given, **{name: part.value(row) for name, part in self.flat.items()})


def record(
    kind: type[D],
    *,
    make: Callable[..., D] | None = None,
    check: Check | None = None,
    leave: Sequence[str] = (),
    also: Mapping[str, Any] | None = None,
    **forms: Any,
) -> Record[D]:
    """Return how a dataclass stands in a file.

    Parameters
    ----------
    kind : type
        The dataclass.
    make : callable, optional
        Makes the value of all fields by name; default: `kind`.
    check : callable, optional
        Returns the faults between fields of a table whose fields are each right.
    leave : sequence of str
        Fields that are not in the file.
    also : mapping, optional
        Types of fields that only the file has: `make` takes them too.
    **forms : type, Stored or Record
        Forms of fields, in place of their annotations.
    """
    hints = get_type_hints(kind, include_extras=True)
    given: dict[str, tuple[Any, Any]] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in leave:
            default = NODEFAULT if field.default is MISSING else field.default
            if field.default_factory is not MISSING:
                default = field.default_factory()
            given[field.name] = forms.get(field.name, hints[field.name]), default
    given |= {name: (form, NODEFAULT) for name, form in (also or {}).items()}
    return table_record(kind.__name__, make or kind, given, check)


def table_record(
    name: str,
    make: Callable[..., D],
    given: Mapping[str, tuple[Any, Any]],
    check: Check | None = None,
) -> Record[D]:
    """Return a record of fields by name, each with its form and its default, or NODEFAULT."""
    columns: list[Any] = []
    readers: dict[str, Callable[[Any], Any]] = {}
    flat: dict[str, Record[Any]] = {}
    for field, (form, default) in given.items():
        base, *notes = get_args(form) if get_origin(form) is Annotated else (form,)
        if FLAT in notes:
            flat[field] = known_record(base)
            columns += _columns(flat[field].table)
            continue
        stored = _stored(form)
        readers[field] = stored.read
        if default is not NODEFAULT and stored.default is not NODEFAULT:
            default = stored.default
        columns.append((field, stored.kind, default))
    parts: list[Record[D]] = []  # the record itself, once it is made
    table: Any = msgspec.defstruct(
        name,
        columns,
        bases=(Table,),
        namespace={"faults": lambda row: _faults(parts[0], check, row)},
        frozen=True,
        kw_only=True,
    )
    parts.append(Record(make, table, readers, flat))
    return parts[0]


@cache
def known_record(kind: Any) -> Record[Any]:
    """Return the record of a dataclass by its annotations alone."""
    return record(kind)


def _faults(made: Record[Any], check: Check | None, row: Row) -> list[str]:
    """Return what is wrong between fields, by the check or by the value itself."""
    faults = [] if check is None else check(row)
    if not faults and hasattr(made.make, "__post_init__"):
        try:
            made.value(row)
        except BadInput as error:
            return list(error.faults)
    return faults


def _columns(table: type[Table]) -> list[Any]:
    """Return the fields of a table as a new table takes them."""
    return [(f.name, f.type, f.default) for f in msgspec.structs.fields(table)]


def _stored(form: Any) -> Stored:
    """Return the form of a field in a file."""
    if isinstance(form, Stored):
        return form
    if isinstance(form, Record):
        return Stored(form.table, form.value)
    base, *notes = get_args(form) if get_origin(form) is Annotated else (form,)
    if (own := next((n for n in notes if isinstance(n, Stored | Record)), None)) is not None:
        return _stored(own)
    if get_origin(base) in (Union, UnionType) and NoneType in get_args(base):
        inner = [_stored(choice) for choice in get_args(base) if choice is not NoneType]
        if len(inner) == 1:
            read = inner[0].read
            return Stored(inner[0].kind | None, lambda v: None if v is None else read(v))
    if get_origin(base) is tuple and len(get_args(base)) == 2:
        item = _stored(get_args(base)[0])
        if _is_table(item.kind):
            each = item.read
            return Stored(tuple_of(item.kind), lambda rows: tuple(each(row) for row in rows))
    if isinstance(base, type) and is_dataclass(base):
        return _stored(known_record(base))
    return Stored(form)


def tuple_of(kind: Any) -> Any:
    """Return the type of a list of tables."""
    return tuple[kind, ...]


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)
