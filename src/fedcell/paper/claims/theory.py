"""Sentences on what the proofs assume and conclude, and on laws of rounds."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedcell.core.estimates import mean_estimate
from fedcell.core.types import Array
from fedcell.experiments.table import SweepTable
from fedcell.paper.judging import Outcome, Verdict, dataset, larger, series, where
from fedcell.paper.laws import left_out_errors
from fedcell.paper.measuring import KIND

STEADY = 3.0  # a "constant" that changes by more along a training is none
WITHIN = 2.0  # a bound that is so many times what is bounded fits


def effect_grows_with_diversity(table: SweepTable) -> Iterator[Verdict]:
    """The effect of K grows with lambda."""
    points = []
    for labels, found in series(table, "plan.cohort").items():
        lambdas = [row["lambda"]["median"] for row in _constants(table, dataset(labels))]
        if lambdas:
            effect = (found.each[0] - found.each[-1]) / found.means[-1]
            points.append((dataset(labels), float(lambdas[0]), effect))
    if len(points) < 3:
        return
    points.sort(key=lambda point: point[1])
    x = np.log([lam for _, lam, _ in points])
    slopes = np.polyfit(x, np.stack([effect for *_, effect in points]), 1)[0]
    told = "; ".join(
        f"{name}: lambda {lam:.2g}, {100 * effect.mean():+.0f} %" for name, lam, effect in points
    )
    yield Verdict(
        claim="the effect of K grows with lambda",
        where="from the most K to the least",
        outcome=larger(mean_estimate(slopes)),
        number=told,
    )


def pl_is_visible(table: SweepTable) -> Iterator[Verdict]:
    """One mu serves along a training: |grad f|^2 is about 2 mu (f - f*)."""
    for row in _constants(table):
        ratios = np.array(row["pl_ratios"], float)
        fold = float(ratios.max() / ratios.min())
        yield Verdict(
            claim="P-L is visible in experiments",
            where=str(row["labels"].get("variant", "everywhere")),
            outcome="held" if fold <= STEADY else "not held",
            number=f"|grad f|^2 / 2f changes {fold:.0f}-fold along a training ({ratios[0]:.3g} "
            f"first, {ratios[-1]:.3g} last)",
        )


def bound_fits(table: SweepTable) -> Iterator[Verdict]:
    """Theorem 1 with measured constants says about the rounds that it takes; and the loss falls
    as the bound does, A / (t + B), with A and B fitted."""
    for row in _constants(table):
        place = str(row["labels"].get("variant", "everywhere"))
        said, taken = row.get("theorem_1"), row.get("rounds_taken")
        if said and taken:
            times = said["corrected"] / taken
            yield Verdict(
                claim="Theorem 1 with measured constants gives the rounds",
                where=place,
                outcome="held" if 1 / WITHIN <= times <= WITHIN else "not held",
                number=f"{said['corrected']:.2g} said, {taken} taken",
            )
        off = _shape(np.array(row["rounds"], float), np.array(row["losses"], float))
        outcome: Outcome = "held" if off <= 0.15 else "not held"
        yield Verdict(
            claim="the loss falls as the bound does, A / (t + B)",
            where=place,
            outcome=outcome,
            number=f"fitted, at most {100 * off:.0f} % off at {len(row['rounds'])} rounds",
        )


def _shape(t: Array, losses: Array) -> float:
    """How far A / (t + B) is from losses, at most, where it fits best: 1 / f is linear in t."""
    slope, first = np.polyfit(t, 1 / losses, 1, w=losses)
    return float(np.abs(1 / (losses * (first + slope * t)) - 1).max())


def _constants(table: SweepTable, variant: str | None = None) -> list[Mapping[str, Any]]:
    rows = table.about.get(KIND, ())
    return [r for r in rows if variant is None or r["labels"].get("variant") == variant]


def laws_on_left_out_settings(table: SweepTable) -> Iterator[Verdict]:
    """The paper's law predicts settings that it has not seen better than Luo et al.'s."""
    for labels, errors in left_out_errors(table).items():
        off = {name: np.abs(each) for name, each in errors.items()}
        asked = len(off["the paper's"])
        gain = mean_estimate(off["Luo et al.'s"] - off["the paper's"])
        told = ", ".join(
            f"{name} {100 * np.median(e):.0f} % ({100 * e.max():.0f} at most)"
            for name, e in off.items()
        )
        yield Verdict(
            claim="the paper's law predicts left-out settings better than Luo et al.'s",
            where=where(labels),
            outcome=larger(gain),
            number=f"median error over {asked} settings: {told}",
        )
