"""What a plan must not exceed, and which plans keep it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput, NoPlan
from fedcell.core.quantities import parse_duration, parse_energy
from fedcell.core.types import Array, Bools

from .fitted import NORMAL
from .grid import PlanGrid


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a plan must not exceed, in seconds and joules or as text; infinite where it may.

    >>> Limits(deadline="2min", energy=500.0, sure=True).given()
    {'deadline': 120.0, 'energy': 500.0, 'sure': True}
    """

    deadline: float = inf  # [s]
    energy: float = inf  # of all clients [J]
    energy_per_client: float = inf  # mean over clients [J]
    sure: bool = False  # keep within them at the upper end of what is predicted

    def __post_init__(self) -> None:
        for name, parse in (("deadline", parse_duration), ("energy", parse_energy)):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, parse(value, name))
        for name in ("deadline", "energy", "energy_per_client"):
            if not isinstance(getattr(self, name), Real) or not getattr(self, name) > 0:
                raise BadInput(f"{name} = {getattr(self, name)}: expected a number above 0")
        if not isinstance(self.sure, bool):
            raise BadInput(f"sure = {self.sure!r}: expected true or false")

    def given(self) -> dict[str, Any]:
        """Those that were asked for, by name."""
        return {k: v for k, v in vars(self).items() if v is True or (v and isfinite(v))}


def upper_factor(rounds: Any, high: Any, relative_sd: Any, relative_se: Any) -> Any:
    """How many times larger than its value a sum over G rounds may be: G is unsure, every round
    varies, and the mean of a round is known to an error (both relative)."""
    unsure = NORMAL * np.hypot(relative_sd / np.sqrt(np.maximum(rounds, 1.0)), relative_se)
    return np.exp(np.hypot(np.log(high / rounds), unsure))


def allowed_plans(grid: PlanGrid, limits: Limits) -> Bools:
    """Plans within the limits; if there are none, NoPlan says which limit is in the way."""
    duration, energy = grid.duration, grid.energy
    if limits.sure:
        k, e = np.meshgrid(grid.cohorts, grid.steps, indexing="ij")
        mean, _, high = grid.law.predict(k, e, grid.loss_rate, kind=grid.kind)
        sd, se = grid.round_costs.relative_sd, grid.round_costs.relative_se
        duration, energy = (
            values * upper_factor(mean, high, sd(name, k, e), se(name, k, e))
            for name, values in (("duration", duration), ("energy", energy))
        )
    count = grid.scenario.clients.count
    asked = {
        "deadline": (duration, limits.deadline, "s"),
        "energy budget": (energy, limits.energy, "J"),
        "energy budget per client": (energy / count, limits.energy_per_client, "J"),
    }
    allowed = np.ones(duration.shape, bool)
    alone = []
    for name, (values, limit, unit) in asked.items():
        if (values > limit).all():
            i, j = least_place(values)
            alone.append(
                f"no plan keeps the {name} of {limit:.4g} {unit}: the least is "
                f"{values[i, j]:.4g} {unit}, with K = {grid.cohorts[i]}, E_l = {grid.steps[j]}"
            )
        allowed &= values <= limit
    if alone:
        raise NoPlan(*alone)
    if not allowed.any():
        given = {name: part for name, part in asked.items() if isfinite(part[1])}
        raise NoPlan(
            f"no plan keeps the {' and the '.join(given)} together: "
            + "; ".join(_alone(name, given) for name in given)
        )
    return allowed


def _alone(name: str, given: Mapping[str, tuple[Array, float, str]]) -> str:
    """The least of one limit while the others are kept."""
    values, _, unit = given[name]
    others = [part for other, part in given.items() if other != name]
    kept = np.all([array <= limit for array, limit, _ in others], axis=0)
    if not kept.any():
        return f"whatever the {name}, the others cannot be kept"
    return f"the others kept, the least {name} is {values[kept].min():.4g} {unit}"


def least_place(values: Array) -> tuple[int, int]:
    """The place of the least of a grid's values."""
    i, j = np.unravel_index(int(values.argmin()), values.shape)
    return int(i), int(j)
