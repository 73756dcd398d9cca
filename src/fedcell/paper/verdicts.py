"""Verdicts of a sweep on a claim: held, not held, or inconclusive.

A claim that something is larger holds if the 95 % interval of the paired difference over seeds
is above 0, does not hold if it is below 0, and is inconclusive otherwise. A claim that something is
small holds if the whole interval is small, and does not hold if none of it is. If more than a tenth
of the compared runs missed their target, their rounds are unknown, and the verdict is inconclusive.
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

LITTLE = 0.2  # a smaller relative change is small
PROPORTIONAL = 0.1  # relative error up to which values are in proportion
FITS = 0.15  # largest relative error of a law that fits
MIN_SEEDS = 3  # for an interval over resampled seeds
MAX_CUT = 0.1  # share of runs without their target, above which rounds are not compared

SYMBOLS = {"clients.count": "N", "cell.loss_rate": "gamma", "plan.cohort": "K"}
SYMBOLS |= {"clients.spread": "Var"}
UNNAMED = ("variant", "policy")  # labels that are shown without their key
Outcome = Literal["held", "not held", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a claim for one dataset or number of clients.

    Attributes
    ----------
    claim : str
        What the paper says.
    where : str
        The dataset or setting.
    outcome : {"held", "not held", "inconclusive"}
        The verdict.
    number : str
        The numbers that it rests on, in words.
    """

    claim: str
    where: str
    outcome: Outcome
    number: str


@dataclass(frozen=True)
class Series:
    """Rounds to the target, or another measure of a run, along an axis."""

    x: tuple[float, ...]
    each: Array  # (value, seed); the cap for runs that missed the target
    cut: Ints  # runs at each value that missed the target

    @property
    def means(self) -> Array:
        """Means over seeds, (value,)."""
        return np.asarray(self.each.mean(1))

    def at(self, value: float) -> Array:
        """Return the measure of each seed at a value of the axis."""
        return np.asarray(self.each[self.x.index(value)])

    def known(self, *places: int) -> bool:
        """Return whether nearly all runs reached the target, at some values or at all."""
        chosen = self.cut[list(places)] if places else self.cut
        return bool((chosen <= MAX_CUT * self.each.shape[1]).all())

    @property
    def cut_note(self) -> str:
        """The number of cut runs, to append to a number; empty if none was cut."""
        return f"; {self.cut.sum()} of {self.each.size} runs were cut" if self.cut.any() else ""


def series(table: SweepTable, axis: str, by: str = FIRST) -> dict[Labels, Series]:
    """Return curves along an axis, by the labels of the other axes, without incomplete points."""
    points_of: dict[Labels, dict[float, tuple[Array, int]]] = {}
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
        points_of.setdefault(others, {})[float(here[axis])] = point
    return {
        others: Series(
            tuple(sorted(points)),
            np.array([points[x][0] for x in sorted(points)]),
            np.array([points[x][1] for x in sorted(points)]),
        )
        for others, points in points_of.items()
        if len(points) > 1
    }


def asked_number(table: SweepTable, name: str, key: str) -> float:
    """Return a number of the sweep's scenario, such as plan.local_steps."""
    inside = table.about.get("asked", {}).get(name, {})
    value = inside.get(key) if isinstance(inside, dict) else None
    if not isinstance(value, int | float):
        raise BadInput(f"the sweep does not say which {name}.{key} was asked for")
    return float(value)


def larger(difference: Estimate) -> Outcome:
    """Return whether a difference is above 0."""
    if difference.low > 0:
        return "held"
    return "not held" if difference.high < 0 else "inconclusive"


def opposite(difference: Estimate) -> Estimate:
    """Return an estimate with the other sign."""
    return Estimate(-difference.value, -difference.high, -difference.low, difference.level)


def small(change: Estimate, bound: float = LITTLE) -> Outcome:
    """Return whether a relative change is between -bound and bound."""
    if max(abs(change.low), abs(change.high)) <= bound:
        return "held"
    outside = change.low > bound or change.high < -bound
    return "not held" if outside else "inconclusive"


def all_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a claim about several cases."""
    if "not held" in outcomes:
        return "not held"
    return "inconclusive" if "inconclusive" in outcomes or not outcomes else "held"


def unless_cut(outcome: Outcome, known: bool) -> Outcome:
    """Return an outcome, or inconclusive if too many runs missed the target."""
    return outcome if known else "inconclusive"


def percent(change: Estimate) -> str:
    """Return a relative change with its interval, as text."""
    if np.isnan(change.low):
        return f"{100 * change.value:+.0f} %"
    return f"{100 * change.value:+.0f} % ({100 * change.low:+.0f} to {100 * change.high:+.0f})"


def change(one: Array, other: Array) -> Estimate:
    """Return the change from `other` to `one`, relative to the mean of `other`."""
    return mean_estimate(relative_change(one, other))


def chosen_by_others(curve: Series, places: Sequence[int], best: Literal["least", "most"]) -> Ints:
    """Return for each seed the place at which the mean of the other half of the seeds is best.

    A place chosen on some runs is not evaluated on the same runs.
    """
    seeds = np.arange(curve.each.shape[1])
    picked = np.empty(seeds.size, int)
    for half in (0, 1):
        of_others = seeds % 2 != half
        others = curve.each[list(places)][:, of_others if of_others.any() else ~of_others].mean(1)
        place = others.argmin() if best == "least" else others.argmax()
        picked[seeds % 2 == half] = places[int(place)]
    return picked


def over_resamples(values: Array, seeds: int) -> Estimate:
    """Return a 95 % interval over resampled seeds; only a median with fewer than MIN_SEEDS."""
    if seeds < MIN_SEEDS:
        return Estimate(float(np.median(values)), level=0.95)
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(float(np.median(values)), float(low), float(high), 0.95)


def where(others: Labels) -> str:
    """Return the labels of a curve in words."""
    words = [str(v) if k in UNNAMED else f"{SYMBOLS.get(k, k)} = {v}" for k, v in others]
    return ", ".join(words) or "everywhere"


def dataset(others: Labels) -> str:
    """Return the variant of a curve, which is its dataset in the paper's panels."""
    return str(dict(others).get("variant", "everywhere"))
