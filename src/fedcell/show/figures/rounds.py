"""Figures of the cost of rounds: over K and E_l, by policy, and by round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate
from fedcell.network.compare import Comparison, CostSweep, SweepPoint
from fedcell.network.ledger import Ledger
from fedcell.network.schedule import ScheduledRound

from .style import (
    BLUE,
    GREY,
    MARKERS,
    STYLES,
    legend_inside,
    lone_marker,
    new_figure,
    plain,
    plain_axes,
    policy_colours,
    short_name,
    whole_numbers,
)

TITLES = {
    "cohort": "clients per round, K",
    "local_steps": "local steps, $E_l$",
    "local_epochs": "local epochs",
}
CROWD, NUMBERED = 100, 30  # clients that bars are drawn for; that have a tick each


@dataclass(frozen=True)
class _Line:
    """One line of a panel: a policy with one spread of the clients."""

    label: str
    looks: dict[str, Any]
    policy: str
    points: list[SweepPoint]


def draw_costs(panel: Any, sweep: CostSweep, axis: str, change: bool = False) -> None:
    """Draw the cost of a round over "cohort" (K) or "local_steps" (E_l), with confidence bands.

    With `change`, draw the change against the first policy instead.
    """
    points = [point for point in sweep.points if point.axis == axis]
    if not points:
        known = ", ".join(dict.fromkeys(point.axis for point in sweep.points))
        raise BadInput(f"this sweep has no costs over {axis}: choose of {known}")
    for line in _lines(points):
        x = [point.value for point in line.points]
        if change:
            _band(panel, x, [_percent(point, line.policy) for point in line.points], line)
        else:
            costs = [point.comparison[line.policy] for point in line.points]
            _band(panel, x, [cost.mean["staged_cost"] for cost in costs], line)
    if not change:  # after all lines: a limit that is set ends the search for the others
        panel.set_ylim(bottom=min(0, panel.dataLim.y0))
    first = short_name(sweep.points[0].comparison.policies[0].policy)
    words = f"change against\n{first} [%]" if change else "cost of a round,\n$C_u + C_n$ [s]"
    panel.set(xlabel=TITLES[axis], ylabel=words)
    whole_numbers(panel.xaxis)
    plain_axes(panel)


def cost_figure(sweep: CostSweep) -> Any:
    """Return the cost of a round over K and over E_l, with confidence bands, as in Fig. 6."""
    axes = list(dict.fromkeys(point.axis for point in sweep.points))
    several = len(sweep.points[0].comparison.policies) > 1
    figure = new_figure(10, 7.2 if several else 5.4)
    panels = figure.subplots(
        2 if several else 1,
        len(axes),
        squeeze=False,
        sharex="col",
        gridspec_kw={"height_ratios": [2, 1] if several else [1]},
    )
    for column, axis in zip(panels.T, axes, strict=True):
        draw_costs(column[0], sweep, axis)
        if several:
            draw_costs(column[1], sweep, axis, change=True)
            column[0].set_xlabel("")  # it is that of the panel below
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.suptitle(_caption(sweep), fontsize=10)
    wide = 3 + max(map(len, labels))  # of a label, in letters; some 120 fit in a line
    spreads = len({point.spread for point in sweep.points})
    ncols = max(1, min(len(labels) // spreads, 120 // wide))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
    return figure


def _caption(sweep: CostSweep) -> str:
    """Return the number of rounds, the kind of band, and the fixed values of each panel."""
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
    """Return the paired difference in percent of the mean of the first policy."""
    base = point.comparison.policies[0].mean["staged_cost"].value
    change = point.comparison[policy].difference["staged_cost"]
    return Estimate(*(100 * x / base for x in (change.value, change.low, change.high)))


def _lines(points: Sequence[SweepPoint]) -> list[_Line]:
    """Return the lines of a panel, with labels and styles."""
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


MEASURES = {
    "staged_cost": "$C_u + C_n$ [s]",
    "objective": "joint cost (22) [s]",
    "duration": "time of a round [s]",
    "energy": "energy of a round [J]",
}


def draw_measure(panel: Any, comparison: Comparison, measure: str) -> None:
    """Draw a measure of a round by policy, with intervals."""
    names = [costs.policy for costs in comparison.policies]
    colours = policy_colours(names)
    values = [costs.mean[measure] for costs in comparison.policies]
    panel.barh(
        range(len(names)),
        [value.value for value in values],
        xerr=np.nan_to_num([value.half_width for value in values]),
        color=[colours[name] for name in names],
        error_kw={"ecolor": GREY, "elinewidth": 2},
    )
    panel.set_yticks(range(len(names)), [short_name(name) for name in names])
    panel.set_ylim(len(names) - 0.5, -0.5)  # the first above
    panel.set_xlabel(MEASURES[measure])
    plain_axes(panel)


def comparison_figure(comparison: Comparison) -> Any:
    """Return cost, duration and energy of a round by policy, with intervals."""
    figure = new_figure(11, 1.8 + 0.3 * len(comparison.policies))
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    for panel, measure in zip(panels, MEASURES, strict=True):
        draw_measure(panel, comparison, measure)
    figure.suptitle(
        f"Means of {comparison.rounds} rounds, with 95 % intervals; K = "
        f"{comparison.scenario.plan.cohort}",
        fontsize=10,
    )
    return figure


STATE_LOOKS = {
    "download": ("#009E73", "downloading"),
    "train": ("#56B4E9", "training"),
    "upload": ("#E69F00", "uploading"),
    "wait": ("#DDDDDD", "waiting"),
}


def draw_times(panel: Any, scheduled: ScheduledRound) -> None:
    """Draw one round by client: the download if it takes time, training, uploading, and waiting
    where devices are declared."""
    line = scheduled.timeline
    count = min(CROWD, scheduled.schedule.share.size)
    for state, (colour, label) in STATE_LOOKS.items():
        begin, length = line.begin[state][:count], line.seconds[state][:count]
        if state in ("train", "upload") or (length.any() and scheduled.has_devices):
            panel.barh(np.arange(count), length, left=begin, color=colour, label=label)
    panel.set_xlabel("time [s]")
    _finish_clients(panel, scheduled, count)


def draw_shares(panel: Any, scheduled: ScheduledRound) -> None:
    """Draw one round by client: the share of the band."""
    shares = 100 * scheduled.schedule.share[:CROWD]
    panel.barh(np.arange(shares.size), shares, color=GREY)
    panel.set_xlabel(f"share of the {'airtime' if scheduled.in_turn else 'band'} [%]")
    _finish_clients(panel, scheduled, shares.size)


def draw_powers(panel: Any, scheduled: ScheduledRound) -> None:
    """Draw one round by client: the transmit power that the policy chose, in dBm."""
    assert scheduled.schedule.power is not None
    dbm = 10 * np.log10(1e3 * scheduled.schedule.power[:CROWD])
    panel.plot(dbm, np.arange(dbm.size), "o", color=BLUE, markersize=4)
    low, high = float(dbm.min()), float(dbm.max())
    room = max(1.0, 0.08 * (high - low))
    panel.set_xlim(low - room, high + room)
    panel.set_xlabel("transmit power [dBm]")
    _finish_clients(panel, scheduled, dbm.size)


def _finish_clients(panel: Any, scheduled: ScheduledRound, count: int) -> None:
    every = scheduled.schedule.share.size
    panel.set_ylabel("client" if count == every else f"client, the first {count} of {every}")
    panel.set_ylim(count - 0.5, -0.5)
    if scheduled.of is None and count <= NUMBERED:
        panel.set_yticks(range(count))
    elif scheduled.of is None:
        whole_numbers(panel.yaxis)
    else:
        titles = scheduled.of.names or scheduled.of.clients
        shown = [short_name(str(title)) for title in titles[:count]]
        panel.set_yticks(range(count), shown)
    plain_axes(panel)


def schedule_figure(scheduled: ScheduledRound) -> Any:
    """Return one round by client: training, then uploading, the share of the band, and the transmit
    power where the policy chose it."""
    clients = min(CROWD, scheduled.schedule.share.size)
    figure = new_figure(9, 1.6 + 0.22 * clients)
    widths = [2.4, 1] if scheduled.schedule.power is None else [2.2, 1, 1]
    panels = figure.subplots(1, len(widths), sharey=True, gridspec_kw={"width_ratios": widths})
    draw_times(panels[0], scheduled)
    draw_shares(panels[1], scheduled)
    if scheduled.schedule.power is not None:
        draw_powers(panels[2], scheduled)
    for panel in panels[1:]:
        panel.set_ylabel("")
    figure.legend(loc="outside upper center", ncols=len(STATE_LOOKS), frameon=False)
    return figure


def draw_each_round(panel: Any, ledger: Ledger, what: str) -> None:
    """Draw the "duration" or the "energy" of each round."""
    values = getattr(ledger, what)
    x = np.arange(1, ledger.rounds + 1)
    panel.plot(x, values, color="#0072B2", linewidth=1, **lone_marker(x))
    panel.axhline(values.mean(), color=GREY, linestyle="--", label=f"mean {values.mean():.4g}")
    panel.set(xlabel="round", ylabel=MEASURES[what], ylim=(0, None))
    whole_numbers(panel.xaxis)
    plain_axes(panel)


def ledger_figure(ledger: Ledger) -> Any:
    """Return duration and energy of each round, for ledgers without training."""
    figure = new_figure(9, 3.2)
    for panel, what in zip(figure.subplots(1, 2), ("duration", "energy"), strict=True):
        draw_each_round(panel, ledger, what)
        legend_inside(panel)
    return figure
