"""Properties of the published rules, each as in its file under network/selectors/rules."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from fedcell import Scenario
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.selectors.rules.active import Active
from fedcell.network.selectors.rules.battery import BatteryLaw
from fedcell.network.selectors.rules.by_data import ByDataUnbiased
from fedcell.network.selectors.rules.channel import BestChannel, ProportionalFair
from fedcell.network.selectors.rules.fedcs import FedCS, fitting, makespan
from fedcell.network.selectors.rules.oort import Oort
from fedcell.network.selectors.rules.power_of_choice import (
    PowerOfChoice,
    PowerOfChoiceAdaptive,
    PowerOfChoiceReported,
)
from fedcell.network.selectors.rules.tifl import TiFL, TiFLAdaptive
from fedcell.network.selectors.rules.update_norm import BestNorm, OptimalSampling
from fedcell.network.simulate import price_trace
from fedcell.selectors import in_proportion, known_round, selecting

RNG = np.random.default_rng(7)


def chosen(race):
    return set(np.flatnonzero(race.weight).tolist())


def world(**changes):
    quiet = {"cell": {"gain_threshold": 0.0}, "clients": {"count": 20}, "plan": {"cohort": 4}}
    return Scenario().using(**{name: quiet[name] | changes.get(name, {}) for name in quiet})


def cohorts(name, rounds, **changes):
    scenario = selecting(world(**changes), name)
    fleet = draw_fleet(scenario)
    return draw_trace(scenario, fleet, rounds), fleet


# By data


def test_by_data_with_probabilities_is_unbiased_and_without_is_not():
    n, value = np.array([1.0, 2.0, 3.0, 4.0, 10.0]), np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    q = n / n.sum()
    p = ByDataUnbiased()(known_round(samples=n, cohort=2)).probability
    assert p.tolist() == in_proportion(n, 2).tolist()
    assert p.max() == 1.0
    # E[aggregate] = sum over clients of p_j (q_j / p_j) v_j; that p_j is exact is tested by
    # enumeration in `check_selector`.
    assert (p * q / p * value).sum() == pytest.approx(q @ value)
    raced = 0.0
    for pair in permutations(range(5), 2):  # Plackett-Luce, weights n_j of those that are called
        chance = q[pair[0]] * q[pair[1]] / (1 - q[pair[0]])
        raced += chance * n[list(pair)] @ value[list(pair)] / n[list(pair)].sum()
    assert abs(raced - q @ value) > 0.1


# Round robin


def test_round_robin_counts_differ_by_one_at_most_and_ages_are_as_computed():
    trace, _ = cohorts("round-robin", 45)
    counts = np.zeros(20, int)
    ages = []
    last = np.full(20, -1)
    for t, row in enumerate(trace.cohort):
        if t >= 5:
            ages.append((t - 1 - last).mean())
        counts[row] += 1
        last[row] = t
        assert np.ptp(counts) <= 1
    assert np.mean(ages) == pytest.approx((20 / 4 - 1) / 2)


def test_round_robin_wraps_where_k_does_not_divide_n():
    trace, _ = cohorts("round-robin", 10, plan={"cohort": 6})
    assert (trace.called == 6).all()
    assert set(np.bincount(trace.cohort.ravel(), minlength=20)) == {3}


# Channels


def test_proportional_fair_calls_each_client_equally_often_and_best_channel_does_not():
    ring = {"distance": (50.0, 250.0), "gain_threshold": 0.0}
    fair, fleet = cohorts("proportional-fair", 2500, cell=ring)
    counts = np.bincount(fair.cohort.ravel(), minlength=20)
    expected = 2500 * 4 / 20
    assert ((counts - expected) ** 2 / expected).sum() * 19 / 16 < 43.8  # 19 degrees, 0.1 %
    best, _ = cohorts("best-channel", 500, cell=ring)
    calls = np.bincount(best.cohort.ravel(), minlength=20)
    assert calls[fleet.mean_gain.argmax()] > 350 > 5 > calls[fleet.mean_gain.argmin()]


def test_the_mean_normalised_gain_of_one_fair_client_is_the_harmonic_number():
    trace, fleet = cohorts("proportional-fair", 4000, plan={"cohort": 1})
    ratio = trace.gain[:, 0] / fleet.mean_gain[trace.cohort[:, 0]]
    assert ratio.mean() == pytest.approx(sum(1 / i for i in range(1, 21)), rel=0.02)


def test_proportional_fair_is_best_channel_where_distances_are_equal():
    one, _ = cohorts("proportional-fair", 50)
    other, _ = cohorts("best-channel", 50)
    assert np.array_equal(one.cohort, other.cohort)


def test_best_channel_minimises_the_summed_upload_times():
    time = RNG.exponential(size=7)
    known = known_round(gain=1 / time, cohort=3)
    least = min(sum(time[list(c)]) for c in combinations(range(7), 3))
    assert time[list(chosen(BestChannel()(known)))].sum() == pytest.approx(least)
    fair = known_round(gain=1 / time, mean_gain=1 / time, cohort=3)
    assert len(chosen(ProportionalFair()(fair))) == 3


# Power of choice


def losses_of(values):
    return lambda clients: np.asarray(values)[clients]


def test_power_of_choice_with_all_candidates_takes_the_largest_losses():
    loss = RNG.random(9)
    known = known_round(samples=np.ones(9), evaluate=losses_of(loss), cohort=3)
    assert chosen(PowerOfChoice(candidates=9)(known)) == set(loss.argsort()[-3:].tolist())


def test_power_of_choice_with_k_candidates_draws_by_data():
    loss = np.arange(4.0)
    n = np.array([4.0, 3.0, 2.0, 1.0])
    firsts = np.zeros(4)
    for t in range(3000):
        known = known_round(samples=n, evaluate=losses_of(loss), cohort=1, round=t)
        firsts[list(chosen(PowerOfChoice(candidates=1)(known)))] += 1
    assert np.abs(firsts / 3000 - n / 10).max() < 0.03


def test_power_of_choice_asks_only_its_candidates_and_chooses_among_them():
    asked = []

    def evaluate(clients):
        asked.append(set(clients.tolist()))
        return np.ones(len(clients))

    for t in range(30):
        known = known_round(samples=np.ones(9), evaluate=evaluate, cohort=2, round=t)
        race = PowerOfChoice(candidates=5)(known)
        assert len(asked[-1]) == 5
        assert chosen(race) <= asked[-1]


def test_reported_losses_rank_unseen_clients_first():
    loss = np.array([9.0, np.nan, 3.0, np.nan])
    known = known_round(samples=np.ones(4), loss=loss, cohort=2)
    assert chosen(PowerOfChoiceReported(candidates=4)(known)) == {1, 3}


def test_adaptive_candidates_fall_from_all_to_k():
    sizes = []

    def evaluate(clients):
        sizes.append(len(clients))
        return np.ones(len(clients))

    for t in (0, 9, 10, 20, 30, 40, 10**6):
        known = known_round(samples=np.ones(16), evaluate=evaluate, cohort=2, round=t)
        PowerOfChoiceAdaptive(every=10)(known)
    assert sizes == [16, 16, 8, 4, 2, 2, 2]


# Active FL


def test_active_selection_grows_with_samples_and_is_the_largest_values_where_it_is_sharp():
    n, loss = np.arange(1.0, 13), np.ones(12)
    known = known_round(samples=n, loss=loss, cohort=3)
    sharp = Active(left_out=0.0, sharpness=1e4, uniform=0.0)
    assert chosen(sharp(known)) == {9, 10, 11}  # sqrt(n) times the mean: larger with n


def test_active_selection_is_uniform_where_alpha_3_is_one():
    counts = np.zeros(6)
    for t in range(3000):
        known = known_round(samples=np.arange(1.0, 7), loss=np.arange(6.0), cohort=2, round=t)
        counts[list(chosen(Active(uniform=1.0)(known)))] += 1
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5


def test_active_selection_leaves_out_the_lowest():
    known = known_round(samples=np.ones(8), loss=np.arange(8.0), cohort=2)
    for t in range(20):
        known = known_round(samples=np.ones(8), loss=np.arange(8.0), cohort=2, round=t)
        assert chosen(Active(uniform=0.0)(known)) <= {6, 7}


# Oort


def oort(rule, t=30, memory=None, **facts):
    size = len(facts["rms_loss"])
    facts = {"samples": np.ones(size), "age": np.ones(size, int), "duration": np.ones(size)} | facts
    return rule(known_round(round=t, memory=memory or {}, **facts))


def test_oort_slows_clients_down_beyond_its_deadline_alone():
    known = known_round(duration=[1.0, 2.0, 4.0, 8.0], cohort=1)
    factor = Oort(preferred=34.0)._factor(known, 34.0)
    T = np.percentile([1.0, 2.0, 4.0, 8.0], 34)
    assert factor[:2].tolist() == [1.0, 1.0]
    assert factor[2:] == pytest.approx([(T / 4) ** 2, (T / 8) ** 2])


def test_oort_takes_the_largest_utilities_where_nothing_else_counts():
    rule = Oort(exploration=0.0, least_exploration=0.0, penalty=0.0, clip=100.0, cut=1.0)
    loss = np.append(np.linspace(1.0, 1.1, 59), 1e3)
    hits = sum(59 in chosen(oort(rule, t, rms_loss=loss, cohort=3)) for t in range(1, 61))
    assert hits > 20  # by chance it were 3


def test_oort_draws_uniformly_where_losses_are_equal():
    rule = Oort(exploration=0.0, least_exploration=0.0)
    counts = np.zeros(6)
    for t in range(1, 1501):
        counts[list(chosen(oort(rule, t, rms_loss=np.full(6, 2.0), cohort=2)))] += 1
    assert ((counts - 500) ** 2 / 500).sum() < 20.5


def test_oort_explores_less_and_less():
    memory, shares = {}, []
    loss = np.where(np.arange(40) < 20, 1.0, np.nan)
    for t in range(1, 60):
        race = oort(Oort(), t, memory, rms_loss=loss, cohort=10)
        memory = race.memory
        shares.append(sum(j >= 20 for j in chosen(race)))
    assert shares[0] == 8  # ceil((1 - .855) 10) = 2 are exploited
    assert shares[-1] == 2  # .2 of 10


def test_the_pacer_moves_the_deadline():
    rule, memory = Oort(window=3, exploration=0.0, least_exploration=0.0), {}
    for t in range(1, 13):
        memory = oort(rule, t, memory, rms_loss=np.ones(12), cohort=4).memory
    steady = float(memory["numbers"][1])
    assert steady > rule.preferred  # utilities did not change: more time
    memory = {"numbers": np.array([0.0, 50.0]), "exploited": np.array([1.0, 1, 1, 9, 9, 9])}
    race = oort(rule, 12, memory, rms_loss=np.ones(12), cohort=4)
    assert float(race.memory["numbers"][1]) == 45.0


# Update norms


def test_best_norm_with_k_candidates_is_best_channel_and_with_all_the_longest_updates():
    norm, gain = RNG.random(10), RNG.random(10)
    known = known_round(gain=gain, train=losses_of(norm), cohort=3)
    assert chosen(BestNorm(candidates=3)(known)) == set(gain.argsort()[-3:].tolist())
    assert chosen(BestNorm()(known)) == set(norm.argsort()[-3:].tolist())
    some = chosen(BestNorm(candidates=6)(known))
    assert some <= set(gain.argsort()[-6:].tolist())


def variance(u, p):
    return float((u[p > 0] ** 2 / p[p > 0]).sum())


@pytest.mark.parametrize("n", [3, 5, 12])
def test_optimal_sampling_satisfies_the_conditions_of_the_convex_optimum(n):
    """KKT of min sum u^2 / p, sum p = m, p <= 1: u / p is equal where p < 1, larger where p = 1."""
    for _ in range(100):
        u, m = RNG.pareto(1.0, n) + 1e-3, int(RNG.integers(1, n + 1))
        p = in_proportion(u, m)
        assert p.sum() == pytest.approx(m, rel=1e-12)
        assert p.max() <= 1
        below = p < 1
        if below.any():
            price = (u / p)[below]
            assert np.ptp(price) <= 1e-12 * price.max()
            assert (u[~below] >= price.max() * (1 - 1e-12)).all()
        assert variance(u, p) <= variance(u, np.full(n, m / n)) * (1 + 1e-12)


def test_a_convex_solver_finds_the_probabilities_of_optimal_sampling():
    for _ in range(8):
        u, m = RNG.random(6) + 0.05, int(RNG.integers(1, 6))
        p = in_proportion(u, m)
        found = minimize(
            lambda x, u=u: (u**2 / x).sum(),
            np.full(6, m / 6),
            jac=lambda x, u=u: -(u**2) / x**2,
            bounds=[(1e-4, 1)] * 6,
            constraints={"type": "eq", "fun": lambda x, m=m: x.sum() - m},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        assert variance(u, p) <= found.fun * (1 + 1e-12)
        assert np.abs(found.x - p).max() < 1e-4


def test_four_sweeps_of_the_authors_distributed_form_are_the_same():
    for _ in range(50):
        u, m = RNG.exponential(size=50), 10
        p = np.minimum(1, m * u / u.sum())
        for _ in range(4):
            free = p < 1
            c = (m - 50 + free.sum()) / p[free].sum()
            p = np.minimum(1, c * p)
            if c <= 1:
                break
        assert np.abs(p - in_proportion(u, m)).max() < 1e-12


def test_optimal_sampling_counts_its_pool():
    known = known_round(samples=np.ones(20), train=losses_of(RNG.random(20)), cohort=3)
    chances = OptimalSampling(candidates=8)(known)
    assert np.count_nonzero(chances.probability) == 8
    assert chances.pool == 8 / 20


# FedCS


def test_fedcs_never_breaks_its_deadline_and_takes_no_more_than_is_possible():
    for _ in range(60):
        n = int(RNG.integers(1, 8))
        train, send = RNG.lognormal(0, 1, n), RNG.lognormal(-1, 1, n)
        deadline = float(RNG.uniform(0.2, 2) * (train.mean() + send.sum() / 2))
        taken = fitting(np.arange(n), train, send, deadline)
        assert makespan(taken, train, send) <= deadline
        assert taken.size <= most_in_time(train, send, deadline)


def most_in_time(train, send, deadline):
    """The most clients that any subset, in any order, fits into the deadline."""
    n = len(train)
    for size in range(n, 0, -1):
        for some in combinations(range(n), size):
            order = sorted(some, key=lambda j: train[j])  # release times: the best order
            if makespan(order, train, send) <= deadline:
                return size
    return 0


def test_the_order_of_release_times_is_the_best_one():
    train, send = RNG.lognormal(size=5), RNG.lognormal(size=5)
    best = min(makespan(order, train, send) for order in permutations(range(5)))
    assert makespan(train.argsort(), train, send) == pytest.approx(best)


def test_fedcs_takes_more_clients_in_more_time():
    train, send = RNG.lognormal(0, 1, 30), RNG.lognormal(-1, 1, 30)
    sizes = [fitting(np.arange(30), train, send, d).size for d in np.linspace(0, 60, 40)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    assert sizes[-1] == 30


def test_fedcs_passes_over_a_client_that_does_not_fit():
    train, send = np.array([0.1, 0.1, 0.1]), np.array([1.0, 50.0, 2.0])
    known = known_round(compute_time=train, upload_time=send, cohort=3)
    assert chosen(FedCS(deadline=4.0)(known)) == {0, 2}
    assert chosen(FedCS(deadline=4.0, overhead=2.0)(known)) == {0}


# TiFL


def test_tiers_take_turns_as_their_probabilities_say():
    """E[round] = sum_i P_i E[longest of K clients of tier i]."""
    latency = np.sort(RNG.lognormal(size=20))
    rule, memory, longest, tiers = TiFL(tiers=5, ratio=0.5), {}, [], []
    for t in range(4000):
        known = known_round(
            compute_time=latency, upload_time=np.zeros(20), cohort=2, round=t, memory=memory
        )
        race = rule(known)
        memory, who = race.memory, sorted(chosen(race))
        tiers.append(who[0] // 4)
        assert [j // 4 for j in who] == [tiers[-1]] * 2  # one tier, two clients
        longest.append(latency[who].max())
    p = 0.5 ** np.arange(5) / (0.5 ** np.arange(5)).sum()
    assert np.abs(np.bincount(tiers, minlength=5) / 4000 - p).max() < 0.03
    each = [
        np.mean([latency[list(c)].max() for c in combinations(range(4 * i, 4 * i + 4), 2)])
        for i in range(5)
    ]
    assert np.mean(longest) == pytest.approx(p @ each, rel=0.05)


def test_credits_of_tiers_run_out():
    rule, memory, tiers = TiFL(tiers=4, credits=3), {}, []
    for t in range(12):
        known = known_round(
            compute_time=np.arange(8.0), upload_time=np.zeros(8), cohort=1, round=t, memory=memory
        )
        race = rule(known)
        memory = race.memory
        tiers.append(min(chosen(race)) // 2)
        assert (memory["left"] >= 0).all()
    assert np.bincount(tiers).tolist() == [3, 3, 3, 3]


def test_adaptive_tiers_favour_the_one_that_is_behind():
    loss = np.repeat([1.0, 5.0, 2.0], 4)
    known = known_round(
        compute_time=np.arange(12.0),
        upload_time=np.zeros(12),
        evaluate=losses_of(loss),
        cohort=2,
        round=10,
    )
    p = TiFLAdaptive(tiers=3, every=10)(known).memory["p"]
    assert p == pytest.approx([1 / 6, 3 / 6, 2 / 6])


# Battery


def test_the_battery_law_draws_by_the_square_of_the_charge():
    full = np.array([10.0, 10.0, 50.0, np.inf])
    left = np.array([10.0, 5.0, 10.0, np.inf])
    known = known_round(battery=left, cohort=1, memory={"full": full})
    assert BatteryLaw()(known).weight == pytest.approx([1, 0.25, 0.04, 1])
    assert BatteryLaw(reserve=0.3)(known).weight == pytest.approx([1, 0.25, 0, 1])
    assert set(BatteryLaw(alpha=0.0)(known).weight) == {1.0}
    empty = known_round(battery=np.array([0.0, -3.0, 1.0]), cohort=2, memory={"full": np.ones(3)})
    assert chosen(BatteryLaw(alpha=0.0)(empty)) == {2}


def test_no_client_is_called_below_its_reserve_and_charge_is_shared():
    table = {"battery": [60.0] * 12, "kappa": list(np.linspace(3e-27, 9e-27, 12))}
    base = Scenario().using(clients={"table": table}, plan={"cohort": 3}, task={"model_bits": 3e6})
    spent = {}
    for name in ("uniform", "battery-law(policy=even, alpha=4, reserve=0.2)"):
        scenario = selecting(base, name)
        ledger = simulate_network(scenario, "even", 30)
        spent[name] = ledger.totals.energy
        fleet = draw_fleet(scenario)
        each = price_trace(scenario, fleet, draw_trace(scenario, fleet, 30), "even").spending
        if name != "uniform":
            used = np.zeros(12)
            for row, joules in zip(each.client, each.energy, strict=True):
                there = row >= 0
                assert (used[row[there]] <= 0.8 * 60 + 1e-9).all()
                used[row[there]] += joules[there]
            assert used.max() > 0.5 * 60  # else nothing was tested
    uniform, law = spent.values()
    assert law.std() < uniform.std()
