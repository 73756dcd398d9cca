"""Write the reference of scenario keys as a Markdown page, from the tables themselves."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedcell.core.schema import FieldInfo, Table, field_infos
from fedcell.scenario.channel.spec import ChannelSpec
from fedcell.scenario.hardware.device import Device
from fedcell.scenario.hardware.radio import Radio
from fedcell.scenario.learning import Conv, Layers, Learning, Quadratic
from fedcell.scenario.partition import PartitionSpec
from fedcell.scenario.tables import Cell, Clients, RoundPlan, Task

TABLES: Mapping[str, type[Table]] = {
    "[cell]": Cell,
    "[cell.channel]": ChannelSpec,
    "[clients]": Clients,
    "[task]": Task,
    "[plan]": RoundPlan,
    "[radio]": Radio,
    "[device]": Device,
    "[learning]": Learning,
    "[learning.partition]": PartitionSpec,
    "[learning.layers]": Layers,
    "[learning.layers] convs": Conv,
    "[learning.quadratic]": Quadratic,
}


def scenario_reference() -> str:
    """Return the reference of a scenario file, table by table."""
    return "\n".join(line for name, kind in TABLES.items() for line in _section(name, kind))


def _section(name: str, kind: type[Table]) -> Iterator[str]:
    first = (kind.__doc__ or "").strip().split("\n\n")[0]
    yield from (f"## `{name}`", "", " ".join(first.split()), "")
    yield from ("| key | meaning | symbol | unit | default | takes |", "|---|---|---|---|---|---|")
    for field in field_infos(kind):
        if field.is_table:  # it has a section of its own
            continue
        doc = field.doc
        cells = [f"`{field.name}`", doc.text, doc.symbol, doc.unit, _default(field), field.expected]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(field: FieldInfo) -> str:
    if field.required:
        return "must be given"
    return "left out" if field.default is None else f"`{_short(field.default)}`"


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if value != () else "[]"
