"""Print a fitted device: its numbers, what is not known, and its energy-optimal clock."""

import numpy as np
from rich.console import Console

from fedcell.core.estimates import Estimate
from fedcell.scenario.measured_device.fit import FittedDevice

from .console import counted, digits, print_notes, print_table


def print_fitted_device(out: Console, fitted: FittedDevice) -> None:
    """Print the numbers of a fitted device with their intervals."""
    clocks = fitted.clocks / 1e9
    span = f"{clocks[0]:.4g}" + (f" to {clocks[-1]:.4g}" if clocks.size > 1 else "")
    rows = len(fitted.measured.lines)
    out.print(
        f"{fitted.name}: {rows} {counted(rows, 'measurement')} at {clocks.size} "
        f"{counted(clocks.size, 'clock')}, {span} GHz",
        soft_wrap=True,
    )
    estimates = fitted.estimates()
    print_table(
        out,
        "Fitted, with 95 % intervals",
        {
            "number": list(estimates),
            "value": [digits(each.value) for each in estimates.values()],
            "interval": [_interval(each) for each in estimates.values()],
            "unit": [fitted.unit(key) or "-" for key in estimates],
        },
    )
    if fitted.exponent_given:
        out.print("alpha was given, not fitted")
    for what, law in (("seconds", fitted.times), ("watts", fitted.powers)):
        if law is not None:
            explained = "" if np.isnan(law.r2) else f", R2 {law.r2:.4f}"
            out.print(f"residuals of the {what}: rms {100 * law.rms:.2g} %{explained}")
    for key, why in fitted.unknown.items():
        out.print(f"{key} is unknown: {why}", soft_wrap=True)
    for sentence in fitted.clock_advice():
        out.print(sentence, soft_wrap=True)
    print_notes(out, fitted.notes())


def _interval(each: Estimate) -> str:
    if np.isnan(each.low):
        return "-"
    return f"{digits(each.low)} to {digits(each.high)}"
