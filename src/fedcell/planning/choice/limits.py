"""Limits of a plan, and which plans keep them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from numbers import Real
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from fedcell.core.errors import BadInput, NoPlan
from fedcell.core.quantities import parse_duration, parse_energy
from fedcell.core.types import Array, Bools
from fedcell.planning.costs.devices import DeviceEnergy, DeviceShare, device_energy, shares_of
from fedcell.planning.costs.memory import remembered
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.records import PositiveLimit
from fedcell.planning.setting import in_words
from fedcell.scenario.scenario import Scenario

from .grid import PlanGrid

Chance = Annotated[float, Meta(ge=0.5, lt=1, description="a number from 0.5 to below 1")]
PER_CLIENT, BATTERIES = "energy budget per client", "batteries"  # limits of one client


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a plan must not exceed.

    Parameters
    ----------
    deadline : float or str
        Time of a run [s], or text such as "2min"; default: no limit.
    energy : float or str
        Energy of all clients [J], or text such as "500J".
    energy_per_client : float or str
        Energy of the client that pays most [J].
    mean_energy_per_client : float or str
        Mean energy of a client [J].
    confidence : float, optional
        Chance to keep each limit, from 0.5 to below 1; default: expected values keep them.

    Examples
    --------
    >>> Limits(deadline="2min", energy=500.0, confidence=0.95).given()
    {'deadline': 120.0, 'energy': 500.0, 'confidence': 0.95}
    """

    deadline: PositiveLimit = inf  # [s]
    energy: PositiveLimit = inf  # of all clients [J]
    energy_per_client: PositiveLimit = inf  # of the client that pays most [J]
    mean_energy_per_client: PositiveLimit = inf  # [J]
    confidence: Chance | None = None  # the chance to keep each of them; None: as expected

    def __post_init__(self) -> None:
        names = ("deadline", "energy", "energy_per_client", "mean_energy_per_client")
        for name in names:
            parse = parse_duration if name == "deadline" else parse_energy
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, parse(value, name))
            if not isinstance(getattr(self, name), Real) or not getattr(self, name) > 0:
                raise BadInput(f"{name} = {getattr(self, name)}: expected a number above 0")
        chance = self.confidence
        if chance is not None and not (isinstance(chance, Real) and 0.5 <= chance < 1):
            raise BadInput(f"`confidence` = {chance}: expected a number from 0.5 to below 1")

    def given(self) -> dict[str, Any]:
        """Return the limits that are set, by name."""
        return {k: v for k, v in vars(self).items() if v is not None and isfinite(v)}

    @property
    def any(self) -> bool:
        """Tell whether a limit is set."""
        return bool(self.given().keys() - {"confidence"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """One limit over all plans: what each takes, with its spread, and what it may take."""

    values: Array  # (K, E_l), expected
    spread: Array  # standard deviation of the logarithm
    limit: float
    unit: str = ""

    def __str__(self) -> str:
        return f" of {self.limit:.4g} {self.unit}" if self.unit else ""


def bounds_of(grid: PlanGrid, limits: Limits) -> dict[str, Bound]:
    """Return the given limits, and the batteries of the clients, by name."""
    k, e = np.meshgrid(grid.cohorts, grid.steps, indexing="ij")
    count, costs = grid.scenario.clients.count, grid.round_costs

    def total(values: Array, measure: str, limit: float, unit: str) -> Bound:
        return Bound(values=values, spread=grid.spread(measure, k, e), limit=limit, unit=unit)

    def of_a_client(energy: Array, sd: Array, limit: float, unit: str = "") -> Bound:
        unsure = grid.law.spread(k, e, grid.loss_rate, grid.kind)
        spread = np.sqrt(unsure**2 + costs.between(sd, k, e) ** 2 / np.maximum(grid.rounds, 1.0))
        with np.errstate(invalid="ignore"):  # never there, at no cost
            values = grid.rounds * k * costs.between(energy, k, e)
        return Bound(values=values, spread=spread, limit=limit, unit=unit)

    bounds = {}
    if isfinite(limits.deadline):
        bounds["deadline"] = total(grid.duration, "duration", limits.deadline, "s")
    if isfinite(limits.energy):
        bounds["energy budget"] = total(grid.energy, "energy", limits.energy, "J")
    if isfinite(each := limits.mean_energy_per_client):
        bounds["mean energy budget per client"] = total(grid.energy / count, "energy", each, "J")
    if isfinite(each := limits.energy_per_client):
        highest, sd = grid.devices.highest, grid.devices.highest_sd
        bounds[PER_CLIENT] = of_a_client(highest, sd, each, "J")
    if has_batteries(grid.scenario):
        bounds[BATTERIES] = of_a_client(grid.devices.battery, grid.devices.battery_sd, 1.0)
    return bounds


def has_batteries(scenario: Scenario) -> bool:
    """Tell whether some client has a battery."""
    table, device = scenario.clients.table, scenario.device
    if device is not None and device.battery is not None:
        return True
    return table is not None and bool(np.isfinite(table.filled("battery", np.nan)).any())


def chances(law: RoundsLaw, bounds: Mapping[str, Bound]) -> dict[str, Array]:
    """Return the chance that each plan keeps each of the bounds."""
    kept = {}
    for name, bound in bounds.items():
        with np.errstate(invalid="ignore", divide="ignore"):
            away = np.log(bound.limit / bound.values) + law.excess
        away = away / np.maximum(bound.spread, 1e-9)
        kept[name] = np.where(np.isfinite(bound.values), law.share(away), 0.0)
    return kept


def at_confidence(
    law: RoundsLaw, bounds: Mapping[str, Bound], confidence: float | None
) -> Mapping[str, Bound]:
    """Return bounds with the quantile of `confidence` of what each plan takes; None: expected."""
    if confidence is None:
        return bounds
    q = law.quantile(confidence)
    return {
        name: replace(b, values=b.values * np.exp(q * b.spread - law.excess))
        for name, b in bounds.items()
    }


def allowed_plans(
    grid: PlanGrid, asked: Mapping[str, Bound], confidence: float | None = None
) -> Bools:
    """Return the plans within bounds, which are `at_confidence`; if there are none, NoPlan names
    the limit that no plan keeps."""
    allowed = grid.candidates.copy()
    sure = "" if confidence is None else f" with a chance of {confidence:.4g}"
    alone = []
    for name, bound in asked.items():
        if (bound.values > bound.limit)[grid.candidates].all():
            i, j = least_place(np.where(grid.candidates, bound.values, np.inf))
            least = f"{bound.values[i, j]:.4g} {bound.unit}".strip() + _whose(grid, name, i, j)
            alone.append(
                f"no plan keeps the {name}{bound}{sure}: the least is {least}, with "
                f"{in_words(grid.cohorts[i], grid.steps[j])}"
            )
        allowed &= bound.values <= bound.limit
    if alone:
        raise NoPlan(*alone)
    if not allowed.any():
        raise NoPlan(
            f"no plan keeps the {' and the '.join(asked)} together: "
            + "; ".join(_alone(name, asked, grid.candidates) for name in asked)
        )
    return allowed


def _whose(grid: PlanGrid, name: str, i: int, j: int) -> str:
    """Name the client that a limit is about, with one plan of the grid."""
    if name not in (PER_CLIENT, BATTERIES):
        return ""
    devices = devices_at(grid, i, j)
    if name == PER_CLIENT:
        return f" of {max(devices, key=lambda d: d.energy).title}"
    worst = max(devices, key=lambda d: d.battery_share)
    return f" times what {worst.title} has ({worst.battery:.4g} J)"


def energy_at(grid: PlanGrid, i: int, j: int) -> DeviceEnergy:
    """Return what a round takes from each client with one plan of a grid."""
    world = grid.scenario.with_plan(int(grid.cohorts[i]), int(grid.steps[j]))
    return remembered(
        *("devices", world, grid.policy, (grid.seed,)),
        lambda: device_energy(world, grid.fleet, grid.policy, grid.seed, grid.upload_moments),
    )


def devices_at(
    grid: PlanGrid, i: int, j: int, energy: DeviceEnergy | None = None
) -> tuple[DeviceShare, ...]:
    """Return what clients are expected to spend with one plan of a grid; `energy` is that of a
    round, where it is known already."""
    energy = energy_at(grid, i, j) if energy is None else energy
    return shares_of(grid.scenario, grid.fleet, energy, float(grid.rounds[i, j]))


def _alone(name: str, given: Mapping[str, Bound], candidates: Bools) -> str:
    """Say the least value of one limit while the others are kept."""
    others = [bound for other, bound in given.items() if other != name]
    kept = candidates & np.all([bound.values <= bound.limit for bound in others], axis=0)
    if not kept.any():
        return f"whatever the {name}, the others cannot be kept"
    least = f"{given[name].values[kept].min():.4g} {given[name].unit}".strip()
    return f"the others kept, the least {name} is {least}"


def least_place(values: Array) -> tuple[int, int]:
    """Return the indices of the least of a grid's values."""
    i, j = np.unravel_index(int(values.argmin()), values.shape)
    return int(i), int(j)
