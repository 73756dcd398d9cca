"""Policies side by side, and sweeps: each point is a direct run at that point."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import Scenario, compare, load_scenario
from fedcell.core.estimates import mean_estimate
from fedcell.core.streams import replicate_seeds
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.network import simulate_network, sweep_costs
from fedcell.network.compare import MEASURES, sweep_axes

WORLD = Scenario().using(clients={"count": 30, "spread": 0.3}, plan={"cohort": 4})


def test_a_comparison_is_of_direct_runs():
    found = compare(WORLD, ["even", "optimal"], rounds=25, seed=3)
    even, best = (simulate_network(WORLD, p, 25, 3) for p in ("even", "optimal"))
    for measure in MEASURES:
        one, other = getattr(even, measure), getattr(best, measure)
        assert found["even"].mean[measure] == mean_estimate(one)
        assert found["optimal"].mean[measure] == mean_estimate(other)
        assert found["optimal"].difference[measure] == mean_estimate(other - one)
        assert found["even"].difference[measure].value == 0
    assert found.called == even.called.mean()
    assert found.received == even.received.mean()
    assert found.excluded_by_channel == even.excluded_by_channel.mean()


def test_over_fleets_the_values_are_means_of_fleets():
    found = compare(WORLD, ["even"], rounds=10, seed=1, fleets=3)
    means = [simulate_network(WORLD, "even", 10, s).energy.mean() for s in replicate_seeds(1, 3)]
    assert found["even"].mean["energy"] == mean_estimate(np.array(means))


def test_every_point_of_a_sweep_is_a_direct_run():
    sweep = sweep_costs(WORLD, ["even", "distributed"], [0.0, 0.5], rounds=6, seed=2)
    axes = sweep_axes(WORLD)
    assert len(sweep.points) == 2 * sum(map(len, axes.values()))
    for point in sweep.points:
        world = WORLD.using(plan={point.axis: point.value}, clients={"spread": point.spread})
        for policy in ("even", "distributed"):
            ledger = simulate_network(world, policy, 6, 2)
            costs = point.comparison[policy].mean
            assert_allclose(costs["staged_cost"].value, ledger.staged_cost.mean())
            assert_allclose(costs["energy"].value, ledger.energy.mean())
    by_k = [
        p.comparison["even"].mean["upload_cost"].value for p in sweep.points if p.axis == "cohort"
    ]
    assert by_k[-1] > 2 * by_k[0]  # uploading costs more with more clients: no flat line


@pytest.mark.parametrize("call", [compare, sweep_costs])
def test_a_scenario_that_trains_is_priced_with_its_own_model(call):
    """Its bits, cycles and data sizes are not known before the data is dealt."""
    with pytest.raises(
        BadInput, match="D_j are not known: take the scenario of `prepare_training`"
    ):
        call(load_scenario("digits"), ["even"], rounds=3)
    with pytest.raises(BadInput, match="D_j are not known"):
        simulate_network(load_scenario("digits"), "even", 3)
    settled = prepare_training(load_scenario("digits")).scenario
    assert call(settled, ["even"], rounds=3)
    with pytest.raises(BadInput, match="`scenario` = 'digits': expected a Scenario, as load_scen"):
        call("digits", ["even"], rounds=3)


def test_the_axes_of_a_sweep_are_those_of_fig_6():
    assert sweep_axes(Scenario()) == {
        "cohort": [5, 10, 20, 30, 40, 50],
        "local_steps": [5, 10, 20, 30, 40, 50],
    }
    epochs = Scenario().using(plan={"local_epochs": 4})
    assert sweep_axes(epochs)["local_epochs"] == [1, 2, 4, 6, 8, 10]


def test_the_width_of_an_interval_is_students():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    found = mean_estimate(values)
    # t_3(0.975) = 3.182446, from any table of Student's quantiles
    half = 3.182446 * np.std(values, ddof=1) / 2
    assert found.value == 3.5
    assert found.half_width == pytest.approx(half, rel=1e-6)
    assert (found.low + found.high) / 2 == pytest.approx(3.5)
    assert np.isnan(mean_estimate(values[:1]).low)
