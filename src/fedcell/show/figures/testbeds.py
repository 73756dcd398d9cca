"""Figure of a testbed: uploads over shaped links against the model."""

from typing import Any

import numpy as np

from fedcell.deploy.testbed.uploads import TestbedReport

from .style import new_figure, plain_axes, readable_logarithms

BAND = 0.1  # part by which an upload may be off
BLUE, GREY, ORANGE = "#0072B2", "#BBBBBB", "#E69F00"


def draw_uploads(panel: Any, report: TestbedReport) -> None:
    """Draw time on the link over modelled time, with a band of 10 % around agreement."""
    modelled = np.array([u.modelled for u in report.uploads])
    link = np.array([u.link for u in report.uploads])
    if modelled.size:
        ends = np.array([modelled.min() / 1.3, modelled.max() * 1.3])
        panel.fill_between(
            ends,
            ends * (1 - BAND),
            ends * (1 + BAND),
            color=GREY,
            alpha=0.5,
            lw=0,
            label="within 10 %",
        )
        panel.plot(ends, ends, color="black", linewidth=1, linestyle=":")
        panel.scatter(modelled, link, s=18, color=BLUE, label="on the link", zorder=3)
        flower = np.array([u.flower for u in report.uploads])
        panel.scatter(modelled, flower, s=18, color=ORANGE, marker="x", label="with Flower's own")
        panel.set_xscale("log")
        panel.set_yscale("log")
        readable_logarithms(panel.xaxis, panel.yaxis)
        panel.legend(frameon=False)
    panel.set_xlabel("upload by the model (6) [s]")
    panel.set_ylabel("measured [s]")
    plain_axes(panel)


def draw_errors(panel: Any, report: TestbedReport) -> None:
    """Draw the error of each link over its rate."""
    rates = np.array([u.rate for u in report.uploads]) / 1e6
    errors = 100 * np.array([u.error for u in report.uploads])
    panel.axhspan(-100 * BAND, 100 * BAND, color=GREY, alpha=0.5, lw=0)
    panel.axhline(0, color="black", linewidth=1, linestyle=":")
    if rates.size:
        panel.scatter(rates, errors, s=18, color=BLUE)
        panel.set_xscale("log")
        readable_logarithms(panel.xaxis)
        panel.set_ylim(*(np.array([-1, 1]) * max(15.0, 1.1 * np.abs(errors).max())))
    panel.set_xlabel("rate of the link [Mbit/s]")
    panel.set_ylabel("on the link, off the model [%]")
    plain_axes(panel)


def testbed_figure(report: TestbedReport) -> Any:
    """Return uploads against the model, and their errors over the rate."""
    figure = new_figure(11, 4.2)
    left, right = figure.subplots(1, 2)
    draw_uploads(left, report)
    draw_errors(right, report)
    return figure
