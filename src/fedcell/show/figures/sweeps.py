"""Figures of a sweep: a measure of its runs over an axis, with bands over seeds; and of a league of
selectors: a metric over simulated time, and differences to the first."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array
from fedcell.experiments.league.league import Entry, League
from fedcell.experiments.result import AVERAGED, SUMMED
from fedcell.experiments.statistics import values_of
from fedcell.experiments.table import FIRST, HELD, Labels, SweepTable, estimate_at, missed, once

from .style import (
    COLOURS,
    MARKERS,
    SPARE,
    STYLES,
    legend_below,
    legend_outside,
    new_figure,
    one_panel,
    plain,
    plain_axes,
    readable_logarithms,
    short_name,
    sized_figure,
    whole_numbers,
)

TITLES = {
    "plan.cohort": "clients a round, $K$",
    "plan.local_steps": "local steps, $E_l$",
    "cell.loss_rate": r"share of lost uploads, $\gamma$",
    "clients.count": "clients, $N$",
    FIRST: "rounds to the target",
    HELD: "rounds until the target holds",
    "staged_cost": "$C_u + C_n$ of a round [s]",
    "upload_cost": "$C_u$ of a round [s]",
    "compute_cost": "$C_n$ of a round [s]",
    "objective": "joint cost of a round [s]",
    "duration": "simulated time [s]",
    "energy": "energy [J]",
    "cost": "cost of a run [s]",
    "accuracy": "accuracy of the last model",
    "train_loss": "training loss of the last model",
    "test_loss": "test loss of the last model",
}
SHORT = {"clients.count": "$N$", "plan.cohort": "$K$", "plan.local_steps": "$E_l$"}
SHORT |= {"cell.loss_rate": r"$\gamma$", "clients.spread": "Var"}
LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", *SPARE[1:]]
PRICED = (*SUMMED, *AVERAGED)  # columns that depend on the policy
WIDE = 20  # ratio of the ends of an axis, from which it is logarithmic


def draw_sweep(
    panel: Any, table: SweepTable, by: str | None = None, axis: str | None = None
) -> None:
    """Draw a measure over an axis of numbers, with a line and its band for each of the others.

    By default rounds to the target, or the cost of a round where nothing was trained, over the
    longest axis.
    """
    by = by or default_measure(table)
    if by not in measures(table):
        known = ", ".join(measures(table)) or "nothing: there are no runs"
        raise BadInput(f"there is no {by} to draw: choose of {known}")
    axis = axis or default_axis(table)
    if axis not in table.numbers():
        known = ", ".join(table.numbers())
        raise BadInput(f"{axis} is no axis of numbers of this sweep: choose of {known}")
    lines = lines_along(table, axis, by)
    if not lines:
        raise BadInput(f"there is no {by} to draw: choose of {', '.join(measures(table))}")
    draw_lines(panel, lines)
    x = [float(v) for v in table.axes[axis]]
    whole = all(v.is_integer() for v in x)
    if min(x) > 0 and max(x) / min(x) > WIDE:
        panel.set_xscale("log")
        readable_logarithms(panel.xaxis, whole=whole)
    elif whole:
        whole_numbers(panel.xaxis)
    panel.set_xlabel(TITLES.get(axis, plain(axis)))
    panel.set_ylabel(TITLES.get(by, plain(by)))
    plain_axes(panel)


def sweep_figure(
    table: SweepTable, by: str | None = None, axis: str | None = None, columns: int | None = None
) -> Any:
    """Return a measure of a sweep over an axis; `columns` of a paper determine its width."""
    figure, panel = sized_figure(columns)
    draw_sweep(panel, table, by, axis)
    if columns is None:
        panel.set_title("\n".join(textwrap.wrap(plain(table.title), 70)), fontsize=10)
    legend_outside(figure, panel, columns)
    return figure


def measures(table: SweepTable) -> list[str]:
    """Return the columns of measured numbers that some run has."""
    cut = (FIRST, HELD) if table.trained else ()  # drawn even if no run reached it
    known = [name for name in TITLES if name not in table.axes]
    return [name for name in known if name in cut or values_of(table.runs, name).size]


def default_measure(table: SweepTable) -> str:
    """Return rounds to the target; without a target the loss, or the cost of a round."""
    if table.trained:
        return FIRST
    return "train_loss" if any("train_loss" in run for run in table.runs) else "staged_cost"


def default_axis(table: SweepTable) -> str:
    """Return the longest axis of numbers."""
    numbers = table.numbers()
    if not numbers:
        raise BadInput("there is no axis of numbers to draw over")
    return max(numbers, key=lambda name: len(numbers[name]))


@dataclass(frozen=True)
class Line:
    """Estimates along an axis; some are lower bounds, as runs missed the target."""

    x: list[float]
    estimates: list[Estimate]
    least: list[bool]


def lines_along(table: SweepTable, axis: str, by: str) -> dict[Labels, Line]:
    """Return estimates along an axis, by the labels of the others."""
    by_labels: dict[Labels, list[tuple[float, Estimate, bool]]] = {}
    unpriced = () if by in PRICED else ("policy",)  # what does not depend on it
    for labels, every in table.points(*unpriced).items():
        runs = once(every) if unpriced else every
        others = tuple((name, value) for name, value in labels if name != axis)
        known = values_of(runs, by)
        cut = by in SUMMED and missed(runs)
        if by in SUMMED and any(run.get("diverged") for run in runs):
            continue
        if by in (FIRST, HELD):
            rounds = estimate_at(table, runs, by)
            mean, cut = rounds.mean, rounds.censored > 0
            if runs[0].get("target") is None:
                continue
        elif known.size:
            mean = mean_estimate(known)
        else:
            continue
        by_labels.setdefault(others, []).append((float(dict(labels)[axis]), mean, cut))
    return {
        others: Line(*(list(column) for column in zip(*sorted(points, key=_place), strict=True)))
        for others, points in by_labels.items()
    }


def _place(point: tuple[float, Estimate, bool]) -> float:
    return point[0]


def draw_lines(panel: Any, lines: Mapping[Labels, Line]) -> None:
    """Draw lines with bands.

    The colour shows the first label or the policy, the stroke the other labels.
    """
    first = [_leading(labels)[0] for labels in lines]
    rest = [_leading(labels)[1] for labels in lines]
    colours = {c: COLOURS.get(str(c), LINES[i % len(LINES)]) for i, c in enumerate(_once(first))}
    strokes = {r: STYLES[i % len(STYLES)] for i, r in enumerate(_once(rest))}
    faint = min(0.15, 0.6 / max(1, len(lines)))  # so that overlapping bands stay distinguishable
    cut: list[tuple[float, float]] = []
    for (labels, line), c, r in zip(lines.items(), first, rest, strict=True):
        x, estimates = line.x, line.estimates
        cut += [(x[i], estimates[i].value) for i, least in enumerate(line.least) if least]
        marker = MARKERS.get(str(c), {"marker": "o", "markersize": 4})
        panel.plot(
            x,
            [e.value for e in estimates],
            color=colours[c],
            linestyle=strokes[r],
            linewidth=1.3,
            label=", ".join(_words(*label) for label in labels),
            **marker,
        )
        low, high = [e.low for e in estimates], [e.high for e in estimates]
        panel.fill_between(x, low, high, color=colours[c], alpha=faint, linewidth=0)
    if cut:
        looks = {"marker": "^", "color": "none", "markeredgecolor": "black", "markersize": 9}
        looks |= {"clip_on": False}  # the most rounds that a run may have are the end of the axis
        panel.plot(*zip(*cut, strict=True), linestyle="", label="at least: runs were cut", **looks)


def _leading(labels: Labels) -> tuple[Any, Labels]:
    """Return the labels that colour and stroke of a line show."""
    policy = dict(labels).get("policy")
    if policy is not None:
        return policy, tuple(label for label in labels if label[0] != "policy")
    return (labels[0][1], labels[1:]) if labels else ("", ())


def _once(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _words(name: str, value: Any) -> str:
    text = plain(str(value))
    return text if name in ("variant", "policy") else f"{SHORT.get(name, plain(name))} = {text}"


# Leagues.

POINTS = 200  # of a line
DASHES = ["-", "--", ":"]
NAMES = {"train_loss": "training loss", "test_loss": "test loss", "accuracy": "accuracy"}


def league_figure(league: League, columns: int | None = None) -> Any:
    """Return the curves and the differences of a league, side by side, or in one column."""
    one = columns == 1
    rows = len(league.entries)
    if rows == 1:
        return one_panel(3.5 if one else 7.2, 4.2, lambda panel: draw_curves(panel, league))
    height = 4.2 + (0.16 if not one else 0.34) * rows
    figure = new_figure(3.5 if one else 10.0, height + (3.0 if one else 0))
    curves, changes = figure.subplots(2, 1) if one else figure.subplots(1, 2)
    draw_curves(curves, league)
    draw_differences(changes, league, 22 if one else 44)
    legend_below(curves)
    return figure


def draw_curves(panel: Any, league: League) -> None:
    """Draw the mean of the metric over simulated time, with bands of 95 % over seeds.

    A line ends when the first of its trainings ends.
    """
    for i, entry in enumerate(league.entries):
        times, values = along(entry)
        if not times.size:
            continue
        look = {"color": LINES[i % len(LINES)], "linestyle": DASHES[i // len(LINES) % len(DASHES)]}
        panel.plot(times, values.mean(0), label=plain(entry.name), **look)
        if len(values) > 1:
            each = [mean_estimate(column) for column in values.T]
            low, high = [e.low for e in each], [e.high for e in each]
            panel.fill_between(times, low, high, color=look["color"], alpha=0.12, linewidth=0)
    target = league.target
    if target is not None:
        panel.axhline(target.value, color="black", linewidth=0.8, linestyle=":")
    if math.isfinite(league.limit.seconds):
        panel.axvline(league.limit.seconds, color="black", linewidth=0.8, linestyle=":")
    panel.set_xlabel("simulated time [s]")
    panel.set_ylabel(NAMES.get(league.metric, plain(league.metric)))
    panel.set_xlim(left=0)
    plain_axes(panel)


def along(entry: Entry) -> tuple[Array, Array]:
    """Return times, and the metric of each run at these, (run, time): that of its last round."""
    known = []
    for run in entry.runs:
        seen = np.isfinite(run.values)
        if not seen.any():
            return np.empty(0), np.empty((0, 0))
        known.append((run.times[seen], run.values[seen]))
    begin, end = max(t[0] for t, _ in known), min(t[-1] for t, _ in known)
    if not end >= begin:
        return np.empty(0), np.empty((0, 0))
    times = np.linspace(begin, end, POINTS) if end > begin else np.array([begin])
    places = [np.searchsorted(t, times, side="right") - 1 for t, _ in known]
    return times, np.array([v[place] for (_, v), place in zip(known, places, strict=True)])


def draw_differences(panel: Any, league: League, letters: int = 44) -> None:
    """Draw the difference of each entry to the first with its interval; filled: more than luck.
    The label of the axis has lines of at most some letters."""
    scale = 100 if league.measure == "seconds" else 1
    found = list(reversed(league.differences))
    for y, difference in enumerate(found):
        change = difference.change
        if math.isnan(change.value):
            continue
        place = [entry.name for entry in league.entries].index(difference.name)
        colour = LINES[place % len(LINES)]
        if not math.isnan(change.low):
            panel.plot([scale * change.low, scale * change.high], [y, y], color=colour)
        face = colour if difference.sure else "white"
        panel.plot(scale * change.value, y, "o", color=colour, markerfacecolor=face)
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set_yticks(range(len(found)), [plain(short_name(d.name, 34)) for d in found])
    panel.set_ylim(-0.6, max(len(found), 1) - 0.4)
    first = plain(short_name(league.entries[0].name, 34))
    words = {
        "seconds": "time to the target [%]",
        "accuracy": "accuracy",
        "train_loss": "training loss",
    }
    label = f"change of {words[league.measure]} against {first}"
    panel.set_xlabel("\n".join(textwrap.wrap(label, letters)))
    plain_axes(panel)
    panel.grid(False, axis="y")
