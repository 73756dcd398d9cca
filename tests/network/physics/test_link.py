"""Rates and powers of declared radios, with one number worked out from each formula."""

from math import log, log2

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario
from fedcell.deploy.server.drift import corrected_fleet
from fedcell.deploy.wire.profile import Profile, introduced
from fedcell.errors import BadInput
from fedcell.network import Trace, draw_fleet, draw_trace, simulate_network
from fedcell.network.participation import chance_heard
from fedcell.network.physics.downlink import download_rate
from fedcell.network.physics.link import noise_density, spectral_efficiency, uploads_per_second
from fedcell.network.round import Schedule, make_problem, price
from fedcell.scenario.channel.measured import Measured

BAND, NOISE, BITS = 20e6, 4e-21, 1e6
GAIN = 1e-11  # a path loss of 110 dB


def world(radio=None, device=None, gain=GAIN, count=2, **more):
    """A cell with gains that are all alike, in which nothing is drawn."""
    gains = np.full((3, count), gain) if np.isscalar(gain) else np.asarray(gain)
    tables = {
        "cell": {"bandwidth": BAND, "noise": NOISE, "gains": gains, "gain_threshold": 0.0},
        "clients": {"count": gains.shape[1], "spread": 0.0, "power": 1e-8},  # 0.2 W over the band
        "task": {"model_bits": BITS},
        "plan": {"cohort": gains.shape[1]},
    }
    tables = {name: values | more.get(name, {}) for name, values in tables.items()}
    return Scenario().using(**tables, radio=radio, device=device)


def problem_of(scenario):
    fleet = draw_fleet(scenario)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, 1))[0]


def cost_at(scenario, share):
    problem = problem_of(scenario)
    share = np.full(problem.kappa.shape, share)
    return price(problem, Schedule(share=share, freq=problem.freq_max))


def test_noise_figure_rise_and_receive_gain_by_hand():
    radio = {"noise_figure_db": 5.0, "noise_rise_db": 3.0, "receive_gain_db": 15.0}
    assert_allclose(noise_density(world(radio)), 4e-21 * 10**-0.7)
    scenario = world(radio)
    rate = BAND * log2(1 + 1e-8 * GAIN / (4e-21 * 10**-0.7))
    assert_allclose(problem_of(scenario).band_time, BITS / rate)


def test_the_usable_band_the_gap_and_the_cap_by_hand():
    # SNR 25 (14 dB); a gap of 3 dB leaves 12.5: 3.76 bit/s/Hz
    radio = {"usable_share": 0.83, "uplink_share": 0.25, "gap_db": 3.0}
    efficiency = log2(1 + 25 / 10**0.3)
    assert_allclose(efficiency, 3.758, atol=1e-3)
    assert_allclose(problem_of(world(radio)).band_time, BITS / (BAND * 0.83 * 0.25 * efficiency))
    capped = problem_of(world(radio | {"spectral_cap": 2.0}))
    assert_allclose(capped.band_time, BITS / (BAND * 0.83 * 0.25 * 2.0))
    assert spectral_efficiency(np.array([1e9]), 1.0, 7.4) == 7.4


def test_a_device_sends_no_more_power_than_the_cap_can_use():
    capped = problem_of(world({"spectral_cap": 2.0}))
    density = (2**2 - 1) * NOISE / GAIN  # SNR 3 is enough for 2 bit/s/Hz
    assert_allclose(capped.upload_energy, density * BITS / 2.0)
    assert density < 1e-8


def test_tdd_takes_longer_and_radiates_as_much():
    all_time, quarter = (problem_of(world({"uplink_share": s, "gap_db": 1.0})) for s in (1, 0.25))
    assert_allclose(quarter.band_time, 4 * all_time.band_time)
    assert_allclose(quarter.upload_energy, all_time.upload_energy)


