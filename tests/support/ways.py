"""Every way to declare a value of a scenario, as scenarios to compare."""

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedcell import Scenario, load_scenario, save_scenario
from fedcell.core.schema import Table, field_infos
from fedcell.experiments.experiment import load_experiment
from fedcell.scenario.channel.spec import ChannelSpec
from fedcell.scenario.hardware.device import Device
from fedcell.scenario.hardware.radio import Radio
from fedcell.scenario.learning import Conv, Layers, Learning, Quadratic
from fedcell.scenario.partition import PartitionSpec
from fedcell.scenario.save import _toml as toml_value
from fedcell.scenario.tables import Cell, Clients, RoundPlan, Task

Tables = dict[str, Any]
KINDS: Mapping[str, type[Table]] = {
    "cell": Cell,
    "cell.channel": ChannelSpec,
    "clients": Clients,
    "task": Task,
    "plan": RoundPlan,
    "radio": Radio,
    "device": Device,
    "learning": Learning,
    "learning.partition": PartitionSpec,
    "learning.quadratic": Quadratic,
    "learning.layers": Layers,
    "learning.layers.convs": Conv,
}


def scenario_keys() -> Iterator[str]:
    """The dotted name of every key, those of inner tables included."""
    for table, kind in KINDS.items():
        yield from (f"{table}.{field.name}" for field in field_infos(kind) if not field.is_table)


def put(tables: Tables, dotted: str, value: Any) -> Tables:
    """Tables with another value of one key."""
    changed = copy.deepcopy(tables)
    *path, key = dotted.split(".")
    inside = changed
    for part in path:
        inside = inside.setdefault(part, {})
    inside[key] = value
    return changed


def as_toml(tables: Tables) -> str:
    """Tables as TOML, inner ones inline."""
    plain = [f"{key} = {toml_value(v)}" for key, v in tables.items() if not isinstance(v, dict)]
    named = {key: v for key, v in tables.items() if isinstance(v, dict)}
    for name, table in named.items():
        plain += [f"[{name}]", *(f"{key} = {toml_value(v)}" for key, v in table.items())]
    return "\n".join(plain) + "\n"


def write_toml(path: Path, tables: Tables) -> Path:
    """Tables as a TOML file."""
    path.write_text(as_toml(tables), "utf-8")
    return path


def ways_to_say(base: Tables, dotted: str, value: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    """Scenarios in which one key has a value, by the way in which it was said; the edited TOML file
    comes first."""
    edited, table = put(base, dotted, value), dotted.split(".")[0]
    file = write_toml(folder / "edited.toml", edited)
    said = load_scenario(file)
    yield "TOML", said
    (folder / "edited.json").write_text(json.dumps(edited))
    yield "JSON", load_scenario(folder / "edited.json")
    save_scenario(said, folder / "saved.toml")
    yield "a saved file", load_scenario(folder / "saved.toml")
    before = load_scenario(write_toml(folder / "base.toml", base))
    from_files = value if not isinstance(value, str) else _in_python(said, dotted, value)
    inside = put({}, dotted, from_files)[table]
    if not any(isinstance(v, dict) for v in inside.values()):  # `using` replaces inner tables
        yield "using", before.using(**{table: inside})
    tables = {name: getattr(said, name) for name in Scenario.__struct_fields__}
    yield "Python", Scenario(**tables)
    for way, experiment in (
        ("an experiment", put({}, dotted, value)),
        ("a variant", {"variant": [{"name": "other", **put({}, dotted, value)}]}),
    ):
        asked = {"scenario": "base.toml", "policy": ["even"], **experiment}
        (folder / "experiment.json").write_text(json.dumps(asked))
        (point,) = load_experiment(folder / "experiment.json").points
        yield way, point.scenario
    asked = {"scenario": "base.toml", "policy": ["even"], **put({}, dotted, [value])}
    (folder / "experiment.json").write_text(json.dumps(asked))
    (point,) = load_experiment(folder / "experiment.json").points
    yield "an axis", point.scenario


def _in_python(said: Scenario, dotted: str, value: Any) -> Any:
    """What stands in Python where a file names another one."""
    here: Any = said
    for part in dotted.split("."):
        here = getattr(here, part)
    return value if isinstance(here, str) and here == value else here
