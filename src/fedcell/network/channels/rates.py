"""Measured rates and SNR as channel gains: the link read backwards."""

from __future__ import annotations

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools
from fedcell.network.channel import gain_at_rate
from fedcell.network.physics.hardware import Hardware
from fedcell.network.physics.link import noise_density, ratio, usable_band
from fedcell.scenario.hardware.radio import Radio
from fedcell.scenario.scenario import Scenario


def gains_of_snr(
    scenario: Scenario, density: Array, hardware: Hardware | None, snr: Array
) -> Array:
    """Return the gains at which clients that send over the whole band have an SNR (linear)."""
    gain = snr * noise_density(scenario) / _sent(scenario, density, hardware)
    _refuse(gain > 1, snr, "an SNR", "which takes a channel gain above 1")
    return np.asarray(gain)


def gains_of_rates(
    scenario: Scenario, density: Array, hardware: Hardware | None, rate: Array
) -> Array:
    """Return the gains at which clients that send over the whole band have a rate [bit/s].

    `density` [W/Hz] is that of the power law, which power_max limits.
    """
    efficiency = rate / usable_band(scenario)  # [bit/s/Hz]
    if hardware is not None:
        above = efficiency > hardware.spectral_cap * (1 + 1e-12)
        _refuse(above, rate, "a rate", "above radio.spectral_cap over the whole band")
    gap = ratio((scenario.radio or Radio()).gap_db)
    noise = gap * noise_density(scenario)
    gain = gain_at_rate(_sent(scenario, density, hardware), efficiency, noise)
    _refuse(gain > 1, rate, "a rate", "too high for cell.bandwidth and the power of the client")
    return gain


def _sent(scenario: Scenario, density: Array, hardware: Hardware | None) -> Array:
    """Return the density of clients that send over the whole band [W/Hz]."""
    radio = scenario.radio
    if radio is not None and radio.power_law == "open-loop":
        raise BadInput(
            'radio.power_law = "open-loop" needs path losses, and SNR or rates are given: take '
            '"constant-density" or "full"'
        )
    if hardware is None:
        return density
    most = hardware.power_max / scenario.cell.bandwidth
    if radio is not None and radio.power_law == "full":
        return np.broadcast_to(most, density.shape)
    return np.minimum(density, most)


def _refuse(wrong: Bools, values: Array, what: str, why: str) -> None:
    if wrong.any():
        value = np.broadcast_to(values, wrong.shape)[wrong].flat[0]
        raise BadInput(f"a client has {what} of {value:g}, {why}")
