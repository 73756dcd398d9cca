"""Numbers over seeds: means with intervals, paired differences, and runs that did not get there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array


@dataclass(frozen=True)
class RoundsEstimate:
    """Rounds to a target over seeds, of which some may not have got there in `cap` rounds.

    `mean` is the restricted mean, that of min(G, cap): all runs are cut at the same round, so
    it needs no model of what they would have done, and a run that did not get there counts as
    what it is, at least `cap`. Its interval is Student's, at 95 %.
    """

    mean: Estimate
    median: float  # infinite where fewer than half got there
    runs: int
    reached: int
    cap: int

    @property
    def censored(self) -> int:
        """Runs that did not get there."""
        return self.runs - self.reached


def estimate_rounds(found: Sequence[int | None], cap: int) -> RoundsEstimate:
    """Over seeds, from the rounds of each; None where it did not get there."""
    values = np.array([math.inf if g is None else g for g in found], float)
    median = float(np.sort(values)[(values.size - 1) // 2]) if values.size else math.nan
    return RoundsEstimate(
        mean=mean_estimate(np.minimum(values, cap)),
        median=median,
        runs=values.size,
        reached=int((values <= cap).sum()),
        cap=cap,
    )


def paired_difference(one: Sequence[int | None], other: Sequence[int | None], cap: int) -> Estimate:
    """The mean of one less the other, seed by seed, each cut at `cap`."""

    def cut(found: Sequence[int | None]) -> Array:
        return np.array([cap if g is None else min(g, cap) for g in found], float)

    return mean_estimate(cut(one) - cut(other))
