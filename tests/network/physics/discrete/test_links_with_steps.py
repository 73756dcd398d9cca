"""Uploads, losses and schedules with rate tables, by hand, by trying all choices, and as files."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import (
    GivenLaw,
    Limits,
    Region,
    Scenario,
    load_scenario,
    plan_training,
    save_scenario,
    schedule_round,
)
from fedcell.deploy.server.drift import corrected_fleet
from fedcell.errors import BadInput
from fedcell.network import draw_fleet, draw_trace, link_curve, mean_tries, simulate_network
from fedcell.network.certificate import certify
from fedcell.network.participation import chance_heard, mean_loss_rate
from fedcell.network.physics.discrete.choices import Choices, choices_bound
from fedcell.network.physics.discrete.harq import upload_loss
from fedcell.network.physics.discrete.inverse import gain_of_rate, rate_of_gain
from fedcell.network.physics.discrete.standards import lora, nbiot, short_range
from fedcell.network.physics.discrete.standards.mcs import MCS_TABLES
from fedcell.network.physics.discrete.steps import rate_steps
from fedcell.network.physics.notes import radio_notes
from fedcell.network.physics.pricing import DeviceCost
from fedcell.network.physics.terms import Terms
from fedcell.network.policies.joint.modes import filled, fixed, prices_of
from fedcell.network.policies.joint.solve import joint_split
from fedcell.network.policies.optimal_power import OptimalPower
from fedcell.network.round import Schedule, make_problem, price
from fedcell.planning.whatif import nearby_worlds
from fedcell.policies import Broadcast, Even, Optimal

NOISE, BITS = 4e-21, 1e6
NR = {"rate_table": "nr-64qam", "target_bler": 0.1}
FULL = NR | {"power_law": "full", "power_max": 0.2, "noise_figure_db": 5.0, "circuit_power": 0.3}
IN_TURN = {"access": "time", "power_law": "full"}
WIFI = IN_TURN | {"rate_table": "wifi-ht", "power_max": 0.05, "harq": "repeat"}
LORA = IN_TURN | {"rate_table": "lora", "power_max": 0.025, "duty_cycle": 0.01, "arq": "none"}
LORA |= {"harq_tries": 1, "target_bler": 0.01, "noise_figure_db": 6.0, "circuit_power": 0.08}
ZIGBEE = IN_TURN | {"rate_table": "802.15.4", "power_max": 1e-3, "harq": "repeat", "arq": "none"}
TONES = {"rate_table": "nb-iot", "power_law": "full", "power_max": 0.2, "resource_block": 15e3}
TONES |= {"efficiency": 0.388, "circuit_power": 0.279, "receive_power": 0.166}
BANDS = {"lora": 125e3, "802.15.4": 5e6, "nb-iot": 180e3}


def world(radio, gains=1e-11, count=2, **more):
    """A cell with given gains, in which nothing else is drawn."""
    gains = np.full((1, count), gains) if np.isscalar(gains) else np.atleast_2d(gains)
    band = BANDS.get(radio["rate_table"], 20e6)
    tables = {
        "cell": {"bandwidth": band, "noise": NOISE, "gains": gains, "gain_threshold": 0.0},
        "clients": {"count": gains.shape[1], "spread": 0.0, "power": 1e-8},
        "task": {"model_bits": BITS},
        "plan": {"cohort": gains.shape[1]},
    }
    tables = {name: values | more.get(name, {}) for name, values in tables.items()}
    return Scenario().using(**tables, radio=radio)


def faded(radio, cohort=5, distance=200.0, bits=BITS, **more):
    """A cell as the paper's, with Rayleigh fading, thermal noise and a radio."""
    cell = {"noise": NOISE, "gain_threshold": 0.0, "distance": distance}
    cell["bandwidth"] = BANDS.get(radio["rate_table"], 20e6)
    task = {"model_bits": bits}
    return Scenario().using(cell=cell | more, radio=radio, plan={"cohort": cohort}, task=task)


def problem_of(scenario, rounds=1):
    """The rounds in which most clients are called."""
    fleet = draw_fleet(scenario)
    return make_problem(scenario, fleet, list(draw_trace(scenario, fleet, rounds).by_size())[-1][1])


