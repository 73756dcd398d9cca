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

from fedcell.core.types import Array, Ints


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
        return np.asarray(self.times(share).min(-1))

    def upload_energy(self, share: Array) -> Array:
        """Return the joules that the amplifier draws for an upload in the fastest mode."""
        times = self.times(share)
        return self._at(times, times.argmin(-1))

    def drawn(self, share: Array) -> Array:
        """Return what the amplifier draws per second of an upload that lasts longer with a narrower
        share [W]; 0 where its joules are the same then."""
        times = self.times(share)
        which = times.argmin(-1)[..., None]
        energy, power, time = (
            np.take_along_axis(values, which, -1)[..., 0]
            for values in (self.energy, self.power, times)
        )
        with np.errstate(invalid="ignore"):
            return np.where(power * time < energy, power, 0.0)

    def times(self, share: Array) -> Array:
        """Return the time of an upload in each mode [s]."""
        return np.asarray(self.band_time / np.minimum(share[..., None], self.widest))

    def _at(self, times: Array, which: Ints) -> Array:
        energy, power, time = (
            np.take_along_axis(values, which[..., None], -1)[..., 0]
            for values in (self.energy, self.power, times)
        )
        return np.asarray(np.minimum(energy, power * time))
