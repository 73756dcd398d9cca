"""What Section V-C says of Fig. 6, sentence by sentence, on 1,000 rounds of the paper's cell.

Tolerances are what was measured, rounded up; a claim that does not hold is a strict xfail
with the number in its reason.
"""

from functools import cache

import numpy as np
import pytest

from fedcell import (
    Ledger,
    Scenario,
    broadcast,
    draw_fleet,
    draw_trace,
    named,
    pose,
    simulate_network,
)

PROPOSED = ["distributed", "equal-finish", "optimal-staged", "optimal"]
POLICIES = ["even", *PROPOSED]
ROUNDS = 1000


@cache
def ledger(policy: str, cohort: int = 10, steps: int = 20, spread: float = 0.1) -> Ledger:
    scenario = Scenario().using(
        plan={"cohort": cohort, "local_steps": steps}, clients={"spread": spread}
    )
    return simulate_network(scenario, policy, ROUNDS)


def drift(values: list[float]) -> float:
    return max(values) / min(values) - 1


# "The former settings C_u = K C_u,0 and C_n = E_l C_n,0 can be directly validated."


@pytest.mark.parametrize(
    ("policy", "spread", "measured"),
    [
        ("distributed", 0.1, 0.10),
        ("equal-finish", 0.1, 0.02),
        ("optimal-staged", 0.1, 0.02),
        ("optimal", 0.1, 0.08),
        ("equal-finish", 0.5, 0.02),
        ("optimal-staged", 0.5, 0.02),
        ("optimal", 0.5, 0.19),
        pytest.param(
            "even", 0.1, 0.1, marks=pytest.mark.xfail(reason="C_u/K grows by 33 %, K = 5 to 90")
        ),
        pytest.param(
            "even", 0.5, 0.1, marks=pytest.mark.xfail(reason="C_u/K grows by 46 %, K = 5 to 90")
        ),
        pytest.param(
            "distributed",
            0.5,
            0.1,
            marks=pytest.mark.xfail(reason="C_u/K grows by 25 %, K = 5 to 90"),
        ),
    ],
)
def test_c_u_is_proportional_to_k(policy, spread, measured):
    unit = [ledger(policy, k, spread=spread).upload.mean() / k for k in (5, 10, 20, 50, 90)]
    assert drift(unit) < measured


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("policy", POLICIES)
def test_c_n_is_proportional_to_e_l(policy, spread):
    unit = [ledger(policy, steps=e, spread=spread).compute.mean() / e for e in (5, 10, 20, 50)]
    assert drift(unit) < (0.006 if policy == "optimal" else 1e-12)


# "Compared with such a policy, the proposed algorithm achieves less C_u,0 and C_n,0."


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("cohort", [5, 10, 50])
@pytest.mark.parametrize("policy", PROPOSED)
def test_the_proposed_cost_less_than_even(policy, cohort, spread):
    even, ours = (ledger(name, cohort, spread=spread) for name in ("even", policy))
    for name in ("upload", "compute", "staged", "objective"):
        less = getattr(even, name) - getattr(ours, name)  # paired: the same dice
        assert less.mean() > 3 * less.std() / np.sqrt(ROUNDS)


# "The variation among clients can be handled well without significant degradation in costs."


@pytest.mark.parametrize("policy", PROPOSED)
def test_variation_costs_the_proposed_half_of_what_it_costs_even(policy):
    worse = {
        name: ledger(name, spread=0.5).staged.mean() / ledger(name).staged.mean() - 1
        for name in ("even", policy)
    }
    assert 0.20 < worse["even"] < 0.27  # measured: 24 %
    assert 0.08 < worse[policy] < 0.14  # measured: 10 to 12 %
    assert worse[policy] < 0.55 * worse["even"]


# Section IV-A: "E[1/a_j] is proportional to K for an arbitrary policy."


@pytest.mark.parametrize(
    ("policy", "measured"),
    [
        ("even", 1e-12),
        ("distributed", 0.07),
        ("equal-finish", 0.12),
        ("optimal-staged", 0.12),
        ("optimal", 0.07),
    ],
)
def test_the_mean_of_1_over_a_is_proportional_to_k(policy, measured):
    unit = []
    for cohort in (5, 10, 20, 50):
        scenario = Scenario().using(plan={"cohort": cohort}, clients={"spread": 0.5})
        fleet = draw_fleet(scenario)
        problem = pose(scenario, fleet, draw_trace(scenario, fleet, ROUNDS))
        share = named(policy, broadcast(scenario, fleet))(problem).share
        unit.append((1 / share).mean() / cohort)
    assert drift(unit) < measured


def test_with_the_paper_s_numbers_computing_dwarfs_uploading():
    """DECISIONS.md, 11."""
    ours = ledger("distributed")
    assert 15 < ours.compute.mean() < 18
    assert 0.4 < ours.upload.mean() < 0.8


def test_without_a_threshold_the_mean_upload_cost_is_infinite():
    """DECISIONS.md, 9: 1/log(1 + h) is not integrable at h = 0, so the mean grows with n."""
    open_cell = Scenario().using(cell={"gain_threshold": 0.0})
    cost = simulate_network(open_cell, "equal-finish", 200_000).upload
    assert cost.max() > 0.05 * cost.sum()  # a single round of 200,000: measured 0.11
    guarded = simulate_network(Scenario(), "equal-finish", 200_000).upload
    assert guarded.max() < 1e-4 * guarded.sum()


def test_the_two_objectives_rank_schedules_differently():
    """DECISIONS.md, 8."""
    joint, staged = ledger("optimal", spread=0.5), ledger("optimal-staged", spread=0.5)
    assert (joint.objective <= staged.objective * (1 + 1e-12)).all()
    assert (staged.staged <= joint.staged * (1 + 1e-12)).all()
    assert joint.objective.mean() < staged.objective.mean()
    assert staged.staged.mean() < joint.staged.mean()
