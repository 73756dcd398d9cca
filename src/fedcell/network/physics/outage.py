"""Outage by a least SNR, beside the threshold of the mean gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.trace import Fleet
from fedcell.scenario.hardware.radio import NB_IOT
from fedcell.scenario.scenario import Scenario

from .discrete.standards.nbiot import TONE, nbiot_steps
from .discrete.steps import rate_steps
from .link import noise_density, ratio


def least_gains(scenario: Scenario, fleet: Fleet, which: Any = slice(None)) -> Array | float:
    """Return the gain below which the clients that `which` indexes are in outage.

    With a least SNR it is that at which a client reaches it with the density of its power law, or,
    where power_max limits, with all its power in one resource block; with airtime shares, in the
    whole band.
    """
    radio, hardware = scenario.radio, fleet.hardware
    least_snr = least_snr_of(scenario)
    if radio is None or least_snr == 0 or hardware is None:
        return scenario.min_gain
    in_turn = radio.access == "time"
    band = scenario.cell.bandwidth
    width = band if in_turn else min(radio.block, band)
    if scenario.rate_table == NB_IOT:
        width = TONE
    density = hardware.power_max[which] / width
    if radio.power_law != "full":
        density = np.minimum(density, fleet.power[which])
    least = least_snr * noise_density(scenario) / density
    return np.asarray(np.maximum(least, scenario.min_gain))


def least_snr_of(scenario: Scenario) -> float:
    """Return the least SNR of a radio (linear): that of its lowest step, or the declared one if it
    is higher; 0: there is none."""
    radio = scenario.radio
    if radio is None:
        return 0.0
    declared = 0.0 if radio.snr_min_db is None else ratio(radio.snr_min_db)
    if scenario.rate_table is None:
        return declared
    if scenario.rate_table == NB_IOT:
        return max(declared, float(nbiot_steps(1, radio.margin_db).snr[0]))
    return max(declared, float(rate_steps(scenario).snr[0]))
