"""Figure of a link: rate against SNR."""

from typing import Any

from fedcell.network.physics.discrete.curve import LinkCurve

from .style import BLUE, GREEN, GREY, ORANGE, SPARE, one_panel, plain_axes

LAWS = {"Shannon": (GREY, "-"), "gap": (ORANGE, "--")}
OF_STEPS = (BLUE, GREEN, SPARE[1], "#CC79A7")


def draw_link(panel: Any, curve: LinkCurve) -> None:
    """Draw bits per second and hertz against the SNR: lines for laws, stairs for tables."""
    colours = iter(OF_STEPS)
    tables = [v for name, v in curve.efficiency.items() if name.split()[0] not in LAWS]
    top = 1.35 * max((float(values.max()) for values in tables), default=float("inf"))
    for name, values in curve.efficiency.items():
        colour, line = LAWS.get(name.split()[0]) or (next(colours, GREY), "-")
        low = values <= top  # Shannon's line goes on
        panel.plot(
            curve.snr_db[low],
            values[low],
            color=colour,
            linestyle=line,
            label=name,
            linewidth=1.6,
        )
    panel.set_xlim(curve.snr_db[0], curve.snr_db[-1])
    panel.set_ylim(bottom=0)
    panel.set_xlabel("SNR [dB]")
    panel.set_ylabel("rate [bit/s/Hz]")
    panel.legend(frameon=False, loc="upper left")
    plain_axes(panel)


def link_figure(curve: LinkCurve) -> Any:
    """Return the figure of a link."""
    return one_panel(6.4, 4.2, lambda panel: draw_link(panel, curve))
