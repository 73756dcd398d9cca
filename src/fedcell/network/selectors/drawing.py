"""Draw clients without replacement: by weights in a race, or with exact probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedcell.core.types import Array, Ints


def in_proportion(weight: Array, size: int) -> Array:
    """Return probabilities min(1, c w_j) that sum to `size`, or 1 where fewer weights are positive.

    Clients that would be above 1 are set to 1, and c follows from the others, until none is.

    Parameters
    ----------
    weight : ndarray, shape (N,)
        w_j from 0.
    size : int
        Clients to draw.

    Examples
    --------
    >>> in_proportion(np.array([1.0, 1.0, 2.0, 8.0]), 2)
    array([0.25, 0.25, 0.5 , 1.  ])
    """
    p = np.zeros(weight.size)
    some = np.flatnonzero(weight > 0)
    if some.size <= size:
        p[some] = 1.0
        return p
    left, w = size, weight[some]
    while True:
        c = left / w.sum()
        capped = c * w >= 1
        if not capped.any():
            p[some] = c * w
            return p
        p[some[capped]] = 1.0
        left, some, w = left - int(capped.sum()), some[~capped], w[~capped]
        if left == 0 or not some.size:
            return p


def first_of_race(weight: Array, uniforms: Callable[[], Array], most: int) -> Ints:
    """Return the clients with the `most` smallest -log(1 - U_j) / w_j and w_j above 0, in order;
    by number where all others have w_j = 0 and no draw is needed."""
    some = np.flatnonzero(weight > 0)
    if some.size <= most and np.isinf(weight[some]).all():
        return some
    w, u = weight[some], uniforms()[some]
    time = np.where(np.isinf(w), -1.0, -np.log1p(-u) / w)  # those that win surely come first
    if 0 < 4 * most < time.size:  # a threshold first: sorting all would take longest
        keep = time <= np.partition(time, most - 1)[most - 1]
        some, time, u = some[keep], time[keep], u[keep]
    return some[np.lexsort((u, time))[:most]]


def systematic(probability: Array, order: Ints, number: float) -> Ints:
    """Return the clients of a systematic sample: over the given order, p is cumulated, and the
    clients at U, U + 1, U + 2, ... are taken.

    Parameters
    ----------
    probability : ndarray, shape (N,)
        p_j in [0, 1].
    order : ndarray of int
        The clients with p_j above 0, in a random order.
    number : float
        U in [0, 1).
    """
    p = probability[order]
    below = p < 1
    certain, others, reached = order[~below], order, p
    if certain.size:
        others, reached = order[below], p[below]
    reached = reached.cumsum()
    if not others.size:
        return np.sort(certain)
    total = float(reached[-1])
    whole = round(total)
    if whole and abs(total - whole) < 1e-9 * whole:  # a whole number, but for rounding
        reached = reached * (whole / total)
        points = number + np.arange(whole)
    else:
        points = number + np.arange(np.ceil(total - number))
    where = np.searchsorted(reached, points, side="right")
    taken = others[np.unique(np.minimum(where, others.size - 1))]
    return np.sort(np.concatenate([certain, taken]))
