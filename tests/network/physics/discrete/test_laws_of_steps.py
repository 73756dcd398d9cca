"""Rate tables, retransmissions, frames and blocks: numbers worked out by hand or by simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.network import mean_tries, residual_loss, time_on_air
from fedcell.network.physics.discrete.blocks import whole_blocks
from fedcell.network.physics.discrete.harq import upload_loss
from fedcell.network.physics.discrete.standards import lora, nbiot, short_range
from fedcell.network.physics.discrete.standards.mcs import (
    MCS_TABLES,
    code_block_target,
    tail_point,
    transport_loss,
)

RNG = np.random.Generator(np.random.Philox(7))
SCHEMES = [("nr-64qam", 29, 948 * 6), ("nr-256qam", 28, 948 * 8), ("nr-precoded", 28, 948 * 6)]


@pytest.mark.parametrize(("name", "count", "top"), SCHEMES)
def test_tables_have_their_schemes(name, count, top):
    table = MCS_TABLES[name]
    assert len(table.order) == len(table.code_rate) == len(table.middle) == count
    assert table.efficiency[-1] == top / 1024
    assert (np.diff(table.middle) > 0).all()
    assert (np.abs(np.diff(table.efficiency)) > 0).all()


def test_tables_share_their_schemes():
    long, wide, precoded = (MCS_TABLES[name] for name, *_ in SCHEMES)
    assert_array_equal(precoded.efficiency[:17], long.efficiency[:17])
    assert_array_equal(precoded.efficiency[17:], long.efficiency[18:])
    assert_array_equal(precoded.middle[17:], long.middle[18:])
    assert_array_equal(wide.efficiency[:5], long.efficiency[[0, 2, 4, 6, 8]])
    assert_allclose(wide.middle[:5], long.middle[[0, 2, 4, 6, 8]], atol=0.4)


def test_the_gap_to_shannon_at_one_in_ten():
    """1.3 to 2.4 dB up to 64QAM, as of an ideal receiver, by the order of modulation."""
    table = MCS_TABLES["nr-64qam"]
    gap = table.threshold(0.1, 2000) - 10 * np.log10(2**table.efficiency - 1)
    for order, least, most in ((2, 1.2, 1.7), (4, 1.6, 1.9), (6, 1.9, 2.5)):
        some = gap[(table.order == order) & (table.code_rate > 0.3)]
        assert least < some.min() < some.max() < most
    wide = MCS_TABLES["nr-256qam"]
    gap = wide.threshold(0.1, 2000) - 10 * np.log10(2**wide.efficiency - 1)
    assert 2.2 < gap[wide.order == 8].min() < gap[wide.order == 8].max() < 2.8


def test_a_block_by_hand():
    """MCS 19 at 2000 bits: half are lost at 10.50 dB; one width is 0.2192 dB."""
    table, width = MCS_TABLES["nr-64qam"], 0.31 * np.sqrt(0.5)
    assert_allclose(table.block_loss(10.50, 2000)[19], 0.5)
    assert_allclose(table.block_loss(10.50 + width, 2000)[19], 0.158655, rtol=1e-5)
    assert_allclose(table.threshold(0.1, 2000)[19], 10.50 + 1.281552 * width)
    assert_allclose(table.threshold(0.01, 2000)[19], 10.50 + 2.326348 * width)
    # Four times the bits: half the width, and half of 0.12 dB sqrt(1000 / n) less of a shift.
    shift = 0.12 * (np.sqrt(0.5) - np.sqrt(0.125))
    assert_allclose(table.threshold(0.1, 8000)[19], 10.50 + shift + 1.281552 * width / 2)


@pytest.mark.parametrize("bits", [24, 500, 8424])
@pytest.mark.parametrize("loss", [0.5, 0.1, 0.001])
def test_thresholds_invert_the_curves(bits, loss):
    for table in MCS_TABLES.values():
        levels = table.threshold(loss, bits)
        found = np.diagonal(table.block_loss(levels[:, None], bits))
        assert_allclose(found, loss, rtol=1e-9)


def test_a_transport_block_needs_all_of_its_code_blocks():
    assert_allclose(transport_loss(0.01, 10), 1 - 0.99**10)
    assert_allclose(transport_loss(code_block_target(0.1, 7), 7), 0.1)
    lost = (RNG.random((100_000, 10)) < 0.01).any(1).mean()
    assert transport_loss(0.01, 10) == pytest.approx(lost, abs=0.004)
    assert_allclose(tail_point(0.1), 1.2815515655)


RESIDUALS = [  # first tries lose 10 %: sum with new fades, each alone, sum in one fade
    (2, 5.18e-3, 1e-2, 5.13e-2),
    (3, 1.80e-4, 1e-3, 3.45e-2),
    (4, 4.72e-6, 1e-4, 2.60e-2),
]


@pytest.mark.parametrize(("tries", "summed", "alone", "same"), RESIDUALS)
def test_residual_losses(tries, summed, alone, same):
    assert residual_loss(0.1, tries) == pytest.approx(summed, rel=2e-3)
    assert residual_loss(0.1, tries, "repeat") == pytest.approx(alone)
    assert residual_loss(0.1, tries, fade="same") == pytest.approx(same, rel=2e-3)
    assert residual_loss(0.1, tries, "repeat", "same") == pytest.approx(0.1)


@pytest.mark.parametrize("combining", ["chase", "repeat"])
@pytest.mark.parametrize("fade", ["new", "same"])
@pytest.mark.parametrize("tries", [1, 2, 4])
def test_residual_losses_and_tries_by_simulation(combining, fade, tries):
    """Rayleigh fades with a threshold that the first try misses in 30 %."""
    q, count = 0.3, 200_000
    fades = RNG.exponential(size=(count, tries))
    fades = fades if fade == "new" else np.repeat(fades[:, :1], tries, 1)
    needed = -np.log(1 - q)
    power = fades.cumsum(1) if combining == "chase" else np.maximum.accumulate(fades, 1)
    failed = power < needed
    assert residual_loss(q, tries, combining, fade) == pytest.approx(failed[:, -1].mean(), abs=4e-3)
    sent = 1 + failed[:, :-1].sum(1)  # the next try follows a failed one
    found = mean_tries(q, tries, combining, fade, repeats=False)
    assert found == pytest.approx(sent.mean(), abs=6e-3)
    # Repeated until it arrives: the tries of all attempts over the attempts that succeed.
    whole = sent.sum() / (~failed[:, -1]).sum()
    assert mean_tries(q, tries, combining, fade) == pytest.approx(whole, abs=9e-3)


def test_a_model_is_many_blocks():
    """53 Mbit in 6,292 code blocks: a residual of 1e-4 leaves 53 %, of 1e-6 99.4 %."""
    assert 1 - upload_loss(1e-4, 6292) == pytest.approx(0.53, abs=0.005)
    assert 1 - upload_loss(1e-6, 6292) == pytest.approx(0.994, abs=0.0005)
    assert upload_loss(0.0, 6292) == 0


TIMES = {7: 368.9, 8: 655.9, 9: 676.9, 10: 698.4, 11: 1560.6, 12: 2793.5}  # ms
RATES = {7: (5469, 4814), 8: (3125, 2708), 9: (1758, 1359)}
RATES |= {10: (977, 584), 11: (537, 261), 12: (293, 146)}


@pytest.mark.parametrize("factor", TIMES)
def test_lora_frames(factor):
    payload = lora.PAYLOAD[factor]
    air = time_on_air(factor, payload + lora.HEADERS)
    assert 1e3 * air == pytest.approx(TIMES[factor], abs=0.06)
    raw, on_air = RATES[factor]
    assert factor * 4 / 5 / lora.symbol_time(factor) == pytest.approx(raw, abs=0.6)
    assert 8 * payload / air == pytest.approx(on_air, abs=0.6)


def test_a_lora_frame_by_hand():
    """SF 7, 10 bytes: (80 - 28 + 28 + 16) / 28 = 3.43, so 4 words of 5 symbols: 40.25 in all."""
    assert time_on_air(7, 10) == pytest.approx((8 + 4.25 + 8 + 4 * 5) * 1.024e-3)
    assert time_on_air(7, 10, coding=4) == pytest.approx((8 + 4.25 + 8 + 4 * 8) * 1.024e-3)


def test_a_model_over_lora():
    assert lora.air_time(53e6, 7) / 3600 == pytest.approx(3.06, abs=0.005)
    assert lora.air_time(53e6, 7) / 0.01 / 86400 == pytest.approx(12.7, abs=0.05)
    two = time_on_air(9, 115 + 13) + time_on_air(9, 10 + 13)  # 125 bytes: 115 and 10
    assert lora.air_time(1000, 9) == pytest.approx(two)
    assert lora.least_snr_db(7) == pytest.approx(-124 + 174 - 50.97 - 6, abs=0.01)


def test_frames_of_802_15_4():
    """1.12 + 0.128 + 0.192 + 4.256 + 0.192 + 0.352 + 0.64 ms; sensitivity -106.6 dBm."""
    parts = (1.12, 0.128, 0.192, 4.256, 0.192, 0.352, 0.64)
    assert 1e3 * short_range.zigbee_frame_time() == pytest.approx(sum(parts))
    assert 116 * 8 / short_range.zigbee_frame_time() == pytest.approx(135e3, rel=0.002)
    noise = -174 + 10 * np.log10(short_range.CHANNEL_BAND)
    level = noise + 10 * np.log10(short_range.zigbee_threshold(0.01, 14))  # 20 bytes with header
    assert level == pytest.approx(-106.6, abs=0.05)


def test_symbols_of_802_15_4_by_simulation():
    """The error rate is that of 16 orthogonal symbols, 20 times the SNR each, without phase; a
    wrong symbol has 8 of 15 of its bits wrong."""
    snr, count = 0.12, 200_000
    energy = 20 * snr
    noise = RNG.normal(size=(2, count, 16)) / np.sqrt(2)
    noise[0, :, 0] += np.sqrt(energy)
    wrong = (np.hypot(*noise).argmax(1) != 0).mean()
    assert short_range.zigbee_bit_errors(snr) == pytest.approx(8 / 15 * wrong, rel=0.02)


def test_wifi_rates_and_levels():
    """52 tones of data, 4 us: MCS 7 has 52 * 6 * 5/6 bits; 234 tones, 13.6 us: MCS 11 has 1950."""
    assert short_range.HT_RATES[7] == pytest.approx(52 * 6 * 5 / 6 / 4e-6)
    assert short_range.HE_RATES[11] == pytest.approx(234 * 10 * 5 / 6 / 13.6e-6, rel=0.001)
    apart = short_range.wifi_thresholds(short_range.HE_SNR, 0.01) - short_range.HE_SNR
    assert ((apart > 0.3) & (apart < 0.45)).all()
    assert_allclose(short_range.wifi_thresholds(short_range.HT_SNR, 0.1), short_range.HT_SNR)


def test_nb_iot_sustains_a_quarter_of_its_peak():
    steps = nbiot.nbiot_steps(12)
    assert (steps.bits[-1], steps.on_air[-1], steps.cycle[-1]) == (1000, 4e-3, 16e-3)
    assert steps.rate[-1] == pytest.approx(62.5e3)
    assert nbiot.upload_time(53e6) == pytest.approx((848.0, 212.0))
    # One tone: 1000 bits in 6 units of 8 ms, and 12 ms of gaps.
    assert nbiot.nbiot_steps(1).rate[-1] == pytest.approx(1000 / 60e-3)


@pytest.mark.parametrize("tones", nbiot.TONES)
def test_nb_iot_steps_rise(tones):
    steps = nbiot.nbiot_steps(tones)
    assert (np.diff(steps.snr) > 0).all()
    assert (np.diff(steps.rate) > 0).all()
    assert_allclose(nbiot.nbiot_steps(tones, 3.0).snr / steps.snr, 10**0.3)
    # The lowest step is a block of the first row with all repetitions.
    bits, units = 256, 10
    width = tones * nbiot.TONE
    needed = 2 ** (bits / (units * nbiot.UNIT_TIME[tones] * width)) - 1
    assert_allclose(steps.snr[0], needed * 10**0.3 / 128)
    assert_allclose(steps.on_air[0], 128 * units * nbiot.UNIT_TIME[tones])


def test_nb_iot_blocks_are_those_of_the_table():
    assert len(nbiot.BLOCK_BITS) == 13
    assert max(max(row) for row in nbiot.BLOCK_BITS) == 1000
    for row in nbiot.BLOCK_BITS:
        assert list(row) == sorted(row)
    assert nbiot.BLOCK_BITS[12][3] == 1000  # on four units
    assert [t * n for n, t in nbiot.UNIT_TIME.items()] == [8e-3, 12e-3, 12e-3, 12e-3]


def test_tones_come_in_ones_threes_sixes_and_twelves():
    for clients in (1, 2, 3, 7, 12):
        share = RNG.dirichlet(np.full(clients, 0.7), size=200)
        count = whole_blocks(share, 12, nbiot.TONES) * 12
        assert np.isin(np.round(count, 9), nbiot.TONES).all()
        assert (count.sum(-1) <= 12 + 1e-9).all()
    assert_allclose(whole_blocks(np.array([[0.5, 0.25, 0.25]]), 12, nbiot.TONES) * 12, [[6, 3, 3]])
    assert_allclose(whole_blocks(np.array([0.98, 0.01, 0.01]), 12, nbiot.TONES) * 12, [6, 3, 3])