@pytest.mark.parametrize("share", [0.5, 0.05, 1.0])
def test_power_max_cuts_the_density(share):
    # 0.05 W is reached at a quarter of the band
    cost = cost_at(world({"power_max": 0.05, "efficiency": 0.4}), share)
    power = min(1e-8 * share * BAND, 0.05)
    rate = share * BAND * log2(1 + power * GAIN / (share * BAND * NOISE))
    assert_allclose(cost.upload_time, BITS / rate)
    assert_allclose(cost.upload_energy, power / 0.4 * BITS / rate)


def test_full_power_is_sent_whatever_the_share():
    for share in (1.0, 0.1, 0.001):
        cost = cost_at(world({"power_max": 0.2, "power_law": "full"}), share)
        rate = share * BAND * log2(1 + 0.2 * GAIN / (share * BAND * NOISE))
        assert_allclose(cost.upload_time, BITS / rate)
        assert_allclose(cost.upload_energy, 0.2 * BITS / rate)


def test_open_loop_control_by_hand():
    """Received density P_0 (path loss)^(alpha - 1) per block: with P_0 = -80 dBm, NF 5 dB and
    alpha = 1 the SNR is 36.4 dB (thermal noise of a block of 180 kHz: -121.4 dBm)."""
    radio = {"power_law": "open-loop", "p0_dbm": -80.0, "noise_figure_db": 5.0}
    scenario = Scenario().using(cell={"noise": 10 ** (-204 / 10), "distance": (50.0, 150.0)})
    scenario = scenario.using(radio=radio, clients={"count": 20})
    fleet = draw_fleet(scenario)
    received = fleet.power * fleet.mean_gain
    assert_allclose(received, 1e-11 / 180e3)
    assert_allclose(10 * np.log10(received / noise_density(scenario)), 36.45, atol=0.01)
    partial = draw_fleet(scenario.using(radio={"alpha": 0.8}))
    assert_allclose(partial.power, 1e-11 / 180e3 * partial.mean_gain**-0.8)
    fixed = draw_fleet(scenario.using(radio={"alpha": 0.0, "resource_block": 360e3}))
    assert_allclose(fixed.power, 1e-11 / 180e3)  # NR counts a block of 30 kHz spacing twice: 2^mu


def test_open_loop_control_makes_up_for_measured_path_losses():
    """Gains of -100 and -110 dB at P_0 = -90 dBm a block: 10 and 20 dBm, whatever the distance."""
    gains = np.array([[0.5e-10, 1e-11], [1.5e-10, 0.0]])
    world = Scenario().using(
        cell={"gains": gains},
        radio={"power_law": "open-loop", "p0_dbm": -90.0},
        clients={"count": 2},
        plan={"cohort": 1},
    )
    assert_allclose(draw_fleet(world).power * 180e3, [0.01, 0.1])
    measured = {"gains": None, "channel": {"measured": Measured("gain", gains)}}
    assert_allclose(draw_fleet(world.using(cell=measured)).power * 180e3, [0.01, 0.1])


def test_airtime_shares_keep_full_power_and_band():
    radio = {"access": "time", "power_max": 0.1, "circuit_power": 0.9, "efficiency": 0.25}
    scenario = world(radio, {"idle_power": 0.5})
    cost = cost_at(scenario, 0.2)
    rate = BAND * log2(1 + 0.1 * GAIN / (BAND * NOISE))
    on_air = BITS / rate
    assert_allclose(cost.upload_time, on_air / 0.2)
    assert_allclose(cost.upload_energy, (0.1 / 0.25 + 0.9) * on_air + 0.5 * 4 * on_air)


def test_the_least_snr_decides_on_outage():
    """4e-9 W/Hz at -120 dB is an SNR of 0 dB over 4e-21 W/Hz."""
    gains = np.array([[0.99e-12, 1.01e-12]] * 3)
    quiet = world({"snr_min_db": 0.0}, gain=gains, clients={"power": 4e-9})
    heard = draw_trace(quiet, draw_fleet(quiet), 3).cohort
    assert heard[:, 0].tolist() == [1, 1, 1]
    assert (heard[:, 1:] == -1).all()
    assert chance_heard(quiet, draw_fleet(quiet)).tolist() == [0.0, 1.0]
    # With 0.2 W in one block of 180 kHz the SNR is 24.4 dB.
    limit = {"snr_min_db": 24.3, "power_max": 0.2, "power_law": "full"}
    full = world(limit, gain=gains)
    assert chance_heard(full, draw_fleet(full)).tolist() == [1.0, 1.0]
    none = world(limit | {"snr_min_db": 24.6}, gain=gains)
    assert chance_heard(none, draw_fleet(none)).tolist() == [0.0, 0.0]


