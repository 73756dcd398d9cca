"""What each client of a plan is expected to spend: how often it is called, times what a call costs.

A run calls a client a few times only, so its joules are not counted in drawn rounds. How often it
is called is known; what uploading takes is a mean over the gains at which it is heard, whatever the
policy (7); and what training takes, which hardly varies, is a mean over drawn rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedcell.core.dice import replicate_seeds
from fedcell.core.showing import client_title
from fedcell.core.types import Array
from fedcell.network.channel import heard_gain, is_heard
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.participation import chance_called, chance_heard
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import PolicyLike, resolve_policy
from fedcell.network.round import make_problem, price
from fedcell.network.simulate import idle_costs, pose
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario

from .round_costs import RoundCosts

CALLS = 100  # of a client, for a mean; fewer where that takes more than
PLACES = 200_000  # clients of rounds in all, or
ROUNDS = 1000
POINTS = 128  # of fading, for a mean over it


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


def device_energy(
    scenario: Scenario,
    fleet: Fleet,
    policy: PolicyLike,
    seed: int,
    uploads: tuple[Array, Array] | None = None,
) -> DeviceEnergy:
    """What the clients of a fleet spend in a round with the scenario's K and E_l. `uploads` are
    those of `upload_moments`, where they are known already."""
    heard, called = chance_heard(scenario, fleet), chance_called(scenario, fleet)
    train, train_square = _training_moments(scenario, fleet, policy, seed)
    upload, upload_square = upload_moments(scenario, fleet) if uploads is None else uploads
    first = called * (train + upload)
    second = called * (train_square + 2 * train * upload + upload_square)
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
    uploads = upload_moments(scenario, fleet)  # the same for every K and E_l
    found = np.empty((4, nodes.cohorts.size, nodes.steps.size))
    for i, k in enumerate(nodes.cohorts.tolist()):
        for j, e in enumerate(nodes.steps.tolist()):
            each = device_energy(scenario.with_plan(k, e), fleet, policy, seed, uploads)
            for n, energy in enumerate((each.mean, each.mean / battery)):
                who = int(energy.argmax())
                found[2 * n : 2 * n + 2, i, j] = energy[who] / k, each.relative_sd[who]
    names = ("highest", "highest_sd", "battery", "battery_sd")
    return DeviceCosts(**dict(zip(names, found, strict=True)))


def upload_moments(scenario: Scenario, fleet: Fleet) -> tuple[Array, Array]:
    """Mean and mean square of the energy of an upload of each client that is heard, (client,)."""
    first, second = np.zeros(fleet.count), np.zeros(fleet.count)
    some = np.flatnonzero(fleet.samples > 0)  # who has no data is never called
    for gain, weight in _heard_gains(scenario, fleet):
        called = Trace.of(gain[:, some])
        called = replace(called, cohort=np.broadcast_to(some, called.cohort.shape))
        energy = np.zeros(gain.shape)
        energy[:, some] = make_problem(scenario, fleet, called).upload_energy
        first += (weight * energy).sum(0)
        second += (weight * energy**2).sum(0)
    return first, second


def _heard_gains(scenario: Scenario, fleet: Fleet) -> Iterator[tuple[Array, Array]]:
    """Gains at which each client is heard, and their weights, some points at a time: (point,
    client). Those that are measured, or of fading more of the low ones, at which uploads are dear.
    """
    step = max(1, PLACES // fleet.count)
    if scenario.cell.gains is not None:
        values = scenario.cell.gains.values
        heard = is_heard(scenario, values)
        weight = heard / np.maximum(heard.sum(0), 1)
        for first in range(0, len(values), step):
            part = slice(first, first + step)
            yield np.where(heard[part], values[part], 1.0), weight[part]
        return
    points = ((np.arange(POINTS) + 0.5) / POINTS)[:, None]
    for first in range(0, POINTS, step):
        s = points[first : first + step]  # dice are s^3, with density 3 s^2
        yield heard_gain(scenario, fleet.mean_gain, s**3), 3 * s**2 / POINTS


def _training_moments(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, seed: int
) -> tuple[Array, Array]:
    """Mean and mean square of the energy of a training of each client that is called, (client,):
    over drawn rounds, in which it has the company that it has in a run."""
    n, K = fleet.count, scenario.plan.cohort
    wanted = min(ROUNDS, -(-min(CALLS * n, PLACES) // K))
    rounds = min(wanted, scenario.rounds) if scenario.cell.gains is not None else wanted
    answer = resolve_policy(policy, Broadcast.to(scenario, fleet))
    sums = np.zeros((3, n))  # calls, energy and its square
    for again in replicate_seeds(seed, -(-wanted // rounds)):
        for _, part in draw_trace(scenario, fleet, rounds, again).by_size():
            if part.cohort.shape[1]:
                problem = pose(scenario, fleet, part)
                energy = price(problem, answer(problem)).compute_energy
                for total, values in zip(sums, (energy**0, energy, energy**2), strict=True):
                    total += np.bincount(part.cohort.ravel(), values.ravel(), n)
    calls, first, second = sums
    own = idle_costs(scenario, fleet)[1]  # who is so seldom called: as if it chose for itself
    calls_or_one = np.maximum(calls, 1)
    return (
        np.where(calls > 0, first / calls_or_one, own),
        np.where(calls > 0, second / calls_or_one, own**2),
    )
