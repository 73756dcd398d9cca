"""Statistics over seeds: means with intervals, paired differences, censored runs."""

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
    """Rounds to a target over seeds; runs that miss it in `cap` rounds are censored.

    `mean` is the restricted mean, that of min(G, cap): all runs are cut at the same round, so it
    needs no model of later rounds, and a censored run counts as `cap`. Its interval is Student's,
    at 95 %.
    """

    mean: Estimate
    median: float  # infinite where fewer than half reached the target
    runs: int
    reached: int
    cap: int

    @property
    def censored(self) -> int:
        """Runs that did not reach the target."""
        return self.runs - self.reached


def estimate_rounds(rounds: Sequence[int | None], cap: int) -> RoundsEstimate:
    """Estimate rounds over seeds from those of each; None where a run missed the target."""
    values = np.array([math.inf if g is None else g for g in rounds], float)
    median = float(np.median(values)) if values.size else math.nan
    return RoundsEstimate(
        mean=mean_estimate(np.minimum(values, cap)),
        median=median,
        runs=values.size,
        reached=int((values <= cap).sum()),
        cap=cap,
    )


def cut_at(cap: int, rounds: Sequence[int | None]) -> Array:
    """Return the rounds of each seed; `cap` for those that missed the target."""
    return np.array([cap if g is None else min(g, cap) for g in rounds], float)


def rounds_of_mean_curve(curves: Sequence[Sequence[float]], target: Target) -> int | None:
    """Return the rounds until the mean over seeds of the loss, or accuracy, reaches a target; None
    if it never does.

    A run that ended before others, at its target, counts after that with the mean of the `hold`
    rounds that reached it. With a hold of 1 that would be the dip in which it ended: None.
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
    """Return the mean of curves y over x, and its 95 % interval: x, mean, low and high.

    A curve that ends before others continues at its last value. Whole x (rounds) are kept; others
    are interpolated at `points` places.
    """
    begin, end = max(x[0] for x in xs), max(x[-1] for x in xs)
    known = np.unique(np.concatenate(xs))
    at = known[known >= begin] if (known % 1 == 0).all() else np.linspace(begin, end, points)
    each = np.array([np.interp(at, x, y) for x, y in zip(xs, ys, strict=True)])
    estimates = [mean_estimate(column) for column in each.T]
    mean, low, high = np.array([(e.value, e.low, e.high) for e in estimates]).T
    return np.asarray(at, float), mean, low, high


def relative_change(each: Array, other: Array) -> Array:
    """Return the difference of two measures by seed, in parts of the second's mean.

    Seeds are the last dimension.
    """
    return np.asarray((each - other) / other.mean(-1, keepdims=True))


def values_of(runs: Iterable[Mapping[str, Any]], name: str) -> Array:
    """Return a column of runs, without unknown values."""
    return np.array([run[name] for run in runs if run.get(name) is not None], float)
