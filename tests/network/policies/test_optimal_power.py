"""`optimal-power`: the exact optimum of (22) over share, clock and transmit power."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import lambertw

from fedcell import Scenario, load_scenario
from fedcell.errors import BadInput
from fedcell.network import draw_fleet, draw_trace, load_round, schedule_round, simulate_network
from fedcell.network.certificate import check_schedule
from fedcell.network.physics.notes import power_notes
from fedcell.network.physics.power.functions import inverse_m, inverse_phi, m_of, phi
from fedcell.network.physics.power.link import Link
from fedcell.network.physics.power.problem import FreePower, with_fixed_powers
from fedcell.network.policies.names import BUILT_IN, NAMED, policy_by_name
from fedcell.policies import (
    Broadcast,
    Optimal,
    OptimalPower,
    Problem,
    Schedule,
    certify,
    make_problem,
    price,
)
from support.powers import random_problem, slsqp

WORLDS = ("phones-5g", "factory", "meters", "pis-wifi")


def rounds_of(scenario: Scenario, rounds: int = 5, seed: int = 0) -> Problem:
    fleet = draw_fleet(scenario, seed)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds, seed))


def world(name: str, rounds: int = 5, **tables) -> Problem:
    tables = {"clients": {"samples": 200}, "plan": {"cohort": 8}} | tables
    return rounds_of(load_scenario(name).using(learning=None, **tables), rounds)


def plain(count: int = 6, energy_weight: float = 1.0, seed: int = 3, **of_link) -> Problem:
    """The paper's radios and devices, with some limits of the link."""
    problem = rounds_of(
        Scenario().using(
            plan={"cohort": count},
            clients={"spread": 0.5},
            task={"model_bits": 1e7, "energy_weight": energy_weight},
        ),
        seed=seed,
    )
    shape = problem.kappa.shape
    given = {name: np.broadcast_to(value, shape) for name, value in of_link.items()}
    return replace(problem, link=replace(problem.link, **given))


# Theorems: the certificate, other solvers, closed forms


@pytest.mark.parametrize("seed", range(16))
def test_random_rounds_of_all_regimes_are_certified(seed):
    check_certified(random_problem(seed, rounds=2))


@pytest.mark.long
def test_thousands_of_random_rounds_are_certified():
    for seed in range(100, 220):
        check_certified(random_problem(seed))


@pytest.mark.long
def test_rounds_of_extreme_magnitudes_are_nearly_all_certified():
    gaps = []
    for seed in (*range(100, 220), 1031):  # magnitudes of one round over many decades
        problem = random_problem(seed, scales=1.0)
        gaps.append(OptimalPower()(problem).certificate.gap)
    gap = np.concatenate(gaps)
    assert gap.min() > -1e-9
    assert gap.max() < 1e-5
    assert (gap > 1e-9).mean() < 0.005


def check_certified(problem: Problem) -> None:
    best = OptimalPower()(problem)
    check_schedule(problem, best)
    proof = best.certificate
    assert proof.gap.max() < 1e-9
    assert proof.gap.min() > -1e-9  # a bound above what is reached would prove nothing
    assert proof.primal.max() < 1e-9


@pytest.mark.parametrize("seed", [1, 3, 7, 9, 15, 16, 22, 31])
def test_slsqp_finds_the_same_optimum(seed):
    problem = random_problem(seed, rounds=1, scales=0.1, cohort=3)[0]
    best, power = OptimalPower()(problem), FreePower.of(problem)
    value = float(power.value(*power.chosen(problem, best)))
    other = slsqp(problem, float(price(problem, best).duration))
    assert value <= other * (1 + 1e-9)
    assert value == pytest.approx(other, rel=1e-6)


def test_without_a_choice_of_power_it_is_optimal():
    problem = plain(8)
    x = problem.link.scale / problem.band_time  # of the paper's density
    fixed = replace(problem, link=problem.link.keeping(x, np.ones(x.shape, bool)))
    ours, paper = OptimalPower()(fixed), Optimal()(problem)
    assert_allclose(price(problem, ours).objective, price(problem, paper).objective, rtol=1e-12)
    assert_allclose(ours.share, paper.share, rtol=1e-6)
    assert_allclose(ours.freq, paper.freq, rtol=1e-6)


