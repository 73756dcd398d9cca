"""What a sweep says of a sentence: held, not held, or inconclusive.

A claim that something is larger holds if the 95 % interval of the paired difference over seeds
says so, does not hold if it says the contrary, and is inconclusive otherwise. A claim that
something is small holds if the whole interval is small, and does not hold if none of it is.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.targets import rounds_to
from fedcell.core.types import Array
from fedcell.experiments.sweep import SweepResult

LITTLE = 0.2  # a change of less than a fifth is a small one

SYMBOLS = {"clients.count": "N", "cell.loss_rate": "gamma", "plan.cohort": "K"}

Labels = tuple[tuple[str, Any], ...]  # by axis
Outcome = Literal["held", "not held", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found of a sentence, in one place: a dataset, or a number of clients."""

    claim: str
    where: str
    outcome: Outcome
    number: str  # that it rests on, in words


@dataclass(frozen=True)
class Series:
    """Rounds to the target along an axis: (value, seed), those not there cut at the cap."""

    x: tuple[float, ...]
    rounds: Array  # (value, seed)

    @property
    def means(self) -> Array:
        """Over seeds."""
        return np.asarray(self.rounds.mean(1))

    def at(self, value: float) -> Array:
        """Of each seed, at a value of the axis."""
        return np.asarray(self.rounds[self.x.index(value)])


def series(result: SweepResult, axis: str, hold: int = 1) -> dict[Labels, Series]:
    """Along an axis, by the labels of all others; points that lack a seed are left out."""
    found: dict[Labels, dict[float, list[float]]] = {}
    cap = result.experiment.rounds
    for i, point in enumerate(result.experiment.points):
        target = point.until(cap, 1).target
        curves = result.curves_of(i)
        if target is None or len(curves) < len(result.experiment.seeds):
            continue
        others = tuple((name, value) for name, value in point.labels.items() if name != axis)
        times = [rounds_to(curve.train_loss, target, hold) for curve in curves]
        cut = [float(cap if g is None else min(g, cap)) for g in times]
        found.setdefault(others, {})[float(point.labels[axis])] = cut
    return {
        others: Series(tuple(sorted(values)), np.array([values[x] for x in sorted(values)]))
        for others, values in found.items()
    }


def larger(difference: Estimate) -> Outcome:
    """Whether a difference is above 0."""
    if difference.low > 0:
        return "held"
    return "not held" if difference.high < 0 else "inconclusive"


def small(change: Estimate, bound: float = LITTLE) -> Outcome:
    """Whether a relative change is between -bound and bound."""
    if max(abs(change.low), abs(change.high)) <= bound:
        return "held"
    inside = change.low <= bound and change.high >= -bound
    return "inconclusive" if inside else "not held"


def percent(change: Estimate) -> str:
    """A relative change with its interval."""
    return f"{100 * change.value:+.0f} % ({100 * change.low:+.0f} to {100 * change.high:+.0f})"


def change(one: Array, other: Array) -> Estimate:
    """Of the first against the second, in parts of the second's mean."""
    return mean_estimate((one - other) / other.mean())


def where(others: Labels) -> str:
    """The labels of a series in words."""
    words = [v if k == "variant" else f"{SYMBOLS.get(k, k)} = {v}" for k, v in others]
    return ", ".join(words) or "everywhere"


def dataset(others: Labels) -> str:
    """The variant of a series, which in the paper's panels is its dataset."""
    return str(dict(others).get("variant", "everywhere"))