def test_rayleigh_outage_by_a_least_snr_is_exponential():
    scenario = Scenario().using(radio={"snr_min_db": 3.0}, clients={"spread": 0.0})
    fleet = draw_fleet(scenario)
    least = 10**0.3 * 5e-20 / 4e-7 / fleet.mean_gain[0]
    assert_allclose(chance_heard(scenario, fleet), np.exp(-max(least, 0.05)))


def test_a_wide_share_is_narrowed_to_the_least_snr():
    radio = {"snr_min_db": 0.0, "power_max": 0.2, "power_law": "full"}
    scenario = world(radio, gain=1e-13)  # SNR -6 dB over the whole band
    floor = 0.2 * 1e-13 / (NOISE * BAND)
    wide, exact = cost_at(scenario, 1.0), cost_at(scenario, floor)
    assert_allclose(wide.upload_time, BITS / (floor * BAND))
    assert_allclose(wide.upload_time, exact.upload_time)


def test_downloads_by_hand():
    gains = np.array([[1e-11, 1e-12, 1e-10]])
    radio = {"downlink": "multicast", "cell_power": 10.0, "device_noise_figure_db": 9.0}
    scenario = world(radio, {"idle_power": 0.1}, gain=gains).using(
        radio={"receive_power": 0.6, "uplink_share": 0.25}
    )
    snr = 10.0 * gains[0] / (BAND * NOISE * 10**0.9)
    rates = BAND * 0.75 * np.log2(1 + snr)
    assert_allclose(download_rate(scenario, gains[0]), rates)
    cost = cost_at(scenario, 0.3)
    assert_allclose(cost.extras.download_time, BITS / rates.min())
    assert_allclose(cost.extras.receive_energy, 0.6 * BITS / rates.min())
    turns = cost_at(scenario.using(radio={"downlink": "unicast"}), 0.3)
    each = BITS / download_rate(scenario, draw_trace(scenario, draw_fleet(scenario), 1).gain[0])
    assert_allclose(turns.extras.download_time, each.sum())
    assert_allclose(turns.extras.receive_end, each.cumsum())
    assert_allclose(turns.extras.receive_energy, 0.6 * each + 0.1 * (each.sum() - each))
    assert_allclose(turns.duration - each.sum(), cost.duration - BITS / rates.min())


@pytest.mark.parametrize("policy", ["even", "optimal-staged", "optimal", "distributed"])
@pytest.mark.parametrize(
    "tables",
    [
        {"radio": {}, "device": {}},
        {"radio": {"power_max": 1e3, "gap_db": 0.0}},  # never reached
        {"radio": {"spectral_cap": 100.0}, "device": {"battery": 1e9}},
        {"device": {"rounds_per_day": 24.0, "carbon_intensity": 300.0}},
    ],
)
def test_limits_give_the_paper_bit_for_bit(policy, tables):
    plain = Scenario().using(task={"model_bits": 3e6})
    paper, same = (simulate_network(s, policy, 20) for s in (plain, plain.using(**tables)))
    for name in ("duration", "energy", "upload_cost", "compute_cost", "objective"):
        assert_array_equal(getattr(same, name), getattr(paper, name), strict=True)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"radio": {"power_law": "full"}}, r'radio.power_law = "full" needs radio.power_max'),
        ({"radio": {"power_law": "open-loop"}}, "needs p0_dbm"),
        ({"radio": {"p0_dbm": -90.0}}, "radio.p0_dbm is for open-loop"),
        ({"radio": {"downlink": "unicast"}}, "needs cell_power"),
        ({"radio": {"cell_power": 10.0}}, "radio.cell_power is for multicast and unicast"),
        (
            {
                "radio": {"downlink": "unicast", "cell_power": 10.0},
                "cell": {"broadcast_time": 1.0},
            },
            "both give the time to send the model",
        ),
        (
            {"radio": {"downlink": "unicast", "cell_power": 1.0, "downlink_share": 0.9}},
            None,
        ),
        (
            {
                "radio": {
                    "downlink": "unicast",
                    "cell_power": 1.0,
                    "downlink_share": 0.9,
                    "uplink_share": 0.2,
                }
            },
            "more than all the time",
        ),
        ({"radio": {"efficiency": 0.0}}, "expected a number above 0, to 1"),
        ({"radio": {"alpha": 1.2}}, "radio.alpha = 1.2"),
    ],
)
def test_radios_that_cannot_be_are_refused(tables, message):
    if message is None:
        Scenario().using(**tables)
    else:
        with pytest.raises(BadInput, match=message):
            Scenario().using(**tables)


