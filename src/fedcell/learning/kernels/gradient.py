"""A client's work where a step needs its gradient by itself: Adam, and FedProx.

Plain SGD adds its steps to the weights as it goes back through the layers (sgd.py), which is
faster; here a gradient is gathered first, and then a step is made of it.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from . import sgd
from .layer import FAST, ZERO
from .sgd import backward, forward, load, softmax

ONE = np.float32(1)


def compiled(stamp: str, cache: bool = True) -> Any:
    """The call, kept compiled on disk as those of sgd.py are."""
    cached: Any = njit(cache=cache, **FAST)

    @cached
    def train(
        weights,
        gradient,
        moments,
        images,
        labels,
        scale,
        shift,
        order,
        sizes,
        rates,
        settings,
        layers,
        scratch,
    ):
        """Steps (3) on `weights`, one for each of `sizes`, on the samples of `order`.

        `moments` are three rows: the model that the round began with, and the mean of gradients
        and of their squares, of which SGD uses the first, as its velocity. `settings` are mu of
        FedProx, the momentum, and for Adam beta_1, beta_2 and epsilon; with epsilon = 0 it is SGD.
        """
        stamp  # noqa: B018
        arena, winner, packed = scratch[0], scratch[1], scratch[2]
        start, mean, square = moments[0], moments[1], moments[2]
        mu, momentum, beta1, beta2, epsilon = settings
        end, left1, left2 = 0, 1.0, 1.0
        for step in range(sizes.size):
            batch, rate = sizes[step], rates[step]
            index, end = order[end : end + batch], end + batch
            load(layers[0], images, index, scale, shift, arena)
            forward(layers, batch, weights, arena, winner, packed)
            softmax(layers[-1], labels[index], arena)
            for i in range(weights.size):
                gradient[i] = mu * (weights[i] - start[i]) if mu > 0 else ZERO
            backward(layers, batch, weights, gradient, ONE, scratch)
            if epsilon > 0:
                left1, left2 = left1 * beta1, left2 * beta2
                pace = rate / np.float32(1 - left1)
                grown = np.float32(1 / np.sqrt(1 - left2))
                for i in range(weights.size):
                    mean[i] = beta1 * mean[i] + (ONE - beta1) * gradient[i]
                    square[i] = beta2 * square[i] + (ONE - beta2) * gradient[i] * gradient[i]
                    weights[i] -= pace * mean[i] / (np.sqrt(square[i]) * grown + epsilon)
            else:
                for i in range(weights.size):
                    mean[i] = momentum * mean[i] + gradient[i]
                    weights[i] -= rate * mean[i]

    return train


_sources = sgd.sources() + Path(str(sgd.__file__)).read_text("utf-8")
try:
    train = compiled(_sources)
except RuntimeError:  # numba found no folder to write to, as sgd.py says
    train = compiled(_sources, cache=False)
