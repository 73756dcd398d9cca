"""Claims on Fig. 6: the cost of a round under each policy."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedcell.experiments.statistics import relative_change
from fedcell.experiments.table import SweepTable
from fedcell.paper.verdicts import (
    PROPORTIONAL,
    Series,
    Verdict,
    change,
    effect_of,
    larger,
    percent,
    series,
    small,
    where,
)

EXACT = 1e-9  # relative difference up to which runs follow a claim exactly
PARTS = {"upload_cost": "C_u", "compute_cost": "C_n", "staged_cost": "C_u + C_n"}
PROPOSED = ("distributed", "optimal-staged")  # Sec. IV-D, and the centralised schedule of Sec. IV-C


def _by_policy(table: SweepTable, axis: str, by: str) -> dict[tuple[Any, Any], Series]:
    """Return the curves along an axis, by policy and spread."""
    return {
        (dict(labels).get("policy"), dict(labels).get("clients.spread")): one
        for labels, one in series(table, axis, by).items()
    }


def cost_in_proportion(table: SweepTable, axis: str, by: str, claim: str) -> Iterator[Verdict]:
    """A cost is its unit cost times K, or times E_l."""
    for labels, curve in series(table, axis, by).items():
        unit = curve.each / np.array(curve.x)[:, None]
        moved = change(unit[-1], unit[0])
        yield Verdict(
            claim=claim,
            where=where(labels),
            finding=small(moved, PROPORTIONAL),
            stated="0 % a unit",
            identity=bool(np.abs(unit / unit[0] - 1).max() < EXACT),
            number=f"a unit from {curve.x[0]:g} to {curve.x[-1]:g}: {percent(moved)}",
        )


def proposed_below_even(table: SweepTable, axis: str) -> Iterator[Verdict]:
    """The proposed schedules cost less than the even one, in both parts."""
    for by, name in PARTS.items():
        curves = _by_policy(table, axis, by)
        for (policy, spread), one in curves.items():
            even = curves.get(("even", spread))
            if policy in PROPOSED and even is not None:
                moved = effect_of(relative_change(one.each, even.each).mean(0))
                yield Verdict(
                    claim=f"the proposed schedule has a lower {name} than the even one",
                    where=f"{policy}, Var = {spread}",
                    finding=larger(moved.opposite),
                    number=f"against even, mean over the axis: {percent(moved)}",
                )


def spread_is_handled(table: SweepTable, axis: str) -> Iterator[Verdict]:
    """Var 0.5 costs the proposed schedule not much more than Var 0.1."""
    curves = _by_policy(table, axis, "staged_cost")
    for policy in PROPOSED:
        low, high = curves.get((policy, 0.1)), curves.get((policy, 0.5))
        if low is not None and high is not None:
            more = effect_of(relative_change(high.each, low.each).mean(0))
            yield Verdict(
                claim="Var = 0.5 without significant degradation",
                where=str(policy),
                finding=small(more, PROPORTIONAL),
                stated="not significant",
                number=f"from Var = 0.1, mean over the axis: {percent(more)}",
            )
