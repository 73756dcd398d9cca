"""What each client of a plan is expected to spend: how often it is called, times what a call costs.

A run calls a client a few times only, so its joules are not counted in drawn rounds. How often it
is called is known; what uploading takes is a mean over the gains at which it is heard, whatever the
policy (7); and what training takes, which hardly varies, is a mean over drawn rounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from fedcell.core.schema import NotNegative, Positive, Text, Whole
from fedcell.core.showing import client_title
from fedcell.core.streams import replicate_seeds
from fedcell.core.types import Array
from fedcell.network.channel import rate_per_hertz, upload_energy
from fedcell.network.channels.gains import heard_gains
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.participation import chance_called, chance_heard
from fedcell.network.physics.pricing import client_energy
from fedcell.network.physics.timeline import PARTS, Timeline
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import PolicyLike, resolve_policy
from fedcell.network.round import price
from fedcell.network.simulate import idle_costs, pose_each
from fedcell.network.trace import MANY, Fleet
from fedcell.planning.records import Share
from fedcell.scenario.scenario import Scenario

from .memory import remembered
from .rounds import RoundCosts

CALLS = 100  # of a client, for a mean; fewer where that takes more than
PLACES = 200_000  # clients of rounds in all, or
ROUNDS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)  # a table may list a million
class DeviceShare:
    """What one client of a plan is expected to do and to spend until the target."""

    client: Whole
    name: Text | None
    heard: Share  # share of rounds in which its channel and data let it take part
    called: NotNegative  # rounds in which it trains and uploads
    energy: NotNegative  # [J]
    battery: Positive | None  # what it may spend [J]; None: not counted

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
    square: Array  # of the energy, on average [J^2]

    def relative_sd(self, who: Any = slice(None)) -> Array:
        """From round to round; mostly whether it is called at all."""
        first, second = self.mean[who], self.square[who]
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.sqrt(np.maximum(second / first**2 - 1, 0.0))
        return np.where(first > 0, spread, 0.0)


def device_energy(
    scenario: Scenario,
    fleet: Fleet,
    policy: PolicyLike,
    seed: int,
    uploads: tuple[Array, Array] | None = None,
) -> DeviceEnergy:
    """What the clients of a fleet spend in a round with the scenario's K and E_l. `uploads` are
    those of `upload_moments`, where they are known already."""
    return next(_device_energies([scenario], fleet, policy, seed, uploads))


def _device_energies(
    worlds: Sequence[Scenario],
    fleet: Fleet,
    policy: PolicyLike,
    seed: int,
    uploads: tuple[Array, Array] | None = None,
) -> Iterator[DeviceEnergy]:
    """The same in each of several worlds that differ in E_l only, one after the other."""
    heard, called = chance_heard(worlds[0], fleet), chance_called(worlds[0], fleet)
    upload, upload_square = upload_moments(worlds[0], fleet) if uploads is None else uploads
    trainings = _training_moments(worlds, fleet, policy, seed)
    for world, (train, train_square) in zip(worlds, trainings, strict=True):
        first = called * (train + upload)
        second = called * (train_square + 2 * train * upload + upload_square)
        if world.plan.cohort_drawn == "after-training":  # the others that are heard train in vain
            spent = idle_costs(world, fleet)[1]
            first = first + (heard - called) * spent
            second = second + (heard - called) * spent**2
        yield DeviceEnergy(heard=heard, called=called, mean=first, square=second)


def device_parts(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, seed: int = 0
) -> Mapping[str, Array]:
    """Return the expected joules of each client in a round, by part, (client,).

    Parts are those of a `Timeline`; they sum to the `mean` of `device_energy`, and "wait" holds
    what clients train in vain, where the cohort is drawn after training.
    """
    n, called = fleet.count, chance_called(scenario, fleet)
    total = remembered_energy(scenario, fleet, policy, seed).mean
    if fleet.hardware is None:
        upload = called * upload_moments(scenario, fleet)[0]
        idle = np.zeros(n)
        if scenario.plan.cohort_drawn == "after-training":
            idle = (chance_heard(scenario, fleet) - called) * idle_costs(scenario, fleet)[1]
        return {"train": total - upload - idle, "upload": upload, "wait": idle}
    answer = resolve_policy(policy, Broadcast.to(scenario, fleet))
    sums = {part: np.zeros(n) for part in PARTS}
    rounds = min(ROUNDS, -(-min(CALLS * n, PLACES) // scenario.plan.cohort))
    if scenario.cell.recorded is not None:
        rounds = min(rounds, scenario.rounds)
    for _, part in draw_trace(scenario, fleet, rounds, replicate_seeds(seed, 1)[0]).by_size():
        if part.cohort.shape[1]:
            problem = next(pose_each([scenario], fleet, part))
            energy = Timeline.of(price(problem, answer(problem))).energy
            for name, joules in energy.items():
                sums[name] += np.bincount(part.cohort.ravel(), joules.ravel(), n)
    # The share of each part in drawn rounds; a client that none of them called only trains.
    drawn = sum(sums.values())
    sums["train"] = np.where(drawn > 0, sums["train"], 1.0)
    whole = np.where(drawn > 0, drawn, 1.0)
    return {name: total * joules / whole for name, joules in sums.items()}


def remembered_energy(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, seed: int
) -> DeviceEnergy:
    """Return `device_energy`, from the memory where it is known."""
    return remembered(
        *("devices", scenario, policy, (seed,)),
        lambda: device_energy(scenario, fleet, policy, seed),
    )


def device_shares(
    scenario: Scenario, policy: PolicyLike, rounds: float, seed: int = 0
) -> tuple[DeviceShare, ...]:
    """Return what each client of a table is expected to spend in `rounds` rounds of the scenario:
    where clients are drawn, that of the one with the highest energy use."""
    fleet = draw_fleet(scenario, seed)
    return shares_of(scenario, fleet, device_energy(scenario, fleet, policy, seed), rounds)


def shares_of(
    scenario: Scenario, fleet: Fleet, found: DeviceEnergy, rounds: float
) -> tuple[DeviceShare, ...]:
    """The same, where what a round takes from each client is known."""
    listed, names = scenario.clients.table is not None, scenario.clients.names
    some = np.arange(fleet.count) if listed else np.array([int(found.mean.argmax())])
    columns = found.heard, rounds * found.called, rounds * found.mean, fleet.batteries
    return tuple(
        DeviceShare(
            client=j,
            name=None if names is None else names[j],
            heard=heard,
            called=called,
            energy=energy,
            battery=charge if isfinite(charge) else None,
        )
        for j, heard, called, energy, charge in zip(
            some.tolist(), *(column[some].tolist() for column in columns), strict=True
        )
    )


def most_spent(energy: DeviceEnergy, fleet: Fleet, rounds: float) -> tuple[float, float]:
    """Return the most that a client spends in `rounds` rounds [J], and of its battery."""
    spent = rounds * energy.mean
    return float(spent.max()), float((spent / fleet.batteries).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceCosts:
    """A round for the clients that matter to limits, over the nodes of `RoundCosts`: (K, E_l)."""

    highest: Array  # energy of the client that pays most, over K [J]
    highest_sd: Array  # from round to round, relative
    battery: Array  # the largest share of a battery that a round takes, over K; 0 without any
    battery_sd: Array


def price_devices(
    scenario: Scenario,
    policy: PolicyLike,
    nodes: RoundCosts,
    seed: int,
    fleet: Fleet,
    uploads: tuple[Array, Array],
) -> DeviceCosts:
    """Prices the clients that pay most, and that use most of their battery, at the nodes."""
    found = np.zeros((4, nodes.cohorts.size, nodes.steps.size))
    for i, k in enumerate(nodes.cohorts.tolist()):
        worlds = [scenario.with_plan(k, e) for e in nodes.steps.tolist()]
        for j, each in enumerate(_device_energies(worlds, fleet, policy, seed, uploads)):
            spent = [each.mean] if fleet.battery is None else [each.mean, each.mean / fleet.battery]
            for n, energy in enumerate(spent):
                who = int(energy.argmax())
                found[2 * n : 2 * n + 2, i, j] = energy[who] / k, each.relative_sd(who)
    names = ("highest", "highest_sd", "battery", "battery_sd")
    return DeviceCosts(**dict(zip(names, found, strict=True)))


def upload_moments(scenario: Scenario, fleet: Fleet) -> tuple[Array, Array]:
    """Mean and mean square of the energy of an upload of each client that is heard, (client,). With
    declared hardware it depends on the policy, and is counted in drawn rounds with the rest: 0."""
    first, second = np.zeros(fleet.count), np.zeros(fleet.count)
    if fleet.hardware is not None:
        return first, second
    for begin in range(0, fleet.count, MANY):
        block = slice(begin, begin + MANY)
        power, has_data = fleet.power[block], fleet.samples[block] > 0  # else it is never called
        for gain, weight in heard_gains(scenario, fleet, block):
            rate = rate_per_hertz(power, gain, scenario.cell.noise)
            energy = np.where(has_data, upload_energy(scenario.model_bits, power, rate), 0.0)
            first[block] += (weight * energy).sum(0)
            second[block] += (weight * energy**2).sum(0)
    return first, second


def _training_moments(
    worlds: Sequence[Scenario], fleet: Fleet, policy: PolicyLike, seed: int
) -> Iterator[tuple[Array, Array]]:
    """Mean and mean square of the energy of a training of each client that is called, (client,), in
    each of several worlds that differ in E_l only: over drawn rounds, in which it has the company
    that it has in a run. With declared hardware it is that of all that the client does."""
    scenario, n = worlds[0], fleet.count
    wanted = min(ROUNDS, -(-min(CALLS * n, PLACES) // scenario.plan.cohort))
    rounds = min(wanted, scenario.rounds) if scenario.cell.recorded is not None else wanted
    policies = [resolve_policy(policy, Broadcast.to(world, fleet)) for world in worlds]
    calls, sums = np.zeros(n), np.zeros((len(worlds), 2, n))  # energy and its square
    for again in replicate_seeds(seed, -(-wanted // rounds)):
        for _, part in draw_trace(scenario, fleet, rounds, again).by_size():
            if part.cohort.shape[1] == 0:
                continue
            who = part.cohort.ravel()
            calls += np.bincount(who, minlength=n)
            for i, problem in enumerate(pose_each(worlds, fleet, part)):
                cost = price(problem, policies[i](problem))
                energy = cost.compute_energy if fleet.hardware is None else client_energy(cost)
                for total, values in zip(sums[i], (energy, energy**2), strict=True):
                    total += np.bincount(who, values.ravel(), n)
    calls_or_one = np.maximum(calls, 1)
    for world, (first, second) in zip(worlds, sums, strict=True):
        own = idle_costs(world, fleet)[1]  # seldom called: as if it chose for itself
        yield (
            np.where(calls > 0, first / calls_or_one, own),
            np.where(calls > 0, second / calls_or_one, own**2),
        )
