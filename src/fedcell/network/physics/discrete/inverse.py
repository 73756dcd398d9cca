"""Gains at which a device has a rate: the steps of a rate table read backwards."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array
from fedcell.network.channel import gain_at_rate, rate_per_hertz
from fedcell.network.physics.link import shannon_noise
from fedcell.scenario.hardware.radio import NB_IOT
from fedcell.scenario.scenario import Scenario

from .standards.nbiot import ALL_TONES, TONE, nbiot_steps
from .steps import RateSteps, rate_steps, tries_of


def rate_of_gain(scenario: Scenario, power: Array, gain: Array) -> Array:
    """Return the rate of a device that sends with a `power` density [W/Hz] over the whole band, per
    hertz of the usable band [bit/s/Hz]; below the lowest step in proportion to the SNR, as if each
    block were repeated."""
    noise = shannon_noise(scenario)
    if (steps := _steps(scenario)) is None:
        return rate_per_hertz(power, gain, noise)
    snr = np.asarray(power * gain / noise)
    repeated = steps.efficiency[0] * np.minimum(1, snr / steps.snr[0])
    return np.asarray(np.maximum(steps.rate_at(snr), repeated))


def gain_of_rate(scenario: Scenario, power: Array, rate: Array) -> Array:
    """Return the gain at which a device has a rate, or with a rate table the least gain of the
    highest step that is no faster; below the lowest step that of a rate in proportion to the SNR.
    """
    noise = shannon_noise(scenario)
    if (steps := _steps(scenario)) is None:
        return gain_at_rate(power, rate, noise)
    place = np.searchsorted(steps.efficiency, rate * (1 + 1e-9), side="right") - 1
    slower = np.minimum(1.0, rate / steps.efficiency[0])
    return np.asarray(steps.snr[np.maximum(place, 0)] * slower * noise / power)


def _steps(scenario: Scenario) -> RateSteps | None:
    """Return the steps with the mean tries of a block; of NB-IoT those of all tones."""
    radio = scenario.radio
    if radio is None or scenario.rate_table is None:
        return None
    if radio.rate_table == NB_IOT:
        tones = nbiot_steps(ALL_TONES, radio.margin_db)
        rate = tones.rate / (ALL_TONES * TONE)
        steps = RateSteps(tones.snr, rate, np.ones(rate.shape))
    else:
        steps = rate_steps(scenario)
    return RateSteps(steps.snr, steps.efficiency / tries_of(radio), steps.blocks)
