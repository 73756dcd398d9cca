"""The download of the model at the start of a round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario

from .discrete.steps import rate_steps
from .link import ratio, spectral_efficiency


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Downloads:
    """When each client of a round receives, and when all have received, (..., client) [s]."""

    begin: Array
    end: Array
    total: Array


def downloads(scenario: Scenario, fleet: Fleet, trace: Trace) -> Downloads | None:
    """Return the downloads of the rounds of a trace; None where their time is constant.

    The base station sends over the whole band. With "multicast" all receive at once, at the rate
    of the slowest called client; with "unicast" each in turn at its own. Training begins when all
    have received.
    """
    radio = scenario.radio
    if radio is None or radio.downlink == "constant":
        return None
    assert fleet.hardware is not None
    rate = download_rate(scenario, trace.gain, fleet.hardware.spectral_cap[trace.cohort])
    if radio.downlink == "multicast":
        total = np.broadcast_to(
            (scenario.model_bits / rate).max(-1, keepdims=True), trace.gain.shape
        )
        return Downloads(begin=np.zeros(trace.gain.shape), end=total, total=total)
    end = (scenario.model_bits / rate).cumsum(-1)
    return Downloads(
        begin=np.concatenate((np.zeros((*end.shape[:-1], 1)), end[..., :-1]), axis=-1),
        end=end,
        total=np.broadcast_to(end[..., -1:], end.shape),
    )


def download_rate(scenario: Scenario, gain: Array, cap: Array | float = np.inf) -> Array:
    """Return B_d min(cap, log2(1 + P_cell h / (B N_0 F_device gap))) [bit/s]."""
    radio = scenario.radio
    assert radio is not None
    assert radio.cell_power is not None
    figure = radio.device_noise_figure_db
    figure = radio.noise_figure_db if figure is None else figure
    band = scenario.cell.bandwidth
    snr = radio.cell_power * gain / (band * scenario.cell.noise * ratio(figure))
    usable = band * radio.usable_share * radio.downlink_time_share
    if scenario.rate_table is not None:  # below the lowest step the station repeats
        steps = rate_steps(scenario)
        found = np.maximum(
            steps.rate_at(snr), steps.efficiency[0] * np.minimum(1, snr / steps.snr[0])
        )
        return np.asarray(usable * np.minimum(found, cap))
    return usable * spectral_efficiency(snr, ratio(radio.gap_db), cap)
