"""Pictures of what rounds cost: over K and over E_l, policy by policy, and round by round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.estimates import Estimate
from fedcell.core.showing import shortened
from fedcell.network.compare import Comparison, CostSweep, SweepPoint
from fedcell.network.ledger import Ledger
from fedcell.network.schedule import ScheduledRound

from .style import GREY, MARKERS, STYLES, new_figure, plain, plain_axes, policy_colours

TITLES = {
    "cohort": "clients per round, K",
    "local_steps": "local steps, $E_l$",
    "local_epochs": "local epochs",
}
CROWD = 100  # clients that bars are drawn for


@dataclass(frozen=True)
class _Line:
    """One line of a panel: a policy with one spread of the clients."""

    label: str
    looks: dict[str, Any]
    policy: str
    points: list[SweepPoint]


def cost_figure(sweep: CostSweep) -> Any:
    """The cost of a round over K and over E_l, with confidence bands, as in Fig. 6."""
    from matplotlib.ticker import MaxNLocator

    first = sweep.points[0].comparison
    axes = list(dict.fromkeys(point.axis for point in sweep.points))
    several = len(first.policies) > 1
    figure = new_figure(10, 7.2 if several else 5.4)
    panels = figure.subplots(
        2 if several else 1,
        len(axes),
        squeeze=False,
        sharex="col",
        gridspec_kw={"height_ratios": [2, 1] if several else [1]},
    )
    for column, axis in zip(panels.T, axes, strict=True):
        for line in _lines([point for point in sweep.points if point.axis == axis]):
            x = [point.value for point in line.points]
            costs = [point.comparison[line.policy] for point in line.points]
            _band(column[0], x, [cost.mean["staged_cost"] for cost in costs], line)
            if several:
                _band(column[1], x, [_percent(point, line.policy) for point in line.points], line)
        column[0].set_ylim(bottom=0)
        column[-1].set_xlabel(TITLES[axis])
        column[-1].xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        plain_axes(*column)
    panels[0, 0].set_ylabel("cost of a round,\n$C_u + C_n$ [s]")
    if several:
        panels[1, 0].set_ylabel(f"change against\n{plain(first.policies[0].policy)} [%]")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.suptitle(_caption(sweep), fontsize=10)
    wide = 3 + max(map(len, labels))  # of a label, in letters; some 120 fit in a line
    spreads = len({point.spread for point in sweep.points})
    ncols = max(1, min(len(labels) // spreads, 120 // wide))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
    return figure


def _caption(sweep: CostSweep) -> str:
    """How many rounds, what the bands are, and what is held in each panel."""
    first, last = sweep.points[0].comparison, sweep.points[-1].comparison
    plan = first.scenario.plan
    work = f"{plan.local_epochs} epochs" if plan.local_epochs else f"$E_l$ = {plan.local_steps}"
    averaged_over = "rounds of one fleet" if first.fleets == 1 else f"{first.fleets} fleets"
    return (
        f"{first.rounds} rounds per point, bands: 95 % confidence over {averaged_over}; "
        f"left: {work}, right: K = {last.scenario.plan.cohort}"
    )


def _band(panel: Any, x: list[int], values: Sequence[Estimate], line: _Line) -> None:
    panel.plot(x, [value.value for value in values], label=line.label, **line.looks)
    low, high = [value.low for value in values], [value.high for value in values]
    panel.fill_between(x, low, high, color=line.looks["color"], alpha=0.12, linewidth=0)


def _percent(point: SweepPoint, policy: str) -> Estimate:
    """The paired difference in percent of the mean that it is a difference to."""
    base = point.comparison.policies[0].mean["staged_cost"].value
    change = point.comparison[policy].difference["staged_cost"]
    return Estimate(*(100 * x / base for x in (change.value, change.low, change.high)))


def _lines(points: Sequence[SweepPoint]) -> list[_Line]:
    """The lines of a panel, with their labels and looks."""
    spreads = list(dict.fromkeys(point.spread for point in points))
    policies = [costs.policy for costs in points[0].comparison.policies]
    colours = policy_colours(policies)
    lines = []
    for policy in policies:
        for i, spread in enumerate(spreads):
            label = plain(policy) if len(spreads) == 1 else f"{plain(policy)}, Var {spread:g}"
            looks = {
                "color": colours[policy],
                "linestyle": STYLES[i % len(STYLES)],
                "linewidth": 1.5,
            } | MARKERS.get(policy, {"marker": "v", "markersize": 5})
            lines.append(_Line(label, looks, policy, [p for p in points if p.spread == spread]))
    return lines


def comparison_figure(comparison: Comparison) -> Any:
    """Policies side by side: the cost of a round, its duration and its energy, with intervals."""
    panels_of = {
        "staged_cost": "$C_u + C_n$ [s]",
        "objective": "joint cost (22) [s]",
        "duration": "time of a round [s]",
        "energy": "energy of a round [J]",
    }
    names = [costs.policy for costs in comparison.policies]
    colours = policy_colours(names)
    figure = new_figure(11, 1.8 + 0.3 * len(names))
    for panel, (measure, title) in zip(
        figure.subplots(1, len(panels_of), sharey=True), panels_of.items(), strict=True
    ):
        values = [costs.mean[measure] for costs in comparison.policies]
        widths = np.nan_to_num([value.half_width for value in values])
        panel.barh(
            [plain(name) for name in names],
            [value.value for value in values],
            xerr=widths,
            color=[colours[name] for name in names],
            error_kw={"ecolor": GREY, "elinewidth": 2},
        )
        panel.set_xlabel(title)
        plain_axes(panel)
    figure.axes[0].invert_yaxis()
    figure.suptitle(
        f"Means of {comparison.rounds} rounds, with 95 % intervals; K = "
        f"{comparison.scenario.plan.cohort}",
        fontsize=10,
    )
    return figure


def schedule_figure(scheduled: ScheduledRound) -> Any:
    """One round, client by client: training, then uploading, and the share of the band."""
    from matplotlib.ticker import MaxNLocator

    cost, clients = scheduled.cost, np.arange(scheduled.schedule.share.size)[:CROWD]
    compute, upload = (np.asarray(t)[:CROWD] for t in (cost.compute_time, cost.upload_time))
    figure = new_figure(9, 1.6 + 0.22 * clients.size)
    times, shares = figure.subplots(1, 2, sharey=True, gridspec_kw={"width_ratios": [2.4, 1]})
    times.barh(clients, compute, color="#56B4E9", label="training")
    times.barh(clients, upload, left=compute, color="#E69F00", label="uploading")
    times.set(xlabel="time [s]", ylabel="client")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    times.set_ylim(clients.size - 0.5, -0.5)
    if scheduled.of is None:
        times.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    else:
        titles = scheduled.of.names or scheduled.of.clients
        shown = [plain(shortened(str(title), 24)) for title in titles[:CROWD]]
        times.set_yticks(clients, shown)
    shares.barh(clients, 100 * scheduled.schedule.share[:CROWD], color=GREY)
    shares.set_xlabel("share of the band [%]")
    plain_axes(times, shares)
    return figure


def ledger_figure(ledger: Ledger) -> Any:
    """What each round took where nothing was trained: its duration and its energy."""
    figure = new_figure(9, 3.2)
    rounds = np.arange(1, ledger.rounds + 1)
    for panel, (values, name) in zip(
        figure.subplots(1, 2),
        [(ledger.duration, "time of a round [s]"), (ledger.energy, "energy of a round [J]")],
        strict=True,
    ):
        panel.plot(rounds, values, color="#0072B2", linewidth=1)
        panel.axhline(values.mean(), color=GREY, linestyle="--", label=f"mean {values.mean():.4g}")
        panel.set(xlabel="round", ylabel=name, ylim=(0, None))
        panel.legend(frameon=False)
        plain_axes(panel)
    return figure
