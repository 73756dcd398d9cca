"""Power of choice: of d random candidates, the K with the largest losses.

Source: Cho, Wang and Joshi, "Towards Understanding Biased Client Selection in Federated Learning"
(AISTATS 2022), read in the authors' supplement (mlresearch/v151 c91155f, util_v4.py): d clients
without replacement by n_j, of these the K with the largest loss of the current model, plain mean.
`reported` is their rpow-d: it ranks by the loss that a client reported last, infinite before its
first round, and asks no candidate to evaluate anything. `adaptive` is adapow-d: d falls from N to K
by half every 5000 rounds (Ju and Choudhary's reproduction, ReScience, 2023).

Constants of the authors: Fashion-MNIST with N = 100, K = 3, d = 6, 9, 15; their quadratic has
N = 30, K = 3. The default here is d = 2 K, their smallest.

Here: the d candidates evaluate the model on all their samples, and their seconds and joules are
charged. rpow-d ranks by the mean loss of the model that a client received, over its samples, where
the authors take the mean over the batches of its training.

Elsewhere: FLGo (ea07f1d, also flgo 0.4.4) ranks the candidates and then indexes the list of all
clients; CSFL-simulator (8c37ce2) has .5 loss + .3 speed + .2 recency under this name.

On a quadratic as the authors' the rule is faster at first and ends higher: with d = 15 half of the
way takes 1561 rounds, not 2021, and the floor after 15000 is 13 times as high
(tests/network/selectors/test_claims.py). The reproduction finds the printed gain only for small
rates and few steps, and none for rpow-d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcell.network.selectors.base import Known, Race, check_positive, drawn_by, highest, surely


def _loudest(known: Known, candidates: int) -> Race:
    """Return the K of `candidates` random clients with the largest losses now."""
    pool = drawn_by(known, known.samples, max(candidates, known.cohort), 1)
    loss = np.full(known.count, -np.inf)
    loss[pool] = np.nan_to_num(known.evaluate(pool), nan=np.inf)
    return Race(surely(highest(known, loss, known.cohort), known.count))


@dataclass(frozen=True)
class PowerOfChoice:
    """pow-d.

    Parameters
    ----------
    candidates : int
        d; 0: twice K.
    """

    candidates: int = 0

    reads: ClassVar[tuple[str, ...]] = ("samples", "evaluate")
    aggregation: ClassVar[str] = "mean"

    def __call__(self, known: Known) -> Race:
        return _loudest(known, self.candidates or 2 * known.cohort)


@dataclass(frozen=True)
class PowerOfChoiceReported:
    """rpow-d: ranks by the losses that clients reported last.

    Parameters
    ----------
    candidates : int
        d; 0: twice K.
    """

    candidates: int = 0

    reads: ClassVar[tuple[str, ...]] = ("samples", "loss")
    aggregation: ClassVar[str] = "mean"

    def __call__(self, known: Known) -> Race:
        most = max(self.candidates or 2 * known.cohort, known.cohort)
        pool = drawn_by(known, known.samples, most, 1)
        loss = np.full(known.count, -np.inf)
        loss[pool] = np.nan_to_num(known.loss[pool], nan=np.inf)
        return Race(surely(highest(known, loss, known.cohort), known.count))


@dataclass(frozen=True)
class PowerOfChoiceAdaptive:
    """adapow-d: d falls from N to K.

    Parameters
    ----------
    every : int
        Rounds after which d is halved.
    """

    every: int = 5000

    reads: ClassVar[tuple[str, ...]] = ("samples", "evaluate")
    aggregation: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        check_positive(self, "every")

    def __call__(self, known: Known) -> Race:
        return _loudest(known, known.count >> min(known.round // self.every, 62))
