"""Pictures of plans: the cost over K and E_l, laws, predictions against runs, constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array
from fedcell.planning.choice.grid import PlanGrid
from fedcell.planning.choice.plan import TOLERANCE, PlanOutcome, TrainingPlan
from fedcell.planning.constants import ConstantsReport
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.pilot.validation import SettingCheck

from .style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    new_figure,
    one_panel,
    plain,
    plain_axes,
    readable_logarithms,
    short_name,
    whole_numbers,
)

OBJECTIVE_LABELS = {"cost": "cost", "duration": "time", "energy": "energy"}
FINE, MOST_DOTS = 60, 500  # lines of the picture; settings that are marked
LEVELS = [1, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10]


def draw_plan(panel: Any, plan: TrainingPlan) -> None:
    """What is minimised over K and E_l, with the best plan, those as good, what was tried,
    and the paper's."""
    grid, allowed, paper = plan.grid, plan.allowed, plan.paper
    if grid is None or allowed is None:
        raise BadInput("a plan from a file has no grid to draw: plan again with `plan_training`")
    x, y = plan.local_steps_interval, plan.cohort_interval
    best = float(getattr(plan, plan.minimised).value)
    more = getattr(paper, plan.minimised) / best - 1
    k, e, relative = _surface(grid, plan.minimised, best)
    shades = panel.contourf(
        e, k, relative, levels=LEVELS, colors=_shades(len(LEVELS) + 1), extend="both"
    )
    panel.contour(e, k, relative, levels=[1 + TOLERANCE], colors=[GREEN], linewidths=2)
    for here, colour, label in (
        (grid.candidates & allowed, "#555555", "tried" if grid.of_pilot else ""),
        (grid.candidates & ~allowed, "white", "beyond limits"),
    ):
        i, j = np.nonzero(here)
        if 0 < i.size <= MOST_DOTS and label:
            looks: dict[str, Any] = {"markeredgecolor": "#555555", "color": colour, "markersize": 4}
            panel.plot(grid.steps[j], grid.cohorts[i], "o", label=label, clip_on=False, **looks)
    label = f"plan: K = {plan.cohort}, $E_l$ = {plan.local_steps}"
    dot: dict[str, Any] = {"color": "black", "markersize": 7, "clip_on": False}
    panel.plot(plan.local_steps, plan.cohort, "o", label=label, **dot)
    bars = panel.errorbar(
        plan.local_steps,
        plan.cohort,
        xerr=[[x.value - x.low], [x.high - x.value]],
        yerr=[[y.value - y.low], [y.high - y.value]],
        fmt="none",
        ecolor="black",
        capsize=3,
    )
    for part in bars.get_children():  # whole also at the border
        part.set_clip_on(False)
    panel.plot([], [], color=GREEN, linewidth=2, label=f"within {TOLERANCE:.0%} of the plan")
    panel.plot(
        *(paper.local_steps, paper.cohort, "X"),
        color=ORANGE,
        markersize=10,
        clip_on=False,
        label=f"paper: K = {paper.cohort}, $E_l$ = {paper.local_steps} ({more:+.0%})",
    )
    panel.set(xscale="log", yscale="log", xlabel="local steps, $E_l$", ylabel="clients a round, K")
    # The paper's choice may lie beyond what was tried.
    panel.set_xlim(min(e[0], paper.local_steps), max(e[-1], paper.local_steps))
    panel.set_ylim(min(k[0], paper.cohort), max(k[-1], paper.cohort))
    readable_logarithms(panel.xaxis, panel.yaxis, whole=True)
    label = f"{OBJECTIVE_LABELS[plan.minimised]}, over the plan's"
    bar = panel.figure.colorbar(shades, ax=panel, label=label, ticks=LEVELS)
    bar.ax.set_yticklabels([f"{level:g}" for level in LEVELS])


def plan_figure(plan: TrainingPlan) -> Any:
    """The cost over K and E_l, with the plan in it."""
    figure = new_figure(8.4, 5.2)
    draw_plan(figure.subplots(), plan)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _surface(grid: PlanGrid, measure: str, best: float) -> tuple[Array, Array, Array]:
    """K, E_l and what is minimised over them, in parts of the best, finely enough to be drawn."""
    surface = grid.surface(FINE)
    k, e = surface.cohorts.astype(float), surface.steps.astype(float)
    relative = np.minimum(getattr(surface, measure) / best, 1e6)
    # The only K, or E_l, that there is becomes a stripe: a point has no area to shade.
    for axis, size in enumerate(relative.shape):
        relative = relative.repeat(2, axis) if size == 1 else relative
    k, e = (v * np.array([0.9, 1.1]) if v.size == 1 else v for v in (k, e))
    return k, e, relative


