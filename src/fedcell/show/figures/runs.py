"""Figures of runs: loss and accuracy over rounds, simulated time and energy."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.experiments.statistics import mean_band
from fedcell.scenario.learning import Deliver
from fedcell.scenario.target import Target

from .curves import Ledgers, RunsDrawing, first
from .style import (
    BLUE,
    GREY,
    legend_below,
    lone_marker,
    panel_grid,
    plain,
    plain_axes,
    policy_colours,
    readable_logarithms,
    whole_numbers,
)

MEASURES = {"train_loss": "training loss", "test_loss": "test loss"}
ON_TEST = "{} on test data"
TITLES = {"duration": "simulated time [s]", "energy": "energy of all clients [J]"}
UNITS = {"duration": "s", "energy": "J"}
ALIKE = 0.01  # of their end: policies that are nearer to each other share a line
# Where the target was reached; whole also at the border, as a first round in a long run is.
REACHED: dict[str, Any] = {"markersize": 4, "zorder": 4, "clip_on": False}
USUAL, LINE = 5, 0.19  # names of lines that a figure has room for; more take so much [in] each
FINE = 300  # points of a mean over seeds along seconds or joules


def draw_rounds(panel: Any, drawing: RunsDrawing, measure: str | None = None) -> None:
    """Draw the loss or the accuracy over rounds: faint, and its moving average.

    Of several seeds, the mean with its 95 % band.
    """
    measure = measure or drawing.measure
    curves = drawing.curves(measure)
    alone = len(curves) == 1
    held = f"mean of {drawing.hold} rounds" if alone else f"mean of {len(curves)} seeds, 95 % band"
    if alone and curves[0].held is curves[0].values:  # too few for a mean
        held = f"after each round{drawing.judged}"
    else:
        for i, curve in enumerate(curves):
            y, label = (curve.values, "after each round") if alone else (curve.held, "each seed")
            label += drawing.judged
            looks = {"color": BLUE, "linewidth": 0.7, "alpha": 0.45}
            named = label if i == 0 else None
            panel.plot(curve.seen + 1, y, label=named, **looks, **lone_marker(curve.seen))
    _draw_mean(panel, [c.seen + 1.0 for c in curves], [c.held for c in curves], BLUE, label=held)
    for i, change in enumerate(drawing.changes):
        looks = {"color": GREY, "linestyle": ":", "linewidth": 1.2, "zorder": 1}
        panel.axvline(change - 0.5, label="another plan" if i == 0 else None, **looks)
    panel.set_xlabel("rounds")
    panel.set_ylabel(_words(measure))
    whole_numbers(panel.xaxis)
    _finish(panel, drawing, measure)
    reached = drawing.reached()[0] if alone and measure == drawing.measure else None
    if reached is not None:
        late = reached > first(drawing.runs[0]).rounds / 4
        panel.plot(reached, curves[0].at(reached), "o", **REACHED, color="black")
        panel.annotate(
            f"round {reached}",
            (reached, curves[0].at(reached)),
            (-8 if late else 8, 0),
            textcoords="offset points",
            ha="right" if late else "left",
            va="center",
            fontsize="small",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1},
        )


def _words(measure: str) -> str:
    return MEASURES.get(measure) or plain(ON_TEST.format(measure))


def draw_over(panel: Any, drawing: RunsDrawing, what: str) -> None:
    """Draw the moving average of the target's measure over "duration" or "energy", by policy.

    Policies with indistinguishable lines share one.
    """
    curves = drawing.curves(drawing.measure)
    totals = {
        policy: [getattr(run[policy], f"total_{what}") for run in drawing.runs]
        for policy in drawing.policies
    }
    colours, reached = policy_colours(drawing.policies), drawing.reached()
    for group in _alike(totals):
        ends = [
            float(total[-1 if rounds is None else rounds - 1])
            for total, rounds in zip(totals[group[0]], reached, strict=True)
        ]
        names = "all policies" if len(group) == len(totals) > 2 else ", ".join(map(plain, group))
        label = f"{names}: {np.mean(ends):.3g} {UNITS[what]}"
        xs = [total[c.seen] for total, c in zip(totals[group[0]], curves, strict=True)]
        ys = [c.held for c in curves]
        for i, policy in enumerate(group):
            dashes: Any = "-" if i == 0 else (4 * i, (4, 4 * (len(group) - 1)))
            named = label if i == 0 else None
            _draw_mean(panel, xs, ys, colours[policy], linestyle=dashes, label=named)
        if len(curves) == 1 and reached[0] is not None:
            here = curves[0].at(reached[0])
            panel.plot(ends[0], here, "o", **REACHED, color=colours[group[0]])
    panel.set_xlabel(TITLES[what])
    panel.set_ylabel(_words(drawing.measure))
    _finish(panel, drawing, drawing.measure)


def _alike(totals: Mapping[str, Sequence[Array]]) -> list[list[str]]:
    """Return groups of policies with coinciding lines."""
    groups: list[list[str]] = []
    for policy, mine in totals.items():
        for group in groups:
            pairs = zip(mine, totals[group[0]], strict=True)
            if all(np.abs(a - b).max() <= ALIKE * max(a[-1], b[-1]) for a, b in pairs):
                group.append(policy)
                break
        else:
            groups.append([policy])
    return groups


def _draw_mean(
    panel: Any, xs: Sequence[Array], ys: Sequence[Array], colour: str, **looks: Any
) -> None:
    """Draw a curve, or the mean of several with its band."""
    looks = {"linewidth": 1.8, "color": colour} | looks
    if len(xs) == 1:
        panel.plot(xs[0], ys[0], **looks, **lone_marker(xs[0]))
        return
    known = [i for i, x in enumerate(xs) if x.size]
    if known:
        x, mean, low, high = mean_band([xs[i] for i in known], [ys[i] for i in known], FINE)
        panel.plot(x, mean, **looks, **lone_marker(x))
        if looks.get("linestyle", "-") == "-":
            panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _finish(panel: Any, drawing: RunsDrawing, measure: str) -> None:
    """Set scales, and draw the target if it refers to this measure."""
    values = np.concatenate([curve.values for curve in drawing.curves(measure)])
    if measure == "train_loss" and values.size and values.min() > 0:
        panel.set_yscale("log")
        readable_logarithms(panel.yaxis)
    panel.set_xlim(left=0)
    plain_axes(panel)
    target = drawing.target
    if target is None or measure != target.column:
        return
    every, missed = len(drawing.runs), drawing.reached().count(None)
    words = f"target {target.value:.4g}" + (", not reached" if missed else "")
    words += f" by {missed} of {every} seeds" if missed and every > 1 else ""
    panel.axhline(target.value, color=GREY, linestyle="--", linewidth=1, zorder=1)
    panel.annotate(
        words,
        (0, target.value),
        (4, 3),
        xycoords=panel.get_yaxis_transform(),
        textcoords="offset points",
        color="#555555",
        fontsize="small",
    )


Panel = Callable[[Any, RunsDrawing], None]
PANELS: Mapping[str, Panel] = {
    "rounds": draw_rounds,
    "accuracy": lambda panel, drawing: draw_rounds(panel, drawing, "accuracy"),
    "duration": lambda panel, drawing: draw_over(panel, drawing, "duration"),
    "energy": lambda panel, drawing: draw_over(panel, drawing, "energy"),
}


def run_figure(
    ledgers: Ledgers,
    target: Target | None = None,
    columns: int | None = None,
    changes: Sequence[int] = (),
    deliver: Deliver | None = None,
) -> Any:
    """Return one run: loss and accuracy over rounds, and over time and energy by policy.

    `changes` has the rounds from which the plan differs, `deliver` the model that was evaluated.
    """
    return runs_figure(RunsDrawing([ledgers], target, changes, deliver), columns)


def runs_figure(drawing: RunsDrawing, columns: int | None = None) -> Any:
    """Return the panels of one run or of several seeds, for a screen or for columns of a paper."""
    # The metrics that are known and not shown by all panels anyway, after the first panel.
    shown = {m: partial(draw_rounds, measure=m) for m in drawing.metrics if m != drawing.measure}
    others = {name: panel for name, panel in PANELS.items() if name not in ("rounds", "accuracy")}
    known: dict[str, Panel] = {"rounds": draw_rounds, **shown, **others}
    names = list(known)
    figure, panels = panel_grid(len(names), columns)
    lines: dict[int, int] = {}  # of the longest legend, by row
    for name, panel in zip(names, panels, strict=True):
        known[name](panel, drawing)
        heading = "" if name not in TITLES else legend_heading(drawing)
        row = panel.get_subplotspec().rowspan.start
        lines[row] = max(lines.get(row, 0), legend_below(panel, heading))
    more = sum(max(0, count - USUAL) for count in lines.values())
    figure.set_figheight(figure.get_figheight() + more * LINE)
    return figure


def legend_heading(drawing: RunsDrawing) -> str:
    """Return the meaning of the numbers beside the names of policies."""
    what = "to the target" if all(drawing.reached()) else "in all"
    alike = f"; policies that share a line are within {100 * ALIKE:.0f} %"
    return what + (alike if len(drawing.policies) > 1 else "")
