"""Scenarios as plain tables that load_scenario reads back, and as commented TOML."""

import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedcell.core.files.formats import as_json, check_target, write_file, write_text
from fedcell.core.schema import FieldInfo, Table, field_infos

from .arrays import ArrayTable
from .learning import Learning, dataset_path
from .scenario import TABLE_NAMES, Scenario

GAINS = "gains.npy"  # measured gains, beside the file that names them
WIDTH = 96


def to_tables(scenario: Scenario, gains_file: str = GAINS) -> dict[str, Any]:
    """Return a scenario as plain tables, without keys that are None; measured gains are the name
    of a file beside them."""
    tables: dict[str, Any] = plain_tables(scenario)
    if scenario.cell.gains is not None:
        tables["cell"]["gains"] = gains_file
    if (measured := scenario.cell.channel.measured) is not None:
        named: dict[str, Any] = {"file": gains_file, "quantity": measured.quantity}
        if measured.names is not None:
            named["names"] = list(measured.names)
        tables["cell"]["channel"]["measured"] = named
    if (table := scenario.clients.table) is not None:
        tables["clients"]["table"] = table.rows()
    if scenario.clients.sizes is not None:
        tables["clients"]["sizes"] = scenario.clients.sizes.values.tolist()
    if (learning := scenario.learning) is not None:  # absolute paths: valid from any folder
        if (path := dataset_path(learning.dataset, Path())) is not None:
            tables["learning"]["dataset"] = os.path.abspath(path)
        if (owners := learning.partition.owners) is not None:
            tables["learning"]["partition"]["owners"] = os.path.abspath(owners)
    return tables


def plain_tables(value: Any) -> Any:
    """Return tables as plain values, without arrays and without None."""
    if isinstance(value, msgspec.Struct):
        named = {name: plain_tables(getattr(value, name)) for name in value.__struct_fields__}
        return {name: item for name, item in named.items() if item is not None}
    if isinstance(value, tuple):
        return [plain_tables(item) for item in value]
    return None if isinstance(value, ArrayTable) else value


def save_scenario(scenario: Scenario, path: str | Path) -> None:
    """Write a scenario as commented TOML, or as JSON.

    Parameters
    ----------
    scenario : Scenario
        The scenario to write.
    path : str or Path
        A name that ends in .toml or .json. Measured gains go to a file beside it:
        mine-gains.npy for mine.toml.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from fedcell import load_scenario
    >>> path = f"{mkdtemp()}/mine.toml"
    >>> save_scenario(load_scenario("digits").using(plan={"cohort": 5}), path)
    >>> load_scenario(path).plan.cohort
    5
    """
    target = check_target(Path(path), ("toml", "json"))
    gains_file = f"{target.stem}-{GAINS}"
    if (recorded := scenario.cell.recorded) is not None:
        values = recorded.values
        write_file(target.parent / gains_file, lambda aside: np.save(aside, values))
    as_toml = target.suffix.lower() == ".toml"
    tables = to_tables(scenario, gains_file)
    write_text(target, commented(scenario, tables=tables) if as_toml else as_json(tables))


def commented(scenario: Scenario, header: str = "", tables: dict[str, Any] | None = None) -> str:
    """Return a scenario as TOML with the meaning of every key; `tables` default to its own."""
    given = to_tables(scenario) if tables is None else tables
    header = header or "Keys marked * are left open by the paper and chosen by us. SI units."
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    for name in TABLE_NAMES:
        if (table := getattr(scenario, name)) is not None:
            lines += ["", f"[{name}]", *_keys(table, given[name])]
    return "\n".join(lines).lstrip("\n") + "\n"


def _keys(table: Table, given: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the lines of a table: its keys, and then its nested tables."""
    inner = {n: v for n in given if isinstance(v := getattr(table, n), Table)}
    if isinstance(table, Learning) and not table.analytic:  # a network is trained
        inner.pop("quadratic", None)
    plain = [
        (f"{f.name} = {_toml(given[f.name])}" if f.name in given else f"# {f.name} = ", f)
        for f in field_infos(type(table))
        if not f.is_table
    ]
    plain = [(text + f.doc.example if text.endswith("= ") else text, f) for text, f in plain]
    short = [text for text, _ in plain if len(text) <= 40]
    column = max(map(len, short), default=0) + 1
    for text, field in plain:
        yield from _with_comment(text, _meaning(field), column)
    for name, value in inner.items():
        here = f"{path or table.table_name}.{name}"
        yield from ("", f"[{here}]", *_keys(value, given[name], here))


def _meaning(field: FieldInfo) -> str:
    choices = f": {field.expected}" if field.expected.startswith('"') else ""
    return f"{'* ' if field.doc.open else ''}{field.doc}{choices}"


def _with_comment(text: str, comment: str, column: int) -> Iterator[str]:
    """Yield a line with its comment beside it, or above it if the line is long."""
    column = max(column, len(text) + 1)
    if column > 48:
        yield from (f"# {line}" for line in textwrap.wrap(comment, WIDTH - 2))
        yield text
        return
    first, *rest = textwrap.wrap(comment, WIDTH - column - 2)
    yield f"{text:<{column}}# {first}"
    yield from (f"{'#':<{column}}    {line}" for line in rest)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list) and value and isinstance(value[0], dict):  # one client on a line
        return "[\n" + "".join(f"    {_toml(item)},\n" for item in value) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    short = f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return short if "e" in short and float(short) == value else repr(value)
