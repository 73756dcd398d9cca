"""Extrapolate a curve that has not reached its target: rounds that it needs at least."""

from collections.abc import Sequence
from math import inf

import numpy as np

from fedcell.core.types import Array
from fedcell.scenario.target import Target

MIN_ROUNDS = 30  # of a curve to extrapolate: many begin with a plateau
STEEPEST = 4.0  # standard errors that are added to the slope before a curve is given up
SETTLED = 3.0  # and before it counts as settled
EARLY = 1.5  # factor by which a curve may beat its line: some fall faster after a plateau
FLAT = 1e-6  # power of the round below which a curve does not fall
MIN_SETTLED_ROUNDS = 50  # of a curve that can count as settled


def least_rounds(values: Sequence[float] | Array, target: Target) -> float:
    """Return a lower bound of the rounds that a run needs to reach a target.

    The later half of the curve continues in a straight line, as steep as its errors allow. Most
    curves level off, so the line reaches the target first; the bound is lowered for those that do
    not. Infinite where the line does not fall.
    """
    known = _towards(values, target)
    if known.size < MIN_ROUNDS:
        return float(len(values))
    return max(float(len(values)), (len(values) + _more(known, target, STEEPEST)) / EARLY)


def likely_rounds(values: Sequence[float] | Array, target: Target) -> float:
    """Return the rounds after which a run is likely to reach a target: the later half of its curve
    continues as a power of the round, of the loss or of the error rate. Infinite where it does not
    fall, or is too short."""
    every = np.asarray(values, float)
    known = np.flatnonzero(np.isfinite(every))
    if known.size < MIN_ROUNDS:
        return inf
    late = known[known.size // 2 :]
    wanted, gap = float(target.gap(target.value)), target.gap(every[late])
    if wanted <= 0 or gap.min() <= 0:
        return inf
    t = np.log(late + 1.0)
    slope, level = np.polyfit(t, np.log(gap), 1)
    if slope > -FLAT:
        return inf
    there = (np.log(wanted) - level) / slope
    return float(max(len(values), np.exp(min(there, 50.0))))


def has_settled(values: Sequence[float] | Array, target: Target) -> bool:
    """Return whether a curve has settled short of its target: its later half does not fall, lies
    clearly above, and at its steepest would not reach it in as many rounds again."""
    known = _towards(values, target)
    if known.size < MIN_SETTLED_ROUNDS:
        return False
    late = known[known.size // 2 :]
    _, slope, error = _line(known, target)
    above = late.mean() - target.sign * target.value
    spread = late.std(ddof=1) / np.sqrt(late.size / target.hold)
    far = _more(known, target, SETTLED) > len(values)
    return bool(slope > -2 * error and above > SETTLED * spread and far)


def _towards(values: Sequence[float] | Array, target: Target) -> Array:
    """Return the evaluated rounds, signed so that lower is nearer to the target."""
    every = np.asarray(values, float)
    known = every[np.isfinite(every)]
    return target.towards(known)


def _more(known: Array, target: Target, sure: float) -> float:
    """Return the further rounds of a curve's line to the target, `sure` errors steeper."""
    gap, slope, error = _line(known, target)
    fall = -(slope - sure * error)
    return inf if fall <= 0 else max(0.0, gap) / fall


def _line(known: Array, target: Target) -> tuple[float, float, float]:
    """Return for the later half of a curve the gap of its line to the target at the end, the slope
    of the line, and the standard error of the slope."""
    late = known[known.size // 2 :]
    t = np.arange(late.size) - (late.size - 1) / 2
    slope = float(t @ late / (t @ t))
    rest = late - late.mean() - slope * t
    error = float(np.sqrt(rest @ rest / max(1, late.size - 2) / (t @ t)))
    # Residuals of neighbouring rounds are correlated: fewer of them are independent.
    alike = float(np.clip(rest[1:] @ rest[:-1] / max(float(rest @ rest), 1e-30), 0.0, 0.9))
    error *= float(np.sqrt((1 + alike) / (1 - alike)))
    wanted = target.sign * target.value
    return float(late.mean() + slope * t[-1] - wanted), slope, error
