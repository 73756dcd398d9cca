"""Figures of a partition."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcell.core.types import Ints

from .style import new_figure, plain, short_name

NAMED = 30  # clients, or classes, that have a tick each
LONGEST, LETTER = 20, 0.08  # letters of a client's name, and what each adds to the height [in]
COLUMNS = 500  # of a heat map, more than which would blur


TICKS: dict[str, Any] = {"nbins": 6, "integer": True, "steps": [1, 2, 5, 10]}


def draw_labels(panel: Any, counts: Ints, names: Sequence[str] | None = None) -> None:
    """Draw the labels of each client as a heat map of (client, class) counts."""
    from matplotlib.ticker import MaxNLocator

    clients, classes = counts.shape
    # Like clients stand side by side, so neighbours may share a column where they are many.
    order = np.lexsort(np.argsort(-counts, axis=1, kind="stable")[:, 1::-1].T)
    crowd = -(-clients // COLUMNS)
    first = np.arange(0, clients, crowd)
    columns = np.add.reduceat(counts[order], first) / np.diff(first, append=clients)[:, None]
    image = panel.imshow(
        columns.T, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, origin="lower"
    )
    what = "samples" if crowd == 1 else f"samples, mean of {crowd} clients"
    panel.figure.colorbar(image, ax=panel, label=what, pad=0.02, ticks=MaxNLocator(**TICKS))
    some = "1 client" if clients == 1 else f"{clients} clients"
    panel.set_xlabel(f"{some}, by their commonest classes")
    panel.set_ylabel("class")
    panel.yaxis.set_major_locator(MaxNLocator(**TICKS))
    panel.set_xticks([])
    if clients <= NAMED:
        called = order if names is None else [short_name(names[j], LONGEST) for j in order]
        panel.set_xticks(range(clients), called, rotation=0 if names is None else 90)
    if classes <= NAMED:
        panel.set_yticks(range(classes))


def draw_sizes(panel: Any, counts: Ints) -> None:
    """Draw the samples of each client, from the largest."""
    from matplotlib.ticker import MaxNLocator

    sizes = counts.sum(1)
    panel.stairs(np.sort(sizes)[::-1], np.arange(sizes.size + 1), fill=True, color="#56B4E9")
    marks = {"largest": sizes.max(), "mean": sizes.mean(), "smallest": sizes.min()}
    for (name, value), style in zip(marks.items(), [":", "-", "--"], strict=True):
        text = f"{name}: {value:.4g}" if value % 1 else f"{name}: {value:.0f}"
        panel.axhline(value, color="black", linewidth=1, linestyle=style, label=text)
    panel.set_ylim(0, 1.5 * sizes.max())  # room for the legend
    panel.set_xlim(0, sizes.size)
    panel.set_xlabel("clients, from the largest")
    panel.set_ylabel("samples, $D_j$")
    panel.xaxis.set_major_locator(MaxNLocator(**TICKS))
    panel.spines[["top", "right"]].set_visible(False)


def partition_figure(counts: Ints, title: str, names: Sequence[str] | None = None) -> Any:
    """Return the figure of a partition: labels and sizes by client."""
    longest = max(map(len, names)) if names is not None and len(names) <= NAMED else 0
    figure = new_figure(11, 3.8 + LETTER * min(longest, LONGEST))
    labels, amounts = figure.subplots(1, 2, gridspec_kw={"width_ratios": [2.2, 1]})
    draw_labels(labels, counts, names)
    draw_sizes(amounts, counts)
    amounts.legend(loc="upper right", frameon=False)
    figure.suptitle(plain(title), fontsize=10)
    return figure
