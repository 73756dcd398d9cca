"""Pictures of plans: the cost over K and E_l, predictions against runs, constants on the way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.network.compare import Row
from fedcell.planning.constants import Measured
from fedcell.planning.grid import Chart
from fedcell.planning.plan import TOLERANCE

AIMS = {"cost": "cost (12)", "seconds": "time", "joules": "energy"}
ORANGE, BLUE, GREEN = "#E69F00", "#0072B2", "#009E73"  # of Okabe and Ito, as in figures.py


def plan_figure(over: Chart, plan: Row, allowed: Any, path: Path) -> None:
    """What is minimised over K and E_l, with the best plan, those as good, and the paper's;
    hatched where limits forbid it."""
    from matplotlib.figure import Figure

    aim, paper = plan["minimise"], plan["paper"]
    values = getattr(over, aim)
    best = values[over.at(plan["cohort"]["value"], plan["local_steps"]["value"])]
    there = values[over.at(paper["cohort"], paper["local_steps"])]
    k, e, relative = over.cohorts, over.steps, values / best
    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    panel = figure.subplots()
    levels = [1, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10]
    shades = panel.contourf(
        e, k, relative, levels=levels, colors=_shades(len(levels) + 1), extend="both"
    )
    panel.contour(e, k, relative, levels=[1 + TOLERANCE], colors=[GREEN], linewidths=2)
    if not allowed.all():
        beyond = panel.contourf(e, k, allowed, levels=[-1, 0.5], colors="none", hatches=["//"])
        beyond.set(edgecolor="#777777", linewidth=0)
        panel.fill([], [], facecolor="none", hatch="//", edgecolor="#777777", label="beyond limits")
    x, y = plan["local_steps"], plan["cohort"]
    panel.errorbar(
        x["value"],
        y["value"],
        xerr=[[x["value"] - x["low"]], [x["high"] - x["value"]]],
        yerr=[[y["value"] - y["low"]], [y["high"] - y["value"]]],
        fmt="o",
        color="black",
        markersize=7,
        capsize=3,
        label=f"plan: K = {y['value']}, $E_l$ = {x['value']}",
    )
    panel.plot([], [], color=GREEN, linewidth=2, label=f"within {TOLERANCE:.0%} of it")
    panel.plot(
        *(paper["local_steps"], paper["cohort"], "X"),
        color=ORANGE,
        markersize=10,
        label=f"paper: K = {paper['cohort']}, $E_l$ = {paper['local_steps']}"
        f" ({there / best - 1:+.0%})",
    )
    panel.set(xscale="log", yscale="log", xlabel="local steps, $E_l$", ylabel="clients a round, K")
    panel.set_xlim(e[0], e[-1])
    panel.set_ylim(k[0], k[-1])
    _label(panel.xaxis, panel.yaxis)
    bar = figure.colorbar(shades, ax=panel, label=f"{AIMS[aim]}, over the plan's", ticks=levels)
    bar.ax.set_yticklabels([f"{level:g}" for level in levels])
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def _label(*axes: Any) -> None:
    """Numbers that people read, on axes that are logarithmic."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


def _shades(count: int) -> list[Any]:
    """From white to blue."""
    from matplotlib import colormaps

    return [colormaps["Blues"](0.9 * i / (count - 1)) for i in range(count)]


def validation_figure(rows: Sequence[Row], title: str, path: Path) -> None:
    """Predicted against measured rounds, with the intervals; on the line they agree."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 5.2), layout="constrained")
    panel = figure.subplots()
    ends = [
        min(r["low"] for r in rows) * 0.9,
        max(max(r["high"], r["measured"]) for r in rows) * 1.1,
    ]
    panel.plot(ends, ends, color="#999999", linewidth=1)
    for seen, colour, label in ((True, BLUE, "inside its interval"), (False, ORANGE, "outside")):
        some = [row for row in rows if row["inside"] == seen]
        if some:
            value = np.array([row["predicted"] for row in some])
            low = value - [row["low"] for row in some]
            high = np.array([row["high"] for row in some]) - value
            panel.errorbar(
                [row["measured"] for row in some],
                value,
                yerr=[low, high],
                fmt="o",
                color=colour,
                markersize=4,
                linewidth=1,
                label=f"{label} ({len(some)})",
            )
    panel.set(xscale="log", yscale="log", xlabel="rounds, measured", ylabel="rounds, predicted")
    panel.set_title(title, fontsize=10)
    _label(panel.xaxis, panel.yaxis)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)
    figure.savefig(path, dpi=150)


def constants_figure(said: Measured, path: Path) -> None:
    """lambda and the Polyak-Lojasiewicz ratio along a training: constants would be level."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    left.plot(said.rounds, said.diversities, "o-", color=BLUE)
    left.set_ylabel("$\\lambda$ (Definition 1)")
    right.plot(said.rounds, said.pl_ratios, "o-", color=GREEN)
    right.set_ylabel("$|\\nabla f|^2 / 2(f - f^*)$, at least $\\mu$")
    for panel in (left, right):
        panel.set(xlabel="rounds", yscale="log")
        _label(panel.yaxis)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
