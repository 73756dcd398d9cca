"""What a loss curve that is not there yet says of the rounds that it will take."""

from collections.abc import Sequence
from math import inf

import numpy as np

from fedcell.core.types import Array
from fedcell.scenario.target import Target

FEWEST = 30  # rounds before which a curve says nothing: many begin with a plateau
SURE = 4.0  # standard errors that are given to a curve before it is given up
SETTLED = 3.0  # and before it is taken to rest
EARLY = 1.5  # times that a curve may be earlier than its line: some fall faster after a plateau
FLAT = 1e-6  # power of the round below which a curve does not fall
LONG = 50  # rounds before which nobody says that a curve has settled


def least_rounds(values: Sequence[float] | Array, target: Target) -> float:
    """Rounds that a run which has not reached a target takes at least, as far as one can tell.

    The later half of the curve goes on in a straight line, as steep as it may be by its errors;
    most curves level off, so the line is there before they are, and what it says is shortened for
    those that do not. Infinite where the line does not fall.
    """
    known = _towards(values, target)
    if known.size < FEWEST:
        return float(len(values))
    return max(float(len(values)), (len(values) + _more(known, target, SURE)) / EARLY)


def likely_rounds(values: Sequence[float] | Array, target: Target) -> float:
    """Rounds after which a run that has not reached a target is likely to be there: the later half
    of its curve continues as a power of the round, of the loss or of the share of errors. Infinite
    where it does not fall, or is too short to tell."""
    every = np.asarray(values, float)
    known = np.flatnonzero(np.isfinite(every))
    if known.size < FEWEST:
        return inf
    late = known[known.size // 2 :]
    wanted = target.value if target.accuracy is None else 1 - target.value
    gap = every[late] if target.accuracy is None else 1 - every[late]
    if wanted <= 0 or gap.min() <= 0:
        return inf
    t = np.log(late + 1.0)
    slope, level = np.polyfit(t, np.log(gap), 1)
    if slope > -FLAT:
        return inf
    there = (np.log(wanted) - level) / slope
    return float(max(len(values), np.exp(min(there, 50.0))))


def has_settled(values: Sequence[float] | Array, target: Target) -> bool:
    """Whether a curve has come to rest short of its target: its later half does not fall, lies
    clearly above, and as steep as it may be would not be there in as many rounds again."""
    known = _towards(values, target)
    if known.size < LONG:
        return False
    late = known[known.size // 2 :]
    _, slope, error = _line(known, target)
    above = late.mean() - target.value * (1 if target.accuracy is None else -1)
    spread = late.std(ddof=1) / np.sqrt(late.size / target.hold)
    far = _more(known, target, SETTLED) > len(values)
    return bool(slope > -2 * error and above > SETTLED * spread and far)


def _towards(values: Sequence[float] | Array, target: Target) -> Array:
    """The evaluated rounds, so that lower is nearer to the target."""
    every = np.asarray(values, float)
    known = every[np.isfinite(every)]
    return np.asarray(known if target.accuracy is None else -known)


def _more(known: Array, target: Target, sure: float) -> float:
    """Rounds more until the line of a curve is at the target, so many errors steeper than it is."""
    gap, slope, error = _line(known, target)
    fall = -(slope - sure * error)
    return inf if fall <= 0 else max(0.0, gap) / fall


def _line(known: Array, target: Target) -> tuple[float, float, float]:
    """Of the later half of a curve: how far above the target its line ends, its slope, and the
    error of that."""
    late = known[known.size // 2 :]
    t = np.arange(late.size) - (late.size - 1) / 2
    slope = float(t @ late / (t @ t))
    rest = late - late.mean() - slope * t
    error = float(np.sqrt(rest @ rest / max(1, late.size - 2) / (t @ t)))
    # What is off in one round is often off in the next: fewer of them are independent.
    alike = float(np.clip(rest[1:] @ rest[:-1] / max(float(rest @ rest), 1e-30), 0.0, 0.9))
    error *= float(np.sqrt((1 + alike) / (1 - alike)))
    wanted = target.value if target.accuracy is None else -target.value
    return float(late.mean() + slope * t[-1] - wanted), slope, error
