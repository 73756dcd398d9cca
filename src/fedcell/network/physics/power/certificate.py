"""Certificates of schedules that choose transmit powers."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Certificate, Problem, Schedule

from .problem import FreePower


def certify_power(
    problem: Problem,
    power: FreePower,
    schedule: Schedule,
    prices: tuple[Array, Array],
    length: Array | None = None,
) -> Certificate:
    """Return how far a schedule with transmit powers is from the optimum at the most; with a
    `length`, from that of rounds that may be as long.

    Any prices beta of being done by H and R of band prove a bound, wherever they come from.
    """
    beta, R = prices
    value = power.value(*power.chosen(problem, schedule), length)
    if length is None:
        bound, _ = power.bound(_complete(power, beta), R)
    else:  # H is no variable: the prices need not sum to A
        bound, _ = power.bound(beta, R)
        bound = bound + (power.terms.second - beta.sum(-1)) * length
    low, high, f = problem.freq_min, problem.freq_max, schedule.freq
    spare = 1 - schedule.share.sum(-1)
    excess = np.maximum(1 - f / low, f / high - 1).max(-1)
    return Certificate(
        primal=np.maximum(0, np.maximum(excess, -spare)) + 0.0,  # no -0.0
        dual=np.abs(R * spare / value),  # band has a price, or some is left over
        gap=np.asarray((value - bound) / value),
    )


def _complete(power: FreePower, beta: Array) -> Array:
    """Return prices that sum to A: where they are too low, the round is as short as it can be, and
    the client that makes it so pays the rest."""
    terms = power.terms
    A, total = terms.second[..., None], beta.sum(-1, keepdims=True)
    shortest = terms.m + terms.shortest + power.floor
    last = np.arange(beta.shape[-1]) == shortest.argmax(-1)[..., None]
    missing = np.where(total < A * (1 - 1e-9), A - total, 0.0)
    beta = np.where(last, beta + missing, beta)
    return np.asarray(beta * (A / beta.sum(-1, keepdims=True)))