def cost_at(scenario, share):
    problem = problem_of(scenario)[0]
    share = np.full(problem.kappa.shape, share)
    return price(problem, Schedule(share=share, freq=problem.freq_max))


def level(scheme, n=8424.0, q=0.1):
    """The least SNR of a scheme of the first table (linear)."""
    return 10 ** (MCS_TABLES["nr-64qam"].threshold(q, n)[scheme] / 10)


def test_a_rate_at_a_constant_density_by_hand():
    """SNR 25 (13.98 dB): MCS 22, which has 6 * 666 / 1024 bit/s/Hz and needs 13.45 dB."""
    cost = cost_at(world(NR | {"usable_share": 0.8}), 0.25)
    time = BITS * mean_tries(0.1, 4) / (0.25 * 20e6 * 0.8 * 6 * 666 / 1024)
    assert_allclose(cost.upload_time, time)
    assert_allclose(cost.upload_energy, 1e-8 * 0.25 * 20e6 * time)
    better = cost_at(world(NR | {"usable_share": 0.8, "target_bler": 0.4}), 0.25)
    worse = cost_at(world(NR | {"usable_share": 0.8, "margin_db": 1.0}), 0.25)
    assert_allclose(worse.upload_time / cost.upload_time, 666 / 616)
    assert_allclose(better.upload_time / cost.upload_time, mean_tries(0.4, 4) / mean_tries(0.1, 4))


def test_just_the_least_snr_is_enough():
    gain = level(10) * NOISE / 1e-8
    for factor, efficiency in ((1.0, 4 * 340), (1 - 1e-6, 2 * 679)):
        time = float(cost_at(world(NR, gain * factor), 0.5).upload_time[0])
        assert time == pytest.approx(BITS * mean_tries(0.1, 4) / (1e7 * efficiency / 1024))


def test_no_more_power_than_the_last_step_can_use():
    energy = cost_at(world(NR, 1e-9), 0.5).upload_energy[0]
    time = BITS * mean_tries(0.1, 4) / (20e6 * 948 * 6 / 1024)
    assert energy == pytest.approx(level(28) * NOISE / 1e-9 * 20e6 * time)
    capped = cost_at(world(NR | {"spectral_cap": 2.57}, 1e-9), 0.5)  # MCS 16: 4 * 658 / 1024
    assert capped.upload_time[0] == pytest.approx(2 * time * 948 * 6 / (658 * 4))
    assert capped.upload_energy[0] < energy


@pytest.mark.parametrize("share", [1.0, 0.4, 0.05, 0.004])
def test_full_power_takes_the_fastest_scheme_that_the_share_allows(share):
    """Every scheme by hand: it may use P h / (N_0 s_m) of the band, and leaves the rest unused."""
    gain, noise = 1e-13, NOISE * 10**0.5
    cost = cost_at(world(FULL, gain), share)
    table, rates = MCS_TABLES["nr-64qam"], []
    for m, efficiency in enumerate(table.efficiency):
        # One block of 180 kHz is the least that a device spreads its power over.
        if 0.2 * gain / (180e3 * noise) >= level(m):
            rates.append(min(share * 20e6, 0.2 * gain / (noise * level(m))) * efficiency)
    time = BITS * mean_tries(0.1, 4) / max(rates)
    assert_allclose(cost.upload_time, time, rtol=1e-9)
    assert (cost.upload_energy <= (0.2 + 0.3) * time * (1 + 1e-9)).all()


def test_a_round_trip_is_paid_once():
    problems = [problem_of(world(NR | {"harq_rtt": rtt}))[0] for rtt in (0.0, 0.05)]
    was, now = (price(p, Even(Broadcast.among(p))(p)) for p in problems)
    assert_allclose(now.upload_time - was.upload_time, 0.05)
    assert_allclose(now.duration - was.duration, 0.05)
    for problem in problems:
        assert Optimal()(problem).certificate.gap < 1e-9
    once = problem_of(world(NR | {"harq_rtt": 0.05, "harq_tries": 1, "arq": "none"}))[0]
    assert once.extras is None or not once.extras.latency.any()


