"""Devices known better with every round: what was measured corrects what was assumed of them.

For each client two ratios, measured to modelled, are smoothed in logarithms: of training, which
corrects its cycles per sample, and of uploading, which corrects its mean gain. What an answer takes
on its way whatever it holds was measured when the device introduced itself, and is taken off.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fedcell.core.schema import SMALL
from fedcell.core.showing import client_title
from fedcell.core.types import Array
from fedcell.deploy.exchanges import CAME, Exchange
from fedcell.network.channel import gain_at_rate, rate_per_hertz
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

WEIGHT = 0.3  # of a new measurement
LEAST_PART = 0.2  # of an upload that must be left without what every answer takes
MOVED = 0.1  # change of a logarithm that is worth a new schedule
MOST = float(np.log(1e4))  # by which a ratio may be off


class Known:
    """What the exchanges of a run say of its clients, beside what was assumed of them first."""

    def __init__(self, clients: int) -> None:
        self._training, self._upload = np.full((2, clients), np.nan)  # logarithms of ratios
        self._used_training, self._used_upload = np.zeros((2, clients))  # that schedules go by
        self._fixed: dict[str, float] = {}  # seconds of an answer without a model, by name
        self._names: dict[int, str] = {}

    def see(self, exchanges: Iterable[Exchange]) -> None:
        """Takes up what was measured."""
        for row in exchanges:
            if row.outcome == "introduced" and row.measured_upload is not None:
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
                if net >= LEAST_PART * row.measured_upload:
                    _smooth(self._upload, j, net / row.modelled_upload, self._used_upload[j])

    @property
    def moved(self) -> int | None:
        """The client that differs most from what schedules go by, if any is worth a new one."""
        off = np.maximum(
            np.abs(np.nan_to_num(self._training - self._used_training)),
            np.abs(np.nan_to_num(self._upload - self._used_upload)),
        )
        most = int(off.argmax())
        return most if off[most] > MOVED else None

    def adopt(self) -> None:
        """From now on schedules go by what is known."""
        self._used_training = np.nan_to_num(self._training)
        self._used_upload = np.nan_to_num(self._upload)

    def corrected(self, fleet: Fleet, scenario: Scenario) -> Fleet:
        """A fleet as it was assumed first, with what is adopted."""
        return corrected(fleet, scenario, self._used_training, self._used_upload)

    def words(self, client: int) -> str:
        """What is known of a client, in a sentence."""
        parts = [
            f"{what} {np.exp(ratios[client]):.2g} times"
            for what, ratios in (("trains", self._training), ("uploads", self._upload))
            if np.isfinite(ratios[client])
        ]
        who = client_title(client, self._names.get(client))
        return f"{who} {' and '.join(parts)} as long as was assumed"


def corrected(fleet: Fleet, scenario: Scenario, training: Array, upload: Array) -> Fleet:
    """A fleet whose clients take so much longer than was assumed: logarithms of ratios."""
    cycles = fleet.cycles_per_sample
    if cycles is None:
        cycles = np.full(fleet.count, scenario.cycles_per_sample)
    noise = scenario.cell.noise
    rate = rate_per_hertz(fleet.power, fleet.mean_gain, noise)  # r_j^0
    gain = gain_at_rate(fleet.power, rate / np.exp(upload), noise)
    return replace(
        fleet,
        cycles_per_sample=cycles * np.exp(training),
        mean_gain=np.clip(gain, SMALL, 1.0),
    )


def _smooth(ratios: Array, client: int, ratio: float, used: float) -> None:
    """Ratios are to what was assumed first: what schedules go by since is taken off."""
    new = float(np.clip(np.log(ratio) + used, -MOST, MOST))
    old = ratios[client]
    ratios[client] = new if np.isnan(old) else (1 - WEIGHT) * old + WEIGHT * new
