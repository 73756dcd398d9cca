"""What Section V-C says of Fig. 6, sentence by sentence: 10 fleets of 300 rounds each.

Where a number stands that was measured over the fleets, the test allows four standard
errors; a claim that does not hold is a strict xfail with its number.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fedcell import Scenario
from fedcell.core.streams import replicate_seeds
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.policies.base import Broadcast
from fedcell.policies import make_problem, policy_by_name

PROPOSED = ["distributed", "equal-finish", "optimal-staged", "optimal"]
POLICIES = ["even", *PROPOSED]
FLEETS, ROUNDS = 10, 300


@cache
def means(policy: str, cohort: int = 10, steps: int = 20, spread: float = 0.1) -> dict:
    """The mean of each cost over the rounds of each fleet."""
    plan = {"cohort": cohort, "local_steps": steps}
    scenario = Scenario().using(plan=plan, clients={"spread": spread})
    ledgers = [simulate_network(scenario, policy, ROUNDS, s) for s in replicate_seeds(0, FLEETS)]
    names = ("upload_cost", "compute_cost", "staged_cost", "objective")
    return {name: np.array([getattr(one, name).mean() for one in ledgers]) for name in names}


def drift(values: list[float]) -> float:
    return max(values) / min(values) - 1


# "The former settings C_u = K C_u,0 and C_n = E_l C_n,0 can be directly validated."


GROWTH = {  # of C_u / K from K = 5 to 90, where it is not within a tenth: DECISIONS.md, 10
    ("even", 0.1): 0.35,
    ("even", 0.5): 0.48,
    ("distributed", 0.5): 0.27,
    ("optimal", 0.5): 0.18,
}


def not_within_10_percent(policy: str, spread: float):
    reason = f"C_u/K grows by {GROWTH[policy, spread]:.0%} from K = 5 to 90"
    mark = pytest.mark.xfail(reason=reason, raises=AssertionError)
    return pytest.param(policy, spread, 0.10, 0.0, marks=mark)


def growth(policy: str, spread: float) -> float:
    cohorts = (5, 10, 20, 50, 90)
    return drift([means(policy, k, spread=spread)["upload_cost"].mean() / k for k in cohorts])


@pytest.mark.parametrize(
    ("policy", "spread", "measured", "error"),
    [
        ("distributed", 0.1, 0.096, 0.007),
        ("equal-finish", 0.1, 0.005, 0.004),
        ("optimal-staged", 0.1, 0.005, 0.004),
        ("optimal", 0.1, 0.076, 0.007),
        ("equal-finish", 0.5, 0.005, 0.004),
        ("optimal-staged", 0.5, 0.005, 0.004),
        *(not_within_10_percent(policy, spread) for policy, spread in GROWTH),
    ],
)
def test_c_u_is_proportional_to_k(policy, spread, measured, error):
    assert growth(policy, spread) < measured + 4 * error


@pytest.mark.parametrize(("policy", "spread"), GROWTH)
def test_growth_of_c_u_per_client_is_that_of_the_decision(policy, spread):
    assert growth(policy, spread) == pytest.approx(GROWTH[policy, spread], abs=0.006)
    said = " ".join((Path(__file__).parents[1] / "DECISIONS.md").read_text().split())
    assert f"{GROWTH[policy, spread]:.0%}".replace("%", "") in said[said.index("## 10.") :][:700]


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("policy", POLICIES)
def test_c_n_is_proportional_to_e_l(policy, spread):
    unit = [
        means(policy, steps=e, spread=spread)["compute_cost"].mean() / e for e in (5, 10, 20, 50)
    ]
    assert drift(unit) < (0.006 if policy == "optimal" else 1e-12)


# "Compared with such a policy, the proposed algorithm achieves less C_u,0 and C_n,0."


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("cohort", [5, 10, 50])
@pytest.mark.parametrize("policy", PROPOSED)
def test_the_proposed_cost_less_than_even(policy, cohort, spread):
    even, ours = (means(name, cohort, spread=spread) for name in ("even", policy))
    for name in ("upload_cost", "compute_cost", "staged_cost", "objective"):
        less = even[name] - ours[name]  # paired: the same fleets and random numbers
        assert less.mean() > 4 * less.std(ddof=1) / np.sqrt(FLEETS)


# "The variation among clients can be handled well without significant degradation in costs."


@pytest.mark.parametrize(
    ("policy", "measured"),
    [
        ("even", 0.201),
        ("distributed", 0.080),
        ("equal-finish", 0.077),
        ("optimal-staged", 0.064),
        ("optimal", 0.067),
    ],
)
def test_variation_costs_the_proposed_less_than_half_of_what_it_costs_even(policy, measured):
    worse = {
        name: (means(name, spread=0.5)["staged_cost"] / means(name)["staged_cost"] - 1).mean()
        for name in ("even", policy)
    }
    assert abs(worse[policy] - measured) < 4 * 0.0095
    if policy != "even":
        assert worse[policy] < 0.5 * worse["even"]


# Section IV-A: "E[1/a_j] is proportional to K for an arbitrary policy."


@pytest.mark.parametrize(
    ("policy", "at_most"),
    [
        ("even", 1e-12),
        ("distributed", 0.07),
        ("equal-finish", 0.12),
        ("optimal-staged", 0.12),
        ("optimal", 0.07),
    ],
)
def test_the_mean_inverse_share_is_proportional_to_k(policy, at_most):
    unit = []
    for cohort in (5, 10, 20, 50):
        scenario = Scenario().using(plan={"cohort": cohort}, clients={"spread": 0.5})
        fleet = draw_fleet(scenario)
        problem = make_problem(scenario, fleet, draw_trace(scenario, fleet, 1000))
        share = policy_by_name(policy, Broadcast.to(scenario, fleet))(problem).share
        unit.append((1 / share).mean() / cohort)
    assert drift(unit) < at_most


def test_with_the_paper_s_numbers_computing_dwarfs_uploading():
    """DECISIONS.md, 11."""
    ours = means("distributed")
    assert 15 < ours["compute_cost"].mean() < 18
    assert 0.4 < ours["upload_cost"].mean() < 0.8


def test_without_a_threshold_the_mean_upload_cost_is_infinite():
    """DECISIONS.md, 9: 1/log(1 + h) is not integrable at h = 0, so the tail is as 1/x."""
    open_cell = Scenario().using(cell={"gain_threshold": 0.0})
    cost = np.sort(simulate_network(open_cell, "equal-finish", 200_000).upload_cost)[::-1]
    # P(cost > x) = const / x at the far end: the 10th largest is about 10 times the 100th.
    hill = 1 / np.log(cost[:1000] / cost[1000]).mean()
    assert abs(hill - 1) < 4 / np.sqrt(1000)  # Hill's estimate of the tail; at 1 the mean is gone
    guarded = simulate_network(Scenario(), "equal-finish", 200_000).upload_cost
    assert guarded.max() < 1e-4 * guarded.sum()


def test_the_two_objectives_rank_schedules_differently():
    """DECISIONS.md, 8."""
    joint, staged = (
        simulate_network(Scenario().using(clients={"spread": 0.5}), name, 500)
        for name in ("optimal", "optimal-staged")
    )
    assert (joint.objective <= staged.objective * (1 + 1e-12)).all()
    assert (staged.staged_cost <= joint.staged_cost * (1 + 1e-12)).all()
    assert joint.objective.mean() < staged.objective.mean()
    assert staged.staged_cost.mean() < joint.staged_cost.mean()


def test_an_interval_over_fleets_is_wider_than_one_over_rounds():
    """DECISIONS.md, 26: what these clients will see, or what clients like these will see."""
    from fedcell import compare

    one = compare(Scenario(), ["even"], 1000, 0)["even"].mean["staged_cost"]
    ten = compare(Scenario(), ["even"], 1000, 0, fleets=10)["even"].mean["staged_cost"]
    assert ten.half_width > 2 * one.half_width
