"""The exact minimiser of (20) with declared radios and devices: two stages, each with one price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcell.core.types import Array
from fedcell.network.physics.terms import Terms
from fedcell.network.round import Problem, Schedule, price

from .general import linear_uploads, training_times

REFINEMENTS = 4  # of uploads that power limits act on


def staged_schedule(problem: Problem) -> Schedule:
    """Return the schedule that minimises (20); where power limits act, the cheapest of those with
    uploads made linear at some shares.

    Training: a second of the stage costs 1 + l sum P_idle. Its length T is where the savings of
    those that train until T sum to that; the others train for their own best time, t = ((alpha - 1)
    l kappa c^alpha / (l P_busy - l P_idle))^(1 / alpha), within the bounds of their clocks.
    """
    extras, weight, c = problem.extras, problem.energy_weight, problem.cycles
    assert extras is not None
    each = weight if extras.summed else weight / problem.clients
    terms = replace(
        Terms.of(problem),
        b=each * (extras.busy_power - extras.idle_power),
        second=1 + each * extras.idle_power.sum(-1),
    )
    t = training_times(terms, np.zeros(c.shape))
    freq = np.clip(c / t, problem.freq_min, problem.freq_max)
    if (limit := extras.limit) is None:
        return Schedule(_shares(problem, problem.band_time, extras.send_power, each), freq)
    start = np.full(c.shape, 1 / problem.clients)
    best = Schedule(start, freq)
    cost = price(problem, best).upload_cost
    for _ in range(REFINEMENTS):
        u, send = linear_uploads(extras, limit, start)
        share = _shares(problem, u, send, each)
        its_cost = price(problem, Schedule(share, freq)).upload_cost
        best = Schedule(np.where((its_cost < cost)[..., None], share, best.share), freq)
        cost = np.minimum(cost, its_cost)
        start = np.sqrt(start * share)  # half of the way, in logarithms
        start = start / start.sum(-1, keepdims=True)
    return best


def _shares(problem: Problem, u: Array, send_power: Array, each: float) -> Array:
    """Return the shares of the upload stage: all upload until its end S, but those that save by an
    earlier end: s_j = min(S, sqrt(R u_j / q_j)).

    With S = x sqrt(R) the prices of those that last until S, sum u_j / x^2 - q_j, sum to the price
    of a second. These are the first k in the order of u_j / q_j: any other k has a smaller x.
    """
    extras = problem.extras
    assert extras is not None
    q = problem.energy_weight * send_power - each * extras.done_power
    second = 1 + each * extras.done_power.sum(-1, keepdims=True)
    with np.errstate(all="ignore"):
        own = np.sqrt(u / q)  # infinite where q = 0
    last = np.argsort(-own, axis=-1)
    of_u, of_q = (np.take_along_axis(values, last, -1).cumsum(-1) for values in (u, q))
    x = np.sqrt((of_u / (second + of_q)).max(-1, keepdims=True))
    share = u / np.minimum(x, own)
    return np.asarray(share / share.sum(-1, keepdims=True))
