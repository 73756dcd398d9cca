"""The best frequency of an average client, (25), with other processors than the paper's."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array

HALVINGS = 200


def average_freq(kappa: Array, exponent: Array, busy_power: Array, weight: float) -> float:
    """Return the f at which (alpha - 1) l kappa f^alpha = 1 + l P_busy, in means over clients.

    A second more of training of all costs the right side, and saves the left one over f. With
    alpha = 3 and no busy power it is (25). Infinite where a lower clock saves nothing.

    >>> average_freq(np.array([5e-27]), np.array([3.0]), np.array([0.0]), 1.0) / 1e6
    464.15888336127773
    """
    second = 1 + weight * float(busy_power.mean())
    saving = weight * (exponent - 1) * kappa
    if not saving.any():
        return float("inf")
    if (exponent == exponent.flat[0]).all():
        return float((second / saving.mean()) ** (1 / exponent.flat[0]))
    low, high = -20.0, 200.0  # of log f
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        saved = float((saving * np.exp(exponent * middle)).mean())
        low, high = (middle, high) if saved < second else (low, middle)
    return float(np.exp(high))
