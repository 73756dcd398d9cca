"""The steps of a radio: which SNR carries which rate, and what is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedcell.core.types import Array
from fedcell.scenario.hardware.radio import NB_IOT, Radio

from .harq import mean_tries, residual_loss, upload_loss
from .standards import lora, short_range
from .standards.mcs import MCS_TABLES, code_block_target

if TYPE_CHECKING:
    from fedcell.scenario.scenario import Scenario


@dataclass(frozen=True, eq=False)
class RateSteps:
    """Rates by rising SNR, each higher than the one before, (step,).

    Attributes
    ----------
    snr : ndarray
        Least SNR over the share of the band (linear).
    efficiency : ndarray
        Bits per second and hertz of the usable band, if nothing is sent twice.
    blocks : ndarray
        Blocks or frames of an upload.

    Examples
    --------
    >>> from fedcell import Scenario
    >>> steps = rate_steps(Scenario().using(radio={"rate_table": "nr-64qam"}))
    >>> len(steps.snr), float(steps.efficiency[-1].round(2))
    (28, 5.55)
    """

    snr: Array
    efficiency: Array
    blocks: Array

    def rate_at(self, snr: Array) -> Array:
        """Return the efficiency at an SNR, 0 below the least [bit/s/Hz]."""
        return np.asarray(np.concatenate(([0.0], self.efficiency))[self.place(snr) + 1])

    def place(self, snr: Array) -> Array:
        """Return the number of the highest step at an SNR, -1 below the least."""
        return np.asarray(np.searchsorted(self.snr, np.asarray(snr) * TOLERANCE, side="right") - 1)


TOLERANCE = 1 + 1e-12  # an SNR that is just the least one counts, whatever it was computed from


def rate_steps(scenario: Scenario) -> RateSteps:
    """Return the steps of the rate table of a scenario; those of NB-IoT depend on the tones."""
    radio, bits = scenario.radio or Radio(), scenario.model_bits
    if (table := MCS_TABLES.get(radio.rate_table or "")) is not None:
        target = code_block_target(radio.target_bler, radio.code_blocks)
        snr_db, efficiency = table.threshold(target, radio.block_bits), table.efficiency
        blocks = np.full(snr_db.shape, np.ceil(bits / (radio.block_bits * radio.code_blocks)))
    elif radio.rate_table == "wifi-ht":
        snr_db = short_range.wifi_thresholds(short_range.HT_SNR, radio.target_bler)
        efficiency = short_range.HT_RATES / short_range.WIFI_BAND
        blocks = np.full(snr_db.shape, np.ceil(bits / short_range.WIFI_FRAME))
    elif radio.rate_table == "wifi-he":
        snr_db = short_range.wifi_thresholds(short_range.HE_SNR, radio.target_bler)
        efficiency = short_range.HE_RATES / short_range.WIFI_BAND
        blocks = np.full(snr_db.shape, np.ceil(bits / short_range.WIFI_FRAME))
    elif radio.rate_table == "802.15.4":
        snr_db = np.array([10 * np.log10(short_range.zigbee_threshold(radio.target_bler))])
        rate = bits / short_range.zigbee_air_time(bits)
        efficiency = np.array([rate / short_range.CHANNEL_BAND])
        blocks = np.array([float(short_range.zigbee_frames(bits))])
    else:
        factors = _factors(radio)
        snr_db = np.array([lora.least_snr_db(factor) for factor in factors])
        air = np.array([lora.air_time(bits, factor) for factor in factors])
        efficiency = bits / air / lora.BAND
        blocks = np.array([float(lora.frames(bits, factor)) for factor in factors])
    return _useful(10 ** ((snr_db + radio.margin_db) / 10), efficiency, blocks)


def _factors(radio: Radio) -> tuple[int, ...]:
    """Return the spreading factors of a table: "lora" has all, "lora-sf9" one."""
    assert radio.rate_table is not None
    _, _, one = radio.rate_table.partition("-sf")
    return (int(one),) if one else lora.FACTORS


def _useful(snr: Array, efficiency: Array, blocks: Array) -> RateSteps:
    """Return the steps that carry more than any with a lower SNR, by rising SNR."""
    order = np.lexsort((-efficiency, snr))
    best = np.maximum.accumulate(efficiency[order])
    rises = np.concatenate(([True], best[1:] > best[:-1]))
    kept = order[rises]
    return RateSteps(snr[kept], efficiency[kept], blocks[kept])


def tries_of(radio: Radio) -> float:
    """Return how often a block is sent on average: bits on air over bits of the model."""
    repeats = radio.arq == "repeat"
    rule = (radio.target_bler, radio.harq_tries, radio.harq, radio.harq_fade)
    return mean_tries(*rule, repeats=repeats)


def latency_of(scenario: Scenario) -> float:
    """Return what waiting for repeated blocks adds to an upload [s]: round trips of different
    blocks overlap, so one, if there is more than one try."""
    if scenario.rate_table is None or (radio := scenario.radio) is None:
        return 0.0
    return radio.harq_rtt if radio.harq_tries > 1 or radio.arq == "repeat" else 0.0


def loses_uploads(scenario: Scenario) -> bool:
    """Return whether a block that is lost is an upload that is lost."""
    radio = scenario.radio
    return radio is not None and scenario.rate_table is not None and radio.arq == "none"


def loss_at(scenario: Scenario, snr: Array) -> Array:
    """Return the share of uploads that are lost at an SNR, where no block is repeated for good.

    Frames of IEEE 802.15.4 are lost by its error rate at the SNR; blocks of other radios at the
    target, which the choice of the rate keeps.
    """
    radio = scenario.radio
    assert radio is not None
    if radio.rate_table == NB_IOT:
        blocks = np.full(snr.shape, np.ceil(scenario.model_bits / 1000))  # of the largest size
    else:
        steps = rate_steps(scenario)
        blocks = steps.blocks[np.maximum(steps.place(snr), 0)]
    rule = (radio.harq_tries, radio.harq, radio.harq_fade)
    if radio.rate_table == "802.15.4":
        first = short_range.zigbee_frame_loss(snr / 10 ** (radio.margin_db / 10))
        return upload_loss(residual_loss(first, *rule), blocks)
    return upload_loss(residual_loss(radio.target_bler, *rule), blocks)
