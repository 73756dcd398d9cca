"""Aggregation: (3), (4), (27), (28)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Clients, Scenario, Task
from fedcell.core.errors import FedcellWarning
from fedcell.errors import BadInput
from fedcell.learning.aggregate import aggregate
from fedcell.learning.engines.quadratic import Quadratics
from fedcell.scenario.learning import Learning
from fedcell.simulation.checks import aggregation_doubts, aggregation_rule
from fedcell.simulation.train import simulate
from support.aggregates import SHARES, arrivals, in_the_mean, quadratics, world
from support.training import states

MODELS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


MEAN = SHARES @ MODELS  # what the aggregates should be in the mean


def next_model(rule, clients, counts=None, models=MODELS):
    counts = [1] * len(clients) if counts is None else counts
    zero = np.zeros(3, np.float32)
    return aggregate(rule, zero, clients, counts, [models[j] for j in clients], SHARES, round=0)[0]


@pytest.mark.parametrize(
    ("selection", "rule", "loss_rate"),
    [("uniform", "unbiased", 0.0), ("uniform", "unbiased", 0.4), ("weighted", "mean", 0.0)],
)
def test_the_papers_aggregates_are_unbiased(selection, rule, loss_rate):
    scenario = world(selection).using(cell={"loss_rate": loss_rate, "gain_threshold": 0.0})
    models = [next_model(rule, *who) for who in arrivals(scenario) if who[0]]
    mean, error = in_the_mean(models)
    assert_allclose(mean, MEAN, atol=error)  # Appendix A
    assert error < 0.1


def test_28_is_biased_under_losses_where_one_upload_counts_twice():
    """What a client drawn twice uploads is lost as a whole (DECISIONS.md, 13): with five
    clients that shows, here in about a tenth of the model."""
    scenario = world("weighted").using(cell={"loss_rate": 0.4, "gain_threshold": 0.0})
    models = [next_model("mean", *who) for who in arrivals(scenario) if who[0]]
    mean, error = in_the_mean(models)
    assert error < np.abs(mean - MEAN).max() < 0.15


def test_normalised_weights_are_biased_in_the_mean_and_exact_if_all_take_part():
    scenario = world("uniform").using(cell={"gain_threshold": 0.0})
    mean, error = in_the_mean([next_model("normalised", *who) for who in arrivals(scenario)])
    assert np.abs(mean - MEAN).max() > error
    for rule in ("unbiased", "normalised"):
        assert_allclose(next_model(rule, range(5)), MEAN, rtol=1e-6)


def test_a_client_drawn_twice_counts_twice():
    assert_allclose(next_model("mean", [1, 3], [2, 1]), (2 * MODELS[1] + MODELS[3]) / 3, rtol=1e-6)


def test_weights_of_4_do_not_sum_to_one_and_those_of_28_do():
    ones = np.ones((5, 3), np.float32)
    assert_allclose(next_model("unbiased", [0, 4], models=ones), 5 / 2 * 0.55, rtol=1e-6)
    assert_allclose(next_model("mean", [0, 4], models=ones), 1)
    assert_allclose(next_model("normalised", [0, 4], models=ones), 1)


def test_nothing_arrived_keeps_the_model():
    model = np.array([1.0, 2.0, 3.0], np.float32)
    after, excluded = aggregate("unbiased", model, [], [], [], SHARES, round=0)
    assert_array_equal(after, model)
    assert excluded == 0


@pytest.mark.parametrize("rule", ["unbiased", "mean", "normalised"])
def test_uploads_that_are_not_finite_are_named_and_left_out(rule):
    model, bad = np.zeros(3, np.float32), MODELS.copy()
    bad[2, 1], bad[4, 0] = np.nan, np.inf
    with pytest.warns(FedcellWarning) as said:
        after, excluded = aggregate(rule, model, range(5), [1] * 5, bad, SHARES, round=7)
    assert excluded == 2
    assert "round 8: the uploads of clients 2, 4 are not finite" in str(said[0].message)
    rest = [0, 1, 3]
    without, _ = aggregate(rule, model, rest, [1] * 3, MODELS[rest], SHARES, round=7)
    assert_array_equal(after, without)


@pytest.mark.parametrize("rule", ["unbiased", "mean", "normalised"])
def test_uploads_may_be_missing_where_clients_are_elsewhere(rule):
    """As if those clients had not been called; ours always upload."""
    model, uploads = np.ones(3, np.float32), [MODELS[0], None, MODELS[3]]
    some = [0, 2, 3], [1, 2, 1], uploads, SHARES, 0
    after, excluded = aggregate(rule, model, *some, may_be_missing=True)
    without, _ = aggregate(rule, model, [0, 3], [1, 1], MODELS[[0, 3]], SHARES, 0)
    assert_array_equal(after, without)
    assert excluded == 0
    with pytest.raises(BadInput, match="gave nothing for client 2"):
        aggregate(rule, model, *some)
    kept, _ = aggregate(rule, model, [0], [1], [None], SHARES, 0, may_be_missing=True)
    assert_array_equal(kept, model)


def test_an_aggregate_beyond_the_range_of_floats_keeps_the_model():
    model, huge = np.ones(2, np.float32), np.full((1, 2), 3e38, np.float32)
    after, excluded = aggregate("unbiased", model, [0], [1], huge, np.array([0.9, 0.1]), round=0)
    assert_array_equal(after, model)
    assert excluded == 0
    after, _ = aggregate("normalised", model, [0], [1], huge, np.array([0.9, 0.1]), round=0)
    assert_array_equal(after, huge[0])


def test_pairs_that_are_biased_warn():
    def of(selection, rule=None):
        return world(selection, learning=Learning(aggregation=rule))

    assert aggregation_rule(of("uniform")) == "normalised"
    assert aggregation_rule(of("weighted")) == "mean"
    assert aggregation_rule(world("uniform")) == "normalised"
    sensible = [("uniform", "unbiased"), ("uniform", "normalised"), ("weighted", "mean")]
    for selection in ("uniform", "weighted"):
        for rule in ("unbiased", "mean", "normalised"):
            assert bool(aggregation_doubts(of(selection, rule))) == (
                (selection, rule) not in sensible
            )
    learner = quadratics(count=5)
    scenario = of("weighted", "unbiased").using(
        clients={"sizes": learner.sizes.astype(float)},
        task={"model_bits": 1e4, "cycles_per_sample": 10.0},
    )
    with pytest.warns(FedcellWarning, match="does not go with"):
        next(states(scenario, learner, 1))


def test_clients_that_are_not_heard_equally_often_make_a_doubt():
    ring = world("uniform", learning=Learning(aggregation="unbiased")).using(
        cell={"distance": (50.0, 200.0)}
    )
    assert "mean channels differ" in aggregation_doubts(ring)[0]
    assert not aggregation_doubts(ring.using(cell={"gain_threshold": 0.0}))
    assert not aggregation_doubts(ring.using(learning={"aggregation": "normalised"}))
    near, count = ring.using(cell={"distance": 200.0}), ring.clients.count
    for rates, doubts in (([0.3] + [None] * (count - 1), 1), ([0.3] * count, 0)):
        assert (
            len(aggregation_doubts(near.using(clients={"table": {"loss_rate": rates}}))) == doubts
        )


def test_weights_are_among_those_that_may_be_drawn():
    """Clients below clients.min_samples are never called: N and q_j leave them out."""
    learner = quadratics(apart=False, count=100)
    sizes = np.where(np.arange(100) < 50, 10, 100)
    learner = Quadratics(learner.curvature, learner.home, sizes, 0.0, learner.training)
    scenario = Scenario(
        clients=Clients(min_samples=50.0),
        task=Task(model_bits=1e4, cycles_per_sample=10.0),
        learning=Learning(aggregation="unbiased"),
    )
    ledger = simulate(scenario, "even", learner, rounds=20)
    assert ledger.train_loss[-1] < ledger.train_loss[0]
    assert (ledger.excluded_by_data == 50).all()
