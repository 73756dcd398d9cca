"""Verdicts of a sweep on a claim: held, not held, or inconclusive; and whether the effect is small.

A claim that something is larger holds if the 95 % interval of the paired difference over seeds
is above 0, does not hold if it is below 0, and is inconclusive otherwise. A claim that something is
small holds if the whole interval is small, and does not hold if none of it is. A note says what the
outcome alone would hide: an effect that is significant but small, or small but significant. If more
than a tenth of the compared runs missed their target, their rounds are unknown, and the verdict is
inconclusive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array, Ints
from fedcell.experiments.statistics import cut_at, relative_change
from fedcell.experiments.table import FIRST, HELD, Labels, SweepTable

LITTLE = 0.2  # a smaller relative change is little
RELEVANT = 0.1  # a significant change is small if its whole interval is below
PROPORTIONAL = 0.1  # relative error up to which values are in proportion
FITS = 0.15  # largest relative error of a law that fits
MIN_SEEDS = 3  # for an interval over resampled seeds
MAX_CUT = 0.1  # share of runs without their target, above which rounds are not compared

SYMBOLS = {"clients.count": "N", "cell.loss_rate": "gamma", "plan.cohort": "K"}
SYMBOLS |= {"clients.spread": "Var"}
UNNAMED = ("variant", "policy")  # labels that are shown without their key
Outcome = Literal["held", "not held", "inconclusive"]
NO_SIZE = "no size"  # of an effect that the paper states without one


@dataclass(frozen=True)
class Effect:
    """A change over seeds, such as a relative difference: an estimate with its standard error."""

    interval: Estimate  # 95 %
    error: float = float("nan")  # standard error; NaN with one seed
    freedom: int = 0  # degrees of freedom of Student's distribution

    def beyond(self, bound: float) -> float:
        """Return p of the change above a bound: one-sided, by Student's distribution."""
        from scipy.special import stdtr

        if self.freedom < 1 or np.isnan(self.error):
            return 1.0
        if self.error == 0:
            return 0.0 if self.interval.value > bound else 1.0
        return float(stdtr(self.freedom, (bound - self.interval.value) / self.error))

    @property
    def opposite(self) -> "Effect":
        """The effect with the other sign."""
        same = self.interval
        turned = Estimate(-same.value, -same.high, -same.low, same.level)
        return replace(self, interval=turned)

    @property
    def little(self) -> bool:
        """Whether the whole interval is below RELEVANT."""
        return max(abs(self.interval.low), abs(self.interval.high)) <= RELEVANT


def effect_of(each: Array) -> Effect:
    """Return the mean over seeds of a change, with Student's interval."""
    if each.size < 2:
        return Effect(mean_estimate(each))
    error = float(each.std(ddof=1) / np.sqrt(each.size))
    return Effect(mean_estimate(each), error, each.size - 1)


def over_resamples(values: Array, seeds: int) -> Effect:
    """Return a 95 % interval over resampled seeds; only a median with fewer than MIN_SEEDS."""
    middle = float(np.median(values))
    if seeds < MIN_SEEDS:
        return Effect(Estimate(middle, level=0.95))
    low, high = np.quantile(values, [0.025, 0.975])
    return Effect(Estimate(middle, float(low), float(high), 0.95), float(values.std()), seeds - 1)


