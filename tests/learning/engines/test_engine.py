"""The engine: equal to plain NumPy on awkward networks, whatever the threads and batches."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.errors import BadInput
from fedcell.learning.classifier import Classifier
from fedcell.learning.data.dataset import Dataset, load_data
from fedcell.learning.engines.engine import EVALUATED, PIECE, Engine
from fedcell.learning.evaluation import subset_of_test, subset_of_training
from fedcell.learning.learner import LocalTraining
from fedcell.learning.neural import NeuralNetwork, Shape
from fedcell.learning.partition.make import Partition, make_partition
from fedcell.scenario.learning import MODELS, Layers
from fedcell.scenario.partition import PartitionSpec
from support import reference
from support.examples import examples
from support.networks import AWKWARD, convs, engine, made


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_training_equals_plain_numpy(name, momentum):
    image, layers, batch = AWKWARD[name]
    data = made(image)
    training = LocalTraining(
        batch=batch, steps=5, epochs=None, rate=0.05, rate_decay=0.3, momentum=momentum
    )
    ours = engine(data, layers, training, clients=3)
    start = ours.start()
    (got,) = ours.train(start, [2], round=1)
    own = ours.partition.of(2)
    order, sizes = training.batches(2, 1, own.size)
    expected = reference.train(
        ours.network,
        start,
        data.x_train,
        data.y_train,
        own[order],
        sizes,
        training.rates(1, 5),
        momentum,
    )
    assert np.abs(expected - start).max() > 1e-3  # it moved
    assert_allclose(got, expected, atol=1e-5, rtol=1e-6)  # a float32 has seven digits


@examples(25)
@given(
    image=st.tuples(st.integers(4, 13), st.integers(4, 13), st.integers(1, 4)),
    sizes=st.lists(st.tuples(st.integers(1, 35), st.integers(1, 9), st.integers(0, 4)), max_size=2),
    hidden=st.lists(st.integers(1, 40), max_size=2),
    batch=st.integers(1, 11),
    classes=st.integers(2, 12),
)
def test_training_equals_plain_numpy_on_any_shape(image, sizes, hidden, batch, classes):
    layers = Layers(convs=convs(*sizes), hidden=tuple(hidden))
    try:
        NeuralNetwork.of(layers, image, classes)
    except BadInput:
        return  # does not fit the image
    data = made(image, classes, 30)
    training = LocalTraining(batch=batch, steps=2, epochs=None, rate=0.5)
    ours = engine(data, layers, training, clients=2, threads=1)
    (got,) = ours.train(ours.start(), [0], round=0)
    own = ours.partition.of(0)
    order, many = training.batches(0, 0, own.size)
    expected = reference.train(
        ours.network,
        ours.start(),
        data.x_train,
        data.y_train,
        own[order],
        many,
        training.rates(0, 2),
    )
    assert_allclose(got, expected, atol=1e-5, rtol=1e-6)  # a float32 has seven digits


def test_losses_are_those_of_plain_numpy():
    data = made((9, 8, 2), count=EVALUATED + 9, kind=np.uint8)
    ours = engine(data, Layers(convs=convs((5, 3, 1)), hidden=(6,)), LocalTraining(4, 1, None, 0.1))
    model = ours.start()
    standard = data.x_train * data.scale + data.shift
    _, losses = reference.gradient(ours.network, model.astype(float), standard, data.y_train)
    test = data.x_test * data.scale + data.shift
    _, test_losses = reference.gradient(ours.network, model.astype(float), test, data.y_test)
    scores = ours.evaluate(model)
    assert_allclose(scores.train_loss, losses.mean(), rtol=1e-6)
    assert_allclose(scores.test_loss, test_losses.mean(), rtol=1e-6)
    logits = [reference.logits(ours.network, model.astype(float), image) for image in test]
    assert scores.accuracy == np.mean(np.argmax(logits, 1) == data.y_test)


@pytest.mark.parametrize("logit", [1.0, 1e4, 1e9, 1e30])
def test_equal_logits_have_the_loss_of_guessing_however_large(logit):
    data = made((4, 4, 1), classes=7)
    ours = engine(data, Layers(), LocalTraining(4, 1, None, 0.1))
    model = np.zeros(ours.network.size, np.float32)
    model[-7:] = logit  # the biases
    scores = ours.evaluate(model)
    assert_allclose([scores.train_loss, scores.test_loss], np.log(7), rtol=1e-6)
    judge = Classifier(ours.network, model, data.scale, data.shift, "float32")
    assert_allclose(judge.evaluate(data.x_test, data.y_test).loss, np.log(7), rtol=1e-6)
    assert scores.majority == np.bincount(data.y_test).max() / data.y_test.size
    assert scores.guesses


def test_the_training_loss_is_weighted_by_the_clients_data():
    data = load_data("digits")
    partition = make_partition(
        data.y_train,
        30,
        PartitionSpec(kind="inner-dirichlet", sizes="lognormal", alpha=0.3),
        np.random.default_rng(3),
    )
    index, weight = subset_of_training(partition, 300, seed=0)
    q = partition.sizes / partition.sizes.sum()
    owner = np.empty(data.y_train.size, int)
    owner[partition.index] = np.repeat(np.arange(30), partition.sizes)
    assert_allclose(np.bincount(owner[index], weight, 30), q)  # (2): a client counts q_j
    assert np.unique(index).size == index.size
    assert_array_equal(index, subset_of_training(partition, 300, seed=0)[0])  # fixed
    everything, same = subset_of_training(partition, 10**6, seed=0)
    assert_array_equal(np.sort(everything), np.arange(data.y_train.size))
    assert_allclose(same, 1 / data.y_train.size)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": NeuralNetwork.of(MODELS["mlp"], (9, 8, 1), 10)}, "is for images"),
        ({"network": NeuralNetwork.of(MODELS["mlp"], (8, 8, 1), 9)}, "tells 9 classes apart"),
        ({"partition": Partition(np.arange(5000), np.array([0, 5000]))}, "of other data"),
        ({"partition": Partition(np.arange(0), np.array([0, 0]))}, "of other data"),
    ],
)
def test_what_does_not_belong_together_is_refused(change, message):
    ours = engine(load_data("digits"), MODELS["mlp"], LocalTraining(1, 1, None, 0.1))
    given = {"network": ours.network, "partition": ours.partition} | change
    with pytest.raises(BadInput, match=message):
        Engine(given["network"], ours.data, given["partition"], ours.training)


def test_a_large_test_set_is_evaluated_on_a_fixed_part():
    assert_array_equal(subset_of_test(50, 50, seed=0), np.arange(50))
    some = subset_of_test(1000, 50, seed=0)
    assert some.size == np.unique(some).size == 50
    assert_array_equal(some, subset_of_test(1000, 50, seed=0))


@pytest.mark.extras
@pytest.mark.parametrize("lanes", ["8", "16"])
def test_processors_with_other_registers_compute_the_same(lanes):
    words = [sys.executable, "-m", "pytest", "-q", __file__, "-m", "not extras", "-k", "equals"]
    ran = subprocess.run(words, env=os.environ | {"FEDCELL_LANES": lanes}, capture_output=True)
    assert ran.returncode == 0, ran.stdout.decode()


@pytest.mark.parametrize("threads", [2, 5])
def test_the_number_of_threads_changes_no_bit(threads):
    data = load_data("digits")
    training = LocalTraining(batch=7, steps=4, epochs=None, rate=0.1)
    layers = Layers(convs=convs((9, 3, 1)), hidden=(20,))
    one, many = (engine(data, layers, training, 12, t) for t in (1, threads))
    model = one.start()
    for a, b in zip(one.train(model, range(12), 0), many.train(model, range(12), 0), strict=True):
        assert_array_equal(a, b)
    assert one.evaluate(a) == many.evaluate(a)


def test_evaluation_in_many_pieces_is_the_same_as_in_one():
    data = made((4, 4, 1), count=3 * PIECE + 5)
    ours = engine(data, Layers(), LocalTraining(4, 1, None, 0.1), threads=3)
    _, losses = reference.gradient(
        ours.network, ours.start().astype(float), data.x_train, data.y_train
    )
    assert_allclose(ours.evaluate(ours.start()).train_loss, losses.mean(), rtol=1e-6)


def test_bytes_and_floats_are_the_same_data():
    small = made((6, 6, 1), kind=np.uint8)
    as_floats = (small.x_train * small.scale + small.shift).astype(np.float32)
    floats = Dataset.of(
        x_train=as_floats, y_train=small.y_train, x_test=as_floats, y_test=small.y_train
    )
    training = LocalTraining(batch=3, steps=5, epochs=None, rate=0.1)
    results = []
    for data in (small, floats):
        ours = engine(data, Layers(hidden=(5,)), training)
        results.append(next(ours.train(ours.start(), [1], 0)))
    assert_allclose(results[0], results[1], atol=1e-6)


def test_batches_are_shuffled_passes_with_a_short_end():
    training = LocalTraining(batch=4, steps=7, epochs=None, rate=0.1, seed=3)
    order, sizes = training.batches(client=5, round=2, samples=10)
    assert sizes.tolist() == [4, 4, 2, 4, 4, 2, 4]
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10].tolist() != order[10:20].tolist()
    assert_array_equal(order, training.batches(5, 2, 10)[0])
    assert order.tolist() != training.batches(6, 2, 10)[0].tolist()
    assert order.tolist() != training.batches(5, 3, 10)[0].tolist()
    passes, sizes = LocalTraining(batch=4, steps=None, epochs=3, rate=0.1).batches(0, 0, 10)
    assert sizes.tolist() == [4, 4, 2] * 3
    assert sorted(passes) == sorted([*range(10)] * 3)
    order, sizes = LocalTraining(batch=50, steps=2, epochs=None, rate=0.1).batches(0, 0, 3)
    assert sizes.tolist() == [3, 3]  # less data than a batch


def test_rates_are_constant_or_fall_as_one_over_t():
    assert_allclose(LocalTraining(1, 2, None, 0.5).rates(7, 2), [0.5, 0.5])
    assert_allclose(LocalTraining(1, 2, None, 0.5, rate_decay=0.1).rates(5, 2), [0.25, 0.5 / 2.1])


def test_known_models_have_the_sizes_of_their_papers():
    mcmahan = NeuralNetwork.of(MODELS["cnn-mcmahan"], (28, 28, 1), 10)
    assert mcmahan.size == 1_663_370  # McMahan et al. (2017), Sec. 3
    assert mcmahan.bits == 53_227_840
    assert_allclose(mcmahan.cycles, 3.7e7, rtol=0.01)
    assert NeuralNetwork.of(MODELS["mlp"], (28, 28, 1), 10).size == 199_210  # their 2NN
    assert NeuralNetwork.of(MODELS["logistic"], (28, 28, 1), 10).size == 7850
    assert NeuralNetwork.of(MODELS["cnn-small"], (28, 28, 1), 10).size == 21_840


def test_a_network_that_does_not_fit_the_images_is_refused():
    with pytest.raises(BadInput, match="convolution 1 with kernel 5 is given 2 x 2 pixels"):
        NeuralNetwork.of(MODELS["cnn-small"], (8, 8, 1), 10)


def test_the_start_depends_on_the_seed_alone():
    data = load_data("digits")
    starts = [
        engine(data, MODELS["mlp"], LocalTraining(1, 1, None, 0.1, seed=s)).start()
        for s in (0, 0, 1)
    ]
    assert_array_equal(starts[0], starts[1])
    assert (starts[0] != starts[2]).mean() > 0.99
    assert abs(starts[0][: 64 * 200].max()) <= 1 / 8  # within 1 / sqrt(inputs)


def test_networks_partitions_and_counts_that_do_not_fit_are_refused():
    """Machine code takes sizes at their word: what does not fit ends the process."""
    dense = Shape(False, 1, 1, 1, 1, 3, (1, 1))
    conv = Shape(True, 8, 8, 1, 3, 4, (3, 3))
    for image, shapes in [
        ((8, 8, 1), (dense,)),
        ((8, 8, 1), ()),
        ((8, 8, 1), (conv,)),
        ((8, 8, 2), (conv, replace(dense, channels=36))),
        ((8, 8, 1), (replace(conv, height=9), replace(dense, channels=36))),
        ((8, 8, 1), (replace(conv, pooled=(9, 9)), replace(dense, channels=324))),
        ((8, 8, 1), (replace(conv, outputs=-4), replace(dense, channels=-36))),
        ((8, 8, 1), (replace(dense, channels=64), conv)),
    ]:
        with pytest.raises(BadInput, match="the layers of the network do not fit each other"):
            NeuralNetwork(image, shapes)
    for index, start in [
        ([], [0]),
        ([0, 1], [0, 5, 2]),
        ([0, 1], [0, 2**63 - 1, -2, 2]),
        ([-1, 0], [0, 2]),
        ([0.5], [0, 1]),
        ([[0], [0, 1]], [0, 1]),
    ]:
        with pytest.raises(BadInput, match="the partition"):
            Partition(index, start)
    data = load_data("digits")
    training = LocalTraining(batch=7, steps=4, epochs=None, rate=0.1)
    with pytest.raises(BadInput, match=r"learning\.evaluate_samples = -1"):
        Engine(
            NeuralNetwork.of(Layers(), data.image, 10),
            data,
            Partition(np.arange(1501), [0, 1501]),
            training,
            evaluate_samples=-1,
        )
    with pytest.raises(BadInput, match="the partition is of other data"):
        Engine(
            NeuralNetwork.of(Layers(), data.image, 10),
            data,
            Partition(np.arange(1502), [0, 1502]),
            training,
        )
