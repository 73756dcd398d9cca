"""How figures look: colours that most readers tell apart, axes, and how they are written."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput, printable
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


@contextmanager
def drawing() -> Iterator[None]:
    """matplotlib as it comes, whatever the shell, the folder or a notebook have set: a figure
    looks the same everywhere, and a file that lies around does not decide how it is made."""
    matplotlib = _matplotlib()
    usual = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")}
    usual |= {"pdf.fonttype": 42, "ps.fonttype": 42}  # journals refuse the other kind
    with matplotlib.rc_context(usual):
        yield


def _matplotlib() -> Any:
    """The library, loaded without a backend that may not be there and without settings of the
    folder one is in."""
    if "matplotlib" not in sys.modules:
        place = find_spec("matplotlib")
        folders = place.submodule_search_locations if place else None
        settings = {"MPLBACKEND": "agg"}
        if folders:
            settings["MATPLOTLIBRC"] = str(Path(folders[0]) / "mpl-data" / "matplotlibrc")
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            import matplotlib
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
    import matplotlib

    return matplotlib


def plain(name: str) -> str:
    """A name as text in a figure: nothing in it is taken for a formula."""
    return printable(name).replace("$", r"\$")


def new_figure(width: float, height: float) -> Any:
    """An empty figure. Not pyplot's, which would choose a backend for all."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def one_panel(width: float, height: float, draw: Callable[[Any], None]) -> Any:
    """A figure of one panel, with the names of its lines inside."""
    figure = new_figure(width, height)
    panel = figure.subplots()
    draw(panel)
    legend_inside(panel)
    return figure


def legend_inside(panel: Any) -> None:
    """Names of lines in the panel, if there are any."""
    if panel.get_legend_handles_labels()[1]:
        panel.legend(frameon=False)


TWO_FIT = 30  # letters of a line's name, up to which two stand side by side in a column
WIDTHS = {1: 3.5, 2: 7.16}  # [in] of one column and of two, as journals have them


def sized_figure(columns: int | None = None) -> tuple[Any, Any]:
    """A figure with its axes: for a screen, or as wide as one or two columns of a paper, in
    letters that are 8 points on the page."""
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
    """A figure with three or four panels: side by side on a screen, two by two in two columns of a
    paper, one below the other in one."""
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


def legend_below(panel: Any, heading: str = "") -> None:
    """Names of lines under a panel, where they hide none, however high the panel is."""
    from matplotlib.transforms import ScaledTranslation

    handles, labels = panel.get_legend_handles_labels()
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
        ncols=2 if max(map(len, labels)) <= TWO_FIT else 1,
        columnspacing=1.0,
    )


def legend_outside(figure: Any, panel: Any, columns: int | None = None) -> None:
    """Names of lines where they hide none: beside, or below where there is one column only."""
    count = len(panel.get_legend_handles_labels()[1])
    if count < 2:
        return
    if columns == 1:
        longest = max(map(len, panel.get_legend_handles_labels()[1]))
        figure.legend(
            loc="outside lower center",
            frameon=False,
            ncols=2 if longest <= TWO_FIT else 1,
            fontsize=6.5,
            handlelength=2.2,
            columnspacing=0.8,
        )
    else:
        figure.legend(loc="outside right upper", frameon=False, fontsize=8, handlelength=3)


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
