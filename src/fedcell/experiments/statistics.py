"""Numbers over seeds: means with intervals, paired differences, and runs that did not get there."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array
from fedcell.scenario.target import Target


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
    median = float(np.median(values)) if values.size else math.nan
    return RoundsEstimate(
        mean=mean_estimate(np.minimum(values, cap)),
        median=median,
        runs=values.size,
        reached=int((values <= cap).sum()),
        cap=cap,
    )


def cut_at(cap: int, found: Sequence[int | None]) -> Array:
    """Rounds of each seed, those that did not get there as `cap`."""
    return np.array([cap if g is None else min(g, cap) for g in found], float)


def rounds_of_mean_curve(curves: Sequence[Sequence[float]], target: Target) -> int | None:
    """Rounds until the mean over seeds of the loss, or accuracy, is at a target; None if it never
    is.

    A run that ended before others, its target reached, goes on at the mean of the rounds that
    reached it. Where one round does, that would be the dip in which it ended, so nothing is said.
    """
    if not curves or not all(len(curve) for curve in curves):
        return None
    if target.hold == 1 and len({len(curve) for curve in curves}) > 1:
        return None
    longest = max(len(curve) for curve in curves)
    whole = np.empty((len(curves), longest))
    for row, curve in zip(whole, curves, strict=True):
        row[: len(curve)] = curve
        row[len(curve) :] = np.mean(curve[-target.hold :])
    return replace(target, hold=1).reached(whole.mean(0))


def mean_band(
    xs: Sequence[Array], ys: Sequence[Array], points: int
) -> tuple[Array, Array, Array, Array]:
    """The mean of curves y over x, and its 95 % interval: x, mean, low and high.

    A curve that ends before others goes on at its last value. Whole x (rounds) are kept as they
    are, others are taken at so many `points`.
    """
    begin, end = max(x[0] for x in xs), max(x[-1] for x in xs)
    known = np.unique(np.concatenate(xs))
    at = known[known >= begin] if (known % 1 == 0).all() else np.linspace(begin, end, points)
    each = np.array([np.interp(at, x, y) for x, y in zip(xs, ys, strict=True)])
    found = [mean_estimate(column) for column in each.T]
    mean, low, high = np.array([(e.value, e.low, e.high) for e in found]).T
    return np.asarray(at, float), mean, low, high


def relative_change(each: Array, other: Array) -> Array:
    """How much larger a measure is than another, seed by seed, in parts of the other's mean.

    Seeds are the last dimension.
    """
    return np.asarray((each - other) / other.mean(-1, keepdims=True))


def values_of(runs: Iterable[Mapping[str, Any]], name: str) -> Array:
    """A column of some runs, where it is known."""
    return np.array([run[name] for run in runs if run.get(name) is not None], float)
