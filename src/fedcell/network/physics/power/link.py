"""What an upload takes at any share of the band and any transmit power."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools
from fedcell.network.physics.link import noise_density, ratio, usable_band
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.hardware.radio import Radio
from fedcell.scenario.scenario import Scenario

if TYPE_CHECKING:
    from fedcell.network.round import Problem


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Link:
    """The links of rounds, from which a policy that chooses transmit powers starts, (..., client).

    At x = ln(1 + SNR / gap) nats per second and hertz a share a of the band carries the model in
    y_0 / (a x) seconds. The device then sends with a times `noise` times (e^x - 1) watts.
    """

    scale: Array  # y_0 = z ln 2 over the usable band [s]
    noise: Array  # transmit power over the whole band at which SNR / gap is 1 [W]
    draw: Array  # of the amplifier, over the radiated power, on average over an upload
    power_max: Array  # [W]; infinite: no limit
    least: Array  # x at the least SNR
    most: Array  # x at the cap; infinite: none
    on_air: Array  # drawn on air beside what is drawn for the whole upload [W]
    widest: Array  # largest share that a device can use
    in_turn: bool  # shares are shares of time, each with the whole band

    @staticmethod
    def of(problem: Problem) -> Link:
        """Return the links of a problem; refuse to choose transmit powers without."""
        if problem.link is None:
            raise BadInput(
                "the transmit powers of this problem cannot be chosen, because it says nothing of "
                "its links: take a problem of make_problem or load_round"
            )
        return problem.link

    def keeping(self, x: Array, which: Bools) -> Self:
        """Return the links of which some devices cannot set their power: x is that of their power
        law, as far as it is finite (a device that always sends with all its power has none)."""
        fixed = which & np.isfinite(x)
        return replace(
            self, least=np.where(fixed, x, self.least), most=np.where(fixed, x, self.most)
        )

    def __getitem__(self, where: Any) -> Self:
        """Return some of the rounds or clients."""
        return replace(self, **{name: getattr(self, name)[where] for name in ARRAYS})

    @property
    def fastest(self) -> Array:
        """Return the largest x: that of the cap, or with the whole band of all the power."""
        if not self.in_turn:
            return self.most
        return np.asarray(np.minimum(self.most, np.log1p(self.power_max / self.noise)))

    @property
    def sending(self) -> Array:
        """Return the seconds of an upload per phi(x) = (e^x - 1) / x with all the power."""
        if self.in_turn:
            return np.zeros(self.scale.shape)
        return np.asarray(self.noise * self.scale / self.power_max)

    def power(self, share: Array, x: Array) -> Array:
        """Return the transmit power at x [W]: that over the share, or the whole band in turn."""
        width = 1.0 if self.in_turn else share
        return np.asarray(np.minimum(self.noise * width * np.expm1(x), self.power_max))

    def upload(self, share: Array, power: Array) -> tuple[Array, Array]:
        """Return the time [s] and the energy [J] of uploads, the latter without what the device
        draws for its whole length.

        A device with a share so wide that its SNR would be below the least leaves a part unused.
        """
        share = np.minimum(share, self.widest)
        with np.errstate(all="ignore"):
            if self.in_turn:
                x = np.minimum(np.log1p(power / self.noise), self.most)
                return self.scale / (share * x), (self.draw * power + self.on_air) * self.scale / x
            share = np.minimum(share, power / (self.noise * np.expm1(self.least)))
            x = np.minimum(np.log1p(power / (self.noise * share)), self.most)
            time = self.scale / (share * x)
            return time, self.draw * power * time


ARRAYS = ("scale", "noise", "draw", "power_max", "least", "most", "on_air", "widest")


def links(scenario: Scenario, fleet: Fleet, trace: Trace) -> Link:
    """Return the links of the rounds of a trace."""
    radio, own = scenario.radio or Radio(), fleet.hardware
    gap, in_turn = ratio(radio.gap_db), radio.access == "time"
    least = 0.0 if radio.snr_min_db is None else ratio(radio.snr_min_db) / gap
    own = None if own is None else own[trace.cohort]
    power_max, cap, efficiency = (
        (np.inf, np.inf, 1.0) if own is None else (own.power_max, own.spectral_cap, own.efficiency)
    )
    on_air = own.circuit_power - own.idle_power if in_turn and own is not None else 0.0
    found = {
        "scale": scenario.model_bits * np.log(2) / usable_band(scenario),
        "noise": scenario.cell.bandwidth * noise_density(scenario) * gap / trace.gain,
        "draw": radio.uplink_share / efficiency,
        "power_max": power_max,
        "least": np.log1p(least),
        "most": cap * np.log(2),
        "on_air": on_air,
        "widest": radio.duty_cycle or np.inf,
    }
    arrays = {name: np.broadcast_to(value, trace.gain.shape) for name, value in found.items()}
    return Link(**arrays, in_turn=in_turn)
