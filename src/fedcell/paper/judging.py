"""What a sweep says of a sentence: held, not held, or inconclusive.

A claim that something is larger holds if the 95 % interval of the paired difference over seeds
says so, does not hold if it says the contrary, and is inconclusive otherwise. A claim that
something is small holds if the whole interval is small, and does not hold if none of it is.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array
from fedcell.experiments.statistics import cut_at
from fedcell.experiments.table import FIRST, HELD, Labels, SweepTable

LITTLE = 0.2  # a change of less than a fifth is a small one

SYMBOLS = {"clients.count": "N", "cell.loss_rate": "gamma", "plan.cohort": "K"}
SYMBOLS |= {"clients.spread": "Var"}
UNNAMED = ("variant", "policy")  # labels that say what they are

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
    """Rounds to the target, or another measure of a run, along an axis."""

    x: tuple[float, ...]
    each: Array  # (value, seed)

    @property
    def means(self) -> Array:
        """Over seeds."""
        return np.asarray(self.each.mean(1))

    def at(self, value: float) -> Array:
        """Of each seed, at a value of the axis."""
        return np.asarray(self.each[self.x.index(value)])


def series(table: SweepTable, axis: str, by: str = FIRST) -> dict[Labels, Series]:
    """Along an axis, by the labels of all others; points that lack a seed are left out.

    Rounds to a target that was not reached are cut at the cap.
    """
    found: dict[Labels, dict[float, Array]] = {}
    for labels, runs in table.points().items():
        here = dict(labels)
        if len(runs) < len(table.seeds) or axis not in here:
            continue
        values = [run.get(by) for run in runs]
        others = tuple((name, value) for name, value in labels if name != axis)
        cut = cut_at(table.rounds, values) if by in (FIRST, HELD) else np.array(values, float)
        found.setdefault(others, {})[float(here[axis])] = cut
    return {
        others: Series(tuple(sorted(values)), np.array([values[x] for x in sorted(values)]))
        for others, values in found.items()
    }


def larger(difference: Estimate) -> Outcome:
    """Whether a difference is above 0."""
    if difference.low > 0:
        return "held"
    return "not held" if difference.high < 0 else "inconclusive"


def opposite(difference: Estimate) -> Estimate:
    """The same with the other sign."""
    return Estimate(-difference.value, -difference.high, -difference.low, difference.level)


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
    words = [str(v) if k in UNNAMED else f"{SYMBOLS.get(k, k)} = {v}" for k, v in others]
    return ", ".join(words) or "everywhere"


def dataset(others: Labels) -> str:
    """The variant of a series, which in the paper's panels is its dataset."""
    return str(dict(others).get("variant", "everywhere"))
