"""Claims on what the proofs assume and conclude, and on laws of rounds."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.experiments.table import SweepTable
from fedcell.paper.laws import LAWS, LUO, PAPER, left_out_errors, resampled_errors
from fedcell.paper.measurements import KIND
from fedcell.paper.verdicts import (
    FITS,
    Finding,
    Verdict,
    dataset,
    effect_of,
    larger,
    over_resamples,
    series,
    unless_cut,
    where,
)
from fedcell.planning.constants import STEADY

WITHIN = 2.0  # factor within which a bound fits
MIN_MODELS = 4  # along a training, to fit a curve with two constants


def effect_grows_with_diversity(table: SweepTable) -> Iterator[Verdict]:
    """The effect of K grows with lambda."""
    points, known, measured = [], True, _by_variant(table)
    for labels, curve in series(table, "plan.cohort").items():
        rows = measured.get(dataset(labels), [])
        if rows:
            effect = (curve.each[0] - curve.each[-1]) / curve.means[-1]
            diversity = float(np.median([row["lambda"]["median"] for row in rows]))
            points.append((dataset(labels), diversity, effect))
            known = known and curve.known(0, -1)
    if len(points) < 3:
        return
    points.sort(key=lambda point: point[1])
    x = np.log([lam for _, lam, _ in points])
    slopes = np.polyfit(x, np.stack([effect for *_, effect in points]), 1)[0]  # of each seed
    words = "; ".join(
        f"{name}: lambda {lam:.2g}, {100 * effect.mean():+.0f} %" for name, lam, effect in points
    )
    yield Verdict(
        claim="the effect of K grows with lambda",
        where="from the most K to the least",
        finding=unless_cut(larger(effect_of(slopes)), known),
        number=words,
    )


def pl_is_visible(table: SweepTable) -> Iterator[Verdict]:
    """One mu serves along a training: |grad f|^2 is about 2 mu (f - f*)."""
    for variant, rows in _by_variant(table).items():
        ratios = [np.array(row["pl_ratios"], float) for row in rows]
        folds = [float(each.max() / each.min()) for each in ratios]
        steady = [fold <= STEADY for fold in folds]
        yield Verdict(
            claim="P-L is visible in experiments",
            stated="one mu: 1-fold",
            where=variant,
            finding=_all_or_none(steady),
            number=f"|grad f|^2 / 2f changes {np.median(folds):.0f}-fold ({min(folds):.0f} to "
            f"{max(folds):.0f}) along a training; {_agreeing(steady)}",
        )


def bound_fits(table: SweepTable) -> Iterator[Verdict]:
    """Theorem 1 with measured constants predicts the rounds, and the loss falls as A / (t + B)."""
    for variant, rows in _by_variant(table).items():
        pairs = [
            (row["theorem_1"]["corrected"], row["rounds_taken"])
            for row in rows
            if row.get("theorem_1") and row.get("rounds_taken")
        ]
        if pairs:
            near = [1 / WITHIN <= said / taken <= WITHIN for said, taken in pairs]
            said, taken = np.median(np.array(pairs, float), axis=0)
            least, most = np.min(pairs, axis=0)[0], np.max(pairs, axis=0)[0]
            yield Verdict(
                claim="Theorem 1 with measured constants gives the rounds",
                stated="1 times",
                where=variant,
                finding=_all_or_none(near),
                number=f"{said:.2g} said ({least:.2g} to {most:.2g}), {taken:.0f} taken; "
                f"{_agreeing(near)}",
            )
        curves = [(np.array(r["rounds"], float), np.array(r["losses"], float)) for r in rows]
        shapes = [_shape(t, losses) for t, losses in curves if t.size >= MIN_MODELS]
        fits = [off <= FITS for off in shapes]
        if shapes:
            yield Verdict(
                claim="the loss falls as the bound does, A / (t + B)",
                where=variant,
                finding=_all_or_none(fits),
                number=f"fitted to a training, at most {100 * np.median(shapes):.0f} % off "
                f"({100 * min(shapes):.0f} to {100 * max(shapes):.0f}); {_agreeing(fits)}",
            )


def _all_or_none(right: list[bool]) -> Finding:
    """Return the outcome of a few trainings that each say yes or no."""
    return Finding("held" if all(right) else "inconclusive" if any(right) else "not held")


def _agreeing(right: list[bool]) -> str:
    """Return in how many trainings a claim is right, in words."""
    return f"{sum(right)} of {len(right)} trainings agree"


def _shape(t: Array, losses: Array) -> float:
    """Return the largest relative error of A / (t + B), fitted to losses: 1 / f is linear in t."""
    slope, first = np.polyfit(t, 1 / losses, 1, w=losses)
    return float(np.abs(1 / (losses * (first + slope * t)) - 1).max())


def _by_variant(table: SweepTable) -> dict[str, list[Mapping[str, Any]]]:
    """Return the measured constants of all seeds, by variant."""
    by_variant: dict[str, list[Mapping[str, Any]]] = {}
    for row in table.about.get(KIND, ()):
        by_variant.setdefault(str(row["labels"].get("variant", "everywhere")), []).append(row)
    return by_variant


def laws_on_left_out_settings(table: SweepTable) -> Iterator[Verdict]:
    """The paper's law predicts settings that it has not seen better than Luo et al.'s."""
    again = resampled_errors(table)
    for labels, errors in left_out_errors(table).items():
        off = {name: np.abs(errors[name]) for name in LAWS}
        words = ", ".join(
            f"{name} {100 * np.median(e):.0f} % ({100 * e.max():.0f} at most)"
            for name, e in off.items()
        )
        gain = over_resamples(again[labels][LUO] - again[labels][PAPER], len(table.seeds))
        yield Verdict(
            claim="the paper's law predicts left-out settings better than Luo et al.'s",
            where=where(labels),
            finding=larger(gain),
            number=f"median error over {off[PAPER].size} settings: {words}",
        )
