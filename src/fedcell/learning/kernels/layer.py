"""What the kernels share: how a network stands in memory, and how they are compiled.

A network is rows of `Layer`: sizes, and places in three flat arrays (weights, `arena` for
activations and their gradients, `winner`). So every network runs through the same machine
code, compiled once. Images are (row, column, channel); the input of a layer stands in a
zero margin, its padding. A backward pass adds scale * gradient to `target`: with the
weights themselves as target and scale = -rate it is a step of SGD.
"""

from typing import Any

import numpy as np
from numba import njit

from .registers import LANES

# fastmath lets sums be reordered, which vectors need; it also lets the compiler assume that
# there is no NaN, so these are looked for elsewhere (DECISIONS.md, 20).
FAST = {"nogil": True, "fastmath": True, "error_model": "numpy"}
jit: Any = njit(**FAST)

ZERO = np.float32(0)

Layer = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("conv", "height", "width", "channels", "kernel", "outputs"),  # of its padded input
            *("pooled_height", "pooled_width", "margin"),  # of its output
            *("x", "dx", "y", "dy"),  # places in the arena
            *("x_row", "y_row"),  # floats from one sample to the next
            *("w", "b", "winner", "relu", "first"),
        )
    ]
)


@jit
def vectors(floats):
    """Return the number of vectors that hold these floats."""
    return (floats + LANES - 1) // LANES
