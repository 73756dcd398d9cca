"""Figures of a league: the metric over simulated time with bands, and differences to the first."""

import math
import textwrap
from typing import Any

import numpy as np

from fedcell.core.estimates import mean_estimate
from fedcell.core.types import Array
from fedcell.experiments.league.league import Entry, League

from .style import legend_below, new_figure, one_panel, plain, plain_axes, short_name
from .sweeps import LINES

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
