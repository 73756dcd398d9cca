"""Style of the figures: distinguishable colours, axes, legends and files."""

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput, printable
from fedcell.core.files.formats import check_target, write_file
from fedcell.core.process import environment

# Colours of Okabe and Ito; each policy keeps its own everywhere.
COLOURS = {
    "even": "#E69F00",
    "distributed": "#56B4E9",
    "equal-finish": "#009E73",
    "optimal-staged": "#CC79A7",
    "optimal": "#000000",
    "optimal-power": "#D55E00",
}
# Coinciding lines differ by their markers: rings, crosses, small and large.
MARKERS = {
    "even": {"marker": "s", "markersize": 5},
    "distributed": {"marker": "^", "markersize": 6},
    "equal-finish": {"marker": "o", "markersize": 9, "markerfacecolor": "none"},
    "optimal-staged": {"marker": "D", "markersize": 4},
    "optimal": {"marker": "x", "markersize": 6},
    "optimal-power": {"marker": "+", "markersize": 8},
}
SPARE = ["#0072B2", "#F0E442", "#999999"]
STYLES = ["-", "--", ":", "-."]
ORANGE, BLUE, GREEN, GREY = "#E69F00", "#0072B2", "#009E73", "#999999"
FORMATS = ("png", "pdf", "svg")
DPI = 150  # of pictures in pixels
SAME = 1 + 1e-4  # a logarithmic axis that would show less than that is widened
FEWEST_TICKS = 3  # on a logarithmic axis; with fewer, round numbers are taken instead


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with matplotlib's defaults, so that a figure looks the same everywhere.

    Settings of the environment, of the current folder and of notebooks do not apply.
    """
    matplotlib = _matplotlib()
    usual = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")}
    usual |= {"pdf.fonttype": 42, "ps.fonttype": 42}  # journals refuse the other kind
    with matplotlib.rc_context(usual):
        yield


def _matplotlib() -> Any:
    """Import matplotlib without the settings of the current folder or of a broken `MPLBACKEND`.

    The environment is put back, and the backend is left to the caller's own choice.
    """
    if "matplotlib" not in sys.modules:
        place = find_spec("matplotlib")
        folders = place.submodule_search_locations if place else None
        backend = os.environ.get("MPLBACKEND")
        settings = {"MPLBACKEND": ""}
        if folders:
            settings["MATPLOTLIBRC"] = str(Path(folders[0]) / "mpl-data" / "matplotlibrc")
        with environment(settings):
            import matplotlib
        if backend:
            with suppress(ValueError):  # figures are written without any backend
                matplotlib.rcParams["backend"] = backend
    import matplotlib

    return matplotlib


def plain(name: str) -> str:
    """Return a name as text for a figure, in which nothing is read as a formula."""
    return printable(name).replace("$", r"\$")


def short_name(name: str, most: int = 24) -> str:
    """Return a name shortened in the middle: names often differ at the end."""
    if len(name) > most:
        name = f"{name[: most // 2]}...{name[len(name) - (most - most // 2 - 3) :]}"
    return plain(name)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure, not of pyplot, which would choose a backend."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def one_panel(width: float, height: float, draw: Callable[[Any], None]) -> Any:
    """Return a figure of one panel, with its legend inside."""
    figure = new_figure(width, height)
    panel = figure.subplots()
    draw(panel)
    legend_inside(panel)
    return figure


def legend_inside(panel: Any) -> None:
    """Add a legend to the panel, if it has labels."""
    if panel.get_legend_handles_labels()[1]:
        panel.legend(frameon=False)


TWO_FIT = 30  # letters of a line's name, up to which two stand side by side in a column
BESIDE = 40  # letters in a line of a legend beside a panel
LETTER = 0.53  # width of a letter, in parts of its size; a line's sample takes the room of six
SAMPLE = 6
WIDTHS = {1: 3.5, 2: 7.16}  # [in] of one column and of two, as journals have them


def sized_figure(columns: int | None = None) -> tuple[Any, Any]:
    """Return a figure and its axes, for a screen or for one or two columns of a paper.

    For a paper, text has 8 points.
    """
    if columns is None:
        figure = new_figure(7.2, 4.4)
        return figure, figure.subplots()
    if columns not in WIDTHS:
        raise BadInput(f"`columns` = {columns}: a paper has 1 or 2")
    import matplotlib

    matplotlib.rcParams.update({"font.size": 8, "legend.fontsize": 7, "axes.linewidth": 0.6})
    figure = new_figure(WIDTHS[columns], 2.9)
    return figure, figure.subplots()


def panel_grid(count: int, columns: int | None = None) -> tuple[Any, list[Any]]:
    """Return a figure with three or four panels, and the panels.

    Side by side on a screen, two by two in two columns of a paper, one below the other in one.
    """
    if columns is None:
        wide = 2 if count == 4 else count
        size = (10.0, 7.4) if count == 4 else (12.0, 4.2)
    else:
        sized_figure(columns)  # letters as small as there
        wide = 1 if columns == 1 else 2
        size = (WIDTHS[columns], 2.6 * -(-count // wide))
    figure = new_figure(*size)
    return figure, [
        figure.add_subplot(-(-count // wide), wide, place) for place in range(1, count + 1)
    ]


def legend_below(panel: Any, heading: str = "") -> int:
    """Add a legend under a panel of any height, and return its lines of text."""
    from matplotlib.transforms import ScaledTranslation

    handles, labels = panel.get_legend_handles_labels()
    if not labels:
        return 0
    fit = _letters_across(panel)
    labels = [textwrap.fill(label, fit) for label in labels]
    ncols = 2 if 2 * max(map(len, labels)) + SAMPLE <= fit else 1
    if len(heading) > fit + SAMPLE:
        heading = heading.replace("; ", ";\n")
    points = 3.4 * panel.xaxis.label.get_size()  # of the axis below
    under = panel.transAxes + ScaledTranslation(0, -points / 72, panel.figure.dpi_scale_trans)
    panel.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=under,
        borderaxespad=0,
        frameon=False,
        fontsize="small",
        title=heading or None,
        title_fontsize="small",
        alignment="left",
        ncols=ncols,
        columnspacing=1.0,
    )
    lines: int = sum(label.count("\n") + 1 for label in labels)
    return -(-lines // ncols)


def _letters_across(panel: Any) -> int:
    """Return the characters of a small legend that fit under a panel of a grid."""
    wide = panel.get_gridspec().ncols if panel.get_subplotspec() else 1
    inches = panel.figure.get_figwidth() / wide - 0.6  # without the numbers of the axis
    return int(72 * inches / (LETTER * _points("small"))) - SAMPLE


def _points(size: str) -> float:
    """Return the size of text in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=size).get_size_in_points())