def _shades(count: int) -> list[Any]:
    """From white to blue."""
    from matplotlib import colormaps

    return [colormaps["Blues"](0.9 * i / (count - 1)) for i in range(count)]


def draw_checks(panel: Any, checks: Sequence[SettingCheck], title: str) -> None:
    """Predicted against measured rounds, with the intervals; on the line they agree."""
    if not checks:
        raise BadInput("there are no settings to draw: let there be some runs first")
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


def checks_figure(checks: Sequence[SettingCheck], title: str) -> Any:
    """Predicted against measured rounds."""
    figure = new_figure(5.6, 5.4)
    draw_checks(figure.subplots(), checks, title)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_law(panel: Any, law: FittedLaw, loss_rate: float = 0.0) -> None:
    """Rounds to the target over local steps for several K, with the interval of one run."""
    steps = np.unique(np.rint(np.geomspace(1, 200, 60)).astype(int))
    for cohort, colour in ((1, ORANGE), (5, GREEN), (20, BLUE)):
        mean, low, high = law.predict(np.full(steps.size, cohort), steps, loss_rate)
        panel.plot(steps, mean, color=colour, label=f"K = {cohort}")
        panel.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
    panel.set(xscale="log", yscale="log", xlabel="local steps, $E_l$", ylabel="rounds")
    panel.set_title("Rounds to the target, with the 90 % interval of one run", fontsize=10)
    readable_logarithms(panel.xaxis, panel.yaxis)
    plain_axes(panel)


def law_figure(law: FittedLaw, loss_rate: float = 0.0) -> Any:
    """Rounds to the target over local steps for several K."""
    return one_panel(6.4, 4.2, lambda panel: draw_law(panel, law, loss_rate))


def draw_outcome(panel: Any, outcome: PlanOutcome) -> None:
    """What a run took over what was predicted, with the intervals of the plan."""
    for i, measured in enumerate(outcome.measured):
        p = measured.predicted
        if np.isfinite([p.low, p.high]).all():
            ends = [p.low / p.value, p.high / p.value]
            panel.plot(ends, [i, i], color=GREY, linewidth=4, alpha=0.5)
        colour = ORANGE if outcome.inside(measured) is False else BLUE
        panel.plot(measured.taken / p.value, i, "o", color=colour)
    panel.axvline(1, color="black", linewidth=1)
    names = [f"{short_name(m.policy)}, {m.measure}" for m in outcome.measured]
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    of = " (another run than was planned)" if outcome.differing else ""
    panel.set_xlabel(f"taken{of} over predicted; grey: the plan's 90 % interval")
    plain_axes(panel)


def outcome_figure(outcome: PlanOutcome) -> Any:
    """What a run took over what was predicted."""
    height = 1.4 + 0.26 * len(outcome.measured)
    return one_panel(7.2, height, lambda panel: draw_outcome(panel, outcome))


def draw_diversities(panel: Any, report: ConstantsReport) -> None:
    """lambda along a training: a constant would be level."""
    _draw_along(panel, report, report.measured.diversities, BLUE)
    panel.set_ylabel("$\\lambda$ (Definition 1)")


def draw_pl_ratios(panel: Any, report: ConstantsReport) -> None:
    """The Polyak-Lojasiewicz ratio along a training: a constant would be level."""
    _draw_along(panel, report, report.measured.pl_ratios, GREEN)
    panel.set_ylabel("$|\\nabla f|^2 / 2(f - f^*)$, at least $\\mu$")


def _draw_along(panel: Any, report: ConstantsReport, values: Sequence[float], colour: str) -> None:
    panel.plot(report.measured.rounds, values, "o-", color=colour)
    panel.set_xlabel("rounds")
    whole_numbers(panel.xaxis)
    if all(value > 0 for value in values if np.isfinite(value)):  # 0 has no logarithm
        panel.set_yscale("log")
        readable_logarithms(panel.yaxis)
    plain_axes(panel)


def constants_figure(report: ConstantsReport) -> Any:
    """lambda and the Polyak-Lojasiewicz ratio along a training."""
    figure = new_figure(8.4, 3.4)
    left, right = figure.subplots(1, 2, sharex=True)
    draw_diversities(left, report)
    draw_pl_ratios(right, report)
    return figure
