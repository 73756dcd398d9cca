"""The radio channel: mean gain, fading, who is heard well enough, and the rate that follows.

This is the place for other physical models: a round needs from it a gain for each client.
"""

from __future__ import annotations

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, uniform_at
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.scenario import Scenario

from .trace import Fleet


def rate_per_hertz(power: Array, gain: Array, noise: float) -> Array:
    """r_j^0, bits per second that a hertz of band carries [bit/s/Hz]."""
    return np.asarray(np.log1p(power * gain / noise) / np.log(2))  # in (5)


def upload_energy(bits: float, power: Array, rate: Array) -> Array:
    """p_u,j [J] of clients that send with `power` [W/Hz] and carry `rate` [bit/s/Hz]."""
    return np.asarray(bits * power / rate)  # (7): p_j = p_j^0 a_j B cancels a_j B of (6)


def gain_at_rate(power: Array, rate: Array, noise: float) -> Array:
    """The gain with which a hertz of band carries so many bits per second: (5) the other way."""
    with np.errstate(over="ignore"):
        return np.asarray(noise * np.expm1(rate * np.log(2)) / power)


def channel_gains(
    scenario: Scenario, fleet: Fleet, rounds: range, clients: Ints, seed: int
) -> Array:
    """h_j of some clients of each round, (round, place): measured, or mean gain times fading."""
    if scenario.cell.gains is not None:
        values = scenario.cell.gains.values
        if rounds.stop > len(values):
            raise BadInput(
                f"cell.gains holds {len(values)} rounds and {rounds.stop} are asked for: "
                "bring more of them or run fewer rounds"
            )
        return np.take_along_axis(values[rounds.start : rounds.stop], clients, axis=1)
    dice = uniform_at(Purpose.FADING, seed, rounds, clients, fleet.count)
    return faded_gain(fleet.mean_gain[clients], dice)


def faded_gain(mean_gain: Array, dice: Array) -> Array:
    """h_j for dice in [0, 1): exponential fading, Sec. V-A."""
    return np.asarray(mean_gain * -np.log1p(-dice))


def heard_gain(scenario: Scenario, mean_gain: Array, dice: Array) -> Array:
    """h_j of clients that are heard: what is above a threshold is exponential again."""
    return scenario.min_gain + faded_gain(mean_gain, dice)


def is_heard(scenario: Scenario, gain: Array) -> Bools:
    """Whose channel is good enough to be called."""
    return np.asarray((gain >= scenario.min_gain) & (gain > 0))
