"""Pictures of plans: the cost over K and E_l, laws, predictions against runs, constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array
from fedcell.planning.fitted import FittedLaw
from fedcell.planning.measure import ConstantsReport
from fedcell.planning.outcome import PlanOutcome
from fedcell.planning.plan import TOLERANCE, TrainingPlan
from fedcell.planning.validate import SettingCheck

from .style import BLUE, GREEN, GREY, ORANGE, new_figure, plain, plain_axes, readable_logarithms

AIMS = {"cost": "cost (12)", "duration": "time", "energy": "energy"}
LEVELS = [1, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10]


def plan_figure(plan: TrainingPlan) -> Any:
    """What is minimised over K and E_l, with the best plan, those as good, and the paper's;
    hatched where limits forbid it."""
    grid, allowed, paper = plan.grid, plan.allowed, plan.paper
    if grid is None or allowed is None:
        raise BadInput("a plan from a file has no grid to draw: plan again with `plan_training`")
    x, y = plan.local_steps, plan.cohort
    values: Array = getattr(grid, plan.minimised)
    best = values[grid.at(int(y.value), int(x.value))]
    more = values[grid.at(paper.cohort, paper.local_steps)] / best - 1
    k, e, relative = grid.cohorts, grid.steps, values / best
    figure = new_figure(8.4, 5.2)
    panel = figure.subplots()
    shades = panel.contourf(
        e, k, relative, levels=LEVELS, colors=_shades(len(LEVELS) + 1), extend="both"
    )
    panel.contour(e, k, relative, levels=[1 + TOLERANCE], colors=[GREEN], linewidths=2)
    if not allowed.all():
        beyond = panel.contourf(e, k, allowed, levels=[-1, 0.5], colors="none", hatches=["//"])
        beyond.set(edgecolor="#777777", linewidth=0)
        panel.fill([], [], facecolor="none", hatch="//", edgecolor="#777777", label="beyond limits")
    panel.errorbar(
        x.value,
        y.value,
        xerr=[[x.value - x.low], [x.high - x.value]],
        yerr=[[y.value - y.low], [y.high - y.value]],
        fmt="o",
        color="black",
        markersize=7,
        capsize=3,
        label=f"plan: K = {y.value}, $E_l$ = {x.value}",
    )
    panel.plot([], [], color=GREEN, linewidth=2, label=f"within {TOLERANCE:.0%} of it")
    panel.plot(
        *(paper.local_steps, paper.cohort, "X"),
        color=ORANGE,
        markersize=10,
        label=f"paper: K = {paper.cohort}, $E_l$ = {paper.local_steps} ({more:+.0%})",
    )
    panel.set(xscale="log", yscale="log", xlabel="local steps, $E_l$", ylabel="clients a round, K")
    panel.set_xlim(e[0], e[-1])
    panel.set_ylim(k[0], k[-1])
    readable_logarithms(panel.xaxis, panel.yaxis)
    label = f"{AIMS[plan.minimised]}, over the plan's"
    bar = figure.colorbar(shades, ax=panel, label=label, ticks=LEVELS)
    bar.ax.set_yticklabels([f"{level:g}" for level in LEVELS])
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _shades(count: int) -> list[Any]:
    """From white to blue."""
    from matplotlib import colormaps

    return [colormaps["Blues"](0.9 * i / (count - 1)) for i in range(count)]


def checks_figure(checks: Sequence[SettingCheck], title: str) -> Any:
    """Predicted against measured rounds, with the intervals; on the line they agree."""
    if not checks:
        raise BadInput("there are no settings to draw: let there be some runs first")
    figure = new_figure(5.6, 5.2)
    panel = figure.subplots()
    ends = [
        min(check.predicted.low for check in checks) * 0.9,
        max(max(check.predicted.high, check.measured) for check in checks) * 1.1,
    ]
    panel.plot(ends, ends, color=GREY, linewidth=1)
    for inside, colour, label in ((True, BLUE, "inside its interval"), (False, ORANGE, "outside")):
        some = [check for check in checks if check.inside == inside]
        if some:
            value = np.array([check.predicted.value for check in some])
            low = value - [check.predicted.low for check in some]
            high = np.array([check.predicted.high for check in some]) - value
            panel.errorbar(
                [check.measured for check in some],
                value,
                yerr=[low, high],
                fmt="o",
                color=colour,
                markersize=4,
                linewidth=1,
                label=f"{label} ({len(some)})",
            )
    panel.set(xscale="log", yscale="log", xlabel="rounds, measured", ylabel="rounds, predicted")
    panel.set_title(plain(title), fontsize=10)
    readable_logarithms(panel.xaxis, panel.yaxis)
    plain_axes(panel)
    panel.legend(frameon=False)
    return figure


def law_figure(law: FittedLaw, loss_rate: float = 0.0) -> Any:
    """Rounds to the target over local steps for several K, with the interval of one run."""
    figure = new_figure(6.4, 4.2)
    panel = figure.subplots()
    steps = np.unique(np.rint(np.geomspace(1, 200, 60)).astype(int))
    for cohort, colour in ((1, ORANGE), (5, GREEN), (20, BLUE)):
        mean, low, high = law.predict(np.full(steps.size, cohort), steps, loss_rate)
        panel.plot(steps, mean, color=colour, label=f"K = {cohort}")
        panel.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
    panel.set(xscale="log", yscale="log", xlabel="local steps, $E_l$", ylabel="rounds")
    panel.set_title("Rounds to the target, with the 90 % interval of one run", fontsize=10)
    readable_logarithms(panel.xaxis, panel.yaxis)
    plain_axes(panel)
    panel.legend(frameon=False)
    return figure


def outcome_figure(outcome: PlanOutcome) -> Any:
    """What a run took over what was predicted, with the intervals of the plan."""
    figure = new_figure(7.2, 1.4 + 0.26 * len(outcome.measured))
    panel = figure.subplots()
    for i, measured in enumerate(outcome.measured):
        p = measured.predicted
        panel.plot([p.low / p.value, p.high / p.value], [i, i], color=GREY, linewidth=4, alpha=0.5)
        colour = ORANGE if measured.inside is False else BLUE
        panel.plot(measured.taken / p.value, i, "o", color=colour)
    panel.axvline(1, color="black", linewidth=1)
    names = [plain(f"{m.policy}, {m.measure}") for m in outcome.measured]
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xlabel("taken over predicted; grey: the plan's 90 % interval")
    plain_axes(panel)
    return figure


def constants_figure(report: ConstantsReport) -> Any:
    """lambda and the Polyak-Lojasiewicz ratio along a training: constants would be level."""
    measured = report.measured
    figure = new_figure(8.4, 3.4)
    left, right = figure.subplots(1, 2, sharex=True)
    left.plot(measured.rounds, measured.diversities, "o-", color=BLUE)
    left.set_ylabel("$\\lambda$ (Definition 1)")
    right.plot(measured.rounds, measured.pl_ratios, "o-", color=GREEN)
    right.set_ylabel("$|\\nabla f|^2 / 2(f - f^*)$, at least $\\mu$")
    for panel in (left, right):
        panel.set(xlabel="rounds", yscale="log")
        readable_logarithms(panel.yaxis)
    plain_axes(left, right)
    return figure
