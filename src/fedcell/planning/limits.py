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

from .design import in_words
from .grid import PlanGrid
from .round_costs import MEASURES


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a plan must not exceed, in seconds and joules or as text; infinite where it may.

    >>> Limits(deadline="2min", energy=500.0, confidence=0.95).given()
    {'deadline': 120.0, 'energy': 500.0, 'confidence': 0.95}
    """

    deadline: float = inf  # [s]
    energy: float = inf  # of all clients [J]
    energy_per_client: float = inf  # mean over clients [J]
    confidence: float | None = None  # the chance to keep each of them; None: as expected

    def __post_init__(self) -> None:
        for name, parse in (("deadline", parse_duration), ("energy", parse_energy)):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, parse(value, name))
        for name in ("deadline", "energy", "energy_per_client"):
            if not isinstance(getattr(self, name), Real) or not getattr(self, name) > 0:
                raise BadInput(f"{name} = {getattr(self, name)}: expected a number above 0")
        chance = self.confidence
        if chance is not None and not (isinstance(chance, Real) and 0.5 <= chance < 1):
            raise BadInput(f"`confidence` = {chance}: expected a number from 0.5 to below 1")

    def given(self) -> dict[str, Any]:
        """Those that were asked for, by name."""
        return {k: v for k, v in vars(self).items() if v is not None and isfinite(v)}

    @property
    def any(self) -> bool:
        """Whether there is something to be kept."""
        return bool(self.given().keys() - {"confidence"})


def totals_of(grid: PlanGrid, limits: Limits) -> dict[str, tuple[Array, float, str, str]]:
    """What each limit is about: all plans' values, the limit, its unit, and its measure."""
    count = grid.scenario.clients.count
    return {
        "deadline": (grid.duration, limits.deadline, "s", "duration"),
        "energy budget": (grid.energy, limits.energy, "J", "energy"),
        "energy budget per client": (grid.energy / count, limits.energy_per_client, "J", "energy"),
    }


def chances(grid: PlanGrid, limits: Limits) -> dict[str, Array]:
    """The chance that each plan keeps each limit that was asked for."""
    k, e = np.meshgrid(grid.cohorts, grid.steps, indexing="ij")
    found = {}
    for name, (values, limit, _, measure) in totals_of(grid, limits).items():
        if isfinite(limit):
            sd = grid.spread(measure, k, e)
            with np.errstate(invalid="ignore", divide="ignore"):
                away = (np.log(limit / values) + grid.law.excess) / np.maximum(sd, 1e-9)
            found[name] = np.where(np.isfinite(values), grid.law.share(away), 0.0)
    return found


def allowed_plans(grid: PlanGrid, limits: Limits) -> Bools:
    """Plans within the limits; if there are none, NoPlan says which limit is in the way."""
    asked = totals_of(grid, limits)
    if limits.confidence is not None:  # what is kept so often is kept at that quantile
        k, e = np.meshgrid(grid.cohorts, grid.steps, indexing="ij")
        q = grid.law.quantile(limits.confidence)
        factors = {m: np.exp(q * grid.spread(m, k, e) - grid.law.excess) for m in MEASURES}
        asked = {n: (v * factors[m], limit, u, m) for n, (v, limit, u, m) in asked.items()}
    allowed = grid.candidates.copy()
    sure = "" if limits.confidence is None else f" with a chance of {limits.confidence:.4g}"
    alone = []
    for name, (values, limit, unit, _) in asked.items():
        if (values > limit)[grid.candidates].all():
            i, j = least_place(np.where(grid.candidates, values, np.inf))
            alone.append(
                f"no plan keeps the {name} of {limit:.4g} {unit}{sure}: the least is "
                f"{values[i, j]:.4g} {unit}, with {in_words(grid.cohorts[i], grid.steps[j])}"
            )
        allowed &= values <= limit
    if alone:
        raise NoPlan(*alone)
    if not allowed.any():
        given = {name: part for name, part in asked.items() if isfinite(part[1])}
        raise NoPlan(
            f"no plan keeps the {' and the '.join(given)} together: "
            + "; ".join(_alone(name, given, grid.candidates) for name in given)
        )
    return allowed


def _alone(name: str, given: Mapping[str, tuple[Array, float, str, str]], candidates: Bools) -> str:
    """The least of one limit while the others are kept."""
    values, _, unit, _ = given[name]
    others = [part for other, part in given.items() if other != name]
    kept = candidates & np.all([array <= limit for array, limit, *_ in others], axis=0)
    if not kept.any():
        return f"whatever the {name}, the others cannot be kept"
    return f"the others kept, the least {name} is {values[kept].min():.4g} {unit}"


def least_place(values: Array) -> tuple[int, int]:
    """The place of the least of a grid's values."""
    i, j = np.unravel_index(int(values.argmin()), values.shape)
    return int(i), int(j)
