"""By data size. Three rules are called "weighted"; they differ, and are named apart here.

| name | draws | uploads count | mean of the aggregate |
|---|---|---|---|
| `weighted` | K by n_j, with replacement | alike | that of all clients |
| `by-data` | K by n_j, without replacement | by n_j | biased to large clients |
| `by-data-unbiased` | p_j = min(1, c n_j), sum p = K | by n_j / p_j | that of all clients |

Sources: `weighted` is scheme I of Li et al. (ICLR 2020) and the baseline "rand" of the authors of
power-of-choice (mlresearch/v151, util_v4.py). The third is FLSim's (7311f2d), which draws
independent Bernoulli(K n_j / n), so that the cohort has a random size, and draws again up to ten
times if it is empty. We draw exactly K by systematic sampling with the same probabilities, as a
cell needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcell.network.selectors.base import Chances, Known, Race
from fedcell.network.selectors.drawing import in_proportion


@dataclass(frozen=True)
class ByData:
    """K clients without replacement, in proportion to n_j."""

    reads: ClassVar[tuple[str, ...]] = ("samples",)
    keeps: ClassVar[bool] = False

    def __call__(self, known: Known) -> Race:
        return Race(known.samples)


@dataclass(frozen=True)
class ByDataUnbiased:
    """K clients with probabilities in proportion to n_j, 1 at most; uploads count by n_j / p_j."""

    reads: ClassVar[tuple[str, ...]] = ("samples",)
    keeps: ClassVar[bool] = False

    def __call__(self, known: Known) -> Chances:
        return Chances(in_proportion(np.where(known.may, known.samples, 0.0), known.size))
