"""Every key of a scenario for the side panel: its value, and the words of the documentation."""

from typing import Any

from fedcell.core.schema import FieldInfo, Table, field_infos
from fedcell.scenario.arrays import ArrayTable
from fedcell.scenario.save import plain_tables
from fedcell.scenario.scenario import TABLE_NAMES, Scenario

from .asked import FILES, keys_of

CHOICE = ' or "'  # between the choices of a key, in what it expects


def described_keys(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the tables of a scenario, each with its keys in order."""
    tables = []
    for name in TABLE_NAMES:
        table = getattr(scenario, name)
        if isinstance(table, Table):
            title = (type(table).__doc__ or "").strip().split("\n")[0]
            keys = [_described(path, owner) for path, owner in keys_of(table, name)]
            tables.append({"name": name, "title": title, "keys": keys})
    return tables


def _described(path: str, owner: Table) -> dict[str, Any]:
    """Return one key: value, default, meaning, unit and choices."""
    name = path.rpartition(".")[2]
    (info,) = (each for each in field_infos(type(owner)) if each.name == name)
    value = getattr(owner, name)
    return {
        "path": path,
        "symbol": info.doc.symbol,
        "unit": info.doc.unit,
        "text": info.doc.text,
        "open": info.doc.open,
        "expected": info.expected,
        "choices": _choices(info),
        "value": repr(value) if isinstance(value, ArrayTable) else plain_tables(value),
        "default": None if isinstance(info.default, ArrayTable) else plain_tables(info.default),
        "editable": path not in FILES,
    }


def _choices(info: FieldInfo) -> list[str]:
    """Return the words that a key takes; empty where it takes other values."""
    if not info.expected.startswith('"'):
        return []
    return [word.strip('"') for word in info.expected.split(CHOICE)]