def legend_outside(figure: Any, panel: Any, columns: int | None = None) -> None:
    """Add a legend beside the panel, or below it in one column; the figure grows with it."""
    handles, labels = panel.get_legend_handles_labels()
    if len(labels) < 2:
        return
    looks: dict[str, Any] = {"frameon": False, "fontsize": 6.5 if columns == 1 else 8}
    if columns == 1:
        ncols = 2 if max(map(len, labels)) <= TWO_FIT else 1
        looks |= {"ncols": ncols, "handlelength": 2.2, "columnspacing": 0.8}
        lines, room = -(-len(labels) // ncols), 2.2  # for the panel [in]
    else:
        labels = [textwrap.fill(label, BESIDE) for label in labels]
        looks |= {"handlelength": 3}
        lines, room = sum(label.count("\n") + 1 for label in labels), 0.6  # for the title
    needed = room + 1.5 * lines * looks["fontsize"] / 72
    figure.set_figheight(max(figure.get_figheight(), needed))
    loc = "outside lower center" if columns == 1 else "outside right upper"
    figure.legend(handles, labels, loc=loc, **looks)


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure atomically, in the format of the name's ending."""
    target = check_target(Path(path), FORMATS)
    write_file(target, lambda aside: figure.savefig(aside, dpi=DPI))


def plain_axes(*panels: Any) -> None:
    """Add a faint grid, and remove the upper and right frame."""
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)


def readable_logarithms(*axes: Any, whole: bool = False) -> None:
    """Set readable ticks on logarithmic axes: at least two, without overlaps, over any range.

    With `whole`, only whole numbers, on an axis that counts.
    """
    from matplotlib.ticker import NullLocator

    for axis in axes:
        axis.set_major_locator(_log_locator()(whole))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
        axis.axes.autoscale_view()  # earlier limits are those of another locator


@cache
def _log_locator() -> Any:
    """Return the class of tick locators; matplotlib is loaded only for drawing."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    class ReadableLogLocator(LogLocator):
        """1, 2, 5 of each decade; powers of ten where these are too many; round numbers where the
        range is narrow."""

        def __init__(self, whole: bool) -> None:
            super().__init__()
            self.whole = whole

        def nonsingular(self, v0: float, v1: float) -> Any:
            """Return limits of data; differences by rounding count as none."""
            low, high = super().nonsingular(v0, v1)
            return (low / 1.05, high * 1.05) if high / low < SAME else (low, high)

        def tick_values(self, vmin: float, vmax: float) -> Any:
            low, high = sorted((vmin, vmax))
            exponents = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
            choices = [np.outer(10.0**exponents, [1, 2, 5]).ravel()]
            choices += [10.0 ** exponents[exponents % step == 0] for step in (1, 2, 5, 10, 20, 50)]
            inside = [ticks[(ticks >= low) & (ticks <= high)] for ticks in choices]
            if inside[0].size < FEWEST_TICKS:
                most = min(5, self._room(inside[0]))
                few = MaxNLocator(most, steps=[1, 2, 5, 10], integer=self.whole, min_n_ticks=1)
                return few.tick_values(low, high)
            return next((t for t in inside if t.size <= self._room(t)), inside[-1])

        def _room(self, ticks: Any) -> int:
            """Return how many of these numbers fit on the axis."""
            axis: Any = self.axis
            room = axis.get_tick_space()
            if axis.axis_name == "x":  # matplotlib assumes numbers of three characters
                longest = max((len(f"{tick:g}") for tick in ticks), default=1)
                room *= 3 / (0.6 * (longest + 1.5))
            return max(2, int(room))

    return ReadableLogLocator


def lone_marker(x: Any) -> dict[str, Any]:
    """Return a marker for a line with one point, which would be invisible."""
    return {"marker": "o", "markersize": 4} if len(x) == 1 else {}


def whole_numbers(*axes: Any) -> None:
    """Set ticks at whole numbers only, on axes that count."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        locator = MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
        axis.set_major_locator(locator)


def policy_colours(policies: list[str]) -> dict[str, str]:
    """Return a colour for each policy: its own, or a spare one."""
    others = [policy for policy in policies if policy not in COLOURS]
    return COLOURS | {policy: SPARE[i % len(SPARE)] for i, policy in enumerate(others)}
