"""Steps of the server: closed forms, and what they leave alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Learning
from fedcell.errors import BadInput
from fedcell.learning.server_optimizer import ServerOptimizer

OLD = np.array([1.0, -2.0, 0.5], np.float32)
MEAN = np.array([1.4, -2.0, 0.2], np.float32)


class Counted:
    """A learner that trains the first `trained` of its numbers."""

    sizes = np.array([10])

    def __init__(self, trained):
        self.trained = trained

    def start(self):
        return OLD

    def train(self, model, clients, round):
        raise NotImplementedError

    def evaluate(self, model):
        raise NotImplementedError


def walk(server, means, old=OLD, trained=3):
    """Models after the means of several rounds, each given as a difference to the model."""
    memory, models = server.start(Counted(trained), old.size), [old]
    for delta in means:
        model, memory = server.step(models[-1], (models[-1] + delta).astype(np.float32), memory)
        models.append(model)
    return models, memory


def test_averaging_takes_the_mean_as_it_is():
    server = ServerOptimizer.of(Learning())
    assert server.start(Counted(3), 3) is None
    assert server.step(OLD, MEAN, None)[0] is MEAN


def test_momentum_of_nothing_with_rate_one_is_averaging():
    server = ServerOptimizer.of(Learning(server="momentum", server_momentum=0.0))
    model, _ = server.step(OLD, MEAN, server.start(Counted(3), 3))
    assert_array_equal(model, MEAN)


def test_momentum_gathers_a_constant_direction_as_a_geometric_series():
    delta, beta, rate = np.array([0.25, -0.5, 0.0]), 0.5, 2.0
    server = ServerOptimizer("momentum", rate, beta)
    models, memory = walk(server, [delta] * 6)
    steps = [rate * delta * (1 - beta**t) / (1 - beta) for t in range(1, 7)]
    assert_allclose(models[-1] - OLD, np.sum(steps, 0), rtol=1e-6)
    assert_allclose(memory[0], delta * (1 - beta**6) / (1 - beta), rtol=1e-6)


def test_adam_with_a_constant_direction():
    """m = (1 - b1^t) d and v = b2^t tau^2 + (1 - b2^t) d^2."""
    delta, b1, b2, tau, rate = np.array([0.25, -0.5, 1e-3]), 0.9, 0.8, 1e-2, 0.1
    models, memory = walk(ServerOptimizer("adam", rate, b1, b2, tau), [delta] * 5)
    expected = OLD.astype(float)
    for t in range(1, 6):
        m, v = (1 - b1**t) * delta, b2**t * tau**2 + (1 - b2**t) * delta**2
        expected = expected + rate * m / (np.sqrt(v) + tau)
    assert_allclose(models[-1], expected, rtol=1e-5)
    assert_allclose(memory, [m, v], rtol=1e-4)


def test_yogi_moves_its_squares_by_no_more_than_those_of_a_round():
    delta, b2, tau = np.array([0.25, 1e-4, 0.0]), 0.9, 1e-2
    _, memory = walk(ServerOptimizer("yogi", 0.1, 0.9, b2, tau), [delta])
    square = delta**2
    up = [tau**2 + 0.1 * square[0], tau**2 - 0.1 * square[1], tau**2]  # towards those of the round
    assert_allclose(memory[1], up, rtol=1e-5)


def test_yogi_and_adam_agree_where_squares_stand_still():
    """At v = Delta^2 neither changes v."""
    tau = 0.25
    delta = np.full(3, tau)
    models = [
        walk(ServerOptimizer(kind, 0.1, 0.9, 0.9, tau), [delta])[0][-1] for kind in ("adam", "yogi")
    ]
    assert_allclose(models[0], models[1], rtol=1e-6)
    assert_allclose(models[0] - OLD, 0.1 * 0.1 * tau / (2 * tau), rtol=1e-5)


@pytest.mark.parametrize("kind", ["momentum", "adam", "yogi"])
def test_numbers_that_are_not_trained_are_averaged(kind):
    server = ServerOptimizer(kind, 0.5)
    memory = server.start(Counted(2), 3)
    assert memory is not None
    assert memory.shape[1] == 2
    model, memory = server.step(OLD, MEAN, memory)
    assert model[2] == MEAN[2]
    assert (model[:1] != MEAN[:1]).all()
    assert memory.shape[1] == 2


def test_a_step_beyond_all_floats_is_not_made():
    server = ServerOptimizer("momentum", 1e30)
    memory = server.start(Counted(3), 3)
    model, after = server.step(OLD, np.full(3, 1e20, np.float32), memory)
    assert_array_equal(model, OLD)
    assert_array_equal(after, memory)


def test_rates_that_are_left_out_fit_the_server():
    rates = {
        kind: ServerOptimizer.of(Learning(server=kind)).rate
        for kind in ("momentum", "adam", "yogi")
    }
    assert rates == {"momentum": 1.0, "adam": 0.01, "yogi": 0.01}
    assert ServerOptimizer.of(Learning(server="adam", server_rate=0.3, server_tau=0.1)).tau == 0.1


def test_a_custom_server_makes_the_next_model():
    halfway = lambda old, mean: (old + mean) / 2
    model, memory = ServerOptimizer.of(None, halfway).step(OLD, MEAN, None)
    assert_allclose(model, (OLD + MEAN) / 2)
    assert model.dtype == np.float32
    assert memory is None


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (lambda old, _: old[:2], r"an array of shape \(2,\): expected \(3,\)"),
        (lambda old, _: old * np.nan, "numbers that are not finite"),
        (lambda *_: "model", "the server gave a str"),
    ],
)
def test_a_custom_server_must_return_a_model(own, message):
    with pytest.raises(BadInput, match=message):
        ServerOptimizer.of(None, own).step(OLD, MEAN, None)


def test_a_custom_server_is_the_only_one():
    with pytest.raises(BadInput, match="expected a function"):
        ServerOptimizer.of(None, "adam")
    with pytest.raises(BadInput, match=r'server = "yogi": give one of them'):
        ServerOptimizer.of(Learning(server="yogi"), lambda old, _: old)
