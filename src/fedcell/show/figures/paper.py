"""Figures of the paper's panels: most are those of a sweep, some are derived from one."""

from typing import Any

import numpy as np

from fedcell.paper.laws import LAWS, left_out_errors
from fedcell.paper.measurements import KIND
from fedcell.paper.optimum import best_clients
from fedcell.paper.reproduce import Reproduction

from .style import STYLES, legend_outside, plain, plain_axes, readable_logarithms, sized_figure
from .sweeps import LINES, Line, draw_lines, draw_sweep, sweep_figure


def draw_panel(
    panel: Any, reproduced: Reproduction, by: str | None = None, axis: str | None = None
) -> None:
    """Draw a panel as the paper does."""
    drawer = SPECIAL.get(reproduced.panel)
    if drawer is None or by is not None:
        draw_sweep(panel, reproduced.table, by, axis)
    else:
        drawer(reproduced, panel)
        plain_axes(panel)


def panel_figure(
    reproduced: Reproduction,
    by: str | None = None,
    axis: str | None = None,
    columns: int | None = None,
) -> Any:
    """Return a panel as the paper draws it, for a screen or for columns of a paper."""
    if reproduced.panel not in SPECIAL or by is not None:
        return sweep_figure(reproduced.table, by, axis, columns)
    figure, panel = sized_figure(columns)
    draw_panel(panel, reproduced)
    if columns is None:
        panel.set_title(plain(reproduced.table.title), fontsize=10)
    legend_outside(figure, panel, columns)
    return figure


def _best_clients(reproduced: Reproduction, panel: Any) -> None:
    """Draw K* over the cost ratio: from the runs with a band, and by Theorem 2.

    All but the best K that was run are real numbers, possibly above N, as in the verdicts.
    """
    by_line = best_clients(reproduced.table)
    lines = {
        (*(label for label in labels if label[0] != "variant"), ("variant", "runs")): Line(
            each.ratios.tolist(), each.band(each.law_again), [False] * each.ratios.size
        )
        for labels, each in by_line.items()
    }
    draw_lines(panel, lines)
    for i, (labels, each) in enumerate(by_line.items()):
        colour, count = LINES[i % len(LINES)], dict(labels).get("clients.count")
        label = f"$N$ = {count}, of the $K$ run"
        panel.plot(each.ratios, each.tried, "x", color=colour, markersize=4, label=label)
        for said, name, stroke in (
            (each.printed, "Theorem 2, printed", STYLES[2]),
            (each.exact, "Theorem 2, exact", STYLES[1]),
        ):
            if said is not None:
                label = f"$N$ = {count}, {name}"
                panel.plot(each.ratios, said, stroke, color=colour, linewidth=1, label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    readable_logarithms(panel.xaxis, panel.yaxis)
    panel.set_xlabel("cost ratio, $E_l C_{n,0} / C_{u,0}$")
    panel.set_ylabel("best $K$")


def _theory(reproduced: Reproduction, panel: Any) -> None:
    """Draw |grad f|^2 / 2 f along a training: a constant if P-L held with one mu."""
    by_variant: dict[str, list[Any]] = {}
    for row in reproduced.table.about.get(KIND, ()):
        by_variant.setdefault(str(row["labels"].get("variant", "")), []).append(row)
    for i, (variant, rows) in enumerate(by_variant.items()):
        for row in rows:
            panel.plot(
                np.array(row["rounds"], float) + 1,  # before training is 0, which has no logarithm
                row["pl_ratios"],
                marker="o",
                markersize=3,
                linewidth=1,
                linestyle=STYLES[i % len(STYLES)],
                color=LINES[i % len(LINES)],
                alpha=0.6,
                label=plain(f"{variant}, {len(rows)} trainings") if row is rows[0] else None,
            )
    panel.set_xscale("log")
    panel.set_yscale("log")
    readable_logarithms(panel.xaxis, panel.yaxis)
    panel.set_xlabel("1 + rounds")
    panel.set_ylabel(r"$\|\nabla f\|^2 / 2f$")


def _laws(reproduced: Reproduction, panel: Any) -> None:
    """Draw the errors of each law at each setting left out of its fit."""
    errors_by_line = left_out_errors(reproduced.table)
    for i, (labels, errors) in enumerate(errors_by_line.items()):
        for j, name in enumerate(LAWS):
            off = 100 * errors[name]
            place = j + 0.2 * (i - (len(errors_by_line) - 1) / 2)
            label = plain(", ".join(str(v) for _, v in labels)) if j == 0 else None
            panel.plot(np.full(off.size, place), off, "o", color=LINES[i], alpha=0.6, label=label)
            panel.plot([place - 0.08, place + 0.08], [np.median(off)] * 2, color=LINES[i])
    panel.axhline(0, color="black", linewidth=0.6)
    panel.set_xlim(-0.5, len(LAWS) - 0.5)
    panel.set_xticks(range(len(LAWS)), list(LAWS))
    panel.set_ylabel("error at a left-out setting [%]")


SPECIAL = {"fig5a": _best_clients, "fig5b": _best_clients, "theory": _theory, "laws": _laws}