def test_the_inverses_are_lambert_functions():
    mu = np.logspace(-5, 6, 300)
    assert_allclose(inverse_m(mu), 1 + lambertw((mu - 1) / np.e).real, rtol=1e-10)
    assert_allclose(m_of(inverse_m(np.logspace(-200, 200, 99))), np.logspace(-200, 200, 99))
    small = np.logspace(-30, -10, 9)  # where the Lambert function has no digits left
    assert_allclose(inverse_m(small), np.sqrt(2 * small) * (1 - np.sqrt(2 * small) / 3), rtol=1e-9)
    rho = np.logspace(0.01, 6, 300)
    assert_allclose(
        inverse_phi(rho), -1 / rho - lambertw(-np.exp(-1 / rho) / rho, -1).real, rtol=1e-10
    )
    assert_allclose(phi(inverse_phi(rho)), rho, rtol=1e-13)


def test_the_least_round_time_has_all_the_power_and_the_highest_clocks():
    problem = plain(power_max=0.5, most=4.0)
    best = OptimalPower(minimise="time")(problem)
    ends = price(problem, best).compute_time + price(problem, best).upload_time
    assert_allclose(best.freq, problem.freq_max)
    assert_allclose(ends, np.broadcast_to(ends.max(-1, keepdims=True), ends.shape), rtol=1e-9)
    power = FreePower.of(problem)
    low, high = np.zeros(len(ends)), 100 * ends.max(-1)
    for _ in range(200):  # the length at which the least shares fill the band
        H = (low + high) / 2
        s = np.maximum(H[:, None] - power.terms.shortest, power.floor)
        x = np.minimum(inverse_phi(np.maximum(s / power.sending, 1)), power.most)
        fits = (power.y / (np.maximum(x, 1e-9) * s)).sum(-1) <= 1
        low, high = np.where(fits, low, H), np.where(fits, H, high)
    assert_allclose(ends.max(-1), high, rtol=1e-9)


def test_rounds_that_cannot_be_shorter_are_certified():
    """The corner: all limits are tight, and every price of band above some has the same shares."""
    problem = plain(power_max=0.5, most=4.0, energy_weight=1e-9)
    best = OptimalPower()(problem)
    assert best.certificate.gap.max() < 1e-9
    shortest = price(problem, OptimalPower(minimise="time")(problem)).duration
    assert_allclose(price(problem, best).duration, shortest, rtol=1e-6)


def test_band_without_a_price_is_left_over():
    """At the least SNR and with all their power the clients cannot use the whole band."""
    problem = plain(least=2.0, most=8.0, power_max=0.05, noise=0.1)
    best, power = OptimalPower()(problem), FreePower.of(problem)
    assert (best.share.sum(-1) < 0.99).all()
    assert best.certificate.gap.max() < 1e-9
    assert best.certificate.dual.max() == 0
    # Each alone: at the least SNR, with the share that all its power reaches at that SNR.
    assert_allclose(best.power, 0.05, rtol=1e-9)
    assert_allclose(best.share, 0.05 / (0.1 * np.expm1(2.0)), rtol=1e-9)
    _, s, x = power.chosen(problem, best)
    assert_allclose(x, 2.0, rtol=1e-9)
    assert_allclose(s, power.sending * phi(np.full(s.shape, 2.0)), rtol=1e-9)


def test_devices_finish_early_where_a_second_of_training_costs_more_than_it_saves():
    problem = world("phones-5g", rounds=10)
    best = OptimalPower()(problem)
    cost = price(problem, best)
    ends = cost.compute_time + cost.upload_time
    early = ends < 0.99 * ends.max(-1, keepdims=True)
    assert early.any()
    assert best.certificate.gap.max() < 1e-9
    extras = problem.extras
    own = ((extras.busy_power - extras.done_power) / (2 * problem.kappa)) ** (1 / 3)  # f_0
    slowest = np.clip(own, problem.freq_min, problem.freq_max)
    assert (extras.exponent == 3).all()
    assert_allclose(best.freq[early], slowest[early], rtol=1e-9)


def test_fedl_trains_as_long_as_its_first_sub_problem_says():
    """Tran et al., SUB1: least energy plus time of training alone; here uploads are nearly free."""
    problem = plain(5, least=9.0, most=9.0)
    problem = replace(
        problem, link=replace(problem.link, scale=1e-9 * problem.link.scale), freq_min=1e3
    )
    best = OptimalPower()(problem)
    together = np.cbrt(2 * problem.effort.sum(-1))  # T, where no clock is at its limit
    shortest = problem.cycles / problem.freq_max
    inside = (shortest < together[:, None]).all(-1)
    assert inside.any()
    expected = np.broadcast_to(together[:, None], shortest.shape)
    assert_allclose((problem.cycles / best.freq)[inside], expected[inside], rtol=1e-6)


