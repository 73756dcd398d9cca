"""Figure of a link: rate against SNR."""

from typing import Any

from fedcell.network.physics.discrete.curve import LinkCurve

from .style import BLUE, GREEN, GREY, ORANGE, SPARE, one_panel, plain_axes

LAWS = {"Shannon": (GREY, "-"), "gap": (ORANGE, "--")}
OF_STEPS = (BLUE, GREEN, SPARE[1], "#CC79A7")


def draw_link(panel: Any, curve: LinkCurve) -> None:
    """Draw bits per second and hertz against the SNR: lines for laws, stairs for tables."""
    colours = iter(OF_STEPS)
    top = 0.0
    for name, values in curve.efficiency.items():
        law = LAWS.get(name.split()[0])
        colour, line = law or (next(colours, GREY), "-")
        panel.plot(curve.snr_db, values, color=colour, linestyle=line, label=name, linewidth=1.6)
        top = max(top, float(values.max())) if law is None else top
    if top:
        panel.set_ylim(0, 1.35 * top)  # Shannon's line goes on
    panel.set_xlabel("SNR [dB]")
    panel.set_ylabel("rate [bit/s/Hz]")
    panel.legend(frameon=False, loc="upper left")
    plain_axes(panel)


def link_figure(curve: LinkCurve) -> Any:
    """Return the figure of a link."""
    return one_panel(6.4, 4.2, lambda panel: draw_link(panel, curve))
