"""Drawn channels against closed forms: fading, outage, sight, shadowing, buildings, motion."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from fedcell import Scenario, compare
from fedcell.core.streams import MAX_ROUNDS, Purpose
from fedcell.errors import BadInput
from fedcell.experiments.experiment import load_experiment
from fedcell.network import Propagation, check_channel, draw_fleet, draw_trace
from fedcell.network.channels.fading import Fading, fading_of
from fedcell.network.channels.gains import channel_gains
from fedcell.network.channels.motion import Paths, process
from fedcell.network.draw import draw_all
from fedcell.network.participation import chance_called, chance_heard
from fedcell.planning.costs.devices import upload_moments
from fedcell.planning.whatif import nearby_worlds
from fedcell.policies import Broadcast, EqualFinish, make_problem, price
from fedcell.scenario.channel.laws import LAWS, wall_loss
from fedcell.scenario.channel.spec import MODELS, ChannelSpec
from fedcell.scenario.identity import training_identity

NEAR, FAR = 20.0, 200.0


def world(cell: dict[str, Any] | None = None, **keys: Any) -> Scenario:
    """A ring of 400 clients with a channel."""
    cell = {"distance": [NEAR, FAR], "channel": {"model": "umi", **keys}} | (cell or {})
    return Scenario().using(cell=cell, clients={"count": 400})


def decibels(scenario: Scenario, seed: int = 0) -> Any:
    return -10 * np.log10(draw_fleet(scenario, seed).mean_gain)


# Fading.


@pytest.mark.parametrize(
    ("fading", "exact"),
    [
        (Fading("gamma", 1.0), stats.expon()),
        (Fading("gamma", 4.5), stats.gamma(4.5, scale=1 / 4.5)),
        (Fading("rician", 6.0), stats.ncx2(2, 12.0, scale=1 / 14)),
        (Fading("rician", 0.0), stats.expon()),
    ],
)
def test_fading_has_its_distribution_and_mean_one(fading, exact):
    clients = np.broadcast_to(np.arange(50), (400, 50))
    drawn = fading.draw(3, range(400), clients, 50).ravel()
    assert exact.mean() == pytest.approx(1.0)
    assert stats.kstest(drawn, exact.cdf).pvalue > 0.001
    x = np.array([0.05, 0.3, 1.0, 2.5])
    assert_allclose(fading.survival(x), exact.sf(x), rtol=1e-9)
    if fading.kind == "gamma":
        u = np.array([0.0, 0.2, 0.9])
        assert_allclose(exact.sf(fading.above(np.array(0.3), u)), (1 - u) * exact.sf(0.3))


def test_the_paper_s_fading_is_diversity_one_and_rician_zero():
    clients = np.broadcast_to(np.arange(20), (30, 20))
    one = Fading("gamma", 1.0).draw(1, range(30), clients, 20)
    assert_allclose(Fading("rician", 0.0).draw(1, range(30), clients, 20), one, rtol=1e-12)
    assert_allclose(Fading("gamma", np.ones(20)).draw(1, range(30), clients, 20), one, rtol=1e-9)


def test_diversity_is_five_times_share_times_delay_spread():
    scenario = Scenario().using(
        cell={"channel": {"diversity": "auto", "delay_spread": 3e-7}}, plan={"cohort": 4}
    )
    assert fading_of(scenario, None).shape == pytest.approx(5 * 20e6 / 4 * 3e-7)
    alone = scenario.using(plan={"cohort": 100})
    assert fading_of(alone, None).shape == 1.0
    scenario = world(model="uma", diversity="auto", cell={"bandwidth": 20e6}).using(
        plan={"cohort": 1}
    )
    fleet = draw_fleet(scenario)
    shape = fading_of(scenario, fleet.links).shape
    blocked = shape[~fleet.links.in_sight]
    assert_allclose(blocked, 5 * 20e6 * 10 ** (-6.47 - 0.134 * np.log10(3.5)))  # 28 branches
    assert 28 < blocked[0] < 30
    assert (shape[fleet.links.in_sight] < blocked[0]).all()
    in_turn = {"radio": {"access": "time"}, "plan": {"cohort": 4}}  # each has the whole band
    assert_allclose(fading_of(scenario.using(**in_turn), fleet.links).shape, shape)
    assert fading_of(alone.using(**in_turn), None).shape == pytest.approx(5 * 20e6 * 3e-7)


def test_without_fading_rounds_differ_in_nothing():
    scenario = world(fading="none")
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 5)
    assert_allclose(trace.gain, fleet.mean_gain[trace.cohort])


# Shadowing, sight, buildings of clients that stay.


@pytest.mark.parametrize("model", [name for name in MODELS if name != "lte-macro"])
def test_mean_gains_are_path_losses_without_shadowing(model):
    keys: dict[str, Any] = {"model": model}
    if model not in ("paper", "free-space", "inf-hh"):
        keys["line_of_sight"] = "never"
    scenario = world({"distance": 80.0}, **keys, shadowing=0.0)
    assert_allclose(draw_fleet(scenario).mean_gain, float(scenario.cell.mean_gain(80.0)))
    if model != "paper":
        loss = LAWS[model](np.array([80.0]), ChannelSpec(model=model)).obstructed
        assert_allclose(decibels(scenario), loss[0])


def test_shadowing_is_normal_in_decibels():
    for state, sigma in (("always", 4.0), ("never", 7.82)):
        flat = decibels(world({"distance": 80.0}, line_of_sight=state, shadowing=0.0))
        drawn = decibels(world({"distance": 80.0}, line_of_sight=state)) - flat
        assert stats.kstest(drawn / sigma, "norm").pvalue > 0.001
        assert decibels(world({"distance": 80.0}, line_of_sight=state, shadowing=1.0)) == (
            pytest.approx(flat + drawn / sigma)
        )


def test_clients_are_in_sight_as_often_as_the_law_says():
    sights = [
        draw_fleet(world({"distance": 50.0}), seed).links.in_sight.mean() for seed in range(10)
    ]
    assert np.mean(sights) == pytest.approx(0.5196, abs=3 * 0.5 / np.sqrt(4000))


def test_buildings_add_walls_and_a_way_inside():
    out = decibels(world())
    for building, sigma in (("low", 4.4), ("high", 6.5)):
        inside = decibels(world(indoor_share=1.0, building=building, indoor_depth=0.0)) - out
        wall = wall_loss(building, 3.5e9)
        assert inside.mean() == pytest.approx(wall, abs=4 * sigma / 20)
        assert inside.std() == pytest.approx(sigma, rel=0.15)
        deep = decibels(world(indoor_share=1.0, building=building)) - out - inside
        assert stats.kstest(deep / 12.5, "uniform").pvalue > 0.001  # 0.5 dB/m, to 25 m
    some = decibels(world(indoor_share=0.3)) - out
    more = decibels(world(indoor_share=0.6)) - out
    assert np.mean(some != 0) == pytest.approx(0.3, abs=0.08)
    assert_allclose(more[some != 0], some[some != 0])  # a larger share contains a smaller one


def test_outage_of_a_shadowed_fleet_is_the_closed_form():
    """P(g X < h) for log-normal g and exponential X, by Gauss-Hermite quadrature."""
    scenario = world({"distance": 100.0, "gain_threshold": 0.1}, line_of_sight="never")
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    closed = np.average(np.exp(-0.1 * 10 ** (7.82 * nodes / 10)), weights=weights)
    heard = [chance_heard(scenario, draw_fleet(scenario, seed)).mean() for seed in range(8)]
    assert np.mean(heard) == pytest.approx(closed, abs=4 * np.std(heard) / np.sqrt(8))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"fading": "none"},
        {"diversity": 3.0},
        {"diversity": "auto"},
        {"fading": "rician"},
        pytest.param({"move": 2.0, "indoor_share": 0.4}, marks=pytest.mark.long),
    ],
)
def test_outage_and_uploads_are_those_of_drawn_rounds(keys):
    scenario = world({"gain_threshold": 0.3}, **keys).using(clients={"count": 40})
    fleet = draw_fleet(scenario, 2)
    rounds = range(512)
    trace = draw_all(scenario.using(plan={"cohort": 40}), fleet, rounds, seed=5)
    calls = np.bincount(trace.cohort[trace.cohort >= 0], minlength=40)
    many = draw_trace(scenario, fleet, 512, seed=9)
    heard = chance_heard(scenario, fleet)
    # Draws of the same path: positions are the fleet's, only fading differs.
    assert_allclose(calls / 512, heard, atol=0.12)
    assert calls.mean() / 512 == pytest.approx(heard.mean(), abs=0.02)
    called = chance_called(scenario, fleet)
    assert called.sum() == pytest.approx(many.called.mean(), rel=0.03)
    some = trace.cohort >= 0
    power = fleet.power[trace.cohort[some]]
    rate = np.log2(1 + power * trace.gain[some] / scenario.cell.noise)
    energy = scenario.model_bits * power / rate
    first, _ = upload_moments(scenario, fleet)
    assert energy.mean() == pytest.approx(np.average(first, weights=heard), rel=0.03)


# Clients that move.


def test_moving_clients_stay_evenly_spread_and_move_as_far_as_they_should():
    n = 4000
    rng = np.random.default_rng(1)
    start = np.sqrt(rng.uniform(NEAR**2, FAR**2, n))
    paths = Paths.of(start, rng.uniform(size=n), NEAR, FAR, move=7.0)
    who = np.arange(n)
    for t in (0, 1, 17, 3000, 10**8):
        at = paths.at(np.array(t), who)
        assert at.min() >= NEAR - 1e-6
        assert at.max() <= FAR + 1e-6
        even = (at**2 - NEAR**2) / (FAR**2 - NEAR**2)
        assert stats.kstest(even, "uniform").pvalue > 0.001
    assert_allclose(paths.at(np.array(0), who), start)
    steps = np.diff(paths.at(np.arange(200)[:, None], who), axis=0)
    assert np.abs(steps).max() <= 7 + 1e-9
    assert np.abs(steps).max() > 6.9
    circle = Paths.of(np.full(9, 50.0), rng.uniform(size=9), 50.0, 50.0, move=3.0)
    assert_allclose(circle.at(np.arange(20)[:, None], np.arange(9)), 50.0)


@pytest.mark.parametrize("step", [0.05, 0.5])
def test_states_are_normal_with_exponential_correlation(step):
    clients = np.arange(600)
    values = process(Purpose.SHADOW_SIGHT, 4, range(1000, 1130), clients, 600, step)
    assert stats.kstest(values[::40].ravel(), "norm").pvalue > 0.001
    for lag in (1, 3, 24, 64):
        pairs = np.mean(values[lag:] * values[:-lag])
        assert pairs == pytest.approx(np.exp(-step * lag), abs=0.03)
    far = process(Purpose.SHADOW_SIGHT, 4, range(0, 1), clients, 600, step)
    assert abs(np.mean(far[0] * values[0])) < 0.15


def test_a_state_is_the_same_in_every_range_of_rounds():
    clients = np.arange(5)

    def states(rounds: range) -> Any:
        return process(Purpose.LINE_OF_SIGHT, 1, rounds, clients, 5, 0.1)

    whole = states(range(40))
    for rounds in (range(1), range(3, 4), range(16, 33), range(39, 40)):
        np.testing.assert_array_equal(states(rounds), whole[rounds.start : rounds.stop])
    last = states(range(MAX_ROUNDS - 3, MAX_ROUNDS))
    assert np.isfinite(last).all()
    some = process(Purpose.LINE_OF_SIGHT, 1, range(40), np.array([1, 4]), 5, 0.1)
    np.testing.assert_array_equal(some, whole[:, [1, 4]])


def test_rounds_of_moving_clients_do_not_depend_on_other_rounds():
    scenario = world(move=3.0, indoor_share=0.5, diversity="auto")
    fleet = draw_fleet(scenario, 1)
    trace = draw_trace(scenario, fleet, 70, seed=8)
    alone = draw_trace(scenario, fleet, range(60, 63), seed=8)
    np.testing.assert_array_equal(alone.gain, trace[60:63].gain)
    scenario = world(move=3.0)
    fleet = draw_fleet(scenario, 1)
    trace, more = (
        draw_trace(scenario.using(plan={"cohort": k}), fleet, 70, seed=8) for k in (10, 12)
    )
    assert (more.cohort[:, :10] == trace.cohort).all()
    still = world(move=0.0)
    assert_allclose(draw_fleet(still, 1).mean_gain, fleet.mean_gain)


def test_sight_and_shadowing_persist():
    scenario = world(move=1.0, fading="none")
    fleet = draw_fleet(scenario)
    everyone = np.broadcast_to(np.arange(400), (60, 400))
    loss = -10 * np.log10(fleet.links.change(range(60), everyone)[0])
    jumps = np.abs(np.diff(loss, axis=0))
    assert np.median(jumps) < 4.0
    assert np.mean(jumps > 15) < 0.1
    assert_allclose(loss[0], 0, atol=1e-9)


@pytest.mark.parametrize("keys", [{"fading": "rician"}, {"diversity": "auto"}])
def test_fading_follows_the_sight_of_the_round(keys):
    """Variances of the factor: (1 + 2 K) / (1 + K)^2 in sight with K = 9 dB, or 1 over the branches
    5 B / K delay spread of the state; those of the round, and not of the first one."""
    scenario = world({"bandwidth": 200e6}, move=20.0, **keys)
    fleet = draw_fleet(scenario)
    rounds = range(200, 320)
    everyone = np.broadcast_to(np.arange(fleet.count), (len(rounds), fleet.count))
    change, sight = fleet.links.change(rounds, everyone)
    assert np.mean(sight != fleet.links.in_sight) > 0.2
    factor = channel_gains(scenario, fleet, rounds, everyone, 3) / fleet.mean_gain / change
    found = scenario.cell.channel.propagation(fleet.links.distance)
    branches = 5 * 200e6 / scenario.plan.cohort * np.array([found.delay_los, found.delay_nlos])
    k = 10**0.9
    expected = (
        [(1 + 2 * k) / (1 + k) ** 2, 1.0] if "fading" in keys else 1 / np.maximum(1, branches)
    )
    for state, variance in zip((sight, ~sight), expected, strict=True):
        assert factor[state].mean() == pytest.approx(1.0, abs=0.03)
        assert factor[state].var() == pytest.approx(variance, rel=0.05)


def test_clients_with_a_gain_of_their_own_stay_as_they_are():
    table = {"gain": [1e-9, None], "distance": [None, 100.0], "name": ["a", "b"]}
    scenario = Scenario().using(
        clients={"table": table},
        cell={"channel": {"model": "umi", "move": 2.0, "indoor_share": 1.0}},
        plan={"cohort": 2},
    )
    fleet = draw_fleet(scenario)
    assert fleet.mean_gain[0] == 1e-9
    change, _ = fleet.links.change(range(20), np.broadcast_to(np.arange(2), (20, 2)))
    assert_allclose(change[:, 0], 1.0)
    assert np.ptp(change[:, 1]) > 0


# Laws of others, sweeps and what-ifs.


def test_every_built_in_law_keeps_the_contract():
    for name, law in LAWS.items():
        spec = ChannelSpec(model=name, carrier=2e9)
        check_channel(law, spec, near=40.0, far=150.0)


@pytest.mark.parametrize(
    ("law", "sentence"),
    [
        (lambda _, spec: spec.carrier, "a float is returned"),
        (lambda d, _: Propagation(los=-d), "los is not between 0 and 300"),
        (lambda d, _: Propagation(los=d[:1]), "has shape"),
        (lambda d, _: Propagation(los=d / 4, nlos=d / 5), "nlos is below los"),
        (lambda d, _: Propagation(los=d / 4, los_probability=2.0), "los_probability is not"),
        (lambda d, _: Propagation(los=d / d.max() * 90), "of a client alone is not that"),
    ],
)
def test_laws_that_break_the_contract_are_found(law, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_channel(law)


def test_channels_are_axes_of_sweeps_and_kept_by_what_ifs(tmp_path):
    (tmp_path / "sweep.json").write_text(
        '{"scenario": "paper", "policy": ["even"], '
        '"cell": {"channel": {"model": ["umi", "uma"], "move": 1.0}}}'
    )
    points = load_experiment(tmp_path / "sweep.json").points
    assert [p.scenario.cell.channel.model for p in points] == ["umi", "uma"]
    assert {p.scenario.cell.channel.move for p in points} == {1.0}
    scenario = world(move=1.0, diversity="auto")
    for near in nearby_worlds(scenario).values():
        assert near.cell.channel == scenario.cell.channel
    even, optimal = compare(world(), ["even", "optimal"], rounds=20).policies
    assert optimal.mean["objective"].value < even.mean["objective"].value


def test_losses_depend_on_the_radio_only_where_the_channel_does():
    """A training is shared by radios that call the same clients."""

    def same(scenario: Scenario, **cell: Any) -> bool:
        other = scenario.using(cell=cell)
        return training_identity(scenario, None, 0) == training_identity(other, None, 0)

    assert same(world(), bandwidth=5e6)
    assert not same(world(diversity="auto"), bandwidth=5e6)
    assert not same(world(), channel={"model": "uma"})
    in_turn = world(diversity="auto").using(radio={"access": "time"})  # other branches
    assert training_identity(in_turn, None, 0) != training_identity(
        in_turn.using(radio={"access": "band"}), None, 0
    )


def test_a_law_that_fails_is_named(monkeypatch):
    def fail(distance: Any, spec: ChannelSpec) -> Propagation:
        raise ZeroDivisionError(f"{spec.model} at {distance}")

    monkeypatch.setattr("fedcell.scenario.channel.spec.plugin_names", lambda _: ["mine"])
    monkeypatch.setattr("fedcell.scenario.channel.spec.load_plugin", lambda *_: fail)
    scenario = world(model="mine")
    with pytest.raises(BadInput, match="the channel mine failed: ZeroDivisionError"):
        draw_fleet(scenario)


RADIO = {"gap_db": 3.0, "usable_share": 0.8, "uplink_share": 0.5, "noise_figure_db": 5.0}


@pytest.mark.parametrize(
    "radio",
    [
        RADIO,
        RADIO | {"power_max": 0.2},
        RADIO | {"power_max": 0.2, "power_law": "full", "spectral_cap": 5.5},
        RADIO | {"power_max": 0.2, "power_law": "full", "access": "time"},
    ],
)
def test_a_device_alone_uploads_at_its_rate_whatever_the_radio(radio):
    rates = [20e6, 5e6, 1e5]
    scenario = Scenario().using(clients={"table": {"rate": rates}}, plan={"cohort": 1}, radio=radio)
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 9)
    problem = make_problem(scenario, fleet, trace)
    cost = price(problem, EqualFinish(Broadcast.to(scenario, fleet))(problem))
    asked = np.array(rates)[trace.cohort]
    assert_allclose(cost.upload_time, scenario.model_bits / asked, rtol=1e-9)


def test_rates_have_no_channel_beside_them():
    table = {"rate_mbps": [1, 2]}
    with pytest.raises(BadInput, match=r"cell\.channel has no effect on clients whose rate"):
        Scenario().using(
            cell={"channel": {"model": "umi"}}, clients={"table": table}, plan={"cohort": 2}
        )


def test_rates_that_a_radio_cannot_have_are_refused():
    table = {"rate": [20e6, 1e6]}
    for radio, sentence in (
        ({"spectral_cap": 0.5}, "a client has a rate of 2e.07, above radio.spectral_cap"),
        ({"power_law": "open-loop", "p0_dbm": -80.0}, "needs path losses, and SNR or rates"),
        ({"power_max": 1e-20}, "a rate of 2e.07, too high for cell.bandwidth and the power"),
    ):
        scenario = Scenario().using(clients={"table": table}, plan={"cohort": 1}, radio=radio)
        with pytest.raises(BadInput, match=sentence):
            draw_fleet(scenario)
