"""Values of learning print in a few short lines."""

import numpy as np
import pytest

from fedcell import Scenario, load_scenario
from fedcell.learning import prepare_training
from fedcell.learning.classifier import Classifier
from fedcell.learning.evaluation import Strata
from fedcell.learning.export import plain_layers
from fedcell.learning.gradients import probe


@pytest.fixture(scope="module")
def setup():
    return prepare_training(load_scenario("digits"))


def test_a_training_setup_prints_its_parts(setup):
    lines = repr(setup).splitlines()
    assert lines[0] == "<TrainingSetup, seed 0:"
    assert lines[1] == (
        "  <Dataset digits: 1501 training and 296 test samples of 8 x 8 x 1 uint8, 10 classes>"
    )
    sizes = setup.partition.sizes
    counts = f"over {sizes.size} clients, {sizes.min()} to {sizes.max()} each"
    assert lines[2] == f"  <Partition: 1501 samples {counts}>"
    assert lines[3] == f"  {setup.network!r}"
    assert lines[4:] == [">"]
    assert repr(setup.dealt).startswith("DealtData(data=<Dataset digits")
    assert max(map(len, lines)) <= 120


def test_quadratics_print_in_a_line():
    world = Scenario().using(
        clients={"count": 7}, plan={"cohort": 2}, learning={"model": "quadratic-apart"}
    )
    setup = prepare_training(world, seed=3)
    assert repr(setup) == "<TrainingSetup: quadratic-apart of 7 clients, seed 3>"
    learner = setup.learner()
    assert repr(learner) == "<Quadratics: 7 clients, dimension 20, noise 0.1>"
    found = probe(learner, learner.start(), round=4, batch=2)
    assert repr(found).startswith("<Probe: round 4, loss ")


def test_networks_and_models_print_their_layers(setup):
    data, network = setup.data, setup.network
    assert repr(network).startswith("<NeuralNetwork: 8 x 8 x 1 -> ")
    assert repr(network).endswith(f"-> dense 10, {network.size} parameters>")
    weights = np.zeros(network.size, np.float32)
    model = Classifier(network, weights, data.scale, data.shift, "uint8")
    assert repr(model) == f"<Classifier of uint8 samples: {network!r}>"
    assert repr(plain_layers(model)[0]) == "<PlainLayer nn.Conv2d(1, 1, 1, groups=1)>"


def test_strata_print_their_counts():
    strata = Strata.of(np.array([0, 1, 1]), np.full(3, 1 / 3), np.random.default_rng(0))
    assert repr(strata) == "<Strata: 3 samples of 2 classes>"
