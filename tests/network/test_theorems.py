"""Each result of Section IV-C, held against the problem that it claims to solve."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar

from fedcell.network.policies.base import Broadcast, mean_freq
from fedcell.network.policies.paper import theorem_3
from fedcell.policies import (
    Distributed,
    EqualFinish,
    Even,
    Optimal,
    OptimalStaged,
    Problem,
    Schedule,
    certify,
    price,
)
from support.examples import examples
from support.problems import problems

told = Broadcast(freq=mean_freq(5e-27, 1.0), samples=500.0)


def told_apart(problem: Problem, schedule: Schedule) -> np.ndarray:
    """Rounds, (round, 1), in which no client uploads within a tiny part of H: shares are
    u / (H - t), and would magnify the last digits of H. The objective, and the gap, do not."""
    t, left = problem.cycles / schedule.freq, problem.band_time / schedule.share
    return (left > 1e-3 * t.max(-1, keepdims=True)).all(-1, keepdims=True)


@given(problem=problems())
@examples(300)
def test_optimal_satisfies_the_kkt_conditions(problem):
    """(86)-(91), and the condition that Appendix G leaves out: the prices sum to one."""
    best = Optimal()(problem)
    u, c, kappa, k = problem.band_time, problem.cycles, problem.kappa, problem.kappa.shape[-1]
    a, f = best.share, best.freq
    finish = u / a + c / f
    assert_allclose(a.sum(-1), 1, rtol=1e-12)  # (88)
    H = finish.max(-1, keepdims=True)
    R = 1 / (a**2 / u).sum(-1, keepdims=True)
    beta = R * a**2 / u  # (89)
    assert (beta * (H - finish) <= 1e-9 * H).all()  # complementary slackness of (22a)
    slope = 2 * problem.energy_weight / k * kappa * f**3 - beta  # (87) times f^2 / c
    inside = (f > problem.freq_min * (1 + 1e-9)) & (f < problem.freq_max * (1 - 1e-9))
    inside &= told_apart(problem, best)
    assert (np.abs(slope) <= 1e-6 * beta)[inside].all()
    at_min = (f <= problem.freq_min * (1 + 1e-9)) & (problem.freq_min < problem.freq_max)
    at_max = (f >= problem.freq_max * (1 - 1e-9)) & (problem.freq_min < problem.freq_max)
    assert (slope >= -1e-6 * beta)[at_min & ~at_max & told_apart(problem, best)].all()
    assert (slope <= 1e-6 * beta)[at_max & ~at_min & told_apart(problem, best)].all()


@given(problem=problems(max_clients=60))
@examples(300)
def test_optimal_certifies_itself(problem):
    best = Optimal()(problem)
    proof: Any = best.certificate
    assert (proof.primal <= 1e-12).all()
    assert (proof.dual <= 1e-6)[told_apart(problem, best)[..., 0]].all()
    assert (np.abs(proof.gap) <= 1e-9).all()


@given(problem=problems(rounds=1))
@examples(100)
def test_no_policy_beats_optimal_on_22_nor_optimal_staged_on_20(problem):
    best = price(problem, Optimal()(problem)).objective
    staged = price(problem, OptimalStaged()(problem))
    for policy in Even(told), Distributed(told), EqualFinish(told), OptimalStaged(), Optimal():
        cost = price(problem, policy(problem))
        assert (cost.objective >= best * (1 - 1e-9)).all()
        assert (
            cost.upload_cost >= staged.upload_cost * (1 - 1e-12)
        ).all()  # each part is least on its own
        assert (cost.compute_cost >= staged.compute_cost * (1 - 1e-9)).all()


def a_round(seed: int, k: int, bounds=(1e7, 2e9), u=1.0) -> Problem:
    rng = np.random.default_rng(seed)
    return Problem(
        band_time=u * rng.uniform(0.3, 3, k),
        upload_energy=rng.uniform(1, 2, k),
        samples=rng.uniform(250, 750, k),
        kappa=5e-27 * rng.uniform(0.5, 1.5, k),
        freq_min=np.full(k, bounds[0]),
        freq_max=np.full(k, bounds[1]),
        work=1e7,
        energy_weight=1.0,
    )


@pytest.mark.parametrize("bounds", [(1e7, 2e9), (3.5e8, 4.5e8)])
@pytest.mark.parametrize("seed", range(4))
def test_scipy_finds_the_same_optimum_of_22(seed, bounds):
    problem = a_round(seed, 5, bounds)
    u, c, kappa = problem.band_time, problem.cycles, problem.kappa
    low, high = c / problem.freq_max, c / problem.freq_min
    t, a = slice(0, 5), slice(5, 10)  # x holds the times t_j = c_j / f_j, the shares and H
    found = minimize(
        lambda x: x[-1] + np.mean(kappa * c**3 / x[t] ** 2),
        np.r_[np.clip(10.0, low, high), np.full(5, 0.2), 40.0],
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: x[-1] - x[t] - u / x[a]},
            {"type": "ineq", "fun": lambda x: 1 - x[a].sum()},
        ],
        bounds=[*zip(low, high, strict=True), *[(1e-3, 1)] * 5, (0, None)],
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    ours = price(problem, Optimal()(problem)).objective
    assert_allclose(ours, found.fun + problem.upload_energy.sum(), rtol=1e-7)


@given(problem=problems(bounds="none"))
def test_theorem_3_is_exact_at_the_optimum_while_no_bound_binds(problem):
    assume(problem.band_time.min() > 1e-5)  # below, shares carry the rounding of training times
    best = Optimal()(problem)
    assert ((best.freq > problem.freq_min) & (best.freq < problem.freq_max)).all()
    assert_allclose(best.share, theorem_3(problem, best.freq), rtol=1e-5)  # (24)


def test_theorem_3_is_wrong_where_a_bound_binds():
    problem = a_round(0, 6, bounds=(1e7, 4e8), u=5.0)
    best = Optimal()(problem)
    assert 0 < (best.freq == problem.freq_max).sum() < 6  # some are held by their bound
    off = np.abs(theorem_3(problem, best.freq) / best.share - 1).max()
    assert_allclose(off, 0.435, atol=0.001)  # what DECISIONS.md, 5 says
    worse = certify(problem, Schedule(theorem_3(problem, best.freq), best.freq))
    assert worse.gap > 0.01


def substituted(problem: Problem, log_f: np.ndarray) -> float:
    """The centralised problem of Sec. IV-C-1: the objective of (22) with (24) put in for a_j."""
    f = np.exp(log_f)
    return float(price(problem, Schedule(theorem_3(problem, f), f)).objective)


@pytest.mark.parametrize("seed", range(3))
def test_the_centralised_solution_as_printed_equals_optimal_while_no_bound_binds(seed):
    problem = a_round(seed, 4, u=5.0)
    # Minimise the largest finish time smoothly: an epigraph variable H, SLSQP in log f.
    u, c, kappa = problem.band_time, problem.cycles, problem.kappa

    def finish(x):
        f = np.exp(x[:-1])
        return u / theorem_3(problem, f) + c / f

    found = minimize(
        lambda x: x[-1] + np.mean(kappa * np.exp(2 * x[:-1]) * c),
        np.r_[np.full(4, np.log(4e8)), 60.0],
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: x[-1] - finish(x)},
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    best = Optimal()(problem)
    assert_allclose(substituted(problem, found.x[:-1]), price(problem, best).objective, rtol=1e-6)
    assert_allclose(np.exp(found.x[:-1]), best.freq, rtol=1e-3)


@pytest.mark.parametrize("objective", ["staged", "joint"])
def test_the_centralised_problem_is_not_convex_in_f_but_in_log_f(objective):
    """DECISIONS.md, 6: Sec. IV-C-1 calls it convex in f, of (20), from which (22) is made."""

    def substituted(problem, log_f):
        f = np.exp(log_f)
        cost = price(problem, Schedule(theorem_3(problem, f), f))
        return float(
            cost.objective if objective == "joint" else cost.upload_cost + cost.compute_cost
        )

    rng = np.random.default_rng(0)
    broken = {"f": 0, "log f": 0}
    for _ in range(2000):
        problem = a_round(int(rng.integers(1 << 30)), 3, u=30.0)
        one, other = rng.uniform(np.log(2e7), np.log(1.9e9), (2, 3))
        ends = (substituted(problem, one) + substituted(problem, other)) / 2
        broken["f"] += substituted(problem, np.log((np.exp(one) + np.exp(other)) / 2)) > ends
        broken["log f"] += substituted(problem, (one + other) / 2) > ends * (1 + 1e-12)
    assert broken["f"] > 5
    assert broken["log f"] == 0


@given(problem=problems(rounds=1))
def test_equal_finish_is_the_soonest_end_for_its_frequencies(problem):
    answer = EqualFinish(told)(problem)
    cost = price(problem, answer)
    finish = cost.upload_time + cost.compute_time
    assert_allclose(finish, np.broadcast_to(cost.duration[:, None], finish.shape), rtol=1e-9)
    assert_allclose(answer.share.sum(-1), 1, rtol=1e-12)
    # To end sooner every client would need a larger share, and there is none left to give.
    for other in Even(told), Distributed(told):
        split = Schedule(other(problem).share, answer.freq)
        assert (price(problem, split).duration >= cost.duration * (1 - 1e-12)).all()


def test_equal_finish_is_in_closed_form_when_26_is_not_clipped():
    problem = a_round(1, 7)
    u = problem.band_time
    assert_allclose(EqualFinish(told)(problem).share, u / u.sum(), rtol=1e-12)


@pytest.mark.parametrize("bounds", [(1e7, 2e9), (4e8, 6e8), (1e7, 2e8), (9e8, 2e9)])
@pytest.mark.parametrize("seed", range(3))
def test_scipy_finds_the_same_optimum_of_20(seed, bounds):
    problem = a_round(seed, 6, bounds)
    u, c, kappa = problem.band_time, problem.cycles, problem.kappa
    low, high = c / problem.freq_max, c / problem.freq_min
    t, a = slice(0, 6), slice(6, 12)  # x holds t_j = c_j / f_j, shares, longest training and upload
    found = minimize(
        lambda x: x[-1] + x[-2] + np.mean(kappa * c**3 / x[t] ** 2),
        np.r_[np.clip(10.0, low, high), np.full(6, 1 / 6), high.max().clip(0, 30), 30.0],
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: x[-2] - x[t]},
            {"type": "ineq", "fun": lambda x: x[-1] - u / x[a]},
            {"type": "ineq", "fun": lambda x: 1 - x[a].sum()},
        ],
        bounds=[*zip(low, high, strict=True), *[(1e-3, 1)] * 6, (0, None), (0, None)],
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    cost = price(problem, OptimalStaged()(problem))
    assert_allclose(
        cost.upload_cost + cost.compute_cost, found.fun + problem.upload_energy.sum(), rtol=1e-6
    )


def test_25_is_stationary():
    kappa, weight = 5e-27, 0.7
    cost = lambda log_f: 1 / np.exp(log_f) + weight * kappa * np.exp(2 * log_f)  # per cycle
    found = minimize_scalar(cost, bracket=(np.log(1e8), np.log(1e9)), tol=1e-12)
    assert_allclose(mean_freq(kappa, weight), np.exp(found.x), rtol=1e-5)
    assert_allclose(mean_freq(5e-27, 1.0), 1e9 / 10 ** (1 / 3), rtol=1e-12)  # 464.16 MHz


def test_26_is_proportional_to_the_data_and_clipped():
    mine = Broadcast(freq=1e8, samples=100.0)
    samples = np.array([50.0, 100.0, 200.0, 1000.0, 1.0])
    low, high = np.full(5, 2e7), np.full(5, 3e8)
    assert_allclose(mine.own_freq(samples, low, high), [5e7, 1e8, 2e8, 3e8, 2e7])
    free = Broadcast(freq=mean_freq(5e-27, 0.0), samples=100.0)
    assert_allclose(free.own_freq(samples, low, high), high)  # energy for free: as fast as can be


@given(problem=problems(rounds=1))
def test_the_gap_bounds_what_could_be_gained_from_any_schedule(problem):
    best = price(problem, Optimal()(problem)).objective
    for policy in Even(told), Distributed(told), EqualFinish(told), OptimalStaged():
        schedule = policy(problem)
        cost = price(problem, schedule).objective
        assert (certify(problem, schedule).gap >= (cost - best) / cost - 1e-9).all()


def test_the_certificate_sees_what_is_wrong():
    problem = a_round(0, 5)
    best = Optimal()(problem)
    good = certify(problem, best)
    assert max(good.primal, good.dual, abs(good.gap)) < 1e-8
    assert certify(problem, Schedule(best.share * 1.01, best.freq)).primal > 0.009
    assert certify(problem, Schedule(best.share, problem.freq_max * 1.5)).primal > 0.49
    other = certify(problem, Schedule(best.share, best.freq * 1.1))
    assert other.dual > 0.05
    assert other.gap > 1e-3
    assert certify(problem, Schedule(best.share / 2, best.freq)).dual >= 0.5  # band left over
    dear = replace(problem, upload_energy=problem.upload_energy * 1e12)  # nothing can be done
    assert_allclose(certify(dear, Schedule(best.share, best.freq * 1.1)).gap, other.gap, rtol=1e-3)


def test_alike_clients_make_all_policies_alike():
    same = Problem(
        band_time=np.full(8, 1.0),
        upload_energy=np.ones(8),
        samples=np.full(8, 500.0),
        kappa=np.full(8, 5e-27),
        freq_min=np.full(8, 1e7),
        freq_max=np.full(8, 2e9),
        work=1e7,
        energy_weight=1.0,
    )
    prices = [
        price(same, policy(same)).objective
        for policy in (Even(told), Distributed(told), EqualFinish(told), OptimalStaged(), Optimal())
    ]
    assert_allclose(prices, prices[0], rtol=1e-7)


def test_clients_twelve_orders_of_magnitude_apart():
    problem = a_round(0, 13)
    far = Problem(
        **{name: getattr(problem, name) for name in ("upload_energy", "samples", "kappa")},
        band_time=np.logspace(-9, 3, 13),
        freq_min=np.full(13, 1e8),
        freq_max=np.full(13, 5e8),
        work=1e7,
        energy_weight=1.0,
    )
    best = Optimal()(far)
    assert best.certificate is not None
    assert best.certificate.gap < 1e-12
    assert (best.share > 0).all()
