"""Certificates of (22) with declared radios and devices."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Certificate, Problem, Schedule

from .terms import Terms, dual_bound, reached

BISECTIONS = 200


def certify_devices(
    problem: Problem, schedule: Schedule, price: Array | None = None
) -> Certificate:
    """Return how close a schedule is to the optimum, as `certify` does for the paper's.

    Any prices beta_j >= 0 with the sum A prove a bound. They are `price`, or follow from the
    shares, beta_j = R a_j^2 / u_j - q_j, or from the training times where a bound of the clock is
    not active. Joules that no schedule can change are left out of the gap. `dual` is what a client
    could save by another training time at these prices, of the objective.
    """
    terms = Terms.of(problem)
    t, s = problem.cycles / schedule.freq, problem.band_time / schedule.share
    value = reached(terms, t, s)
    finish = terms.m + t + s
    H = finish.max(-1, keepdims=True)
    tight = (H - finish) <= 1e-6 * H
    gap = np.full(value.shape, np.inf)
    dual = gap.copy()
    for beta in _prices(terms, t, s, tight) if price is None else (price,):
        total = beta.sum(-1, keepdims=True)
        beta = beta * np.where(total > 0, terms.second[..., None] / np.maximum(total, 1e-300), 0.0)
        found = (value - dual_bound(terms, beta)) / value
        best = terms.training_time(beta)
        missed = (terms.value(t) - terms.value(best) + beta * (t - best)).max(-1) / value
        missed = np.maximum(missed, (beta / terms.second[..., None] * (1 - finish / H)).max(-1))
        better = found < gap
        gap, dual = np.where(better, found, gap), np.where(better, missed, dual)
    low, high, f = problem.freq_min, problem.freq_max, schedule.freq
    spare = 1 - schedule.share.sum(-1)
    excess = np.maximum(1 - f / low, f / high - 1).max(-1)
    return Certificate(
        primal=np.maximum(0, np.maximum(excess, -spare)) + 0.0,
        dual=np.maximum(dual, spare),
        gap=gap,
    )


def _prices(terms: Terms, t: Array, s: Array, tight: Array) -> tuple[Array, Array]:
    """Return prices from the shares, and these clipped to those of the training times."""
    slope = terms.u / s**2
    more, less = terms.savings(t)
    least = np.where(t >= terms.longest * (1 - 1e-9), 0.0, np.maximum(more, 0.0))
    most = np.where(t <= terms.shortest * (1 + 1e-9), np.inf, np.maximum(less, 0.0))
    nothing, no_limit = np.zeros_like(s), np.full_like(s, np.inf)
    return (
        _prices_at(terms, slope, np.where(tight, 1.0, 0.0), nothing, no_limit),
        _prices_at(terms, slope, np.ones_like(s), least, most),
    )


def _prices_at(terms: Terms, slope: Array, some: Array, least: Array, most: Array) -> Array:
    """Return clip(R u / s^2 - q, least, most) of `some` clients with R such that they sum to A."""
    scale = (terms.second[..., None] + terms.q.sum(-1, keepdims=True)) / slope.max(
        -1, keepdims=True
    )
    low, high = scale * 1e-30, scale * 1e30
    for _ in range(BISECTIONS):
        R = np.sqrt(low * high)
        beta = some * np.clip(R * slope - terms.q, least, most)
        few = beta.sum(-1, keepdims=True) < terms.second[..., None]
        low, high = np.where(few, R, low), np.where(few, high, R)
    return np.asarray(some * np.clip(high * slope - terms.q, least, most))