@dataclass(frozen=True)
class Finding:
    """What a test says about a claim.

    Attributes
    ----------
    outcome : {"held", "not held", "inconclusive"}
        At 95 %.
    note : str
        Relevance where it differs from significance, such as "but small".
    p : float or None
        The two-sided level at which the test decides; None if a threshold decided, without a test.
    """

    outcome: Outcome
    note: str = ""
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a claim for one dataset or number of clients.

    Attributes
    ----------
    claim : str
        What the paper says.
    where : str
        The dataset or setting.
    finding : Finding
        The outcome, whether the effect is small, and the level of the test.
    number : str
        The numbers that it rests on, in words.
    stated : str
        The size that the paper states, or that its theorem implies.
    identity : bool
        Whether the runs follow the claim exactly, so that it is true of the model and nothing was
        found.
    """

    claim: str
    where: str
    finding: Finding
    number: str
    stated: str = NO_SIZE
    identity: bool = False

    @property
    def outcome(self) -> Outcome:
        """The outcome at 95 %."""
        return self.finding.outcome

    @property
    def words(self) -> str:
        """The outcome, with its relevance where that differs from its significance."""
        if self.identity:
            return f"{self.outcome} (identity)"
        return f"{self.outcome}, {self.finding.note}" if self.finding.note else self.outcome

    def row(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "claim": self.claim,
            "where": self.where,
            "outcome": self.outcome,
            "note": "identity" if self.identity else self.finding.note,
            "stated": self.stated,
            "number": self.number,
            "p": self.finding.p,
        }


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


def larger(effect: Effect) -> Finding:
    """Return whether an effect is above 0, and whether it is small if it is decided."""
    interval = effect.interval
    p = min(1.0, 2 * min(effect.beyond(0.0), effect.opposite.beyond(0.0)))
    if interval.low > 0:
        return Finding("held", "but small" if effect.little else "", p)
    if interval.high < 0:
        return Finding("not held", "small the other way" if effect.little else "", p)
    return Finding("inconclusive", "small at most" if effect.little else "", p)


def small(effect: Effect, bound: float = LITTLE) -> Finding:
    """Return whether a relative change is between -bound and bound, and if so, whether it differs
    from 0."""
    interval, opposite = effect.interval, effect.opposite
    inside = 2 * max(opposite.beyond(-bound), effect.beyond(-bound))
    outside = 2 * min(effect.beyond(bound), opposite.beyond(bound))
    p = min(1.0, inside, outside)
    significant = interval.low > 0 or interval.high < 0
    if max(abs(interval.low), abs(interval.high)) <= bound:
        return Finding("held", "small but significant" if significant else "", p)
    if interval.low > bound or interval.high < -bound:
        return Finding("not held", "", p)
    return Finding("inconclusive", "significant, of open size" if significant else "", p)


def all_of(findings: Sequence[Finding]) -> Finding:
    """Return the finding on a claim about several cases.

    It holds at the highest level of its cases; one case refutes it, at a level corrected for their
    number.
    """
    levels = [1.0 if finding.p is None else finding.p for finding in findings]
    said = [finding.outcome for finding in findings]
    if "not held" in said:
        least = min(p for p, outcome in zip(levels, said, strict=True) if outcome == "not held")
        return Finding("not held", "", min(1.0, len(said) * least))
    if "inconclusive" in said or not said:
        return Finding("inconclusive", "", max(levels, default=1.0))
    notes = dict.fromkeys(finding.note for finding in findings if finding.note)
    return Finding("held", next(iter(notes), ""), max(levels))


def unless_cut(finding: Finding, known: bool) -> Finding:
    """Return a finding, or an inconclusive one if too many runs missed the target."""
    return finding if known else Finding("inconclusive", "", finding.p and 1.0)


def by_threshold(right: bool) -> Finding:
    """Return the finding of a comparison with a threshold, which has no test."""
    return Finding("held" if right else "not held")


def percent(effect: Effect) -> str:
    """Return a relative change with its interval, as text."""
    value, low, high = (
        100 * x for x in (effect.interval.value, effect.interval.low, effect.interval.high)
    )
    return f"{value:+.0f} %" if np.isnan(low) else f"{value:+.0f} % ({low:+.0f} to {high:+.0f})"


def change(one: Array, other: Array) -> Effect:
    """Return the change from `other` to `one`, relative to the mean of `other`."""
    return effect_of(relative_change(one, other))


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


def where(others: Labels) -> str:
    """Return the labels of a curve in words."""
    words = [str(v) if k in UNNAMED else f"{SYMBOLS.get(k, k)} = {v}" for k, v in others]
    return ", ".join(words) or "everywhere"


def dataset(others: Labels) -> str:
    """Return the variant of a curve, which is its dataset in the paper's panels."""
    return str(dict(others).get("variant", "everywhere"))
