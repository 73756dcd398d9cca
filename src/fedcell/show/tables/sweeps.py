"""Print a sweep: rounds to the target, or costs, at each point."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.experiments.result import SweepResult
from fedcell.experiments.statistics import RoundsEstimate, values_of
from fedcell.experiments.table import (
    FIRST,
    HELD,
    MEAN,
    Labels,
    SweepTable,
    estimate_at,
    missed,
    once,
    paired_change,
)
from fedcell.paper.reproduce import Reproduction

from .console import digits, plus_minus, print_notes, print_table

PRICES = {"duration": "time [s]", "energy": "energy [J]", "cost": "cost [s]"}
MEANS = {
    "train_loss": "training loss",
    "accuracy": "accuracy",
    "staged_cost": "C_u + C_n [s]",
    "upload_cost": "C_u [s]",
    "compute_cost": "C_n [s]",
    "duration": "time of {rounds} rounds [s]",
    "energy": "energy of {rounds} rounds [J]",
}


def print_sweep_result(out: Console, result: SweepResult) -> None:
    """The points of a sweep, and what failed."""
    print_sweep_table(out, result.table)
    if result.failures:
        where, why = next(iter(result.failures.items()))
        words = f"{len(result.failures)} trainings failed, the first at {where}: {why}"
        print_notes(out, [words])


def print_sweep_table(out: Console, table: SweepTable) -> None:
    """Points with their runs, and rounds to the target where there is one, else costs."""
    columns, notes = point_columns(table)
    reached = table.about.get("reached", "at the first passage")
    what = f"rounds to the target {reached}" if table.trained else "means"
    axes = sum(name != "policy" or not table.trained for name in table.axes)
    title = f"{table.title}: {what}, ± 95 % over seeds"
    print_table(out, title, columns, labels=max(1, axes))
    if table.trained and "policy" in table.axes:
        title = "Until the target, by policy; changes are paired, ± 95 %"
        print_table(out, title, policy_columns(table), labels=len(table.axes))
    print_notes(out, notes)


def policy_columns(table: SweepTable) -> dict[str, list[str]]:
    """What runs took under each policy, and how that compares to the first, seed by seed."""
    points = table.points()
    columns = label_columns(points)
    for by, title in PRICES.items():
        columns[title] = [_taken(runs, by) for runs in points.values()]
        columns |= change_column(table, by, title.split(" [")[0])
    return columns


def label_columns(points: Iterable[Labels]) -> dict[str, list[str]]:
    """The labels of points, a column for each axis."""
    named = [dict(labels) for labels in points]
    axes = dict.fromkeys(axis for labels in named for axis in labels)
    return {axis: [str(labels.get(axis, "")) for labels in named] for axis in axes}


def _taken(runs: Sequence[Mapping[str, Any]], by: str) -> str:
    """Return the mean to the target; a lower bound if runs missed it, empty if one diverged."""
    if any(run.get("diverged") for run in runs):
        return "diverged"
    return f"{'> ' if missed(runs) else ''}{plus_minus(mean_estimate(values_of(runs, by)))}"


def change_column(table: SweepTable, by: str, title: str) -> dict[str, list[str]]:
    """How a measure compares to that of the first policy, seed by seed; none if there is one."""
    first, *others = table.axes["policy"]
    if not others:
        return {}
    cells, points = [], table.points()
    for labels, runs in points.items():
        base = points.get(tuple((n, first if n == "policy" else v) for n, v in labels), [])
        same = dict(labels)["policy"] == first
        changed = None if same or missed(runs) else paired_change(runs, base, by)
        cells.append("" if changed is None else _percent(changed))
    return {f"{title} vs {first}": cells}


def _percent(change: Estimate) -> str:
    half = "" if math.isnan(change.low) else f" ± {100 * change.half_width:.1f}"
    return f"{100 * change.value:+.1f}{half} %"


def point_columns(table: SweepTable) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns of a table with a row for each point, and notes on it."""
    points = table.points(*(() if not table.trained else ("policy",)))
    columns = label_columns(points) or {"point": [str(i) for i in range(len(points))]}
    single = [once(runs) for runs in points.values()]
    columns["runs"] = [str(len(runs)) for runs in single]
    if not table.trained:
        known = [name for name in MEANS if all(values_of(runs, name).size for runs in single)]
        for name in known:
            means = [mean_estimate(values_of(runs, name)) for runs in single]
            title = MEANS[name].format(rounds=table.rounds)
            columns[title] = [plus_minus(mean) for mean in means]
            if name == "staged_cost":
                columns |= change_column(table, name, "C_u + C_n")
        return columns, []
    cells = [
        estimate_at(table, runs, FIRST) if runs and runs[0].get("target") is not None else None
        for runs in single
    ]
    columns["reached"] = ["" if e is None else f"{e.reached}" for e in cells]
    columns["rounds"] = ["" if e is None else plus_minus(e.mean) for e in cells]
    columns["median"] = [_median(e) for e in cells]
    if table.hold > 1:
        columns["of mean curve"] = [_whole(runs[0].get(MEAN), table.rounds) for runs in single]
        columns[f"mean of {table.hold} there"] = [
            "" if e is None else plus_minus(estimate_at(table, runs, HELD).mean)
            for e, runs in zip(cells, single, strict=True)
        ]
    notes = []
    if diverged := sum(bool(run.get("diverged")) for runs in single for run in runs):
        notes.append(f"{diverged} runs diverged: lower learning.rate there")
    if any(e is not None and e.censored for e in cells):
        notes.append(
            f"runs that missed the target in {table.rounds} rounds count as {table.rounds}: the "
            "mean is a lower bound"
        )
    return columns, notes


def _median(rounds: RoundsEstimate | None) -> str:
    if rounds is None:
        return ""
    return f"> {rounds.cap}" if math.isinf(rounds.median) else digits(rounds.median)


def _whole(rounds: int | None, cap: int) -> str:
    return f"> {cap}" if rounds is None else str(rounds)


def print_reproduction(out: Console, panel: Reproduction) -> None:
    """Print a panel with its verdicts on the paper's claims."""
    print_sweep_table(out, panel.table)
    out.print(f"\n{panel.panel}: verdicts on the paper's claims")
    for v in panel.verdicts:
        out.print(f"{v.words:12s}  {v.claim}; {v.where}: {v.number}", soft_wrap=True)
    for v in panel.otherwise:
        words = f"if the target must hold: {v.words}  {v.claim}; {v.where}: {v.number}"
        out.print(words, soft_wrap=True)
    notes = list(panel.notes)
    if panel.edition.quick:
        notes.append("a rough version: other data, few seeds; its verdicts are not final")
    print_notes(out, notes)