def test_wifi_by_hand():
    """17 dBm in 20 MHz at -90 dB of gain: SNR 28 dB, so 65 Mbit/s in turn."""
    cost = cost_at(world(WIFI, 1e-9), 0.5)
    assert_allclose(cost.upload_time, 2 * BITS / 65e6 / 0.9)
    enough = 10 ** (19.58 / 10) * NOISE * 20e6 / 1e-9  # of 0.05 W
    assert_allclose(cost.upload_energy, enough * BITS / 65e6 / 0.9)
    slow = cost_at(world(WIFI, 10 ** (1.0 / 10) * NOISE * 20e6 / 0.05), 0.5)
    assert_allclose(slow.upload_time, 2 * BITS / 6.5e6 / 0.9)


def test_a_duty_cycle_binds_a_device_whatever_its_share():
    bits = 21e3  # 12 frames at SF 7
    scenario = world(LORA, 1e-10, task={"model_bits": bits})
    air = lora.air_time(bits, 7)
    assert_allclose(cost_at(scenario, 0.5).upload_time, air / 0.01)
    assert_allclose(cost_at(scenario, 0.004).upload_time, air / 0.004)
    joules = cost_at(scenario, 0.5).upload_energy
    needed = 10 ** (lora.least_snr_db(7) / 10) * NOISE * 10**0.6 * 125e3 / 1e-10
    assert_allclose(joules, (needed + 0.08) * air)
    optimal = schedule_round(scenario, "optimal")
    assert_allclose(optimal.cost.upload_time, air / 0.01)
    assert abs(float(optimal.certificate.gap)) < 1e-9


def test_a_duty_cycle_without_a_table():
    radio = {"access": "time", "power_max": 0.2, "duty_cycle": 0.1}
    free, bound = (
        problem_of(world(NR, 1e-11).using(radio=None).using(radio=radio | more))[0]
        for more in ({"duty_cycle": None}, {})
    )
    u = free.band_time[0]
    share = Schedule(np.full(2, 0.5), bound.freq_max)
    assert_allclose(price(bound, share).upload_time, u / 0.1)
    assert_allclose(price(free, share).upload_time, u / 0.5)
    assert_allclose(price(bound, share).upload_energy, price(free, share).upload_energy)


def test_the_spreading_factor_follows_from_the_snr():
    power = NOISE * 10**0.6 * 125e3 / 0.025
    for factor in lora.FACTORS:
        gain = 10 ** (lora.least_snr_db(factor) / 10) * power
        cost = cost_at(world(LORA, gain), 0.5)
        assert_allclose(cost.upload_time, lora.air_time(BITS, factor) / 0.01, rtol=1e-9)
        fixed = world(LORA | {"rate_table": "lora-sf12"}, gain, cell={"bandwidth": 125e3})
        assert_allclose(cost_at(fixed, 0.5).upload_time, lora.air_time(BITS, 12) / 0.01)


def test_nb_iot_by_hand():
    """Alone and near: 62.5 kbit/s, on air for a quarter; three alike share 250 kbit/s."""
    tries, bits = mean_tries(0.1, 4), 1e5
    alone = cost_at(world(TONES, 1e-9, 1, task={"model_bits": bits}), 1.0)
    time = bits * tries / 62.5e3
    assert_allclose(alone.upload_time, time)
    on_air = time / 4
    assert_allclose(alone.upload_energy, 0.166 * time + (0.2 / 0.388 + 0.279 - 0.166) * on_air)
    # One tone for each: 16.7 kbit/s. A quarter of the band on air: as if alone.
    for share, rate in ((1 / 12, 1000 / 60e-3), (0.25, 62.5e3), (0.5, 62.5e3)):
        cost = cost_at(world(TONES, 1e-9, 3, task={"model_bits": bits}), share)
        best = max(rate, min(share, 0.25) * 250e3)
        assert_allclose(cost.upload_time, bits * tries / best)


def test_an_nb_iot_device_far_away_takes_one_tone_and_repeats():
    steps = nbiot.nbiot_steps(1)
    gain = steps.snr[0] * NOISE * 15e3 / 0.2
    time = cost_at(world(TONES, gain * 1.0001, 1, task={"model_bits": 1e4}), 1.0).upload_time[0]
    assert time == pytest.approx(1e4 * mean_tries(0.1, 4) / steps.rate[0])
    for block in (15e3, None):  # a tone is a tone, whatever the block
        radio = TONES | {"resource_block": block}
        for factor, heard in ((0.999, 0.0), (1.001, 1.0)):
            far = world(radio, gain * factor)
            assert_array_equal(chance_heard(far, draw_fleet(far)), heard)


