"""Entries of the catalogue: read, checked, and put into a scenario or a table of clients."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import naming, read_tables
from fedcell.core.schema import fields_of, suggestion
from fedcell.scenario.hardware.device import Device
from fedcell.scenario.hardware.levels import check_levels
from fedcell.scenario.hardware.radio import Radio

Kind = Literal["device", "radio"]
Mark = Literal["measured", "data sheet", "standard", "derived", "assumed"]
MARKS: tuple[Mark, ...] = get_args(Mark)
FILES: Mapping[Kind, str] = {"device": "devices.toml", "radio": "radios.toml"}
OF_CLIENTS = ("kappa", "freq_min", "freq_max")  # keys of a device in [clients]
OF_RADIO = ("circuit_power", "receive_power")  # keys of a device in [radio]: the whole device's


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A number of an entry.

    Attributes
    ----------
    key : str
        Key of a scenario, or a name of its own.
    value : float, str or tuple of float
        In SI units; a tuple for the levels of a clock.
    unit : str
        Unit; empty for ratios and words.
    mark : {"measured", "data sheet", "standard", "derived", "assumed"}
        How it is known; "assumed" numbers have no source and are the user's to set.
    source, note : str
        Where it is from, and how it was derived.
    applied : bool
        Whether the catalogue puts it into a scenario.
    """

    key: str
    value: float | str | tuple[float, ...]
    unit: str
    mark: Mark
    source: str
    note: str
    applied: bool


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A device or a radio of the catalogue.

    Attributes
    ----------
    name, title : str
        Name in a scenario, and in words.
    kind : {"device", "radio"}
        What it is.
    facts : tuple of Fact
        Its numbers, each with a source.

    Examples
    --------
    >>> entry = find_entry("device", "rpi4")
    >>> entry.tables()["device"]["idle_power"], entry.tables()["clients"]["freq_max"]
    (2.7, 1500000000.0)
    """

    name: str
    title: str
    kind: Kind
    facts: tuple[Fact, ...]

    @property
    def keys(self) -> dict[str, Any]:
        """Return the numbers that go into a scenario, by key."""
        return {fact.key: fact.value for fact in self.facts if fact.applied}

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return its keys by the table of a scenario that has them."""
        tables: dict[str, dict[str, Any]] = {self.kind: {}}
        for key, value in self.keys.items():
            tables.setdefault(_table_of(self.kind, key), {})[key] = value
        return tables

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each number."""
        return [{"name": self.name, **asdict(fact)} for fact in self.facts]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        facts = [asdict(fact) for fact in self.facts]
        return {"name": self.name, "kind": self.kind, "title": self.title, "facts": facts}


@dataclass(frozen=True)
class Catalogue:
    """The devices and radios that are known by name.

    Attributes
    ----------
    entries : tuple of Entry
        Those of fedcell, and those of the user's file before them.

    Examples
    --------
    >>> [entry.name for entry in Catalogue.load().of("radio")][:2]
    ['nr-mid', 'nr-redcap']
    """

    entries: tuple[Entry, ...]

    @classmethod
    def load(cls, path: str | Path | None = None) -> Catalogue:
        """Return the entries of fedcell, and those of a file of the user."""
        own = [] if path is None else _read_file(Path(path))
        known = {(entry.kind, entry.name) for entry in own}
        return cls((*own, *(e for e in _built_in() if (e.kind, e.name) not in known)))

    def of(self, kind: Kind) -> list[Entry]:
        """Return the entries of a kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def find(self, kind: Kind, name: Any) -> Entry:
        """Return an entry by its name."""
        known = {entry.name: entry for entry in self.of(kind)}
        if name not in known:
            hint = suggestion(str(name), known)
            raise BadInput(f"{kind} = {name!r}: no such {kind} in the catalogue; {hint}")
        return known[name]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each entry."""
        return [
            {"kind": e.kind, "name": e.name, "title": e.title, "numbers": len(e.facts)}
            for e in self.entries
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all entries as plain values."""
        return {"entries": [entry.to_dict() for entry in self.entries]}


def find_entry(kind: Kind, name: str) -> Entry:
    """Return a device or a radio of fedcell's catalogue by its name."""
    return Catalogue.load().find(kind, name)


