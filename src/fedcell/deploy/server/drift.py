"""How far devices have drifted from the model: measured times correct the assumed fleet.

For each client two ratios of measured to modelled seconds are smoothed in logarithms: that of
training corrects its cycles per sample, that of uploads its mean gain. The fixed part of an upload,
measured when the device introduced itself, is subtracted first.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fedcell.core.schema import SMALL
from fedcell.core.showing import client_title
from fedcell.core.types import Array
from fedcell.deploy.exchanges import CAME, Exchange, Outcome
from fedcell.network.physics.discrete.inverse import gain_of_rate, rate_of_gain
from fedcell.network.physics.link import whole_band_density
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

SMOOTHING = 0.3  # weight of a new measurement
MIN_NET_SHARE = 0.2  # of an upload that must remain without its fixed part
MIN_CHANGE = 0.1  # of a log ratio that is worth a new schedule
MAX_LOG_RATIO = float(np.log(1e4))


class DeviceDrift:
    """Log ratios of measured to assumed seconds of each client, from the exchanges of a run."""

    def __init__(self, clients: int) -> None:
        self._training, self._upload = np.full((2, clients), np.nan)  # as measured
        self._used_training, self._used_upload = np.zeros((2, clients))  # in the schedules
        self._fixed: dict[str, float] = {}  # seconds of a reply without a model, by name
        self._names: dict[int, str] = {}

    def observe(self, exchanges: Iterable[Exchange]) -> None:
        """Update the ratios with measured times."""
        for row in exchanges:
            if row.outcome == Outcome.INTRODUCED and row.measured_upload is not None:
                self._fixed[row.name] = row.measured_upload
            if row.outcome not in CAME or row.client is None:
                continue
            j = row.client
            self._names[j] = row.name
            if row.measured_training and row.modelled_training:
                ratio = row.measured_training / row.modelled_training
                _smooth(self._training, j, ratio, self._used_training[j])
            if row.measured_upload and row.modelled_upload:
                net = row.measured_upload - self._fixed.get(row.name, 0.0)
                if net >= MIN_NET_SHARE * row.measured_upload:
                    _smooth(self._upload, j, net / row.modelled_upload, self._used_upload[j])

    @property
    def farthest(self) -> int | None:
        """The client that differs most from its schedules; None where no change is worth a new
        schedule."""
        off = np.maximum(
            np.abs(np.nan_to_num(self._training - self._used_training)),
            np.abs(np.nan_to_num(self._upload - self._used_upload)),
        )
        most = int(off.argmax())
        return most if off[most] > MIN_CHANGE else None

    def adopt(self) -> None:
        """Use the measured ratios in the schedules from now on."""
        self._used_training = np.nan_to_num(self._training)
        self._used_upload = np.nan_to_num(self._upload)

    def correct(self, fleet: Fleet, scenario: Scenario) -> Fleet:
        """Return the fleet that was first assumed, corrected by the adopted ratios."""
        return corrected_fleet(fleet, scenario, self._used_training, self._used_upload)

    def describe(self, client: int) -> str:
        """Say how a client differs from what was assumed."""
        parts = [
            f"{what} {np.exp(ratios[client]):.2g} times"
            for what, ratios in (("trains", self._training), ("uploads", self._upload))
            if np.isfinite(ratios[client])
        ]
        name = client_title(client, self._names.get(client))
        return f"{name} {' and '.join(parts)} as long as was assumed"


def corrected_fleet(fleet: Fleet, scenario: Scenario, training: Array, upload: Array) -> Fleet:
    """Return a fleet with clients that take exp(training) and exp(upload) times the assumed time.
    The log ratios have shape (clients,)."""
    cycles = fleet.cycles_per_sample
    if cycles is None:
        cycles = np.full(fleet.count, scenario.cycles_per_sample)
    power = whole_band_density(scenario, fleet)
    rate = rate_of_gain(scenario, power, fleet.mean_gain)  # r_j^0
    if fleet.hardware is not None:
        rate = np.minimum(rate, fleet.hardware.spectral_cap)
    gain = gain_of_rate(scenario, power, rate / np.exp(upload))
    if scenario.rate_table is not None:
        gain = np.where(upload == 0, fleet.mean_gain, gain)  # else: the least of the same step
    return replace(
        fleet,
        cycles_per_sample=cycles * np.exp(training),
        mean_gain=np.clip(gain, SMALL, 1.0),
    )


def _smooth(ratios: Array, client: int, ratio: float, used: float) -> None:
    """Add a measurement. Schedules already have the ratio `used`, so it is added back: ratios are
    relative to what was first assumed."""
    new = float(np.clip(np.log(ratio) + used, -MAX_LOG_RATIO, MAX_LOG_RATIO))
    old = ratios[client]
    ratios[client] = new if np.isnan(old) else (1 - SMOOTHING) * old + SMOOTHING * new