@pytest.mark.parametrize(
    ("radio", "least"),
    [
        (NR, level(0) * NOISE / 1e-8),
        (FULL, level(0) * NOISE * 10**0.5 * 180e3 / 0.2),
        (WIFI, 10**0.086 * NOISE * 20e6 / 0.05),
        (LORA, 10 ** (lora.least_snr_db(12) / 10) * NOISE * 10**0.6 * 125e3 / 0.025),
    ],
)
def test_below_the_lowest_step_a_client_is_in_outage(radio, least):
    scenario = world(radio, [least * (1 + 1e-9), least * (1 - 1e-6)])
    assert chance_heard(scenario, draw_fleet(scenario)).tolist() == [1.0, 0.0]
    higher = scenario.using(radio={"snr_min_db": 30.0})
    assert not chance_heard(higher, draw_fleet(higher)).any()


def test_frames_that_are_lost_are_uploads_that_are_lost():
    """12 frames that lose 1 % each, on the draws that the cell's own losses take."""
    scenario = world(LORA, 1e-10, 50, task={"model_bits": 21e3}).using(
        cell={"gains": np.full((2000, 50), 1e-10)}, plan={"cohort": 20}
    )
    expected = 1 - 0.99**12
    assert mean_loss_rate(scenario) == pytest.approx(expected)
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet)
    assert trace.lost.mean() == pytest.approx(expected, abs=0.005)
    same = scenario.using(radio={"arq": "repeat"}, cell={"loss_rate": expected})
    assert_array_equal(draw_trace(same, draw_fleet(same)).lost, trace.lost)
    both = scenario.using(cell={"loss_rate": 0.2})
    assert mean_loss_rate(both) == pytest.approx(1 - 0.8 * (1 - expected))
    more = draw_trace(both, draw_fleet(both)).lost
    assert (more >= trace.lost).all()
    assert more.mean() == pytest.approx(mean_loss_rate(both), abs=0.005)


def test_losses_are_those_of_the_snr_of_the_round():
    """Two nodes of 802.15.4: far from the threshold, and near it; four tries of each frame."""
    near = short_range.zigbee_threshold(0.3) * NOISE * 5e6 / 1e-3
    scenario = world(ZIGBEE | {"target_bler": 0.5}, [1e-9, near], task={"model_bits": 5e4})
    frames = np.ceil(5e4 / (8 * 116))
    expected = float(upload_loss(0.3**4, frames))
    assert mean_loss_rate(scenario) == pytest.approx(expected / 2)
    rounds = scenario.using(cell={"gains": np.tile([1e-9, near], (4000, 1))})
    lost = draw_trace(rounds, fleet := draw_fleet(rounds))
    rate = [lost.lost[lost.cohort == j].mean() for j in range(fleet.count)]
    assert rate == [0.0, pytest.approx(expected, abs=0.02)]


def test_faded_losses_agree_with_the_trace():
    scenario = faded(LORA, distance=(100.0, 700.0), bits=2e4)
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 3000)
    assert trace.lost[trace.cohort >= 0].mean() == pytest.approx(mean_loss_rate(scenario), abs=0.01)
    worlds = {name: mean_loss_rate(w) for name, w in nearby_worlds(scenario).items()}
    assert "half the band" not in worlds  # a channel of LoRa has one width
    gamma = worlds.pop("as it is")
    assert next(iter(worlds.values())) == pytest.approx(min(2 * gamma, gamma**0.5))
    assert gamma > list(worlds.values())[1]  # a smaller model has fewer frames


def test_cellular_uploads_are_never_lost_by_blocks():
    scenario = faded(FULL, bits=53e6)
    assert mean_loss_rate(scenario) == 0
    assert not draw_trace(scenario, draw_fleet(scenario), 50).lost.any()


