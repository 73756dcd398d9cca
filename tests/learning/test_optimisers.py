"""Adam and FedProx: equal to plain NumPy in the engine, and to hand-written steps on quadratics."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Learning, Scenario
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.learning.engines.quadratic import Quadratics
from fedcell.learning.learner import LocalTraining
from support import reference
from support.networks import AWKWARD, engine, made

KINDS: dict[str, Any] = {
    "adam": {"optimiser": "adam"},
    "proximal": {"proximal": 0.7},
    "proximal with momentum": {"proximal": 0.7, "momentum": 0.9},
    "proximal adam": {"optimiser": "adam", "proximal": 3.0},
}


def by_hand(gradient_at, start, rates, how):
    """Steps as the papers have them: Kingma and Ba (Algorithm 1), Li et al. (FedProx)."""
    w, m, v = start.astype(float), np.zeros(start.size), np.zeros(start.size)
    for t, rate in enumerate(rates, 1):
        g = gradient_at(w, t - 1) + how.proximal * (w - start)
        if how.optimiser == "adam":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            w = w - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        else:
            m = how.momentum * m + g
            w = w - rate * m
    return w


@pytest.mark.long
@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_steps_as_plain_numpy_does(name, kind):
    image, layers, batch = AWKWARD[name]
    data = made(image)
    rate = 0.002 if "optimiser" in KINDS[kind] else 0.05
    training = LocalTraining(batch, 4, None, rate, rate_decay=0.3, **KINDS[kind])
    ours = engine(data, layers, training, clients=3)
    start = ours.start()
    (got,) = ours.train(start, [2], round=1)
    own = ours.partition.of(2)
    order, sizes = training.batches(2, 1, own.size)
    batches = np.split(own[order], np.cumsum(sizes)[:-1])

    def gradient(w, step):
        some = batches[step]
        return reference.gradient(
            ours.network, w, data.x_train[some].astype(float), data.y_train[some]
        )[0]

    expected = by_hand(gradient, start, training.rates(1, 4), training)
    assert np.abs(expected - start).max() > 1e-3  # it moved
    # Adam divides by the size of a gradient: where that is nothing, rounding decides.
    far = np.abs(got - expected) > 1e-5
    assert far.mean() <= (0.01 if training.optimiser == "adam" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_and_earlier_rounds_change_no_bit(kind):
    """The state of an optimiser is reset for each client and each round."""
    image, layers, batch = AWKWARD["cnn-small"]
    training = LocalTraining(batch, 3, None, 0.01, **KINDS[kind])
    one, many = (engine(made(image), layers, training, 4, threads) for threads in (1, 3))
    model = one.start()
    first = list(one.train(model, range(4), 0))
    assert_array_equal(first, list(many.train(model, range(4), 0)))
    assert_array_equal(first[::-1], list(one.train(model, [3, 2, 1, 0], 0)))


@pytest.mark.parametrize("kind", KINDS)
def test_quadratics_step_as_by_hand(kind):
    training = LocalTraining(5, 7, None, 0.1, rate_decay=0.1, **KINDS[kind])
    curvature, home = np.array([0.5, 2.0]), np.array([[1.0, -2.0, 0.0], [0.5, 0.5, 3.0]])
    learner = Quadratics(curvature, home, np.array([20, 30]), 0.0, training)
    start = np.array([0.3, -0.1, 1.0], np.float32)
    (got,) = learner.train(start, [1], round=2)
    slope = lambda w, _: 2.0 * (w - home[1])
    assert_allclose(got, by_hand(slope, start, training.rates(2, 7), training), rtol=1e-6)


def test_fedprox_pulls_back_to_the_model_of_the_round():
    """On f = c |w - h|^2 / 2 many steps end where c (w - h) + mu (w - w_0) = 0."""
    training = LocalTraining(5, 400, None, 0.2, proximal=1.5)
    learner = Quadratics(np.array([0.5]), np.array([[4.0]]), np.array([10]), 0.0, training)
    (got,) = learner.train(np.array([1.0], np.float32), [0], round=0)
    assert_allclose(got, (0.5 * 4 + 1.5 * 1) / (0.5 + 1.5), rtol=1e-6)


def test_the_optimiser_of_a_scenario_is_that_of_its_learner():
    learning = {"optimiser": "adam", "proximal": 0.2, "rate": 0.003}
    training = prepare_training(Scenario().using(learning=learning)).local_training
    assert (training.optimiser, training.proximal, training.rate) == ("adam", 0.2, 0.003)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"optimiser": "adam", "momentum": 0.9}, 'is for sgd, and learning.optimiser is "adam"'),
        ({"server_rate": 0.1}, "server_rate is for momentum and adam and yogi"),
        ({"server": "momentum", "server_tau": 0.1}, "server_tau is for adam and yogi, and"),
        ({"server": "momentum", "server_beta2": 0.5}, "server_beta2 is for adam and yogi"),
        ({"optimiser": "adagrad"}, 'expected "sgd" or "adam"'),
        ({"server": "sgd"}, 'expected "average" or "momentum" or "adam" or "yogi"'),
        ({"proximal": -1.0}, "learning.proximal = -1.0: expected a number from 0"),
    ],
)  # fmt: skip
def test_keys_that_mean_nothing_are_refused(keys, message):
    with pytest.raises(BadInput, match=message):
        Learning(**keys)


@pytest.mark.parametrize("change", [{"optimiser": "rmsprop"}, {"proximal": float("nan")}])
def test_local_training_refuses_what_it_does_not_know(change):
    with pytest.raises(BadInput):
        replace(LocalTraining(5, 1, None, 0.1), **change)
    with pytest.raises(BadInput, match="or adam"):
        LocalTraining(5, 1, None, 0.1, momentum=0.9, optimiser="adam")
