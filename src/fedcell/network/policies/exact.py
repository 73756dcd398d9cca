"""Exact splits in closed form or nearly: all finish together, and the optimum of (20).

`Optimal`, the exact minimiser of (22), has a file of its own.
"""

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem, Schedule

from .base import Broadcast


@dataclass(frozen=True)
class EqualFinish:
    """Frequencies as in `Distributed`, and the split of the band that ends the round soonest.

    >>> from fedcell import Broadcast, load_round, price
    >>> problem = load_round("docs/round.json")
    >>> cost = price(problem, EqualFinish(Broadcast.among(problem))(problem))
    >>> (cost.compute_time + cost.upload_time).round(2).tolist()  # all finish together
    [27.26, 27.26, 27.26]
    """

    broadcast: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        f = self.broadcast.own_freq_in(problem)
        return Schedule(share=equal_finish(problem.band_time, problem.cycles / f), freq=f)


@dataclass(frozen=True)
class OptimalStaged:
    """The exact minimiser of (20): training and uploading as two stages (DECISIONS.md, 8).

    >>> from fedcell import load_round, price
    >>> problem = load_round("docs/round.json")
    >>> price(problem, OptimalStaged()(problem)).upload_time.round(2).tolist()  # equally long
    [12.59, 12.59, 12.59]
    """

    def __call__(self, problem: Problem, /) -> Schedule:
        u, c = problem.band_time, problem.cycles
        # All train for T, but who reaches freq_min earlier is done earlier and spends no less:
        # T^3 = 2 sum of w_j over the clients that are still above freq_min at T.
        longest = c / problem.freq_min
        last = np.argsort(-longest, axis=-1)
        above = np.cbrt(2 * np.take_along_axis(problem.effort, last, -1).cumsum(-1))
        T = np.minimum(above, np.take_along_axis(longest, last, -1)).max(-1, keepdims=True)
        T = np.maximum(T, (c / problem.freq_max).max(-1, keepdims=True))  # the slowest must manage
        return Schedule(
            share=u / u.sum(-1, keepdims=True),  # all upload for equally long
            freq=np.clip(c / T, problem.freq_min, problem.freq_max),
        )


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