def all_choices(problem):
    """The least objective of a round, by solving it for every choice of modes on a fine grid of
    shares and the best clocks for each: an upper bound on it within the grid."""
    modes, terms = problem.extras.limit, Terms.of(problem)
    best = np.inf
    grid = np.linspace(0.0, 1.0, 61)[1:-1]
    for a, b in product(grid, grid):
        if a + b >= 1:
            continue
        share = np.array([a, b, 1 - a - b])
        s, joules = modes.upload_time(share), modes.upload_energy(share)
        lengths = np.geomspace(1, 6, 25) * (terms.m + terms.shortest + s).max()
        t = np.minimum(np.maximum(lengths[:, None] - terms.m - s, terms.shortest), terms.longest)
        t = np.minimum(t, terms.training_time(np.zeros(3)))
        upload = terms.q * s + problem.energy_weight * joules
        cost = terms.second * (terms.m + t + s).max(-1) + (terms.value(t) + upload).sum(-1)
        best = min(best, cost.min())
    return best


@pytest.mark.parametrize("radio", [FULL, TONES], ids=["nr", "nb-iot"])
def test_no_schedule_on_a_grid_beats_the_bound(radio):
    scenario = faded(radio, 3, (50.0, 300.0), 2e5)
    problem = problem_of(scenario, 3)
    for each in (problem[t] for t in range(len(problem.cycles))):
        schedule = Optimal()(each)
        modes, terms = each.extras.limit, Terms.of(each)
        s = modes.upload_time(schedule.share)
        t = each.cycles / schedule.freq
        joules = each.energy_weight * modes.upload_energy(schedule.share)
        value = terms.second * (terms.m + t + s).max() + float(
            (terms.value(t) + terms.q * s + joules).sum()
        )
        found, gap = all_choices(each), float(schedule.certificate.gap)
        assert -1e-9 <= gap < 0.02
        assert found >= value * (1 - gap) * (1 - 1e-9)
        assert value <= found * (1 + 1e-3)
        assert_allclose(certify(each, schedule).gap, gap, atol=1e-9)


@pytest.mark.parametrize("radio", [NR, FULL, FULL | {"power_law": "open-loop", "p0_dbm": -95.0}])
def test_policies_are_ordered_where_it_is_a_theorem(radio):
    problem = problem_of(faded(radio, 6), 40)
    broadcast = Broadcast(freq=5e8, samples=500.0)
    even = price(problem, Even(broadcast)(problem)).objective
    best = Optimal()(problem)
    free = OptimalPower()(problem)
    optimal, with_power = (price(problem, s).objective for s in (best, free))
    assert (optimal <= even * (1 + 1e-9)).all()
    assert (with_power <= optimal * (1 + 1e-9)).all()
    for schedule in (best, free):
        assert (schedule.certificate.gap > -1e-9).all()
        assert (schedule.certificate.gap < 0.03).all()
    judged = certify(problem, Even(broadcast)(problem))  # of any policy
    if problem.extras is not None and problem.extras.limit is not None:
        assert (judged.gap >= best.certificate.gap - 1e-9).all()


def test_without_a_limit_the_optimum_is_exact():
    assert (Optimal()(problem_of(faded(NR, 6), 40)).certificate.gap < 1e-9).all()


def test_band_that_is_left_over_is_taken_up():
    modes = problem_of(faded(FULL, 4), 1)[0].extras.limit
    share = np.full(4, 0.05)
    more = filled(modes, share)
    assert more.sum() <= 1 + 1e-9
    assert (more >= share).all()
    assert (modes.upload_time(more) <= modes.upload_time(share)).all()
    assert modes.upload_time(more).sum() < modes.upload_time(share).sum()


def test_one_client_and_one_round_are_as_in_a_batch():
    problem = problem_of(faded(FULL, 3), 5)
    for schedule in (Optimal(), OptimalPower()):
        batch, alone = schedule(problem), schedule(problem[1])
        assert_allclose(batch.share[1], alone.share, rtol=1e-6)
    single = schedule_round(world(FULL, 1e-13, 1), "optimal")
    assert single.schedule.share == pytest.approx(1.0)
    assert abs(float(single.certificate.gap)) < 1e-9


