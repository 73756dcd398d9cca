"""Whose pilot it is: what of a scenario the rounds to a loss depend on, and what not."""

from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.learning.data.dataset import Dataset
from fedcell.simulation.folder import declared_identity, differences

from .tables import Scenario

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
    if named := differences(before, identity):
        raise BadInput(
            f"{path}: is the pilot of another learning (other {named}): run one for this"
        )
