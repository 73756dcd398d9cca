"""Outage by a least SNR, beside the threshold of the mean gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

from .link import noise_density, ratio


def least_gains(scenario: Scenario, fleet: Fleet, which: Any = slice(None)) -> Array | float:
    """Return the gain below which the clients that `which` indexes are in outage.

    With a least SNR it is that at which a client reaches it with the density of its power law, or,
    where power_max limits, with all its power in one resource block; with airtime shares, in the
    whole band.
    """
    radio, hardware = scenario.radio, fleet.hardware
    if radio is None or radio.snr_min_db is None or hardware is None:
        return scenario.min_gain
    in_turn = radio.access == "time"
    band = scenario.cell.bandwidth
    width = band if in_turn else min(radio.block, band)
    density = hardware.power_max[which] / width
    if radio.power_law != "full":
        density = np.minimum(density, fleet.power[which])
    least = ratio(radio.snr_min_db) * noise_density(scenario) / density
    return np.asarray(np.maximum(least, scenario.min_gain))