def test_fedl_uploads_as_long_as_its_second_sub_problem_says():
    """SUB2: tau = y / x with E m(x) = y, for clients that send in turn; training is nearly free."""
    problem = replace(plain(5), work=1e-6)
    best, power = OptimalPower()(problem), FreePower.of(problem)
    x = 1 + lambertw((power.y / power.radiated - 1) / np.e).real
    tau = power.y / x
    assert_allclose(price(problem, best).duration, tau.sum(-1), rtol=1e-6)
    assert_allclose(best.share, tau / tau.sum(-1, keepdims=True), rtol=1e-6)


# What is a theorem of power laws, and what is not


@pytest.mark.parametrize("name", WORLDS)
def test_no_power_law_costs_less(name):
    problem = world(name)
    least = price(problem, OptimalPower()(problem)).objective
    for policy in NAMED:
        schedule = policy_by_name(policy, Broadcast.among(problem))(problem)
        assert (price(problem, schedule).objective >= least * (1 - 1e-9)).all(), policy


def test_more_choice_never_costs_more():
    one = plain(power_max=0.5, most=4.0)
    least = price(one, OptimalPower()(one)).objective
    for tighter in ({"power_max": 0.25}, {"most": 3.0}, {"least": 1.0}, {"widest": 0.3}):
        given = {n: np.broadcast_to(v, one.kappa.shape) for n, v in tighter.items()}
        other = replace(one, link=replace(one.link, **given))
        assert (price(other, OptimalPower()(other)).objective >= least * (1 - 1e-11)).all()


def test_energy_is_convex_and_falls_with_the_deadline_where_devices_sleep():
    problem = plain(power_max=0.5, most=4.0)
    shortest = price(problem, OptimalPower("time")(problem)).duration.max()
    deadlines = shortest * np.linspace(1.001, 4, 13)
    energy, gaps = [], []
    for deadline in deadlines:
        best = OptimalPower("energy", deadline=float(deadline))(problem)
        cost = price(problem, best)
        assert (cost.duration <= deadline * (1 + 1e-9)).all()
        energy.append(cost.energy)
        gaps.append(best.certificate.gap.max())
    assert max(gaps) < 1e-9
    falls = np.diff(energy, axis=0)
    assert (falls <= 1e-9).all()
    assert (np.diff(falls, axis=0) >= -1e-9 * np.max(energy)).all()


def test_a_deadline_that_cannot_be_kept_is_refused():
    problem = plain(power_max=0.5, most=4.0)
    with pytest.raises(BadInput, match=r"5 of 5 rounds cannot end by then"):
        OptimalPower(deadline=1e-3)(problem)
    with pytest.raises(BadInput, match="give the longest, `deadline`"):
        OptimalPower("energy")
    with pytest.raises(BadInput, match="expected cost, time or energy"):
        OptimalPower("joules")


def test_a_deadline_binds_or_changes_nothing():
    problem = plain(power_max=0.5, most=4.0)
    free = price(problem, OptimalPower()(problem))
    loose = price(problem, OptimalPower(deadline=1e6)(problem))
    assert_allclose(loose.objective, free.objective, rtol=1e-9)
    shortest = price(problem, OptimalPower("time")(problem)).duration
    for one, fast, best in zip(range(5), shortest, free.duration, strict=True):
        tight = float((fast + best) / 2)
        bound = OptimalPower(deadline=tight)(problem[one])
        assert price(problem[one], bound).duration == pytest.approx(tight, rel=1e-9)
        assert price(problem[one], bound).objective > free.objective[one]
        assert bound.certificate.gap < 1e-9


# Access in turn, caps of the share, devices that cannot set their power


def test_the_largest_share_is_kept():
    problem = plain(widest=0.1)
    best = OptimalPower()(problem)
    assert (best.share <= 0.1 * (1 + 1e-9)).all()
    assert best.certificate.gap.max() < 1e-9
    free = OptimalPower()(plain())
    assert (free.share > 0.1).any()


def test_devices_that_send_in_turn_have_the_whole_band():
    in_turn = Scenario().using(
        radio={"access": "time", "power_max": 5.0, "circuit_power": 1.0},
        device={"idle_power": 0.3, "when_done": "sleep"},
        task={"model_bits": 1e7},
    )
    problem = rounds_of(in_turn)
    best, link = OptimalPower()(problem), problem.link
    assert link.in_turn
    assert best.certificate.gap.max() < 1e-9
    seconds, _ = link.upload(best.share, best.power)
    x = np.minimum(np.log1p(best.power / link.noise), link.most)
    assert_allclose(seconds, link.scale / (best.share * x), rtol=1e-12)
    even = policy_by_name("even", Broadcast.among(problem))(problem)
    assert (price(problem, best).objective < price(problem, even).objective).all()


