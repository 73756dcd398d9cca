"""What a sweep says of a sentence: held, not held, or inconclusive.

A claim that something is larger holds if the 95 % interval of the paired difference over seeds
says so, does not hold if it says the contrary, and is inconclusive otherwise. A claim that
something is small holds if the whole interval is small, and does not hold if none of it is. Where
more than a tenth of the runs that are compared did not get to their target, their rounds are not
known, and nothing is concluded from what they were cut at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array, Ints
from fedcell.experiments.statistics import cut_at, relative_change
from fedcell.experiments.table import FIRST, HELD, Labels, SweepTable

LITTLE = 0.2  # a change of less than a fifth is a small one
PROPORTIONAL = 0.1  # what is said to be in proportion may be so far off
FITS = 0.15  # a law that is nowhere further off fits
FEW = 3  # seeds, below which resampling them says nothing
CUT = 0.1  # share of runs without their target, above which rounds are not compared

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
    each: Array  # (value, seed); rounds of runs that did not get there are the cap
    cut: Ints  # runs at each value that did not get there

    @property
    def means(self) -> Array:
        """Over seeds."""
        return np.asarray(self.each.mean(1))

    def at(self, value: float) -> Array:
        """Of each seed, at a value of the axis."""
        return np.asarray(self.each[self.x.index(value)])

    def known(self, *places: int) -> bool:
        """Whether nearly all runs at some values, or at all, got there."""
        chosen = self.cut[list(places)] if places else self.cut
        return bool((chosen <= CUT * self.each.shape[1]).all())

    @property
    def told(self) -> str:
        """How many runs were cut, as an appendix to a number."""
        return f"; {self.cut.sum()} of {self.each.size} runs were cut" if self.cut.any() else ""


def series(table: SweepTable, axis: str, by: str = FIRST) -> dict[Labels, Series]:
    """Along an axis, by the labels of all others; points that lack a seed are left out."""
    found: dict[Labels, dict[float, tuple[Array, int]]] = {}
    for labels, runs in table.points().items():
        here = dict(labels)
        if len(runs) < len(table.seeds) or axis not in here:
            continue
        values = [run.get(by) for run in runs]
        others = tuple((name, value) for name, value in labels if name != axis)
        if by in (FIRST, HELD):
            point = cut_at(table.rounds, values), values.count(None)
        else:
            point = np.array(values, float), 0
        found.setdefault(others, {})[float(here[axis])] = point
    return {
        others: Series(
            tuple(sorted(points)),
            np.array([points[x][0] for x in sorted(points)]),
            np.array([points[x][1] for x in sorted(points)]),
        )
        for others, points in found.items()
        if len(points) > 1
    }


def asked_number(table: SweepTable, name: str, key: str) -> float:
    """A number that was asked for, as plan.local_steps."""
    inside = table.about.get("asked", {}).get(name, {})
    value = inside.get(key) if isinstance(inside, dict) else None
    if not isinstance(value, int | float):
        raise BadInput(f"the sweep does not say which {name}.{key} was asked for")
    return float(value)


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
    outside = change.low > bound or change.high < -bound
    return "not held" if outside else "inconclusive"


def all_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Of a sentence that says the same of several."""
    if "not held" in outcomes:
        return "not held"
    return "inconclusive" if "inconclusive" in outcomes or not outcomes else "held"


def unless_cut(outcome: Outcome, known: bool) -> Outcome:
    """Nothing is concluded from runs of which too many did not get there."""
    return outcome if known else "inconclusive"


def percent(change: Estimate) -> str:
    """A relative change with its interval."""
    if np.isnan(change.low):
        return f"{100 * change.value:+.0f} %"
    return f"{100 * change.value:+.0f} % ({100 * change.low:+.0f} to {100 * change.high:+.0f})"


def change(one: Array, other: Array) -> Estimate:
    """Of the first against the second, in parts of the second's mean."""
    return mean_estimate(relative_change(one, other))


def chosen_by_others(found: Series, places: Sequence[int], best: Literal["least", "most"]) -> Ints:
    """For each seed, the place where the mean of the other half of the seeds is least, or most:
    what is chosen on some runs is not judged by the same."""
    seeds = np.arange(found.each.shape[1])
    picked = np.empty(seeds.size, int)
    for half in (0, 1):
        of_others = seeds % 2 != half
        others = found.each[list(places)][:, of_others if of_others.any() else ~of_others].mean(1)
        place = others.argmin() if best == "least" else others.argmax()
        picked[seeds % 2 == half] = places[int(place)]
    return picked


def over_resamples(values: Array, seeds: int) -> Estimate:
    """Over resampled seeds, at 95 %; without an interval where there are too few to resample."""
    if seeds < FEW:
        return Estimate(float(np.median(values)), level=0.95)
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(float(np.median(values)), float(low), float(high), 0.95)


def where(others: Labels) -> str:
    """The labels of a series in words."""
    words = [str(v) if k in UNNAMED else f"{SYMBOLS.get(k, k)} = {v}" for k, v in others]
    return ", ".join(words) or "everywhere"


def dataset(others: Labels) -> str:
    """The variant of a series, which in the paper's panels is its dataset."""
    return str(dict(others).get("variant", "everywhere"))
