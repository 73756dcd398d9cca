"""How figures look: colours that most readers tell apart, axes, and how they are written."""

from pathlib import Path
from typing import Any

from fedcell.core.files import check_target, write_file

# Colours of Okabe and Ito; each policy keeps its own everywhere.
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
STYLES = ["-", "--", ":", "-."]
ORANGE, BLUE, GREEN, GREY = "#E69F00", "#0072B2", "#009E73", "#999999"
FORMATS = ("png", "pdf", "svg")


def new_figure(width: float, height: float) -> Any:
    """An empty figure. Not pyplot's, which would choose a backend for all."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: str | Path) -> None:
    """Writes a figure, whole or not at all; the name's ending says as what."""
    target = check_target(Path(path), FORMATS)
    write_file(target, lambda aside: figure.savefig(aside, dpi=150))


def plain_axes(*panels: Any) -> None:
    """A faint grid, and no frame where nothing is."""
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)


def readable_logarithms(*axes: Any) -> None:
    """Numbers that people read, on axes that are logarithmic."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())


def policy_colours(policies: list[str]) -> dict[str, str]:
    """A colour for each policy: its own, or a spare one."""
    others = [policy for policy in policies if policy not in COLOURS]
    return COLOURS | {policy: SPARE[i % len(SPARE)] for i, policy in enumerate(others)}