def test_devices_that_cannot_set_their_power_keep_the_density():
    problem = plain(6)
    which = np.zeros(problem.kappa.shape, bool)
    which[:, ::2] = True
    best = OptimalPower()(with_fixed_powers(problem, which))
    law = problem.upload_energy / (problem.band_time)  # p_0 B: watts over the whole band
    assert_allclose(best.power[which], (law * best.share)[which], rtol=1e-9)
    assert not np.isclose(best.power[~which], (law * best.share)[~which], rtol=1e-3).any()
    assert with_fixed_powers(problem, ~which & which) is problem


# Names, messages, results


def test_it_is_a_policy_by_name_beside_those_that_are_compared():
    assert set(BUILT_IN) - set(NAMED) == {"optimal-power"}
    ledger = simulate_network(Scenario(), "optimal-power", 5)
    others = simulate_network(Scenario(), "optimal", 5)
    assert (ledger.objective <= others.objective).all()


def test_problems_without_links_are_refused():
    problem = replace(plain(), link=None)
    with pytest.raises(BadInput, match="says nothing of its links"):
        OptimalPower()(problem)
    power = np.ones(problem.kappa.shape)
    schedule = Optimal()(problem)
    with pytest.raises(BadInput, match="says nothing of its links"):
        price(problem, Schedule(schedule.share, schedule.freq, power=power))


def test_free_energy_without_a_limit_has_no_best_power():
    with pytest.raises(BadInput, match=r"give radio\.power_max or radio\.spectral_cap"):
        OptimalPower()(plain(energy_weight=0.0))


def test_powers_above_the_limit_are_refused():
    problem = plain(power_max=0.5)
    best = OptimalPower()(problem)
    with pytest.raises(BadInput, match=r"at most power_max, 0\.5 W"):
        check_schedule(problem, replace(best, power=best.power + 0.5))
    with pytest.raises(BadInput, match="powers of shape"):
        check_schedule(problem, replace(best, power=best.power[0]))


def test_a_schedule_of_powers_that_is_not_the_best_has_a_gap():
    problem = plain(power_max=0.5)
    best = OptimalPower()(problem)
    worse = replace(best, power=0.7 * best.power)
    by = price(problem, worse).objective - price(problem, best).objective
    value = FreePower.of(problem).value(*FreePower.of(problem).chosen(problem, worse))
    assert (by > 0).all()
    assert_allclose(certify(problem, worse).gap, by / value, rtol=1e-6)


def test_a_scheduled_round_has_its_powers():
    found = schedule_round(load_round("docs/round.json"), "optimal-power")
    assert found.to_dict()["power"] == found.schedule.power.tolist()
    assert [row["power"] for row in found.rows()] == found.schedule.power.tolist()
    assert "power" not in schedule_round(load_round("docs/round.json"), "optimal").rows()[0]


def test_a_batch_is_scheduled_as_each_round():
    problem = world("meters", rounds=6)
    together = OptimalPower()(problem)
    for t in range(6):
        alone = OptimalPower()(problem[t])
        assert_allclose(alone.share, together.share[t], rtol=1e-6)
        assert_allclose(alone.power, together.power[t], rtol=1e-6)


def test_notes_say_what_chosen_and_cut_powers_mean():
    scenario = Scenario()
    fleet = draw_fleet(scenario)
    (note,) = power_notes(scenario, fleet, ["even", "optimal-power"])
    assert "they leave the density clients.power" in note
    assert power_notes(scenario, fleet, ["even", "optimal"]) == []
    limited = scenario.using(radio={"power_max": 0.3})
    (note,) = power_notes(limited, draw_fleet(limited), ["even", "optimal"])
    assert "optimal is then the best of several splits, with no certificate" in note
    assert power_notes(limited, draw_fleet(limited), ["optimal", "optimal-power"]) == []


def test_the_uploads_of_a_link_are_those_of_shannon():
    problem = plain()
    link = Link.of(problem)
    best = OptimalPower()(problem)
    seconds, joules = link.upload(best.share, best.power)
    efficiency = np.log2(1 + best.power / (link.noise * best.share))
    assert_allclose(seconds, link.scale / np.log(2) / (best.share * efficiency), rtol=1e-12)
    assert_allclose(joules, best.power * seconds, rtol=1e-12)
