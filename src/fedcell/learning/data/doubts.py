"""Data that can be used and will hardly be learnt from: said once, when it is brought."""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import Labels

LARGE_INPUT = 10.0  # root mean square of inputs, beyond which a network learns badly
MOST_NAMED = 5


def doubts(x: NDArray[Any], y: Labels, y_test: Labels) -> list[str]:
    """What speaks against learning from training samples x, y; nothing where all is well."""
    found = []
    low, high = x.min(), x.max()
    size = float(np.linalg.norm(x.ravel())) / sqrt(x.size) if x.dtype != np.uint8 else 0.0
    if low == high:
        found.append(f"all values of x_train are {low:g}: there is nothing to learn from")
    elif size > LARGE_INPUT:
        found.append(
            f"x_train has values from {low:g} to {high:g}, which go into the network as they are: "
            "standardise them, or it will hardly learn (images of uint8 are standardised)"
        )
    classes = int(max(y.max(), y_test.max())) + 1
    absent = np.flatnonzero(np.bincount(y, minlength=classes) == 0).tolist()
    if absent == [0]:
        found.append("no training sample has the label 0: labels count from 0, so subtract 1")
    elif absent:
        some = ", ".join(map(str, absent[:MOST_NAMED])) + (", ..." if absent[MOST_NAMED:] else "")
        found.append(
            f"no training sample has the label {some}: the network has an output for each up to "
            f"{classes - 1}; number the classes without gaps"
        )
    return found
