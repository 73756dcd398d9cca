"""Models judged on nested samples: unbiased, with honest errors, and exact at full length."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import load_scenario
from fedcell.learning import prepare_training
from fedcell.learning.evaluation import GROWTH, Judgement, Sampling, Strata


def strata_of(seed, count=3000, classes=10):
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, count, p=rng.dirichlet(np.full(classes, 2.0)))
    weight = rng.uniform(0.5, 2.0, count)
    return Strata.of(labels, weight / weight.sum(), rng), labels, rng


@given(st.integers(0, 1000), st.integers(2, 12))
def test_every_beginning_has_its_share_of_each_class(seed, classes):
    strata, labels, _ = strata_of(seed, 1000, classes)
    assert sorted(strata.order.tolist()) == list(range(1000))
    for known in (50, 128, 500):
        for label in np.unique(labels):
            share = (labels == label).mean() * known
            found = (labels[strata.order[:known]] == label).sum()
            assert abs(found - share) <= 2, (label, known)


def test_beginnings_grow_to_all_samples():
    strata, *_ = strata_of(0, 5000)
    assert strata.sizes == (128, 512, 2048, 5000)
    assert strata_of(0, 200)[0].sizes == (200,)
    assert strata_of(0, 700)[0].sizes == (128, 700)
    many, *_ = strata_of(0, 5000, classes=100)
    assert many.sizes[0] == 800  # a class has room in it
    assert all(later <= GROWTH * 2 * one for one, later in pairwise(many.sizes))


@pytest.mark.parametrize("kind", ["loss", "hits"])
def test_errors_of_estimates_are_honest(kind):
    """z-scores of estimates over many models are standard normal."""
    scores = []
    for seed in range(150):
        strata, labels, rng = strata_of(seed)
        level = rng.uniform(0.05, 3.0, 10)[labels]
        values = rng.exponential(level)
        unseen = 0.0
        if kind == "hits":
            values = (rng.random(labels.size) < np.exp(-level)).astype(float)
            unseen = 1 / 128
        exact = float((strata.weight * values).sum())
        for known in strata.sizes[:-1]:
            value, error = strata.estimate(values, known, unseen)
            scores.append((value - exact) / error)
    z = np.array(scores)
    assert abs(z.mean()) < 0.2
    assert 0.85 < z.std() < 1.15
    assert (np.abs(z) > 4).mean() < 0.01


def test_the_error_of_one_class_is_that_of_sampling_without_replacement():
    rng = np.random.default_rng(5)
    strata = Strata.of(np.zeros(500, int), np.full(500, 1 / 500), rng)
    values = rng.exponential(2.0, 500)
    for known in (100, 400, 499):
        value, error = strata.estimate(values, known)
        seen = values[strata.order[:known]]
        assert value == pytest.approx(seen.mean())
        assert error == pytest.approx(np.sqrt(seen.var(ddof=1) * (1 - known / 500) / known))


def test_an_estimate_of_a_class_that_was_not_seen_is_not_certain():
    labels = np.r_[np.zeros(990, int), np.ones(10, int)]
    strata = Strata.of(labels, np.full(1000, 1e-3), np.random.default_rng(3))
    values = np.where(labels == 1, 50.0, np.linspace(0.9, 1.1, 1000))
    first = strata.order[:20]
    value, error = strata.estimate(values, 20)
    assert (labels[first] == 0).all()
    assert error > 0
    assert value == pytest.approx(1.0, abs=0.2)
    assert strata.estimate(values, 1000) == (float((values * 1e-3).sum()), 0.0)


@pytest.fixture(scope="module")
def engine():
    return prepare_training(load_scenario("digits"), 1).learner(1)


def test_at_full_length_the_estimate_equals_the_evaluation(engine):
    assert isinstance(engine, Sampling)
    model = engine.start()
    (trained,) = engine.train(model, [3], 0)
    for weights in (model, trained):
        exact, judged = engine.evaluate(weights), Judgement(engine, weights, "train")
        lengths = [judged.samples]
        while not judged.complete:
            judged.lengthen()
            lengths.append(judged.samples)
        assert lengths == list(engine.strata("train").sizes)
        assert judged.loss == (exact.train_loss, 0.0)
        tested = Judgement(engine, weights, "test")
        while not tested.complete:
            tested.lengthen()
        assert tested.accuracy[0] == pytest.approx(exact.accuracy, abs=1e-12)
        assert tested.loss[0] == pytest.approx(exact.test_loss, rel=1e-9)


def test_a_share_of_which_no_class_is_mixed_is_not_certain(engine):
    """A model that always gives one answer finds all of a class and none of the others."""
    model = np.zeros_like(engine.start())
    share, error = Judgement(engine, model, "test").accuracy
    assert error > 0
    assert abs(share - engine.evaluate(model).accuracy) <= 4 * error


def test_a_learner_without_test_data_has_one_part():
    setup = prepare_training(load_scenario("digits"), 1)
    for test, parts in ((False, ("train",)), (True, ("train", "test"))):
        learner = setup.learner(1, test=test)
        assert isinstance(learner, Sampling)
        assert learner.parts == parts