def expand(given: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return the tables of a scenario with named devices and radios in full.

    `device = "rpi4"`, or `like = "rpi4"` in [device], stands for all keys of the entry; keys that
    the scenario has itself are kept. A device's powers while sending go before those of a radio.
    Those of a radio that are below what the device draws idle are a modem's, and added to it.
    """
    tables = {name: dict(t) if isinstance(t, dict) else t for name, t in given.items()}
    entries = []
    for kind in ("device", "radio"):
        named = tables.get(kind)
        if isinstance(named, dict):
            named = named.pop("like", None)
        elif named is not None:
            tables[kind] = {}
        if named is not None:
            entries.append(catalogue.find(kind, named))
    for entry in entries:
        for table, keys in entry.tables().items():
            if not isinstance(tables.setdefault(table, {}), dict):
                raise BadInput(f"{table} = {tables[table]!r}: expected a table")
            if entry.kind == "radio" and isinstance(tables.get("device"), dict):
                keys = _on_top_of(tables["device"].get("idle_power", 0.0), keys)
            tables[table] = keys | tables[table]
    if any(entry.kind == "device" for entry in entries) and not tables.get("radio", {"": 0}):
        del tables["radio"]
    return tables


def expand_columns(
    columns: Mapping[str, Sequence[Any]], known: Sequence[str], catalogue: Catalogue
) -> dict[str, list[Any]]:
    """Return columns in SI units for clients whose `device` or `radio` is named, None elsewhere.

    `known` are the columns that a table of clients may have. Keys of a radio that hold for the
    whole cell, such as its band, are those of [radio].
    """
    found: dict[str, list[Any]] = {}
    beside = columns.get("device", ())
    for kind in ("radio", "device"):  # a device's own powers go before those of a radio
        for j, name in enumerate(columns.get(kind, ())):
            if name is None or name == "":
                continue
            keys = catalogue.find(kind, name).keys
            if kind == "radio" and (device := beside[j] if j < len(beside) else None):
                keys = _on_top_of(catalogue.find("device", device).keys.get("idle_power", 0), keys)
            for key, value in keys.items():
                if key in known:
                    found.setdefault(key, [None] * len(columns[kind]))[j] = value
    return found


def _on_top_of(idle: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a radio with a modem's powers added to what its device draws idle."""
    if not isinstance(idle, int | float):  # it is refused where the table is read
        return dict(keys)
    return {key: v + idle if key in OF_RADIO and v < idle else v for key, v in keys.items()}


@cache
def _built_in() -> tuple[Entry, ...]:
    folder = resources.files("fedcell.scenario.catalogue")
    return tuple(
        entry
        for kind, file in FILES.items()
        for entry in _entries(kind, tomllib.loads((folder / file).read_text("utf-8")))
    )


def _read_file(path: Path) -> list[Entry]:
    """Return the entries of a file of the user: [device.NAME] and [radio.NAME]."""
    tables = read_tables(path)
    with naming(path):
        if unknown := [name for name in tables if name not in FILES]:
            raise BadInput(f"{unknown[0]}: expected [device.NAME.keys] or [radio.NAME.keys]")
        return [e for kind in FILES for e in _entries(kind, tables.get(kind, {}))]


def _entries(kind: Kind, tables: Any) -> Iterator[Entry]:
    if not isinstance(tables, Mapping):
        raise BadInput(f"{kind}: expected tables, one for each {kind}")
    for name, table in tables.items():
        place = f"{kind}.{name}"
        if not isinstance(table, Mapping) or not isinstance(table.get("keys"), Mapping):
            raise BadInput(f"{place} has no table {place}.keys")
        facts = [
            _fact(kind, key, fact, f"{place}.{part}.{key}", part == "keys")
            for part in ("keys", "facts")
            for key, fact in table.get(part, {}).items()
        ]
        title = str(table.get("title", name))
        yield Entry(name=name, title=title, kind=kind, facts=tuple(facts))


def _fact(kind: Kind, key: str, given: Any, place: str, applied: bool) -> Fact:
    """Return a checked number; a bare one in a file of the user is assumed."""
    if not isinstance(given, Mapping):
        given = {"value": given}
    value, mark = given.get("value"), given.get("mark", "assumed")
    if key == "levels" and isinstance(value, list):
        try:
            value = check_levels(value)
        except BadInput as error:
            raise BadInput(f"{place}: {error}") from error
    if isinstance(value, bool) or not isinstance(value, int | float | str | tuple):
        raise BadInput(f"{place} = {value!r}: expected a number")
    if mark not in MARKS:
        raise BadInput(f"{place}.mark = {mark!r}: expected one of {', '.join(MARKS)}")
    if mark != "assumed" and not given.get("source"):
        raise BadInput(f'{place}: a number that is "{mark}" needs a source')
    if applied:
        _table_of(kind, key, place)
    words = {name: str(given.get(name, "")) for name in ("unit", "source", "note")}
    return Fact(key=key, value=value, mark=mark, applied=applied, **words)


def _table_of(kind: Kind, key: str, place: str = "") -> str:
    """Return the table of a scenario that has a key of an entry."""
    if kind == "device" and key in OF_CLIENTS:
        return "clients"
    if kind == "device" and key in OF_RADIO:
        return "radio"
    known = [field.name for field in fields_of(Device if kind == "device" else Radio)]
    if key not in known:
        also = (*OF_CLIENTS, *OF_RADIO) if kind == "device" else ()
        raise BadInput(f"{place} is not a key of a {kind}; {suggestion(key, [*known, *also])}")
    return kind
