"""Networks of awkward sizes, random data for them, and engines that train the one on the other."""

import numpy as np

from fedcell.learning.data.dataset import Dataset
from fedcell.learning.engines.engine import Engine
from fedcell.learning.neural import NeuralNetwork
from fedcell.learning.partition.make import make_partition
from fedcell.scenario.learning import MODELS, Conv, Layers
from fedcell.scenario.partition import PartitionSpec


def made(image, classes=7, count=40, seed=0, kind=np.float32):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, *image)).astype(np.float32)
    if kind == np.uint8:
        x = rng.integers(0, 256, (count, *image)).astype(np.uint8)
    y = np.append(np.arange(classes), rng.integers(0, classes, count - classes))
    return Dataset.of(x_train=x, y_train=y, x_test=x[::2], y_test=y[::2])


def engine(data, layers, training, clients=4, threads=2, spec=None, evaluate_samples=5000):
    network = NeuralNetwork.of(layers, data.image, data.classes)
    partition = make_partition(
        data.y_train, clients, spec or PartitionSpec(), np.random.default_rng(1)
    )
    return Engine(network, data, partition, training, evaluate_samples, threads)


def convs(*sizes):
    return tuple(Conv(channels=c, kernel=k, padding=p) for c, k, p in sizes)


AWKWARD = {
    "three convolutions": (
        (30, 27, 3),
        Layers(convs=convs((7, 3, 1), (40, 3, 1), (13, 5, 2)), hidden=(33, 21)),
        7,
    ),
    "cnn-small": ((28, 28, 1), MODELS["cnn-small"], 10),
    "one convolution": ((8, 8, 1), Layers(convs=convs((9, 3, 1))), 5),
    "even kernels": ((12, 14, 5), Layers(convs=convs((33, 4, 1), (25, 2, 0)), hidden=(50,)), 9),
    "one channel": ((9, 11, 1), Layers(convs=convs((1, 1, 0), (1, 2, 1)), hidden=(1,)), 3),
    "odd and padded": ((11, 7, 2), Layers(convs=convs((17, 5, 3), (24, 3, 2))), 4),
    "mlp": ((1, 13, 1), Layers(hidden=(17, 5)), 6),
    "logistic": ((8, 8, 2), Layers(), 1),
}