def test_a_least_snr_needs_no_power_limit_to_act():
    trace = Trace.of([[GAIN, GAIN]])
    scenario = world({"snr_min_db": -5.0})
    problem = make_problem(scenario, draw_fleet(scenario), trace)
    assert problem.extras is None
    assert_allclose(problem.band_time, BITS * log(2) / (BAND * log(26)))


def test_a_cap_of_devices_holds_for_their_downloads():
    """1 bit/s/Hz over 20 MHz, where the cell could send many."""
    table = {"gain": [1e-8, 1e-8], "spectral_cap": [1.0, None]}
    radio = {"downlink": "multicast", "cell_power": 10.0}
    one = Scenario().using(clients={"table": table}, radio=radio, plan={"cohort": 2})
    both = one.using(clients={"table": {"gain": [1e-8, 1e-8]}}, radio={"spectral_cap": 1.0})
    for world in (one, both):
        fleet = draw_fleet(world)
        at = make_problem(world, fleet, draw_trace(world, fleet, 1))
        assert_allclose(at.extras.download_time, world.model_bits / world.cell.bandwidth)


def test_devices_of_a_federation_are_priced_with_their_radio():
    """A rate that a device states is that of its link, and drift stretches its uploads."""
    radio = {"gap_db": 3.0, "noise_figure_db": 5.0, "usable_share": 0.8, "power_max": 0.05}
    scenario = world(radio).using(cell={"gains": None}, clients={"count": 2}, plan={"cohort": 2})
    profiles = {j: Profile.of({"name": f"d{j}", "rate": 5e6}) for j in range(2)}
    stated = introduced(scenario, profiles)
    fleet = draw_fleet(stated)
    trace = Trace.of(fleet.mean_gain[None])
    whole = Schedule(np.array([[0.999, 0.001]]), np.full((1, 2), 1e9))
    at = make_problem(stated, fleet, trace)
    assert_allclose(price(at, whole).upload_time[0, 0], BITS / 5e6, rtol=2e-3)
    slower = corrected_fleet(fleet, stated, np.zeros(2), np.log([2.0, 2.0]))
    late = make_problem(stated, slower, Trace.of(slower.mean_gain[None]))
    assert_allclose(price(late, whole).upload_time[0, 0], 2 * BITS / 5e6, rtol=2e-3)
    part = uploads_per_second(at, whole)
    assert_allclose(part, 1 / price(at, whole).upload_time)
    fast = scenario.using(radio={"spectral_cap": 0.2}, cell={"distance": 10.0})
    fleet = draw_fleet(fast)
    once = make_problem(fast, fleet, Trace.of(fleet.mean_gain[None]))
    slower = corrected_fleet(fleet, fast, np.zeros(2), np.log([2.0, 2.0]))
    late = make_problem(fast, slower, Trace.of(slower.mean_gain[None]))
    taken = [price(at, whole).upload_time[0, 0] for at in (late, once)]
    assert_allclose(taken[0], 2 * taken[1], rtol=2e-3)
    plain = problem_of(world())
    even = Schedule(np.full(2, 0.5), plain.freq_max)
    assert_allclose(uploads_per_second(plain, even), 1 / price(plain, even).upload_time)
