"""The radio channel: mean gain, fading, who is heard well enough, and the rate that follows.

This is the place for other physical models: a round needs from it a gain for each client.
"""

import numpy as np

from fedcell.core.dice import Purpose, uniform
from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.scenario import Scenario

from .trace import Fleet


def rate_per_hertz(power: Array, gain: Array, noise: float) -> Array:
    """r_j^0, bits per second that a hertz of band carries [bit/s/Hz]."""
    return np.asarray(np.log1p(power * gain / noise) / np.log(2))  # in (5)


def usable_channels(
    scenario: Scenario, fleet: Fleet, rounds: range, seed: int
) -> tuple[Bools, Array]:
    """Whose channel is good enough, and the numbers that it was judged by, (round, client):
    measured gains, or the dice of the fading."""
    min_gain = scenario.min_gain
    if scenario.cell.gains is not None:
        values = scenario.cell.gains.values
        if rounds.stop > len(values):
            raise BadInput(
                f"cell.gains holds {len(values)} rounds and {rounds.stop} are asked for: "
                "bring more of them or run fewer rounds"
            )
        gain = values[rounds.start : rounds.stop]
        return (gain >= min_gain) & (gain > 0), gain
    dice = uniform(Purpose.FADING, seed, rounds, fleet.count)
    # The fading -log(1 - dice) is below min_gain / mean_gain when dice is below this.
    return dice >= -np.expm1(-min_gain / fleet.mean_gain), dice


def gains_of(scenario: Scenario, fleet: Fleet, cohort: Ints, channel_draws: Array) -> Array:
    """h_j of the clients of each round, from the numbers that `usable_channels` judged them by.

    A place without a client, -1, reads the last client: mask it.
    """
    own = np.take_along_axis(channel_draws, cohort, axis=1)
    if scenario.cell.gains is not None:
        return np.asarray(own)
    return np.asarray(fleet.mean_gain[cohort] * -np.log1p(-own))  # exponential, Sec. V-A
