"""How long batteries last: joules by part, rounds, and days at a stated rate of rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from fedcell.core.showing import client_title
from fedcell.core.types import Array
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.participation import chance_called, chance_heard
from fedcell.network.physics.timeline import PARTS, Timeline
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import PolicyLike, resolve_policy
from fedcell.network.round import price
from fedcell.network.simulate import idle_costs, pose, price_trace
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

DAY = 86400.0  # [s]
ROUNDS = 400  # of K clients, at most PLACES of them
PLACES = 20_000
MAX_NAMED = 3  # clients in notes


@dataclass(frozen=True, kw_only=True)
class BatteryLife:
    """How long the battery of a client lasts.

    Attributes
    ----------
    client : int
        The client, and its `name` where it has one.
    battery : float
        What it holds [J].
    energy : mapping of str to float
        Joules of a round by part ("download", "train", "upload", "wait", "tail"), on average over
        all rounds, with those that do not call it.
    rounds : float
        Rounds of the training that it lasts.
    days : float or None
        Days at device.rounds_per_day, with what it draws between rounds as device.between_rounds
        says; None where no rate is stated.
    """

    client: int
    name: str | None
    battery: float
    energy: Mapping[str, float]
    rounds: float
    days: float | None

    def __str__(self) -> str:
        total = sum(self.energy.values())
        parts = ", ".join(
            f"{part} {_two(joules)}" for part, joules in self.energy.items() if joules
        )
        days = "" if self.days is None else f", {_two(self.days)} days"
        return (
            f"{client_title(self.client, self.name)}: {_two(total)} J a round on average "
            f"({parts}); its battery of {_two(self.battery)} J lasts {_two(self.rounds)} "
            f"rounds{days}"
        )


def battery_lives(
    scenario: Scenario, policy: PolicyLike = "optimal", seed: int = 0, fleet: Fleet | None = None
) -> tuple[BatteryLife, ...]:
    """Return how long the batteries of a scenario last under a policy, the shortest lives first.

    Parameters
    ----------
    scenario : Scenario
        Its plan has K and E_l.
    policy : str, Policy or class
        What divides the band and sets the clocks.
    seed : int
        Random seed of the fleet and of the rounds.
    fleet : Fleet, optional
        The scenario's fleet, where it is drawn already.

    Returns
    -------
    tuple of BatteryLife
        One for each client with a battery.

    Examples
    --------
    >>> from fedcell import Scenario
    >>> world = Scenario().using(device={"battery": 5e4, "idle_power": 0.2})
    >>> len(battery_lives(world, "even"))
    100
    """
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    powered = np.flatnonzero(np.isfinite(fleet.batteries))
    if powered.size == 0:
        return ()
    energy, seconds = _each_round(scenario, fleet, policy, seed)
    total = np.sum(list(energy.values()), axis=0)
    with np.errstate(divide="ignore"):
        rounds = fleet.batteries / total
    days = _days(scenario, fleet, total, seconds)
    names = scenario.clients.names
    order = powered[np.argsort(rounds[powered], kind="stable")]
    return tuple(
        BatteryLife(
            client=j,
            name=None if names is None else names[j],
            battery=float(fleet.batteries[j]),
            energy={part: float(energy[part][j]) for part in PARTS},
            rounds=float(rounds[j]),
            days=None if days is None else float(days[j]),
        )
        for j in order.tolist()
    )


def energy_by_part(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, seed: int, energy: float
) -> dict[str, float]:
    """Return the joules of an energy by part, as they are in drawn rounds; empty where neither
    radios nor devices are declared."""
    if fleet.hardware is None:
        return {}
    trace = draw_trace(scenario, fleet, _drawn_rounds(scenario), seed)
    parts = price_trace(scenario, fleet, trace, policy, seed).energy_by_part
    total = sum(parts.values())
    return {part: energy * joules / total for part, joules in parts.items()} if total else {}


def _drawn_rounds(scenario: Scenario) -> int:
    """Return the rounds over which joules by part are averaged."""
    wanted = max(1, min(ROUNDS, PLACES // scenario.plan.cohort))
    return wanted if scenario.cell.recorded is None else min(wanted, scenario.rounds)


def _each_round(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, seed: int
) -> tuple[dict[str, Array], Array]:
    """Return joules by part and seconds in a round of each client, on average over all rounds."""
    n, plan, rounds = fleet.count, scenario.plan, _drawn_rounds(scenario)
    chosen = resolve_policy(policy, Broadcast.to(scenario, fleet))
    calls, seconds = np.zeros(n), np.zeros(n)
    sums = {part: np.zeros(n) for part in PARTS}
    for _, part in draw_trace(scenario, fleet, rounds, seed).by_size():
        if part.cohort.shape[1] == 0:
            continue
        problem = pose(scenario, fleet, part)
        cost = price(problem, chosen(problem))
        line = Timeline.of(cost, scenario.cell.broadcast_time)
        who = part.cohort.ravel()
        calls += np.bincount(who, minlength=n)
        length = np.broadcast_to(line.duration[:, None], part.cohort.shape)
        seconds += np.bincount(who, length.ravel(), n)
        for name, values in line.energy.items():
            sums[name] += np.bincount(who, values.ravel(), n)
    heard, called = chance_heard(scenario, fleet), chance_called(scenario, fleet)
    unknown = calls == 0  # as an average client where it was not drawn
    mean = {
        name: np.where(unknown, values.sum() / max(calls.sum(), 1), values / np.maximum(calls, 1))
        for name, values in sums.items()
    }
    energy = {name: called * values for name, values in mean.items()}
    if plan.cohort_drawn == "after-training":
        energy["train"] = energy["train"] + (heard - called) * idle_costs(scenario, fleet)[1]
    length = np.where(unknown, seconds.sum() / max(calls.sum(), 1), seconds / np.maximum(calls, 1))
    return energy, called * length


def _days(scenario: Scenario, fleet: Fleet, energy: Array, seconds: Array) -> Array | None:
    """Return the days that the batteries last: those of rounds, and of the time between them."""
    device = scenario.device
    if device is None or device.rounds_per_day is None:
        return None
    rate = device.rounds_per_day
    between = np.zeros(fleet.count)
    if fleet.hardware is not None and device.between_rounds != "off":
        asleep = device.between_rounds == "sleep"
        between = fleet.hardware.sleep_power if asleep else fleet.hardware.idle_power
    spare = np.maximum(DAY - rate * seconds, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(fleet.batteries / (rate * energy + between * spare))


def battery_notes(lives: Sequence[BatteryLife]) -> list[str]:
    """Return sentences on the batteries that last shortest."""
    some = [life for life in lives if isfinite(life.rounds)]
    return [str(life) for life in some[:MAX_NAMED]]


def _two(value: float) -> str:
    """Return a number with two significant digits, and no exponent where that can be read.

    >>> _two(123456.0), _two(0.0123), _two(8.0)
    ('120,000', '0.012', '8')
    """
    if value >= 1e9 or 0 < value < 1e-3:
        return f"{value:.2g}"
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"
