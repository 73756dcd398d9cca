"""Definition 1 and the other constants, on gradients that are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcell import Clients, Scenario
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.learning.gradients import diversity, probe
from fedcell.planning.constants import estimate_constants
from fedcell.scenario.learning import Learning
from support import reference
from support.training import quadratics_of, states

even = np.full(4, 0.25)


def test_lambda_on_constructed_gradients():
    g = np.array([3.0, -4.0])
    assert diversity(np.tile(g, (4, 1)), even) == 1  # identical clients
    assert diversity(np.eye(4), even) == pytest.approx(4)  # orthogonal and equally long: N
    assert diversity(np.array([g, -g, g, -g]), even) == np.inf  # they cancel
    assert diversity(np.zeros((4, 2)), even) == 1
    c = np.array([1.0, 2.0, 3.0, 4.0])
    pi = np.array([0.1, 0.2, 0.3, 0.4])
    expected = pi @ c**2 / (pi @ c) ** 2  # common minimisers (DECISIONS.md, 17)
    assert diversity(c[:, None] * g, pi) == pytest.approx(expected)


@given(arrays(float, (5, 3), elements=st.floats(-10, 10)), st.floats(0.1, 10))
def test_lambda_is_at_least_1_and_knows_no_scale(g, scale):
    pi = np.full(5, 0.2)
    found = diversity(g, pi)
    assert found >= 1
    if np.isfinite(found) and ((pi @ g) ** 2).sum() > 1e-6:
        assert diversity(scale * g, pi) == pytest.approx(found)


@pytest.mark.parametrize(
    ("g", "pi"),
    [
        (np.zeros(3), np.ones(3) / 3),
        (np.zeros((3, 2)), np.ones(3)),
        (np.zeros((3, 2)), np.ones(2) / 2),
        (np.zeros((2, 2)), np.array([1.5, -0.5])),
    ],
)
def test_gradients_that_are_refused(g, pi):
    with pytest.raises(BadInput, match="a weight from 0 for each client, with sum 1"):
        diversity(g, pi)


def test_gradients_that_are_not_finite_are_refused():
    with pytest.raises(BadInput, match="not finite"):
        diversity(np.array([[np.nan, 1.0], [1.0, 1.0]]), np.full(2, 0.5))


def learner_of(kind, seed=0, model="mlp", **how):
    scenario = Scenario(
        clients=Clients(count=15),
        learning=Learning(dataset="digits", model=model, partition={"kind": kind} | how),
    )
    setup = prepare_training(scenario, seed)
    return setup, setup.learner()


def test_gradients_are_those_of_plain_numpy():
    layers = {"convs": [{"channels": 3, "kernel": 3, "padding": 1}], "hidden": [7]}
    scenario = Scenario(
        clients=Clients(count=15), learning=Learning(dataset="digits", layers=layers)
    )
    setup = prepare_training(scenario)
    learner, data, network = setup.learner(), setup.data, setup.network
    model = learner.start()
    images = data.x_train * data.scale + data.shift
    own = setup.partition.of(4)
    places = np.array([3, 0, 7])
    asked = [(4, None), (4, places)]
    whole, some = learner.gradients(model, asked)
    assert own.size > 64  # more than goes through the network at a time
    for found, index in ((whole, own), (some, own[places])):
        expected, _ = reference.gradient(
            network, model.astype(float), images[index].astype(float), data.y_train[index]
        )
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)
    before = model.copy()
    list(learner.gradients(model, asked))
    assert (model == before).all()


def test_lambda_grows_with_skew():
    lambdas = []
    for kind, how in (
        ("iid", {}),
        ("pathological", {"num_classes_per_partition": 5}),
        ("pathological", {"num_classes_per_partition": 2}),
        ("pathological", {"num_classes_per_partition": 1}),
    ):
        found = []
        for seed in range(3):
            _, learner = learner_of(kind, seed, **how)
            found.append(probe(learner, learner.start(), 0, 10).diversity)
        lambdas.append(np.mean(found))
    assert lambdas[0] < 3
    assert (np.diff(lambdas) > 0).all(), lambdas


def test_a_probe_knows_the_noise_of_batches():
    """Quadratics: a gradient of b samples has noise of variance noise^2 / b in each coordinate."""
    how = {"dimension": 8, "noise": 0.5}
    scenario = Scenario(
        clients=Clients(count=10, samples=40, spread=0.0),
        learning=Learning(model="quadratic-common", quadratic=how),
    )
    learner = quadratics_of(scenario)
    found = probe(learner, learner.start(), 0, batch=4, clients=10, draws=400)
    assert found.variances.mean() == pytest.approx(8 * 0.25 / 4, rel=0.05)
    assert found.diversity == pytest.approx(learner.gradient_diversity, rel=1e-5)
    assert found.square == pytest.approx(
        (learner.convexity * learner.start()) @ (learner.convexity * learner.start()), rel=1e-4
    )


def path_of(scenario, rounds=8, clients=10, draws=30):
    setup = prepare_training(scenario)
    learner = setup.learner()
    batch = scenario.task.batch_size
    return learner, [
        probe(learner, state.model, state.rounds, batch, clients, draws)
        for state in states(setup.scenario, learner, rounds)
    ]


def test_the_constants_of_quadratics_are_measured_right():
    how = {"dimension": 8, "noise": 0.5, "curvature_min": 0.5, "curvature_max": 2.0}
    scenario = Scenario(
        clients=Clients(count=10, samples=40, spread=0.0),
        learning=Learning(model="quadratic-common", quadratic=how, rate=0.02),
    ).using(plan={"cohort": 5, "local_steps": 5})
    learner, probes = path_of(scenario)
    found = estimate_constants(probes, np.asarray(learner.sizes, float))
    value = {c.symbol: c.estimate.value for c in found.estimates}
    assert value["mu"] == pytest.approx(learner.convexity, rel=1e-3)
    assert value["L"] == pytest.approx(learner.convexity, rel=1e-3)  # f is a sphere
    assert value["lambda"] == pytest.approx(learner.gradient_diversity, rel=1e-4)
    assert value["sigma^2"] == pytest.approx(40 * 8 * 0.25 / 10, rel=0.1)  # D dim noise^2 / b
    assert value["C_1"] < 0.2
    G2 = max(value["C_1"] * p.square for p in probes) + value["sigma^2"] / value["lambda"]
    assert value["G^2"] == pytest.approx(G2, rel=0.2)
    assert value["f_0"] == pytest.approx(probes[0].square / value["G^2"], rel=1e-6)
    assert not [d for d in found.doubts if d.startswith(("P-L", "lambda"))]  # both hold here
    noise = next(c.estimate for c in found.estimates if c.symbol == "sigma^2")
    assert noise.low < 40 * 8 * 0.25 / 10 < noise.high
    assert noise.low < noise.value < noise.high
    # As bounds they are no smaller than as means.
    assert found.constants.noise >= value["sigma^2"]


def test_assumptions_that_fail_are_reported():
    """Minimisers apart: lambda has no bound near the optimum. A network: P-L has no one mu."""
    apart = Scenario(
        clients=Clients(count=10, samples=40, spread=0.0),
        learning=Learning(model="quadratic-apart", quadratic={"noise": 0.01}, rate=0.1),
    ).using(plan={"cohort": 10, "local_steps": 5})
    learner, probes = path_of(apart, rounds=30, draws=4)
    found = estimate_constants(probes, np.asarray(learner.sizes, float), learner.least_loss)
    assert any("lambda is no constant" in doubt for doubt in found.doubts)
    assert found.diversities[-1] > 10 * found.diversities[0]
    network = Scenario(
        clients=Clients(count=10),
        learning=Learning(
            dataset="digits", model="mlp", partition={"kind": "pathological"}, rate=0.1
        ),
    )
    learner, probes = path_of(network, rounds=16, clients=3, draws=2)
    found = estimate_constants(probes, np.asarray(learner.sizes, float))
    assert any("P-L is not confirmed" in doubt for doubt in found.doubts)


def test_constants_that_cannot_be_measured():
    learner, probes = path_of(
        Scenario(clients=Clients(count=12), learning=Learning(model="quadratic-common")), rounds=2
    )
    sizes = np.asarray(learner.sizes, float)
    with pytest.raises(BadInput, match="two or more models"):
        estimate_constants(probes[:1], sizes)
    with pytest.raises(BadInput, match="models that differ"):
        estimate_constants([probes[0], probes[0]], sizes)
    silent = [probe(learner, p.model, p.round, 10) for p in probes]
    with pytest.raises(BadInput, match="batches of some clients"):
        estimate_constants(silent, sizes)
