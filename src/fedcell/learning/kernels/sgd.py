"""A client's work and an evaluation, each one compiled call."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from fedcell.core.errors import FedcellWarning

from . import convolution, dense, registers, vector
from . import layer as layer_module
from .convolution import conv_backward, conv_forward
from .dense import dense_backward, dense_forward
from .layer import FAST, ZERO, jit


@jit
def load(layer, images, index, scale, shift, arena):
    """The chosen samples, standardised, in the middle of the first layer's zero margin.
    images is (sample, row, column * channel), scale and shift a row of it."""
    rows, floats = images.shape[1:]
    margin = (layer.height - rows) // 2 if layer.conv else 0
    line = floats + 2 * margin * layer.channels if layer.conv else floats
    for n in range(index.size):
        for r in range(rows):
            begin = layer.x + n * layer.x_row + (r + margin) * line + (line - floats) // 2
            image, to = images[index[n], r], arena[begin : begin + floats]
            for j in range(floats):
                to[j] = np.float32(image[j]) * scale[j] + shift[j]


@jit
def forward(layers, batch, weights, arena, winner, packed):
    for layer in layers:
        if layer.conv:
            conv_forward(layer, batch, weights, arena, winner, packed)
        else:
            dense_forward(layer, batch, weights, arena)


@jit
def softmax(layer, labels, arena):
    """The gradient of the mean cross-entropy at the logits."""
    O, batch = layer.outputs, labels.size
    for n in range(batch):
        y = arena[layer.y + n * layer.y_row : layer.y + n * layer.y_row + O]
        dy = arena[layer.dy + n * layer.y_row : layer.dy + n * layer.y_row + O]
        top, total = y.max(), ZERO
        for o in range(O):
            dy[o] = np.exp(y[o] - top)
            total += dy[o]
        for o in range(O):
            dy[o] /= total * np.float32(batch)
        dy[labels[n]] -= np.float32(1) / np.float32(batch)


@njit(**FAST | {"fastmath": False})  # said, for a callee inherits its caller's flags
def cross_entropy(log_total, top, own):
    """-log of the softmax at a label: the logits are `own` there and `top` at most, and the
    exponentials of their distances to `top` sum up to exp(log_total).

    Compiled without fastmath, which reorders this sum: beside a huge logit the logarithm is rounded
    away, and a model that gives all classes the same huge logit has the loss 0.
    """
    return log_total + (top - own)


@jit
def backward(layers, batch, weights, target, scale, scratch):
    arena, winner, _, framed, dw, where, value, ends, shift, scaled = scratch
    for i in range(layers.size - 1, -1, -1):
        layer = layers[i]
        if layer.conv:
            lists = where, value, ends, shift
            conv_backward(layer, batch, weights, target, scale, arena, winner, framed, dw, lists)
        else:
            dense_backward(layer, batch, weights, target, scale, arena, scaled)


def compiled(stamp: str, cache: bool = True) -> tuple[Any, Any]:
    """The two calls, kept compiled on disk.

    numba looks for changes in the file of a cached function only, and in the values that it
    closes over. So these close over a stamp of all the files that they are made from.
    """
    cached: Any = njit(cache=cache, **FAST)

    @cached
    def train(
        weights,
        velocity,
        images,
        labels,
        scale,
        shift,
        order,
        sizes,
        rates,
        momentum,
        layers,
        scratch,
    ):
        """SGD steps (3) on `weights`, one for each of `sizes`, on the samples of `order`."""
        stamp  # noqa: B018
        arena, winner, packed = scratch[0], scratch[1], scratch[2]
        end = 0
        for step in range(sizes.size):
            batch, rate = sizes[step], rates[step]
            index, end = order[end : end + batch], end + batch
            load(layers[0], images, index, scale, shift, arena)
            forward(layers, batch, weights, arena, winner, packed)
            softmax(layers[-1], labels[index], arena)
            if momentum > 0:
                for i in range(weights.size):
                    velocity[i] *= momentum
                backward(layers, batch, weights, velocity, np.float32(1), scratch)
                for i in range(weights.size):
                    weights[i] -= rate * velocity[i]
            else:
                backward(layers, batch, weights, weights, -rate, scratch)

    @cached
    def evaluate(
        weights, images, labels, scale, shift, index, batch, losses, hits, layers, scratch
    ):
        """The cross-entropy of each sample of `index`, and whether it is classified correctly."""
        stamp  # noqa: B018
        arena, winner, packed = scratch[0], scratch[1], scratch[2]
        last = layers[-1]
        for begin in range(0, index.size, batch):
            some = index[begin : begin + batch]
            load(layers[0], images, some, scale, shift, arena)
            forward(layers, some.size, weights, arena, winner, packed)
            for n in range(some.size):
                y = arena[last.y + n * last.y_row : last.y + n * last.y_row + last.outputs]
                label, top, total = labels[some[n]], y.max(), ZERO
                for o in range(y.size):
                    total += np.exp(y[o] - top)
                losses[begin + n] = cross_entropy(np.log(total), top, y[label])
                hits[begin + n] = y.argmax() == label

    return train, evaluate


def sources() -> str:
    """What the calls are made from."""
    files = [
        Path(str(module.__file__))
        for module in (registers, vector, layer_module, convolution, dense)
    ]
    return "".join(file.read_text("utf-8") for file in files) + str(registers.LANES)


try:
    train, evaluate = compiled(sources())
except RuntimeError:  # numba found no folder to write to
    train, evaluate = compiled(sources(), cache=False)
    warnings.warn(
        "the engine is compiled again at every start: no folder can hold it; "
        "name one in NUMBA_CACHE_DIR",
        FedcellWarning,
        stacklevel=2,
    )
