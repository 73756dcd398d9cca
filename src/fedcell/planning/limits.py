"""What a plan must not exceed, and which plans keep it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.scenario.arrays import Array

from .fit import NORMAL, Fit
from .grid import Chart


class NoPlan(BadInput):
    """No K and E_l keep within the limits."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a plan must not exceed; infinite where it may."""

    deadline: float = float("inf")  # [s]
    energy: float = float("inf")  # of all clients [J]
    energy_per_client: float = float("inf")  # mean over clients [J]
    sure: bool = False  # keep within them at the upper end of what is predicted

    def __post_init__(self) -> None:
        for name in ("deadline", "energy", "energy_per_client"):
            if not isinstance(getattr(self, name), Real) or not getattr(self, name) > 0:
                raise BadInput(f"{name} = {getattr(self, name)}: expected a number above 0")


def upper(rounds: Any, high: Any, varies: Any, error: Any) -> Any:
    """How many times larger than its value a sum over G rounds may be: G is unsure, every round
    varies, and the mean of a round is known to an error (both relative)."""
    unsure = NORMAL * np.hypot(varies / np.sqrt(np.maximum(rounds, 1.0)), error)
    return np.exp(np.hypot(np.log(high / rounds), unsure))


def within_limits(over: Chart, limits: Limits) -> Any:
    """Plans within the limits; if there are none, NoPlan says which limit is in the way."""
    seconds, joules = over.seconds, over.joules
    if limits.sure:
        k, e = np.meshgrid(over.cohorts, over.steps, indexing="ij")
        mean = high = over.rounds
        if isinstance(over.law, Fit):
            gamma = over.scenario.cell.loss_rate
            mean, _, high = over.law.predict(k, e, gamma, kind=over.kind)
        seconds, joules = (
            values
            * upper(mean, high, over.surface.varies(name, k, e), over.surface.error(name, k, e))
            for name, values in (("seconds", seconds), ("joules", joules))
        )
    count = over.scenario.clients.count
    asked = {
        "deadline": (seconds, limits.deadline, "s"),
        "energy budget": (joules, limits.energy, "J"),
        "energy budget per client": (joules / count, limits.energy_per_client, "J"),
    }
    allowed = np.ones(seconds.shape, bool)
    alone = []
    for name, (values, limit, unit) in asked.items():
        if (values > limit).all():
            i, j = least(values)
            alone.append(
                f"no plan keeps the {name} of {limit:.4g} {unit}: the least is "
                f"{values[i, j]:.4g} {unit}, with K = {over.cohorts[i]}, E_l = {over.steps[j]}"
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


def least(values: Array) -> tuple[int, int]:
    """The place of the least of a chart's values."""
    i, j = np.unravel_index(int(values.argmin()), values.shape)
    return int(i), int(j)
