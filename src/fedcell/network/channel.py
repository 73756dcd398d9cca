"""The radio channel: mean gain, fading, outage, and the rate that follows.

Other physical models belong here: a round needs a gain for each client.
"""

from __future__ import annotations

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, uniform_at
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.scenario import Scenario

from .trace import Fleet


def rate_per_hertz(power: Array, gain: Array, noise: float) -> Array:
    """Return r_j^0, the rate per unit of band [bit/s/Hz]."""
    return np.asarray(np.log1p(power * gain / noise) / np.log(2))  # in (5)


def upload_energy(bits: float, power: Array, rate: Array) -> Array:
    """Return p_u,j [J] of clients that send with `power` [W/Hz] at `rate` [bit/s/Hz]."""
    return np.asarray(bits * power / rate)  # (7): p_j = p_j^0 a_j B cancels a_j B of (6)


def gain_at_rate(power: Array, rate: Array, noise: float) -> Array:
    """Return the gain at which the rate per unit of band is `rate` [bit/s/Hz]: (5) inverted."""
    with np.errstate(over="ignore"):
        return np.asarray(noise * np.expm1(rate * np.log(2)) / power)


def channel_gains(
    scenario: Scenario, fleet: Fleet, rounds: range, clients: Ints, seed: int
) -> Array:
    """Return h_j of some clients of each round, (round, place): measured, or drawn with fading."""
    if scenario.cell.gains is not None:
        values = scenario.cell.gains.values
        if rounds.stop > len(values):
            raise BadInput(
                f"cell.gains holds {len(values)} rounds and {rounds.stop} are needed: "
                "give more of them or run fewer rounds"
            )
        return np.take_along_axis(values[rounds.start : rounds.stop], clients, axis=1)
    draws = uniform_at(Purpose.FADING, seed, rounds, clients, fleet.count)
    return faded_gain(fleet.mean_gain[clients], draws)


def faded_gain(mean_gain: Array, draws: Array) -> Array:
    """Return h_j for uniform draws in [0, 1): exponential fading, Sec. V-A."""
    return np.asarray(mean_gain * -np.log1p(-draws))


def heard_gain(least: Array | float, mean_gain: Array, draws: Array) -> Array:
    """Return h_j of clients not in outage: the excess over a threshold is exponential, too."""
    return least + faded_gain(mean_gain, draws)


def is_heard(scenario: Scenario, gain: Array, least: Array | float | None = None) -> Bools:
    """Return which channels are good enough for a client to be called: `least` is that of
    `least_gains`, or that of the scenario alone."""
    least = scenario.min_gain if least is None else least
    return np.asarray((gain >= least) & (gain > 0))
