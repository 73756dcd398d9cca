"""Price rounds of declared radios and devices: seconds, and joules by state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Cost, Problem, Schedule
from fedcell.scenario.hardware.levels import penalty

from .extras import Extras
from .power.link import Link


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeviceCost(Cost):
    """Time and energy of each client of a round with the states of its device, (..., client).

    `upload_energy` and `compute_energy` hold all that the device draws in these states. The
    download is a part of the round. In the objectives the joules of the radio (download, upload,
    tail) are summed; those of training and waiting are averaged as (11) does, or summed
    (device.count_energy).
    """

    extras: Extras

    @property
    def wait_time(self) -> Array:
        """Return the time from the end of an upload to the end of the round [s]."""
        busy = self.compute_time + self.upload_time
        return np.asarray(busy.max(-1, keepdims=True) - busy)

    @property
    def wait_energy(self) -> Array:
        """Return the joules that are drawn after the upload."""
        return np.asarray(self.extras.done_power * self.wait_time)

    @property
    def duration(self) -> Array:
        """Return the length of the round with its download [s]."""
        return np.asarray(self.extras.download_time[..., 0] + super().duration)

    @property
    def radio_energy(self) -> Array:
        """Return the joules of download, upload and tail."""
        extras = self.extras
        return np.asarray(self.upload_energy + extras.receive_energy + extras.tail_energy)

    @property
    def client_energy(self) -> Array:
        """Return the joules of each client in all states."""
        return self.compute_energy + self.radio_energy + self.wait_energy

    @property
    def energy(self) -> Array:
        """Return the energy of all clients of the round [J]."""
        return np.asarray(self.client_energy.sum(-1))

    @property
    def upload_cost(self) -> Array:
        """Return C_u of (20) with the download, and the joules of waiting for the last upload."""
        last = self.upload_time.max(-1)
        waiting = self.extras.done_power * (last[..., None] - self.upload_time)
        energy = self.radio_energy.sum(-1) + self._counted(waiting)
        return np.asarray(self.extras.download_time[..., 0] + last + self.energy_weight * energy)

    @property
    def compute_cost(self) -> Array:
        """Return C_n of (20), with the joules of waiting for the last to train."""
        last = self.compute_time.max(-1)
        waiting = self.extras.idle_power * (last[..., None] - self.compute_time)
        return np.asarray(last + self.energy_weight * self._counted(self.compute_energy + waiting))

    @property
    def objective(self) -> Array:
        """Return the objective of (22) [s]."""
        counted = self._counted(self.compute_energy + self.wait_energy)
        return np.asarray(
            self.duration + self.energy_weight * (self.radio_energy.sum(-1) + counted)
        )

    def _counted(self, energy: Array) -> Array:
        return np.asarray(energy.sum(-1) if self.extras.summed else energy.mean(-1))


def client_energy(cost: Cost) -> Array:
    """Return the joules of each client, in all states."""
    if isinstance(cost, DeviceCost):
        return cost.client_energy
    return np.asarray(cost.compute_energy + cost.upload_energy)


def price_devices(problem: Problem, schedule: Schedule) -> DeviceCost:
    """Return the cost of rounds that have extras."""
    extras, a, f = problem.extras, schedule.share, schedule.freq
    assert extras is not None
    limit, cycles = extras.limit, problem.cycles
    if schedule.power is not None:
        upload_time, amplifier = Link.of(problem).upload(a, schedule.power)
    elif limit is not None:
        upload_time, amplifier = limit.upload(a)
    else:
        upload_time, amplifier = problem.band_time / a, problem.upload_energy
    upload_time = upload_time + extras.latency
    compute_time = extras.memory_time + cycles / f
    dynamic = problem.kappa * f ** (extras.exponent - 1) * cycles  # kappa f^alpha c / f
    dynamic = dynamic * penalty(extras.levels, f, extras.exponent)
    return DeviceCost(
        upload_time=upload_time,
        compute_time=compute_time,
        upload_energy=amplifier + extras.send_power * upload_time,
        compute_energy=dynamic + extras.busy_power * compute_time,
        energy_weight=problem.energy_weight,
        extras=extras,
    )
