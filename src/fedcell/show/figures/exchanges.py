"""Figures of a federation: measured against modelled times."""

from typing import Any

from fedcell.deploy.exchanges import CAME, ExchangeReport

from .style import new_figure, plain_axes, readable_logarithms, short_name

NAMED = 25  # devices that have a tick each
LONGEST = 20
PARTS = {"waiting": "#BBBBBB", "training": "#E69F00", "upload": "#0072B2"}


def draw_uploads(panel: Any, report: ExchangeReport) -> None:
    """Draw the measured over the modelled time of each upload; they agree on the line."""
    pairs = [
        (e.modelled_upload, e.measured_upload)
        for e in report.exchanges
        if e.outcome in CAME and e.modelled_upload and e.measured_upload
    ]
    if pairs:
        modelled, measured = zip(*pairs, strict=True)
        panel.scatter(modelled, measured, s=14, alpha=0.7, color=PARTS["upload"], label="uploads")
        ends = [min(*modelled, *measured), max(*modelled, *measured)]
        panel.plot(ends, ends, color="black", linewidth=1, linestyle=":", label="they agree")
        panel.set_xscale("log")
        panel.set_yscale("log")
        readable_logarithms(panel.xaxis, panel.yaxis)
        panel.legend(frameon=False)
    panel.set_xlabel("upload by the model [s]")
    panel.set_ylabel("upload by the clock [s]")
    plain_axes(panel)


def draw_devices(panel: Any, report: ExchangeReport) -> None:
    """Draw the measured times of each device, as medians of its rounds."""
    devices = report.devices()
    places, below = range(len(devices)), [0.0] * len(devices)
    for part, colour in PARTS.items():
        values = [getattr(device, f"measured_{part}") or 0.0 for device in devices]
        panel.bar(places, values, bottom=below, color=colour, label=part, width=0.8)
        below = [a + b for a, b in zip(below, values, strict=True)]
    panel.set_ylabel("median of a round by the clock [s]")
    panel.set_xlabel("device")
    if len(devices) <= NAMED:
        names = [short_name(device.name, LONGEST) for device in devices]
        panel.set_xticks(places, names, rotation=45, ha="right")
    panel.set_ylim(0, 1.4 * max([*below, 1e-9]))  # room for the legend
    panel.legend(frameon=False, loc="upper left", ncols=len(PARTS))
    plain_axes(panel)


def exchanges_figure(report: ExchangeReport) -> Any:
    """Return uploads against the model, and the times of the devices."""
    figure = new_figure(11, 4.2)
    left, right = figure.subplots(1, 2)
    draw_uploads(left, report)
    draw_devices(right, report)
    return figure
