"""Pictures of a run: its loss over rounds, over simulated time and over energy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcell.core.targets import Target
from fedcell.network.ledger import Ledger

from .style import GREY, new_figure, plain, plain_axes, policy_colours, readable_logarithms


def run_figure(ledgers: Mapping[str, Ledger], target: Target | None = None) -> Any:
    """The training loss, or the accuracy where that is the target, over rounds, over simulated
    seconds and over joules, for each policy."""
    first = next(iter(ledgers.values()))
    accurate = target is not None and target.accuracy is not None
    watched = first.accuracy if accurate else first.train_loss
    seen = np.flatnonzero(np.isfinite(watched))  # rounds that were evaluated
    loss = watched[seen]
    figure = new_figure(11, 3.6)
    panels = figure.subplots(1, 3, sharey=True)
    panels[0].plot(seen + 1, loss, color="black", linewidth=1.5)
    panels[0].set_xlabel("rounds")
    panels[0].set_ylabel("accuracy" if accurate else "training loss")
    colours = policy_colours(list(ledgers))
    for i, (name, ledger) in enumerate(ledgers.items()):
        # Lines that lie on each other stay visible: the later, the thinner.
        looks: dict[str, Any] = {"color": colours[name]}
        looks |= {"linewidth": 1 + 3 * (len(ledgers) - 1 - i) / max(1, len(ledgers) - 1)}
        panels[1].plot(ledger.total_duration[seen], loss, label=plain(name), **looks)
        panels[2].plot(ledger.total_energy[seen], loss, label=plain(name), **looks)
    panels[1].set_xlabel("simulated time [s]")
    panels[2].set_xlabel("energy of all clients [J]")
    for panel in panels:
        if seen.size and loss.min() > 0 and not accurate:
            panel.set_yscale("log")
            readable_logarithms(panel.yaxis)
        if target is not None:
            panel.axhline(target.value, color=GREY, linestyle="--", linewidth=1)
        plain_axes(panel)
        panel.set_xlim(left=0)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
