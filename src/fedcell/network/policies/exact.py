"""Exact splits in closed form or nearly: all finish together, and the optimum of (20).

`Optimal`, the exact minimiser of (22), has a file of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem, Schedule
from fedcell.network.trace import MANY

from .base import Broadcast
from .staged import staged_schedule

REFINEMENTS = 20  # of uploads that power limits act on


@dataclass(frozen=True)
class EqualFinish:
    """Frequencies as in `Distributed`, and the split of the band that ends the round soonest.

    >>> from fedcell.network import load_round
    >>> from fedcell.policies import Broadcast, price
    >>> problem = load_round("docs/round.json")
    >>> cost = price(problem, EqualFinish(Broadcast.among(problem))(problem))
    >>> (cost.compute_time + cost.upload_time).round(2).tolist()  # all finish together
    [27.26, 27.26, 27.26]
    """

    broadcast: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        f = self.broadcast.own_freq_in(problem)
        if problem.extras is not None:
            return _equal_finish_of_devices(problem, f)
        return Schedule(share=equal_finish(problem.band_time, problem.cycles / f), freq=f)


@dataclass(frozen=True)
class OptimalStaged:
    """The exact minimiser of (20): training and uploading as two stages (DECISIONS.md, 8).

    >>> from fedcell.network import load_round
    >>> from fedcell.policies import price
    >>> problem = load_round("docs/round.json")
    >>> price(problem, OptimalStaged()(problem)).upload_time.round(2).tolist()  # equally long
    [12.59, 12.59, 12.59]
    """

    def __call__(self, problem: Problem, /) -> Schedule:
        if problem.extras is not None:
            return staged_schedule(problem)
        u, c = problem.band_time, problem.cycles
        share = u / u.sum(-1, keepdims=True)  # all upload for equally long
        if np.array_equal(problem.freq_min, problem.freq_max):
            return Schedule(share=share, freq=problem.freq_min)
        T = staged_time(problem.effort, c / problem.freq_min)[..., None]
        T = np.maximum(T, (c / problem.freq_max).max(-1, keepdims=True))  # the slowest must manage
        return Schedule(share=share, freq=np.clip(c / T, problem.freq_min, problem.freq_max))


def staged_time(effort: Array, longest: Array) -> Array:
    """T of each round, (..., client) to (...): all train for T, but a client that reaches freq_min
    earlier, after `longest`, is done earlier and spends no less. T^3 = 2 sum of w_j over the
    clients that are still above freq_min at T."""
    if longest.shape[-1] > MANY:
        rows = (values.reshape(-1, values.shape[-1]) for values in (effort, longest))
        times = [_staged_time_of_many(w, t) for w, t in zip(*rows, strict=True)]
        return np.array(times).reshape(longest.shape[:-1])
    last = np.argsort(-longest, axis=-1)
    above = np.cbrt(2 * np.take_along_axis(effort, last, -1).cumsum(-1))
    return np.asarray(np.minimum(above, np.take_along_axis(longest, last, -1)).max(-1))


def _staged_time_of_many(effort: Array, longest: Array) -> float:
    """T of one round, where sorting all clients would take most of the time."""
    above_all = longest >= np.cbrt(2 * effort.sum())  # T is no longer: they are above freq_min
    sure = effort[above_all].sum()
    least = np.cbrt(2 * sure)  # T is no shorter: the others below it are not
    near = ~above_all & (longest >= least)
    last = np.argsort(-longest[near])
    above = np.cbrt(2 * (sure + effort[near][last].cumsum()))
    return float(np.minimum(above, longest[near][last]).max(initial=least))


def _equal_finish_of_devices(problem: Problem, freq: Array) -> Schedule:
    """The schedule with which all finish together; where power limits act, by making the uploads
    linear at the shares found before."""
    extras, u = problem.extras, problem.band_time
    assert extras is not None
    train = extras.memory_time + extras.latency + problem.cycles / freq
    share = equal_finish(u, train)
    if (limit := extras.limit) is None:
        return Schedule(share=share, freq=freq)
    for _ in range(REFINEMENTS):
        linear = limit.upload_time(share) * share
        at = np.sqrt(share * equal_finish(linear, train))
        share = at / at.sum(-1, keepdims=True)
    return Schedule(share=share, freq=freq)


def equal_finish(band_time: Array, compute_time: Array) -> Array:
    """The shares with which all clients finish together, which is as soon as can be.

    A client that trains for t_j has H - t_j to upload and needs the share u_j / (H - t_j);
    H is where the shares fill the band. They are written in e, the time that the last to
    train has left, so that nothing cancels. 1 / sum is concave in e, so Newton's steps
    from below never overshoot.
    """
    u = band_time
    lead = compute_time.max(-1, keepdims=True) - compute_time
    e = (u - lead).max(-1, keepdims=True)  # no share is above 1
    for _ in range(100):
        time = e + lead
        share = u / time
        total = share.sum(-1, keepdims=True)
        step = (total - 1) * total / (share / time).sum(-1, keepdims=True)
        e = e + step
        if (np.abs(step) <= 1e-15 * e).all():
            break
    share = u / (e + lead)
    return np.asarray(share / share.sum(-1, keepdims=True))
