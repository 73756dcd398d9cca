"""The paper's policies: the even baseline, and the distributed schedule with Theorem 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem, Schedule

from .base import Broadcast


@dataclass(frozen=True)
class Even:
    """The same band and the same frequency for all: the baseline of Sec. V-C.

    >>> from fedcell.network import load_round
    >>> from fedcell.policies import Broadcast
    >>> problem = load_round("docs/round.json")
    >>> Even(Broadcast.among(problem))(problem).share.round(2).tolist()
    [0.33, 0.33, 0.33]
    """

    broadcast: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        shape = problem.band_time.shape
        f = np.clip(self.broadcast.freq, problem.freq_min, problem.freq_max)
        return Schedule(share=np.full(shape, 1 / shape[-1]), freq=f)


@dataclass(frozen=True)
class Distributed:
    """Each client sets its own frequency, the server splits the band by Theorem 3: Sec. IV-C-2.

    Theorem 3 holds at the joint optimum of (22); with frequencies fixed by (26) it is a
    heuristic, and `EqualFinish` is the exact split (DECISIONS.md, 5).

    >>> from fedcell.network import load_round
    >>> from fedcell.policies import Broadcast
    >>> problem = load_round("docs/round.json")
    >>> Distributed(Broadcast.among(problem))(problem).share.round(2).tolist()
    [0.28, 0.41, 0.31]
    """

    broadcast: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        f = self.broadcast.own_freq_in(problem)
        return Schedule(share=theorem_3(problem, f), freq=f)


def theorem_3(problem: Problem, freq: Array) -> Array:
    """Return the split of the band (24), for given frequencies.

    kappa f^3 are watts; a processor with another exponent draws kappa f^alpha.
    """
    exponent = 3 if problem.extras is None else problem.extras.exponent
    # u_j stands for 1/r_j^0: they differ by a factor that cancels.
    root = np.sqrt(problem.kappa * freq**exponent * problem.band_time)
    return np.asarray(root / root.sum(-1, keepdims=True))
