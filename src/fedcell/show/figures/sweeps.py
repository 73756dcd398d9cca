"""Pictures of a sweep: rounds to the target over an axis, with bands over seeds."""

from typing import Any

from fedcell.core.errors import BadInput
from fedcell.experiments.sweep import SweepResult

from .style import SPARE, STYLES, new_figure, plain, plain_axes

TITLES = {
    "plan.cohort": "clients a round, K",
    "plan.local_steps": "local steps, $E_l$",
    "cell.loss_rate": "share of lost uploads, $\\gamma$",
}
SHORT = {"clients.count": "N", "plan.cohort": "K", "plan.local_steps": "$E_l$"}
SHORT |= {"cell.loss_rate": "$\\gamma$"}
COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", *SPARE[3:]]


def sweep_figure(result: SweepResult, hold: int = 1) -> Any:
    """Rounds to the target over the longest axis of numbers, a line for each of the others."""
    experiment = result.experiment
    numbers = {
        name: values
        for name, values in experiment.axes.items()
        if all(isinstance(v, int | float) for v in values)
    }
    if not numbers:
        raise BadInput("there is no axis of numbers to draw over")
    axis = max(numbers, key=lambda name: len(numbers[name]))
    lines: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for i, point in enumerate(experiment.points):
        if result.curves_of(i):
            others = tuple((k, v) for k, v in point.labels.items() if k != axis)
            lines.setdefault(others, []).append(i)
    figure = new_figure(7.2, 4.4)
    panel = figure.subplots()
    for n, (others, places) in enumerate(lines.items()):
        places = sorted(places, key=lambda i: experiment.points[i].labels[axis])
        x = [experiment.points[i].labels[axis] for i in places]
        found = [result.rounds(i, hold).mean for i in places]
        label = ", ".join(
            plain(str(v)) if k == "variant" else f"{SHORT.get(k, plain(k))} = {plain(str(v))}"
            for k, v in others
        )
        looks = {"color": COLOURS[n % len(COLOURS)], "linestyle": STYLES[n // 8 % len(STYLES)]}
        panel.plot(x, [e.value for e in found], marker="o", markersize=4, label=label, **looks)
        low, high = [e.low for e in found], [e.high for e in found]
        panel.fill_between(x, low, high, color=looks["color"], alpha=0.12, linewidth=0)
    panel.set_xlabel(TITLES.get(axis, plain(axis)))
    panel.set_ylabel("rounds to the target")
    panel.set_title(plain(experiment.title), fontsize=10)
    plain_axes(panel)
    if len(lines) > 1:
        figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
