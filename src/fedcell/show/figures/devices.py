"""Figure of a fitted device: its watts over the clock, and the residuals of both laws."""

from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.scenario.measured_device.fit import FittedDevice

from .style import new_figure, one_panel, plain_axes

BLUE, GREY, ORANGE = "#0072B2", "#BBBBBB", "#E69F00"
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"]
MARKS = ["o", "s", "^", "D", "v", "P"]
LEAST_SPAN = 1.0  # of residuals [%]


def draw_powers(panel: Any, fitted: FittedDevice) -> None:
    """Draw watts over the clock with the law, and the interval of the energy-optimal clock."""
    rows, law = fitted.measured[fitted.measured.powered], fitted.powers
    if law is None:
        raise BadInput("the power law of this device is not known: there is nothing to draw")
    low, high = fitted.clocks[0] / 1e9, fitted.clocks[-1] / 1e9
    clock = np.linspace(low - 0.05 * (high - low), high + 0.05 * (high - low), 200)
    best = law.best_clock
    if best is not None and best.low / 1e9 < clock[-1]:
        ends = np.clip([best.low / 1e9, best.high / 1e9], clock[0], clock[-1])
        panel.axvspan(
            *ends, color=GREY, alpha=0.5, lw=0, label="energy-optimal clock, if it sleeps after"
        )
    panel.plot(clock, law.watts(clock * 1e9), color=ORANGE, label="law, never waiting for memory")
    panel.scatter(rows.clock / 1e9, rows.watts, s=18, color=BLUE, zorder=3, label="measured")
    if fitted.idle_power is not None:
        idle = float(fitted.idle_power)
        panel.axhline(idle, color="black", linewidth=1, linestyle=":", label="idle")
    panel.set_ylim(bottom=0)
    panel.margins(x=0)
    panel.set_xlabel("clock [GHz]")
    panel.set_ylabel("power [W]")
    panel.legend(frameon=False)
    plain_axes(panel)


def draw_time_residuals(panel: Any, fitted: FittedDevice) -> None:
    """Draw the residuals of the seconds over the batch, by clock."""
    if fitted.times is None:
        raise BadInput("no times of this device are known: there is nothing to draw")
    rows, (residual, _) = fitted.measured[fitted.measured.timed], fitted.residuals()
    _draw_residuals(panel, rows.batch, residual, rows.clock / 1e9, "{:.4g} GHz")
    panel.set_xlabel("batch [samples]")
    panel.set_ylabel("seconds, off the law [%]")


def draw_power_residuals(panel: Any, fitted: FittedDevice) -> None:
    """Draw the residuals of the watts over the clock, by batch."""
    if fitted.powers is None:
        raise BadInput("the power law of this device is not known: there is nothing to draw")
    rows, (_, residual) = fitted.measured[fitted.measured.powered], fitted.residuals()
    _draw_residuals(panel, rows.clock / 1e9, residual, rows.batch, "batch {:.4g}")
    panel.set_xlabel("clock [GHz]")
    panel.set_ylabel("watts, off the law [%]")


def _draw_residuals(panel: Any, x: Any, residual: Any, groups: Any, label: str) -> None:
    panel.axhline(0, color="black", linewidth=1, linestyle=":")
    kinds = np.unique(groups[~np.isnan(groups)])
    few = 0 < kinds.size <= len(COLOURS)
    for i, kind in enumerate(kinds if few else [None]):
        some = slice(None) if kind is None else groups == kind
        named = {} if kind is None else {"label": label.format(kind)}
        panel.scatter(x[some], 100 * residual[some], s=18, c=COLOURS[i], marker=MARKS[i], **named)
    span = max(LEAST_SPAN, 1.25 * 100 * float(np.abs(residual).max()))
    panel.set_ylim(-span, span)
    if few:
        panel.legend(frameon=False)
    plain_axes(panel)


def device_figure(fitted: FittedDevice) -> Any:
    """Return the law of the watts and the residuals, as far as they are known."""
    draws = [] if fitted.powers is None else [draw_powers]
    draws += [] if fitted.times is None else [draw_time_residuals]
    draws += [] if fitted.powers is None else [draw_power_residuals]
    if not draws:
        raise BadInput("neither a law of watts nor of seconds is known: there is nothing to draw")
    if len(draws) == 1:
        return one_panel(6.4, 4.2, lambda panel: draws[0](panel, fitted))
    figure = new_figure(5 * len(draws), 4.2)
    for panel, draw in zip(figure.subplots(1, len(draws)), draws, strict=True):
        draw(panel, fitted)
    return figure