def test_a_download_has_steps_too():
    radio = NR | {"downlink": "multicast", "cell_power": 20.0, "usable_share": 0.8}
    cost = schedule_round(world(radio, 1e-13), "even").cost
    assert isinstance(cost, DeviceCost)
    snr = 20.0 * 1e-13 / (20e6 * NOISE)
    efficiency = rate_steps(world(radio)).rate_at(np.array(snr))
    assert cost.extras.download_time[0] == pytest.approx(BITS / (20e6 * 0.8 * efficiency))
    weak = world(radio | {"cell_power": 1e-3}, 1e-13)  # repeated below the lowest step
    part = 1e-3 * 1e-13 / (20e6 * NOISE) / level(0)
    cost = schedule_round(weak, "even").cost
    assert isinstance(cost, DeviceCost)
    assert cost.extras.download_time[0] == pytest.approx(
        BITS / (20e6 * 0.8 * part * 2 * 120 / 1024)
    )


def test_notes_say_what_blocks_and_duty_cycles_cost():
    scenario = faded(LORA, distance=(100.0, 500.0), bits=53e6)
    notes = " ".join(radio_notes(scenario, draw_fleet(scenario)))
    assert "of uploads are lost, because radio.arq" in notes
    assert "days" in notes
    tones = faded(TONES, 5, (50.0, 300.0), 2e4)
    assert "whole tones of 15 kHz" in " ".join(radio_notes(tones, draw_fleet(tones)))


def test_curves_have_the_levels_of_the_table():
    curve = link_curve(faded(NR))
    steps, tries = rate_steps(faded(NR)), mean_tries(0.1, 4)
    values = curve.efficiency["nr-64qam"]
    assert_allclose(np.unique(values), np.append(0.0, steps.efficiency / tries))
    assert (values <= curve.efficiency["Shannon"] + 1e-12).all()
    assert len(curve.rows()) == len(curve.snr_db)
    assert list(link_curve(faded(TONES)).efficiency)[2:] == ["1 tone"] + [
        f"{n} tones" for n in (3, 6, 12)
    ]


def test_a_file_and_a_changed_scenario_are_the_same(tmp_path):
    scenario = faded(FULL | {"harq_fade": "same", "code_blocks": 4, "harq_rtt": 0.008})
    save_scenario(scenario, tmp_path / "mine.toml")
    loaded = load_scenario(tmp_path / "mine.toml")
    assert loaded == scenario
    one, other = (simulate_network(s, "optimal", 5) for s in (scenario, loaded))
    assert_array_equal(one.objective, other.objective)


WRONG = [
    (NR | {"gap_db": 3.0}, {}, "gap_db = 3 is for Shannon"),
    ({"harq_tries": 2}, {}, "harq_tries is for a rate_table"),
    (NR | {"access": "time"}, {}, 'needs access = "band"'),
    (WIFI | {"access": "band"}, {}, 'needs access = "time"'),
    (WIFI | {"block_bits": 100.0}, {}, "block_bits is for NR tables"),
    (NR | {"duty_cycle": 0.1}, {}, "duty_cycle is for access"),
    (LORA, {"bandwidth": 20e6}, "is for cell.bandwidth = 125000"),
    (TONES | {"uplink_share": 0.25}, {"bandwidth": 180e3}, "the pauses of a device"),
    (TONES | {"downlink": "multicast", "cell_power": 1.0}, {"bandwidth": 180e3}, "no downlink"),
    (NR | {"harq": "repeat", "harq_fade": "same"}, {}, "lost in every try"),
    (NR | {"rate_table": "nr-65qam"}, {}, "expected .nr-64qam."),
    (NR | {"target_bler": 0.0}, {}, "target_bler = 0"),
    (NR | {"target_bler": 1.0}, {}, "target_bler = 1"),
    (NR | {"harq_tries": 0}, {}, "harq_tries = 0"),
]


@pytest.mark.parametrize(("radio", "cell", "message"), WRONG)
def test_what_cannot_be_is_refused(radio, cell, message):
    with pytest.raises(BadInput, match=message):
        Scenario().using(radio=radio, cell=cell)


def test_rates_that_are_given_need_no_table():
    """Measured rates have lost blocks in them: nothing of the table applies."""
    table = {"rate": [5e6, 2e6]}
    radio = WIFI | {"arq": "none", "harq_rtt": 0.1}
    cell = {"noise": NOISE, "bandwidth": 20e6}
    scenario = Scenario().using(
        radio=radio, clients={"table": table}, plan={"cohort": 2}, cell=cell
    )
    problem = problem_of(scenario.using(task={"model_bits": BITS}))
    assert_allclose(sorted(problem.band_time[0]), [BITS / 5e6, BITS / 2e6])
    assert mean_loss_rate(scenario) == 0
    notes = radio_notes(scenario, draw_fleet(scenario))
    assert "the rates of clients are given, so radio.rate_table has no effect" in notes


