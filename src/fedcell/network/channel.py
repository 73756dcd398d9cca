"""The rate that follows from a channel gain, and outage. Gains are drawn in `channels`."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array, Bools
from fedcell.scenario.scenario import Scenario


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


def is_heard(scenario: Scenario, gain: Array, least: Array | float | None = None) -> Bools:
    """Return which channels are good enough for a client to be called: `least` is that of
    `least_gains`, or that of the scenario alone."""
    least = scenario.min_gain if least is None else least
    return np.asarray((gain >= least) & (gain > 0))
