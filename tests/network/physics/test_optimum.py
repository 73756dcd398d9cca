"""The optimum of (22) and of (20) with declared devices, against SciPy and its own certificate."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from fedcell import Scenario
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.certificate import certify, check_schedule
from fedcell.network.physics.terms import Terms, dual_bound, reached
from fedcell.network.policies.general import split
from fedcell.network.policies.names import NAMED, policy_by_name
from fedcell.policies import (
    Broadcast,
    Optimal,
    OptimalStaged,
    Problem,
    Schedule,
    make_problem,
    price,
)

WORLDS = {
    "idle until the end": {"device": {"idle_power": 0.5, "busy_power": 1.0}},
    "asleep when done": {
        "radio": {"circuit_power": 0.6},
        "device": {"busy_power": 0.4, "when_done": "sleep"},
    },
    "slow to sleep": {
        "radio": {"circuit_power": 1.5},
        "device": {"busy_power": 30.0, "idle_power": 0.2, "when_done": "sleep"},
    },
    "another exponent": {"device": {"power_exponent": 2.2, "idle_power": 0.1}},
    "constant joules a cycle": {"device": {"energy_per_cycle": 2e-10, "idle_power": 0.1}},
    "memory and sums": {
        "device": {"memory_time": 1e-3, "count_energy": "sum", "busy_power": 0.2},
    },
    "airtime": {
        "radio": {"access": "time", "power_max": 5.0, "circuit_power": 1.0},
        "device": {"idle_power": 0.3, "when_done": "sleep"},
    },
    "free energy": {"device": {"idle_power": 0.3}, "task": {"energy_weight": 0.0}},
}
LIMITED = {
    "cut": {"radio": {"power_max": 0.3}},
    "full": {
        "radio": {"power_max": 0.3, "power_law": "full", "circuit_power": 0.5},
        "device": {"idle_power": 0.2},
    },
    "open loop": {
        "radio": {"power_max": 0.2, "power_law": "open-loop", "p0_dbm": -95.0, "snr_min_db": -7.0}
    },
}


def problem_of(tables, cohort=4, seed=0, rounds=2) -> Problem:
    scenario = Scenario().using(
        clients={"count": 30, "spread": 0.5, "freq_min": 5e7},
        plan={"cohort": cohort},
        cell={"distance": (80.0, 220.0)},
        task={"model_bits": 1e7} | tables.get("task", {}),
        **{name: table for name, table in tables.items() if name != "task"},
    )
    fleet = draw_fleet(scenario, seed)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds, seed))


def scipy_optimum(problem: Problem, start: Schedule, staged: bool = False) -> float:
    """Return the least objective that SLSQP finds over the clients' times to train and upload,
    from several starts; one round."""
    K, reference = problem.clients, price(problem, start)
    scale = float(reference.duration)
    t0, s0 = reference.compute_time / scale, reference.upload_time / scale
    memory, c = problem.extras.memory_time, problem.cycles

    def schedule(x):
        t, s = x[:K] * scale, x[K : 2 * K] * scale
        return Schedule(share=problem.band_time / s, freq=c / (t - memory))

    def value(x):
        extras, each = problem.extras, problem.energy_weight
        cost: Any = price(problem, schedule(x))
        counted = np.sum if extras.summed else np.mean
        t, s = cost.compute_time, cost.upload_time
        radio = each * cost.radio_energy.sum()
        if staged:  # x holds the lengths of both stages
            T, S = x[2 * K] * scale, x[2 * K + 1] * scale
            waits = extras.idle_power * (T - t) + extras.done_power * (S - s)
            total = T + S + radio + each * counted(cost.compute_energy + waits)
        else:
            H = x[2 * K] * scale
            waits = extras.done_power * (H - t - s)
            total = H + radio + each * counted(cost.compute_energy + waits)
        return total / scale

    if staged:
        ends = [lambda x: x[2 * K] - x[:K], lambda x: x[2 * K + 1] - x[K : 2 * K]]
    else:
        ends = [lambda x: x[2 * K] - x[:K] - x[K : 2 * K]]
    ends.append(lambda x: 1 - (problem.band_time / (x[K : 2 * K] * scale)).sum())
    low = (memory + c / problem.freq_max) / scale
    high = (memory + c / problem.freq_min) / scale
    bounds = [*zip(low, high, strict=True), *[(1e-6, 1e4)] * K, *[(1e-6, 1e4)] * (1 + staged)]
    found = []
    for stretch in (1.0, 1.3, 2.0):
        t, s = np.clip(t0 * stretch, low, high), s0 * stretch
        last = [t.max(), s.max()] if staged else [(t + s).max()]
        x = np.concatenate([t, s, last])
        options = {"maxiter": 600, "ftol": 1e-14}
        constraints = [{"type": "ineq", "fun": f} for f in ends]
        answer = minimize(
            value, x, bounds=bounds, constraints=constraints, method="SLSQP", options=options
        )
        if all(np.min(f(answer.x)) > -1e-9 for f in ends):
            found.append(answer.fun * scale)
    return min(found)


@pytest.mark.parametrize("kind", WORLDS)
def test_scipy_finds_the_same_optimum_of_22(kind):
    for seed, cohort in enumerate((2, 4)):
        problem = problem_of(WORLDS[kind], cohort, seed)[0]
        best = Optimal()(problem)
        ours = float(price(problem, best).objective)
        even = policy_by_name("even", Broadcast.among(problem))(problem)
        assert_allclose(ours, scipy_optimum(problem, even), rtol=1e-7)
        assert best.certificate.gap < 1e-10
        assert best.certificate.primal < 1e-12
        check_schedule(problem, best)


@pytest.mark.parametrize("kind", WORLDS)
def test_scipy_finds_the_same_optimum_of_20(kind):
    problem = problem_of(WORLDS[kind], 3, 5)[0]
    cost: Any = price(problem, OptimalStaged()(problem))
    even = policy_by_name("even", Broadcast.among(problem))(problem)
    ours = float(cost.upload_cost + cost.compute_cost)
    downloads = float(cost.extras.download_time[0])
    assert_allclose(ours - downloads, scipy_optimum(problem, even, staged=True), rtol=1e-7)


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("cohort", [1, 10, 20])
def test_the_optimum_is_certified_in_batches(kind, cohort):
    scenario = {"task": {"model_bits": 3e6}} | WORLDS[kind]
    problem = problem_of(scenario, cohort, 1, rounds=30)
    best = Optimal()(problem)
    assert best.certificate.gap.max() < 1e-10
    assert best.certificate.dual.max() < 1e-8
    again = certify(problem, Schedule(best.share, best.freq))
    assert (again.gap < 1e-8).all()
    check_schedule(problem, best)
    alone = Optimal()(problem[3])
    assert_allclose(price(problem[3], alone).objective, price(problem[3], best_of(best)).objective)


def best_of(schedule):
    return Schedule(schedule.share[3], schedule.freq[3])


@pytest.mark.parametrize("kind", WORLDS)
def test_no_policy_and_no_neighbour_is_better(kind):
    problem = problem_of(WORLDS[kind], 5, 2, rounds=10)
    best = Optimal()(problem)
    least = price(problem, best).objective
    for name in NAMED:
        other = policy_by_name(name, Broadcast.among(problem))(problem)
        assert (price(problem, other).objective >= least * (1 - 1e-9)).all()
        gap = certify(problem, other).gap  # proven for any schedule
        terms = Terms.of(problem)
        value = reached(terms, problem.cycles / other.freq, problem.band_time / other.share)
        excess = price(problem, other).objective - least
        assert (gap * value >= excess * (1 - 1e-6) - 1e-9 * value).all()


def test_the_general_solver_is_the_papers_where_nothing_is_declared():
    for bits in (3e4, 3e7):
        problem = problem_of({"task": {"model_bits": bits}}, 8, 0, rounds=40)
        assert problem.extras is None
        best, other = Optimal()(problem), split(problem)
        freq = np.clip(problem.cycles / other.train, problem.freq_min, problem.freq_max)
        same = price(problem, Schedule(other.share, freq)).objective
        assert_allclose(same, price(problem, best).objective, rtol=1e-9)


def test_a_second_of_the_round_costs_what_the_waiting_draw():
    """Idle until the end makes H dearer by l sum P_idle / K: the certificate knows."""
    problem = problem_of({"device": {"idle_power": 0.5}}, 4)
    assert_allclose(Terms.of(problem).second, 1 + 0.5)
    asleep = problem_of({"device": {"idle_power": 0.5, "when_done": "sleep"}}, 4)
    assert_allclose(Terms.of(asleep).second, 1)


def test_a_client_that_sleeps_when_done_finishes_early_at_its_own_clock():
    """Without a price of time f = (P_b / ((alpha - 1) kappa))^(1 / alpha)."""
    tables = WORLDS["slow to sleep"] | {"task": {"model_bits": 3e4}}
    problem = problem_of(tables, 6, 3, rounds=20)
    best = Optimal()(problem)
    cost: Any = price(problem, best)
    early = cost.wait_time > 1e-6 * cost.duration[:, None]
    assert early.any()
    own = np.cbrt(problem.extras.busy_power / (2 * problem.kappa))
    own = np.clip(own, problem.freq_min, problem.freq_max)
    assert_allclose(best.freq[early], own[early], rtol=1e-9)


def test_prices_that_do_not_fit_prove_less():
    problem = problem_of(WORLDS["idle until the end"], 4)
    terms, found = Terms.of(problem), split(problem)
    best = dual_bound(terms, found.price)
    assert_allclose(found.price.sum(-1), terms.second)
    wrong = found.price * np.array([2.0, 1, 1, 1])
    wrong *= (terms.second / wrong.sum(-1))[:, None]
    assert (dual_bound(terms, wrong) < best).all()


@pytest.mark.parametrize("kind", LIMITED)
def test_where_power_limits_act_the_optimum_is_no_worse_than_other_policies(kind):
    problem = problem_of(LIMITED[kind], 6, 0, rounds=40)
    best = Optimal()(problem)
    assert best.certificate is None  # not proven
    least = price(problem, best).objective
    check_schedule(problem, best)
    for name in NAMED:
        other = policy_by_name(name, Broadcast.among(problem))(problem)
        assert (price(problem, other).objective >= least * (1 - 1e-3)).all(), name
        assert price(problem, other).objective.mean() >= least.mean()
    staged = price(problem, OptimalStaged()(problem))
    even = price(problem, policy_by_name("even", Broadcast.among(problem))(problem))
    assert (staged.upload_cost <= even.upload_cost * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", LIMITED)
def test_scipy_finds_little_more_where_power_limits_act(kind):
    problem = problem_of(LIMITED[kind], 3, 1)[0]
    ours = float(price(problem, Optimal()(problem)).objective)
    K, low, high = problem.clients, problem.freq_min, problem.freq_max
    least = ours
    for seed in range(6):
        spread = np.cos(np.arange(2 * K) * (seed + 1) * 2.4)

        def value(x):
            share = np.exp(x[:K] - x[:K].max())
            freq = low * (high / low) ** (0.5 + 0.5 * np.tanh(x[K:]))
            return float(price(problem, Schedule(share / share.sum(), freq)).objective)

        found = minimize(value, spread, method="Nelder-Mead", options={"maxiter": 4000})
        least = min(least, found.fun)
    assert ours <= least * 1.02


def test_linear_uploads_of_a_limit_are_exact_at_their_shares() -> None:
    from fedcell.network.policies.general import linear_at

    problem = problem_of(LIMITED["cut"], 4)
    share = np.full(problem.kappa.shape, 0.25)
    freq = problem.freq_max
    real = price(problem, Schedule(share, freq))
    linear: Any = price(linear_at(problem, share), Schedule(share, freq))
    assert_allclose(linear.upload_time, real.upload_time)
    cut = share > problem.extras.limit.cut
    sent = linear.upload_energy - np.where(cut, problem.upload_energy, 0)
    assert_allclose(sent, real.upload_energy)


def test_where_power_limits_act_the_optimum_is_no_worse_than_even_shares():
    """Even at its own clocks, in rounds of which some are best shared evenly."""
    world = Scenario().using(
        radio={"power_max": 1e-3, "circuit_power": 1.0, "noise_figure_db": 5.0},
        cell={"noise": 4e-21, "distance": [20.0, 400.0], "channel": {"model": "umi"}},
        clients={"power": 1e-9},
        task={"model_bits": 1e7},
    )
    for cohort in (2, 4):
        scenario = world.using(plan={"cohort": cohort}, cell={"gain_threshold": 0.0})
        fleet = draw_fleet(scenario)
        problem = make_problem(scenario, fleet, draw_trace(scenario, fleet, 300))
        found = Optimal()(problem)
        even = Schedule(np.full(found.share.shape, 1 / cohort), found.freq)
        cost, fair = (price(problem, schedule).objective for schedule in (found, even))
        assert (cost <= fair * (1 + 1e-12)).all()
