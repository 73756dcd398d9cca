"""Rate against SNR: Shannon, the continuous law with its gap and cap, and the steps of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.showing import Showable
from fedcell.core.types import Array
from fedcell.network.physics.link import ratio, spectral_efficiency
from fedcell.scenario.hardware.radio import NB_IOT, Radio
from fedcell.scenario.scenario import Scenario

from .standards.nbiot import TONE, TONES, nbiot_steps
from .steps import rate_steps, tries_of

POINTS = 400
BELOW, ABOVE = 6.0, 6.0  # of the steps [dB]
WITHOUT_STEPS = (-10.0, 30.0)  # [dB]


@dataclass(frozen=True, eq=False)
class LinkCurve(Showable):
    """Bits per second and hertz of the usable band at an SNR, by each law, (point,).

    Attributes
    ----------
    snr_db : ndarray
        SNR over the share of the band [dB].
    efficiency : mapping of str to ndarray
        By name of the law [bit/s/Hz].

    Examples
    --------
    >>> curve = link_curve(Scenario().using(radio={"rate_table": "nr-64qam"}))
    >>> list(curve.efficiency)
    ['Shannon', 'gap of 3 dB', 'nr-64qam']
    """

    snr_db: Array
    efficiency: dict[str, Array]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each SNR."""
        columns = {"snr_db": self.snr_db, **self.efficiency}
        lines = zip(*(values.tolist() for values in columns.values()), strict=True)
        return [dict(zip(columns, line, strict=True)) for line in lines]

    def __repr__(self) -> str:
        low, high = self.snr_db[0], self.snr_db[-1]
        return f"<LinkCurve, {low:.3g} to {high:.3g} dB: {', '.join(self.efficiency)}>"


def link_curve(scenario: Scenario, gap_db: float = 3.0) -> LinkCurve:
    """Return the rate of a scenario's uplink against the SNR, beside Shannon's formula.

    Parameters
    ----------
    scenario : Scenario
        The scenario; its radio may have a rate table.
    gap_db : float
        Gap of the continuous law, where the radio has a table and no gap of its own [dB].

    Returns
    -------
    LinkCurve
        Rates with the mean tries of a block; of NB-IoT for each number of tones, with the pauses of
        a device.

    Examples
    --------
    >>> link_curve(Scenario())
    <LinkCurve, -10 to 30 dB: Shannon>
    """
    radio = scenario.radio or Radio()
    stepped = radio.rate_table is not None
    steps = _steps(scenario, radio) if stepped else dict[str, tuple[Array, Array]]()
    known = [snr for snr, _ in steps.values()]
    low, high = WITHOUT_STEPS
    if known:
        whole = 10 * np.log10(np.concatenate(known))
        low, high = whole.min() - BELOW, whole.max() + ABOVE
    snr_db = np.linspace(low, high, POINTS)
    snr = 10 ** (snr_db / 10)
    found = {"Shannon": spectral_efficiency(snr, 1.0, np.inf)}
    gap = gap_db if steps else radio.gap_db
    if gap or radio.spectral_cap is not None:
        cap = np.inf if radio.spectral_cap is None else radio.spectral_cap
        if steps:
            cap = max(float(rates.max()) for _, rates in steps.values())
        found[f"gap of {gap:g} dB"] = spectral_efficiency(snr, ratio(gap), cap)
    for name, (least, rates) in steps.items():
        place = np.searchsorted(least, snr, side="right")
        found[name] = np.concatenate(([0.0], rates))[place]
    return LinkCurve(snr_db, found)


def _steps(scenario: Scenario, radio: Radio) -> dict[str, tuple[Array, Array]]:
    """Return least SNR and rates of each curve with steps, by name."""
    assert radio.rate_table is not None
    tries = tries_of(radio)
    if radio.rate_table != NB_IOT:
        steps = rate_steps(scenario)
        return {radio.rate_table: (steps.snr, steps.efficiency / tries)}
    found = {n: nbiot_steps(n, radio.margin_db) for n in TONES}
    return {
        f"{n} tone{'s' * (n > 1)}": (each.snr, each.rate / (n * TONE) / tries)
        for n, each in found.items()
    }
