"""Functions of x = ln(1 + SNR / gap) that the joint problem is made of, and their inverses."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array

SMALL_X = 0.1  # below it m(x) is taken from its series
SERIES = tuple((k - 1) / float(np.prod(np.arange(1.0, k + 1))) for k in range(13, 1, -1))


def phi(x: Array) -> Array:
    """Return (e^x - 1) / x, 1 at 0."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(np.where(x > 0, np.expm1(x) / x, 1.0))


def m_of(x: Array) -> Array:
    """Return m(x) = 1 + (x - 1) e^x, with its series where x is small."""
    direct = x * np.exp(x) - np.expm1(x)
    if (small := x < SMALL_X).any():
        few, series = x[small], np.zeros(())
        for coefficient in SERIES:
            series = series * few + coefficient
        direct[small] = series * few * few
    return direct


def inverse_m(value: Array) -> Array:
    """Return x with m(x) = value."""
    value = np.minimum(np.maximum(value, 1e-280), 1e250)
    log = np.log(value)
    x = np.log1p(np.sqrt(2 * value) + value / 3)
    for _ in range(3):
        m = m_of(x)
        x = np.maximum(x + m * (log - np.log(m)) / (x * np.exp(x)), 0.1 * x)
    return x


def inverse_phi(value: Array) -> Array:
    """Return x with phi(x) = value, at least 1."""
    log = np.log(np.minimum(value, 1e250))
    x = log + np.log1p(log)
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(3):
            grown = np.expm1(x)
            slope = 1 + 1 / grown - 1 / x  # of log phi; 1/2 at 0
            slope = np.where(x < 1e-4, 0.5 + x / 12, slope)
            x = np.where(x > 0, x + (log - np.log(grown / x)) / slope, 0.0)
    return np.asarray(np.maximum(x, 0.0))
