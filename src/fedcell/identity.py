"""Whose pilot it is: what of a scenario the rounds to a loss depend on, and what not."""

import json
from pathlib import Path
from typing import Any

from .errors import BadInput
from .learning.data import Dataset
from .runfolder import declared_identity
from .scenario import Scenario

LEARNT = ("clients", "learning", "plan", "task")  # tables in which a pilot depends on a scenario
FREE = {  # what may differ between a pilot and the scenario that is planned with it
    "clients": ("kappa", "power", "freq_min", "freq_max", "samples", "spread", "table", "sizes"),
    "plan": ("cohort", "local_steps", "local_epochs", "drawn"),
    "task": ("model_bits", "cycles_per_sample", "samples_per_step", "energy_weight"),
    "learning": ("evaluate_every",),
}


def pilot_identity(scenario: Scenario, data: Dataset | None) -> dict[str, Any]:
    """What the rounds to a loss depend on, K, E_l and gamma apart: the learning, not the radio."""
    whole = declared_identity(scenario, data, 0)
    tables = {name: dict(whole["scenario"][name]) for name in LEARNT}
    drawn = ("samples", "spread")  # with quadratics they are what is learnt from
    kept = drawn if scenario.learning is not None and scenario.learning.analytic else ()
    for name, keys in FREE.items():
        for key in keys:
            if key not in kept:
                tables[name].pop(key, None)
    return {"scenario": tables, "data": whole["data"]}


def check_identity(before: dict[str, Any], identity: dict[str, Any], path: Path) -> None:
    """Refuses a pilot of another learning."""
    now = json.loads(json.dumps(identity))
    if before == now:
        return
    changed = [
        f"{table}.{key}"
        for table in LEARNT
        for key in sorted(_keys(before, table) | _keys(now, table))
        if _value(before, table, key) != _value(now, table, key)
    ]
    named = ", ".join(changed) or "data"
    raise BadInput(f"{path}: is the pilot of another learning (other {named}): run one for this")


def _keys(identity: dict[str, Any], table: str) -> set[str]:
    return set(_table(identity, table))


def _value(identity: dict[str, Any], table: str, key: str) -> Any:
    return _table(identity, table).get(key)


def _table(identity: dict[str, Any], table: str) -> dict[str, Any]:
    scenario = identity.get("scenario")
    held = scenario.get(table) if isinstance(scenario, dict) else None
    return held if isinstance(held, dict) else {}
