"""Pictures of tidy rows. Nothing is simulated here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.network.compare import Row
from fedcell.network.ledger import Ledger

# Colours of Okabe and Ito, told apart by most readers; each policy keeps its own everywhere.
COLOURS = {
    "even": "#E69F00",
    "distributed": "#56B4E9",
    "equal-finish": "#009E73",
    "optimal-staged": "#CC79A7",
    "optimal": "#000000",
}
# Lines that lie on each other are told apart by their markers: rings, crosses, small and large.
MARKERS = {
    "even": {"marker": "s", "markersize": 5},
    "distributed": {"marker": "^", "markersize": 6},
    "equal-finish": {"marker": "o", "markersize": 9, "markerfacecolor": "none"},
    "optimal-staged": {"marker": "D", "markersize": 4},
    "optimal": {"marker": "x", "markersize": 6},
}
SPARE = ["#0072B2", "#D55E00", "#F0E442", "#999999"]
FORMATS = ("png", "pdf", "svg")
STYLES = ["-", "--", ":", "-."]
TITLES = {
    "cohort": "clients per round, K",
    "local_steps": "local steps, $E_l$",
    "local_epochs": "local epochs",
}


def cost_figure(rows: Sequence[Row], caption: str, path: Path) -> None:
    """The cost of a round over K and over E_l, with confidence bands, as in Fig. 6."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a backend for all
    from matplotlib.ticker import MaxNLocator

    axes = list(dict.fromkeys(row["axis"] for row in rows))
    several = len({row["policy"] for row in rows}) > 1
    figure = Figure(figsize=(10, 6.6 if several else 5))
    panels = figure.subplots(
        2 if several else 1,
        len(axes),
        squeeze=False,
        sharex="col",
        gridspec_kw={"height_ratios": [2, 1] if several else [1]},
    )
    for column, axis in zip(panels.T, axes, strict=True):
        for label, looks, line in _lines([row for row in rows if row["axis"] == axis]):
            x = [row["value"] for row in line]
            _band(column[0], x, [row["staged"] for row in line], label, looks)
            if several:
                _band(column[1], x, [_percent(row, rows) for row in line], label, looks)
        column[0].set_ylim(bottom=0)
        column[-1].set_xlabel(TITLES[axis])
        column[-1].xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    panels[0, 0].set_ylabel("cost of a round,\n$C_u + C_n$ [s]")
    if several:
        panels[1, 0].set_ylabel(f"change against\n{rows[0]['against']} [%]")
    for panel in panels.flat:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.suptitle(caption, fontsize=10)
    figure.tight_layout()
    wide = 3 + max(map(len, labels))  # of a label, in letters; some 120 fit in a line
    spreads = len({row["spread"] for row in rows})
    ncols = max(1, min(len(labels) // spreads, 120 // wide))
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=ncols)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def run_figure(ledgers: Mapping[str, Ledger], target: float | None, path: Path) -> None:
    """The training loss over rounds, over simulated seconds and over joules."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    first = next(iter(ledgers.values()))
    assert first.train_loss is not None
    seen = np.flatnonzero(np.isfinite(first.train_loss))  # rounds that were evaluated
    loss = first.train_loss[seen]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    panels[0].plot(seen + 1, loss, color="black", linewidth=1.5)
    panels[0].set_xlabel("rounds")
    panels[0].set_ylabel("training loss")
    for i, (name, ledger) in enumerate(ledgers.items()):
        # Lines that lie on each other stay visible: the later, the thinner.
        looks: dict[str, Any] = {"color": COLOURS.get(name, SPARE[i % len(SPARE)])}
        looks |= {"linewidth": 1 + 3 * (len(ledgers) - 1 - i) / max(1, len(ledgers) - 1)}
        panels[1].plot(ledger.seconds[seen], loss, label=name, **looks)
        panels[2].plot(ledger.joules[seen], loss, label=name, **looks)
    panels[1].set_xlabel("simulated time [s]")
    panels[2].set_xlabel("energy of all clients [J]")
    for panel in panels:
        if seen.size and loss.min() > 0:
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_locator(NullLocator())
        if target is not None:
            panel.axhline(target, color="#999999", linestyle="--", linewidth=1)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlim(left=0)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=150)


def _band(panel: Any, x: list[int], values: Sequence[Row], label: str, looks: Row) -> None:
    panel.plot(x, [value["mean"] for value in values], label=label, **looks)
    low, high = [value["low"] for value in values], [value["high"] for value in values]
    panel.fill_between(x, low, high, color=looks["color"], alpha=0.12, linewidth=0)


def _percent(row: Row, rows: Sequence[Row]) -> Row:
    """The paired difference of a row in percent of the mean that it is a difference to."""
    here = ("axis", "value", "spread")
    base = next(
        other["staged"]["mean"]
        for other in rows
        if other["policy"] == row["against"] and all(other[key] == row[key] for key in here)
    )
    return {name: 100 * value / base for name, value in row["difference"]["staged"].items()}


def _lines(rows: Sequence[Row]) -> list[tuple[str, dict[str, Any], list[Row]]]:
    """The rows of each line of a panel, with its label and looks."""
    spreads = list(dict.fromkeys(row["spread"] for row in rows))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    others = [policy for policy in policies if policy not in COLOURS]
    colours = COLOURS | {policy: SPARE[i % len(SPARE)] for i, policy in enumerate(others)}
    lines = []
    for policy in policies:
        for i, spread in enumerate(spreads):
            label = policy if len(spreads) == 1 else f"{policy}, Var {spread:g}"
            style = {
                "color": colours[policy],
                "linestyle": STYLES[i % len(STYLES)],
                "linewidth": 1.5,
            } | MARKERS.get(policy, {"marker": "v", "markersize": 5})
            line = [row for row in rows if row["policy"] == policy and row["spread"] == spread]
            lines.append((label, style, line))
    return lines
