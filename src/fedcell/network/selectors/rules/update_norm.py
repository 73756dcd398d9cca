"""Selection by the length of updates: best norm, and optimal client sampling.

Best norm: BN2 and BC-BN2 of Amiri, Gunduz, Kulkarni and Poor (IEEE TWC 2021, arXiv 2001.10402):
all candidates train, and the K longest updates are uploaded; with `candidates` = K_c, only the K_c
best channels train. K_c = K is best channel.

Optimal client sampling: Chen, Horvath and Richtarik (arXiv 2010.13723), read in the authors' code
(FL-optimal-client-sampling baa73e8). With u_j = w_j |U_j|, the probabilities that minimise the
variance of the unbiased estimate are min(1, c u_j), sum p = m. Their code has the distributed form
AOCS; four of its sweeps equal these.

Here: exactly K clients by systematic sampling, where the authors draw independent Bernoulli(p_j)
and a random number; and clients that train in vain are charged. The authors draw a pool of n first
(`candidates`), and m of it.

`best-norm-reported` ranks by the update that a client uploaded last, infinite before its first
round: no client trains in vain. It is the same idea without the cost, and no published rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcell.network.selectors.base import (
    Chances,
    Known,
    Race,
    best,
    drawn_by,
    highest,
)
from fedcell.network.selectors.drawing import in_proportion


@dataclass(frozen=True)
class BestNorm:
    """BN2, or BC-BN2 with K_c candidates.

    Parameters
    ----------
    candidates : int
        K_c clients with the best channels that train; 0: all.
    """

    candidates: int = 0

    reads: ClassVar[tuple[str, ...]] = ("gain", "train")

    def __call__(self, known: Known) -> Race:
        most = max(self.candidates, known.cohort) if self.candidates else known.count
        pool = np.sort(highest(known, known.gain, most))
        norm = np.full(known.count, -np.inf)
        norm[pool] = np.nan_to_num(known.train(pool), nan=0.0, posinf=0.0)
        return best(known, norm)


@dataclass(frozen=True)
class BestNormReported:
    """The K largest updates of the last time that clients uploaded."""

    reads: ClassVar[tuple[str, ...]] = ("norm",)

    def __call__(self, known: Known) -> Race:
        return best(known, np.nan_to_num(known.norm, nan=np.inf))


@dataclass(frozen=True)
class OptimalSampling:
    """Probabilities in proportion to the length of the weighted update.

    Parameters
    ----------
    candidates : int
        n, size of the pool that trains, drawn uniformly; 0: all.
    """

    candidates: int = 0

    reads: ClassVar[tuple[str, ...]] = ("samples", "train")

    def __call__(self, known: Known) -> Chances:
        there = int(np.count_nonzero(known.may))
        n = min(there, max(self.candidates, known.cohort)) if self.candidates else there
        pool = np.sort(drawn_by(known, np.ones(known.count), n, 1))
        u = np.zeros(known.count)
        u[pool] = known.samples[pool] * np.nan_to_num(known.train(pool), posinf=0.0)
        if pool.size and not u.any():  # at an optimum of all clients
            u[pool] = known.samples[pool]
        p = in_proportion(u, known.size)
        return Chances(p, pool=n / there if there else 1.0)
