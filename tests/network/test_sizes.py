"""Draws, prices and plans use the D_j of the data that clients hold."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import GivenLaw, Region, Scenario, compare, load_scenario, plan_training
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.learning.partition.make import Partition
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.policies.base import Broadcast
from fedcell.policies import make_problem

NOT_KNOWN = "D_j are not known: take the scenario of `prepare_training`"


def test_a_scenario_that_trains_has_no_fleet_before_its_data_is_dealt():
    scenario, dealt = load_scenario("digits"), prepare_training(load_scenario("digits")).scenario
    fleet = draw_fleet(dealt)
    trace = draw_trace(dealt, fleet, 3)
    for ask in (
        lambda: draw_fleet(scenario),
        lambda: draw_trace(scenario, fleet, 3),
        lambda: make_problem(scenario, fleet, trace),
        lambda: simulate_network(scenario, "even", 3),
        lambda: compare(scenario, ["even"], 3),
    ):
        with pytest.raises(BadInput, match=NOT_KNOWN):
            ask()
    assert make_problem(dealt, fleet, trace).samples.shape == (3, 10)


def test_a_fleet_with_other_data_is_refused():
    dealt = prepare_training(load_scenario("digits")).scenario
    fleet = draw_fleet(dealt)
    trace = draw_trace(dealt, fleet, 3)
    other = replace(fleet, samples=fleet.samples[::-1])
    for ask in (lambda: draw_trace(dealt, other, 3), lambda: make_problem(dealt, other, trace)):
        with pytest.raises(BadInput, match="the fleet has other D_j than the scenario"):
            ask()
    same = replace(fleet, samples=fleet.samples.copy())
    assert_array_equal(draw_trace(dealt, same, 3).cohort, trace.cohort)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning": {"partition": {"kind": "iid"}}}, "learning.partition"),
        ({"learning": {"dataset": "mnist"}}, "learning.dataset"),
        ({"learning": {"layers": None, "model": "mlp"}}, "learning.architecture"),
        (
            {"clients": {"table": {"name": [f"c{j}" for j in range(50)]}}},
            "the names of clients.table",
        ),
    ],
)
def test_the_partition_is_not_changed_once_the_data_is_dealt(changes, named):
    dealt = prepare_training(load_scenario("digits")).scenario
    with pytest.raises(BadInput, match=f"^{named}: the data of this scenario is dealt"):
        dealt.using(**changes)
    undone = dealt.using(**changes | {"clients": {**changes.get("clients", {}), "sizes": None}})
    with pytest.raises(BadInput, match=NOT_KNOWN):
        draw_fleet(undone)


def test_what_the_data_does_not_follow_from_may_change_when_it_is_dealt():
    dealt = prepare_training(load_scenario("digits")).scenario
    other = dealt.using(
        learning={"rate": 0.5, "target": 0.1}, cell={"bandwidth": 1e6}, clients={"spread": 0.1}
    )
    assert other.clients.sizes is dealt.clients.sizes
    assert dealt.using(learning=None).clients.sizes is dealt.clients.sizes


def test_a_count_that_is_not_that_of_the_sizes_is_refused():
    dealt = prepare_training(load_scenario("digits")).scenario
    with pytest.raises(BadInput, match="sizes has 50 numbers for 60 clients"):
        dealt.using(clients={"count": 60})


def test_a_setup_with_a_partition_changed_by_hand_is_refused():
    setup = prepare_training(load_scenario("digits"))
    other = Partition.of_owner(np.arange(1501) % 50)
    assert setup.dealt is not None
    with pytest.raises(BadInput, match="the scenario has other D_j than the partition"):
        replace(setup, dealt=replace(setup.dealt, partition=other))
    mine = prepare_training(load_scenario("digits"), partition=other)
    assert_array_equal(mine.scenario.clients.sizes.values, other.sizes)
    assert_array_equal(draw_fleet(mine.scenario).samples, other.sizes)


SIZES = np.array([0.0, 30, 40, 0, 50, 10, 10])
WITH_GAPS = Scenario().using(
    clients={"count": 7, "sizes": SIZES, "spread": 0.5}, plan={"cohort": 3}
)


@pytest.mark.parametrize("selection", ["uniform", "weighted"])
@pytest.mark.parametrize("drawn", ["before-training", "after-training"])
@pytest.mark.parametrize("charged", ["batch", "dataset"])
def test_clients_without_data_are_never_called_and_spend_nothing(selection, drawn, charged):
    scenario = WITH_GAPS.using(
        plan={"selection": selection, "cohort_drawn": drawn}, task={"samples_per_step": charged}
    )
    ledger = simulate_network(scenario, "distributed", 50)
    has_none = SIZES == 0
    assert (ledger.totals.energy[has_none] == 0).all()
    assert (ledger.totals.called[has_none] == 0).all()
    assert (ledger.totals.energy[~has_none] > 0).all()
    assert (ledger.excluded_by_data == 2).all()
    assert np.isfinite(ledger.objective).all()


def test_what_the_server_tells_is_of_those_that_have_data():
    fleet = draw_fleet(WITH_GAPS)
    some = SIZES > 0
    told = Broadcast.to(WITH_GAPS, fleet)
    assert told.samples == SIZES[some].mean()
    assert told.freq == pytest.approx((2 * fleet.kappa[some].mean()) ** (-1 / 3))


def test_a_plan_calls_no_more_than_have_data():
    plan = plan_training(WITH_GAPS, GivenLaw(mixing=50, drift=0.02, start=250))
    assert plan.cohort <= 5
    with pytest.raises(BadInput, match="`clients`"):
        plan_training(
            WITH_GAPS, GivenLaw(mixing=5, drift=1, start=1), region=Region(clients=(6, 7))
        )


@pytest.mark.parametrize("sizes", [[0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0], [1e-70, 1.0]])
def test_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(BadInput, match=r"clients\.sizes: expected one number for each client"):
        Scenario().using(clients={"count": 2, "sizes": sizes}, plan={"cohort": 1})
