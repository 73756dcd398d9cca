"""What each client of a plan is expected to spend: how often it is called, times what a call costs.

A run calls a client a few times only, so its joules are not counted in drawn rounds. How often it
is called is known, and what a call takes is the mean over rounds in which all are called alike.
"""

from dataclasses import dataclass

import numpy as np

from fedcell.core.dice import Purpose, uniform
from fedcell.core.showing import client_title
from fedcell.core.types import Array, Ints
from fedcell.network.channel import is_heard
from fedcell.network.draw import draw_fleet
from fedcell.network.participation import chance_called, chance_heard
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import PolicyLike, resolve_policy
from fedcell.network.round import price
from fedcell.network.simulate import idle_costs, pose
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario

from .round_costs import RoundCosts

CALLS = 32  # of each client for a mean; fewer where there are more than PLACES of them in all
PLACES = 200_000


@dataclass(frozen=True, kw_only=True)
class DeviceShare:
    """What one client of a plan is expected to do and to spend until the target."""

    client: int
    name: str | None
    heard: float  # share of rounds in which its channel and data let it take part
    called: float  # rounds in which it trains and uploads
    energy: float  # [J]
    battery: float | None  # what it may spend [J]; None: not counted

    @property
    def title(self) -> str:
        """What it is called."""
        return client_title(self.client, self.name)

    @property
    def battery_share(self) -> float:
        """The part of its battery that it is expected to spend; 0 where that is not counted."""
        return 0.0 if self.battery is None else self.energy / self.battery


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceEnergy:
    """The energy of each client in a round, on average over rounds, (client,) [J]."""

    heard: Array
    called: Array  # share of rounds
    mean: Array
    relative_sd: Array  # from round to round; mostly whether it is called at all


def device_energy(scenario: Scenario, fleet: Fleet, policy: PolicyLike, seed: int) -> DeviceEnergy:
    """What the clients of a fleet spend in a round with the scenario's K and E_l."""
    heard, called = chance_heard(scenario, fleet), chance_called(scenario, fleet)
    trace = _all_called(scenario, fleet, np.flatnonzero(heard > 0), seed)
    problem = pose(scenario, fleet, trace)
    cost = price(problem, resolve_policy(policy, Broadcast.to(scenario, fleet))(problem))
    energy = (cost.compute_energy + cost.upload_energy).ravel()

    def over_calls(values: Array) -> Array:
        who, n = trace.cohort.ravel(), fleet.count
        return np.bincount(who, values, n) / np.maximum(np.bincount(who, minlength=n), 1)

    first, second = called * over_calls(energy), called * over_calls(energy**2)
    if scenario.plan.cohort_drawn == "after-training":  # the others that are heard train in vain
        spent = idle_costs(scenario, fleet)[1]
        first, second = first + (heard - called) * spent, second + (heard - called) * spent**2
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.maximum(second / first**2 - 1, 0.0))
    relative_sd = np.where(first > 0, spread, 0.0)
    return DeviceEnergy(heard=heard, called=called, mean=first, relative_sd=relative_sd)


def device_shares(
    scenario: Scenario, policy: PolicyLike, rounds: float, seed: int = 0
) -> tuple[DeviceShare, ...]:
    """What each client of a table is expected to spend in so many rounds with the scenario's K and
    E_l; where clients are drawn, that of the one which pays most."""
    fleet = draw_fleet(scenario, seed)
    found = device_energy(scenario, fleet, policy, seed)
    listed = scenario.clients.table is not None
    names = scenario.clients.names
    return tuple(
        DeviceShare(
            client=j,
            name=None if names is None else names[j],
            heard=float(found.heard[j]),
            called=rounds * float(found.called[j]),
            energy=rounds * float(found.mean[j]),
            battery=None
            if fleet.battery is None or not np.isfinite(fleet.battery[j])
            else float(fleet.battery[j]),
        )
        for j in (range(fleet.count) if listed else [int(found.mean.argmax())])
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceCosts:
    """A round for the clients that matter to limits, over the nodes of `RoundCosts`: (K, E_l)."""

    highest: Array  # energy of the client that pays most, over K [J]
    highest_sd: Array  # from round to round, relative
    battery: Array  # the largest share of a battery that a round takes, over K; 0 without any
    battery_sd: Array


def price_devices(
    scenario: Scenario, policy: PolicyLike, nodes: RoundCosts, seed: int = 0
) -> DeviceCosts:
    """Prices the clients that pay most, and that use most of their battery, at the nodes."""
    fleet = draw_fleet(scenario, seed)
    battery = np.full(fleet.count, np.inf) if fleet.battery is None else fleet.battery
    found = np.empty((4, nodes.cohorts.size, nodes.steps.size))
    for i, k in enumerate(nodes.cohorts.tolist()):
        for j, e in enumerate(nodes.steps.tolist()):
            each = device_energy(scenario.with_plan(k, e), fleet, policy, seed)
            for n, energy in enumerate((each.mean, each.mean / battery)):
                who = int(energy.argmax())
                found[2 * n : 2 * n + 2, i, j] = energy[who] / k, each.relative_sd[who]
    names = ("highest", "highest_sd", "battery", "battery_sd")
    return DeviceCosts(**dict(zip(names, found, strict=True)))


def _all_called(scenario: Scenario, fleet: Fleet, who: Ints, seed: int) -> Trace:
    """Rounds with cohorts of K in which each of some clients is called as often as the others, and
    heard: its gain is drawn from those at which it takes part, one from each equal part of them."""
    K, n = min(scenario.plan.cohort, who.size), who.size
    orders = int(np.clip(PLACES // n, 1, CALLS))
    place = uniform(Purpose.SELECTION, seed, range(orders), n).argsort(1)
    place = np.hstack([place, place[:, : -n % K]])  # fills up the last cohort of an order
    cohort = who[place].reshape(-1, K)
    part = uniform(Purpose.FADING, seed, range(orders), n).argsort(0)
    within = uniform(Purpose.FADING, seed, range(orders, 2 * orders), n)
    dice = np.take_along_axis((part + within) / orders, place, axis=1).reshape(-1, K)
    if scenario.cell.gains is None:  # exponential: what is above a threshold is exponential again
        gain = scenario.min_gain + fleet.mean_gain[cohort] * -np.log1p(-dice)
    else:
        values = scenario.cell.gains.values
        heard = is_heard(scenario, values)
        first = np.argsort(~heard, axis=0, kind="stable")  # rounds in which it is heard stand first
        gain = values[first[(dice * heard.sum(0)[cohort]).astype(np.int64), cohort], cohort]
    none = np.zeros(len(cohort), np.int64)
    return Trace(
        cohort=cohort,
        gain=np.asarray(gain),
        lost=np.zeros(cohort.shape, bool),
        count=np.ones(cohort.shape, np.int64),
        excluded_by_channel=none,
        excluded_by_data=none,
    )
