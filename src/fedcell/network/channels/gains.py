"""Channel gains of the clients of each round: mean gain, motion and fading, or measurements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Ints
from fedcell.network.channel import is_heard
from fedcell.network.physics.outage import least_gains
from fedcell.network.trace import Fleet
from fedcell.scenario.channel.measured import Measured
from fedcell.scenario.scenario import Scenario

from .fading import fading_of
from .rates import gains_of_rates, gains_of_snr

POINTS = 128  # of fading, for a mean over it
PLACES = 200_000  # (point, client) gains in memory at once
SAMPLES = 2**18  # (round, client) gains that stand for a distribution without a closed form
MIN_ROUNDS, MAX_ROUNDS = 64, 512  # of those
SAMPLE_SEED = 2**63  # of their fading, apart from the seeds of runs


def channel_gains(
    scenario: Scenario, fleet: Fleet, rounds: range, clients: Ints, seed: int
) -> Array:
    """Return h_j of some clients of each round, (round, place): measured, or drawn with fading."""
    if (recorded := scenario.cell.recorded) is not None:
        values = recorded.values
        if rounds.stop > len(values):
            key = "cell.channel.measured" if isinstance(recorded, Measured) else "cell.gains"
            raise BadInput(
                f"{key} holds {len(values)} rounds and {rounds.stop} are needed: "
                "give more of them or run fewer rounds"
            )
        picked = np.take_along_axis(values[rounds.start : rounds.stop], clients, axis=1)
        return recorded_gains(scenario, fleet, picked, clients)
    return np.asarray(fleet.mean_gain[clients] * _factors(scenario, fleet, rounds, clients, seed))


def _factors(scenario: Scenario, fleet: Fleet, rounds: range, clients: Ints, seed: int) -> Array:
    """Return gains over the mean gains of the fleet: fading, and motion since round 0."""
    if fleet.links is None or not fleet.links.moves:
        return fading_of(scenario, fleet.links).draw(seed, rounds, clients, fleet.count)
    change, sight = fleet.links.change(rounds, clients)
    fading = fading_of(scenario, fleet.links, (clients, sight))
    return fading.draw(seed, rounds, clients, fleet.count) * change


def recorded_gains(scenario: Scenario, fleet: Fleet, values: Array, clients: Ints) -> Array:
    """Return recorded values of some clients as channel gains."""
    measured = scenario.cell.channel.measured
    if measured is None or measured.quantity == "gain":
        return values
    hardware = None if fleet.hardware is None else fleet.hardware[clients]
    convert = gains_of_snr if measured.quantity == "snr" else gains_of_rates
    return convert(scenario, fleet.power[clients], hardware, values)


def sampled_gains(scenario: Scenario, fleet: Fleet) -> Array | None:
    """Return gains of all clients that stand for their distribution, (round, client): all measured
    ones, or drawn ones of clients that move or have Rician fading. None: use closed forms."""
    n = fleet.count
    if (recorded := scenario.cell.recorded) is not None:
        everyone = np.broadcast_to(np.arange(n), recorded.values.shape)
        return recorded_gains(scenario, fleet, recorded.values, everyone)
    moves = fleet.links is not None and fleet.links.moves
    if not moves and (scenario.has_rates or scenario.cell.channel.fading != "rician"):
        return None
    rounds = range(int(np.clip(SAMPLES // n, MIN_ROUNDS, MAX_ROUNDS)))
    everyone = np.broadcast_to(np.arange(n), (len(rounds), n))

    def draw() -> Array:
        return _factors(scenario, fleet, rounds, everyone, SAMPLE_SEED)

    if fleet.links is None:
        return fleet.mean_gain * draw()
    # The diversity order, which may depend on the share 1/K, is all that can differ.
    known_by = (scenario.plan.cohort, scenario.cell.bandwidth)
    automatic = scenario.cell.channel.diversity == "auto"
    return fleet.mean_gain * fleet.links.remembered(known_by if automatic else None, draw)


def heard_share(scenario: Scenario, fleet: Fleet) -> Array:
    """Return the share of rounds in which the channel of each client is good enough, (client,)."""
    least = least_gains(scenario, fleet)
    if (gains := sampled_gains(scenario, fleet)) is not None:
        return np.asarray(is_heard(scenario, gains, least).mean(0))
    return fading_of(scenario, fleet.links).survival(least / fleet.mean_gain)


def heard_gains(scenario: Scenario, fleet: Fleet, block: slice) -> Iterator[tuple[Array, Array]]:
    """Yield gains at which each client of a block is heard, and their weights, some points at a
    time: (point, client). Those that are sampled, or of fading more of the low ones, at which
    uploads are expensive."""
    mean_gain, least = fleet.mean_gain[block], least_gains(scenario, fleet, block)
    step = max(1, PLACES // mean_gain.size)
    if (gains := sampled_gains(scenario, fleet)) is not None:
        values = gains[:, block]
        heard = is_heard(scenario, values, least)
        weight = heard / np.maximum(heard.sum(0), 1)
        for first in range(0, len(values), step):
            part = slice(first, first + step)
            yield np.where(heard[part], values[part], 1.0), weight[part]
        return
    fading = fading_of(scenario, fleet.links)
    points = ((np.arange(POINTS) + 0.5) / POINTS)[:, None]
    for first in range(0, POINTS, step):
        s = points[first : first + step]  # uniform numbers are s^3, with density 3 s^2
        weight = np.broadcast_to(3 * s**2 / POINTS, (len(s), mean_gain.size))
        if fading.kind == "gamma" and isinstance(fading.shape, float) and fading.shape == 1:
            yield least + mean_gain * -np.log1p(-(s**3)), weight
        else:
            yield mean_gain * fading.above(least / mean_gain, s**3, block), weight