def test_with_chosen_modes_the_problem_is_solved_exactly():
    """A phone far away makes the round long: the price of band is not 0 though it alone counts."""
    keys = {"gap_db": 0.0, "rate_table": "nr-64qam"}
    town = load_scenario("phones-5g").using(learning=None, radio=keys, plan={"cohort": 10})
    problem = problem_of(town, 12)
    assert (Optimal()(problem).certificate.gap < 0.03).all()
    terms = Terms.of(problem)
    choices = Choices.of(problem.extras.limit, problem.energy_weight)
    price = np.broadcast_to(terms.second[..., None] / problem.clients, terms.u.shape)
    for R in (10.0, 40.0):
        values = choices.values(terms.q + price, np.full(terms.second.shape, R))
        chosen = choices.at(values.argmin(-1))
        found = joint_split(fixed(terms, chosen))
        H = (terms.m + found.train + found.upload).max(-1)
        sending = (terms.q + chosen.watts) * found.upload + chosen.joules
        value = terms.second * H + (terms.value(found.train) + sending).sum(-1)
        names = ("band_time", "shortest", "joules", "watts")
        alone = Choices(**{name: getattr(chosen, name)[..., None] for name in names})
        beta = prices_of(terms, chosen, found)
        assert_allclose(choices_bound(terms, alone, beta, found.R)[0], value, rtol=1e-7)
        assert (chosen.band_time / found.upload).sum(-1).max() <= 1 + 1e-9


@pytest.mark.parametrize("radio", [NR, WIFI, TONES, LORA], ids=lambda radio: radio["rate_table"])
def test_measured_rates_are_steps_read_backwards(radio):
    scenario = world(radio)
    power = np.array(1e-8)
    for gain in np.geomspace(1e-14, 1e-6, 60):
        rate = rate_of_gain(scenario, power, np.array(gain))
        least = gain_of_rate(scenario, power, rate)
        assert least <= gain * (1 + 1e-9)  # that of the same step
        assert_allclose(rate_of_gain(scenario, power, least), rate)
    assert gain_of_rate(world(NR).using(radio=None), power, np.array(1.0)) == NOISE / 1e-8


def test_devices_that_drift_move_to_other_steps():
    scenario = faded(NR, 3, 100.0).using(clients={"count": 4, "power": 1e-8})
    fleet = replace(draw_fleet(scenario), mean_gain=np.array([1e-11, 1e-11, 1e-11, 1e-14]))
    late = np.array([0.0, np.log(2), -np.log(1.2), np.log(2)])
    found = corrected_fleet(fleet, scenario, np.zeros(4), late)
    before, after = (
        rate_of_gain(scenario, f.power, f.mean_gain) / mean_tries(0.1, 4) for f in (fleet, found)
    )
    assert found.mean_gain[0] == fleet.mean_gain[0]
    assert after[1] / before[1] == pytest.approx(1 / 2, rel=0.15)  # a step is 5 to 15 % wide
    assert after[2] >= before[2]
    assert found.mean_gain[3] == pytest.approx(5e-15)  # in outage on average, but not for ever


LAW = GivenLaw(mixing=200.0, drift=0.1, start=200.0, floor=20.0)


def test_the_band_of_a_channel_is_not_solved_for():
    limits = Limits(deadline=1e9)
    with pytest.raises(BadInput, match="ask for the least power"):
        plan_training(faded(LORA), LAW, limits=limits, solve_for="bandwidth")


def test_a_plan_needs_power_to_reach_a_gateway():
    """With less and less power no client is called: these powers are too little, not a fault."""
    scenario, region = (
        faded(LORA, 3, 300.0, 2e3),
        Region(policy="even", clients=(2, 3), steps=(5, 6)),
    )
    plan = plan_training(
        scenario, LAW, region=region, limits=Limits(deadline=1e8), solve_for="power"
    )
    assert plan.grid is not None
    weak = plan.grid.scenario
    assert 1e-6 < weak.radio.power_max / 0.025 < 1
    assert chance_heard(weak, draw_fleet(weak)).max() > 0
