"""The best K and E_l against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.errors import BadInput
from fedcell.network import simulate_network
from fedcell.planning.choice.choose import choose_plan
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.costs.rounds import price_round_grid
from fedcell.planning.law.given import GivenLaw
from support.examples import examples
from support.laws import FLOOR
from support.planned import LAW, SMALL


def brute(scenario, law, policy, most):
    """Price every K and E_l separately with the random numbers of the planner."""
    totals = {}
    for k in range(1, scenario.clients.count + 1):
        for e in range(1, most + 1):
            world = scenario.using(plan={"cohort": k, "local_steps": e})
            ledger = simulate_network(world, policy, 200)
            g = float(law.rounds(k, e, scenario.cell.loss_rate))
            totals[k, e] = np.array([ledger.cost, ledger.duration, ledger.energy]).mean(1) * g
    return totals


@pytest.mark.parametrize("policy", ["even", "distributed", "optimal"])
@pytest.mark.parametrize("aim", ["cost", "duration", "energy"])
def test_the_joint_optimum_is_that_of_brute_force(policy, aim):
    totals = brute(SMALL, LAW, policy, 6)
    which = ["cost", "duration", "energy"].index(aim)
    best = min(totals, key=lambda at: totals[at][which])
    plan = choose_plan(evaluate_plans(SMALL, LAW, policy, 6), minimise=aim)
    assert (plan.cohort, plan.local_steps) == best
    found = [plan.cost.value, plan.duration.value, plan.energy.value]
    assert found == pytest.approx(totals[best], rel=1e-9)


def test_between_the_priced_cohorts_and_steps_the_cost_is_right_to_its_own_error():
    scenario = SMALL.using(clients={"count": 60})
    for policy in ("even", "optimal"):
        surface = price_round_grid(scenario, policy, 100)
        assert not {7, 15, 33, 57} & set(surface.cohorts.tolist())
        for k, e in ((7, 5), (15, 60), (33, 13), (57, 90)):
            world = scenario.using(plan={"cohort": k, "local_steps": e})
            ledger = simulate_network(world, policy, 200)
            near = 3 * float(surface.relative_se("cost", k, e)) + 0.005
            assert float(surface.cost(k, e)) == pytest.approx(ledger.cost.mean(), rel=near)
            assert float(surface.duration(k, e)) == pytest.approx(ledger.duration.mean(), rel=near)
            assert float(surface.energy(k, e)) == pytest.approx(ledger.energy.mean(), rel=0.02)


def test_all_that_train_pay_where_the_cohort_is_drawn_after_training():
    world = SMALL.using(task={"model_bits": 1e3})  # little to upload
    after = world.using(plan={"cohort_drawn": "after-training"})
    over, all_train = (evaluate_plans(s, LAW, "even", 6) for s in (world, after))
    at = over.at(2, 4)
    assert all_train.energy[at] > 2 * over.energy[at]  # K = 2 of 8
    assert all_train.duration[at] >= over.duration[at]


def test_measured_gains_are_priced_as_far_as_they_go():
    gains = np.full((30, 8), 1e-13)
    world = SMALL.using(cell={"gains": gains})
    plan = choose_plan(evaluate_plans(world, LAW, "optimal", 6))
    assert plan.cost.value > 0
    with pytest.raises(BadInput, match=r"cell\.gains holds one round"):
        evaluate_plans(SMALL.using(cell={"gains": gains[:1]}), LAW, "optimal", 6)


@given(
    st.floats(1, 200), st.floats(0.01, 2), st.floats(1, 400), st.floats(0, 0.6), st.floats(0, 10)
)
@examples(8)
def test_no_neighbour_is_better(mixing, drift, start, gamma, Td):
    world = SMALL.using(cell={"loss_rate": gamma, "broadcast_time": Td})
    over = evaluate_plans(world, GivenLaw(mixing=mixing, drift=drift, start=start), "even", 12)
    plan = choose_plan(over)
    k, e = plan.cohort, plan.local_steps
    law = GivenLaw(mixing=mixing, drift=drift, start=start)
    for near in ((k - 1, e), (k + 1, e), (k, e - 1), (k, e + 1), (k + 1, e + 1), (k - 1, e - 1)):
        if 1 <= near[0] <= 8 and 1 <= near[1] <= 12:
            there = world.using(plan={"cohort": near[0], "local_steps": near[1]})
            each = simulate_network(there, "even", 200).cost.mean()
            # E_l is interpolated between places that are priced
            assert plan.cost.value <= 1.001 * each * float(law.rounds(*near, gamma))
    assert plan.paper.cost >= plan.cost.value * (1 - 1e-9)


def test_one_client_is_a_fleet_too():
    world = SMALL.using(clients={"count": 1}, plan={"cohort": 1})
    plan = choose_plan(evaluate_plans(world, LAW, "optimal", 1))
    assert (plan.cohort, plan.local_steps) == (1, 1)


def test_a_law_is_applied_to_the_losses_of_the_scenario(fitted):
    """A pilot with independent losses says what worst-case ones would take."""
    world = SMALL.using(clients={"count": 30}, cell={"loss_rate": 0.5, "loss_kind": "worst-case"})
    plan = choose_plan(evaluate_plans(world, fitted, "even", 40))
    k, e = plan.cohort, plan.local_steps
    there = fitted.predict(np.array(k), np.array(e), 0.5, kind="worst-case")
    assert plan.rounds.value == pytest.approx(float(there[0]))
    assert plan.rounds.value == pytest.approx(float(FLOOR.rounds(k, e, 0.5, "worst-case")), rel=0.2)
    ledger = simulate_network(world.using(plan={"cohort": k, "local_steps": e}), "even", 200)
    assert plan.duration.value == pytest.approx(
        plan.rounds.value * ledger.duration.mean(), rel=0.02
    )
