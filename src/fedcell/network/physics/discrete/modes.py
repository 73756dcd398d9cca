"""Uploads in modes: each carries a model in a time of its own, up to a share of its own.

A mode is a step of a rate table, or a number of tones. At the share a of the band it takes

    t = u / min(a, w)

seconds: beyond the widest share w its SNR would be too low, or the device has nothing more to send
in. The amplifier draws `energy` joules for an upload, or `power` watts while it lasts, whichever is
less. The base station takes the fastest mode.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.types import Array


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Modes:
    """The modes of the clients of rounds, (..., client, mode)."""

    band_time: Array  # u [s]; infinite: the mode cannot be used
    widest: Array  # w
    energy: Array  # [J]
    power: Array  # [W]; infinite: `energy` holds

    @classmethod
    def capped(cls, band_time: Array, energy: Array, widest: float) -> Modes:
        """Return the one mode of clients that may use a part of the band, or of the time."""
        found = {
            "band_time": band_time,
            "widest": np.full(band_time.shape, widest),
            "energy": energy,
            "power": np.full(band_time.shape, np.inf),
        }
        return cls(**{name: values[..., None] for name, values in found.items()})

    def __getitem__(self, where: Any) -> Modes:
        """Return some of the rounds or clients."""
        return Modes(**{f.name: getattr(self, f.name)[where] for f in fields(self)})

    def upload_time(self, share: Array) -> Array:
        """Return the time of an upload in the fastest mode [s]."""
        time = np.full(share.shape, np.inf)
        for m in range(self.band_time.shape[-1]):  # faster than a reduction over a short axis
            own = self.band_time[..., m] / np.minimum(share, self.widest[..., m])
            time = np.minimum(own, time)
        return time

    def upload_energy(self, share: Array) -> Array:
        """Return the joules that the amplifier draws for an upload in the fastest mode."""
        return self.upload(share)[1]

    def upload(self, share: Array) -> tuple[Array, Array]:
        """Return the time [s] and the amplifier's joules of an upload in the fastest mode."""
        time, energy, power = self._fastest(share)
        return time, np.minimum(energy, power * time)

    def drawn(self, share: Array) -> Array:
        """Return what the amplifier draws per second of an upload that lasts longer with a narrower
        share [W]; 0 where its joules are the same then."""
        time, energy, power = self._fastest(share)
        with np.errstate(invalid="ignore"):
            return np.where(power * time < energy, power, 0.0)

    def times(self, share: Array) -> Array:
        """Return the time of an upload in each mode [s]."""
        return np.asarray(self.band_time / np.minimum(share[..., None], self.widest))

    def _fastest(self, share: Array) -> tuple[Array, Array, Array]:
        """Return time, energy and power of the fastest mode, the first of equal ones."""
        time = np.full(share.shape, np.inf)
        energy, power = self.energy[..., 0], self.power[..., 0]
        for m in range(self.band_time.shape[-1]):
            own = self.band_time[..., m] / np.minimum(share, self.widest[..., m])
            faster = own < time
            time = np.where(faster, own, time)
            energy = np.where(faster, self.energy[..., m], energy)
            power = np.where(faster, self.power[..., m], power)
        return time, energy, power
