"""Links with a rate table: their modes at a power density, and at any transmit power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.network.physics.link import (
    Uploads,
    limited_uploads,
    noise_density,
    uploads,
    usable_band,
)
from fedcell.network.physics.power.link import Link, links
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.hardware.radio import NB_IOT
from fedcell.scenario.scenario import Scenario

from .modes import Modes
from .standards.nbiot import ALL_TONES, TONES, NbIotSteps, nbiot_steps
from .steps import TOLERANCE, RateSteps, rate_steps, tries_of

CAP_DIGITS = 1.002  # a cap of three digits is that of the step


class DiscreteLink(Link):
    """The links of rounds with a rate table, (..., client)."""

    def modes(self, density: Array, power: Array) -> Modes:
        """Return the modes of clients that send with a `density`, as the power over the whole band
        [W], and at most with `power` [W]."""
        raise NotImplementedError

    def free_modes(self) -> Modes:
        """Return the modes of clients that choose their power: in each that of its least SNR."""
        raise NotImplementedError

    def mode_power(self, share: Array, mode: Ints) -> Array:
        """Return the transmit power of one of the `free_modes` at a share [W]."""
        raise NotImplementedError

    def upload(self, share: Array, power: Array) -> tuple[Array, Array]:
        """Return the time [s] and the energy [J] of uploads, the latter without what the device
        draws for its whole length."""
        modes = self.modes(np.full(power.shape, np.inf), power)
        return modes.upload_time(share), modes.upload_energy(share)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StepLink(DiscreteLink):
    """The links of rounds with steps of rate, (..., client).

    `scale` is the time of an upload with the whole usable band at 1 bit/s/Hz, with all tries of its
    blocks [s]; `noise` the transmit power over the whole band at an SNR of 1.
    """

    steps: RateSteps

    def modes(self, density: Array, power: Array) -> Modes:
        """Return the modes of clients that send with a `density`, as the power over the whole band
        [W], and at most with `power` [W]."""
        needed, band_time = self._of_steps()
        if self.in_turn:
            return self._fastest(np.minimum(density, power), needed, band_time)
        density = np.minimum(density, self._of_last(needed))[..., None]  # all that steps can use
        can = (needed <= density * TOLERANCE) & np.isfinite(band_time)
        with np.errstate(invalid="ignore"):
            return Modes(
                band_time=np.where(can, band_time, np.inf),
                widest=power[..., None] * TOLERANCE / needed,
                energy=np.where(can, self.draw[..., None] * density * band_time, np.inf),
                power=np.broadcast_to((self.draw * power)[..., None], can.shape),
            )

    def _of_steps(self) -> tuple[Array, Array]:
        """Return for each step the transmit power over the whole band [W], and the time of an
        upload with the whole band [s]: infinite for a step above the cap of a device."""
        needed = self.noise[..., None] * self.steps.snr
        above = self.steps.efficiency > self.most[..., None] * CAP_DIGITS
        above[..., 0] = False
        time = np.where(above, np.inf, self.scale[..., None] / self.steps.efficiency)
        return needed, time

    def _of_last(self, needed: Array) -> Array:
        """Return the power of the highest step of each device."""
        below = self.steps.efficiency <= self.most[..., None] * CAP_DIGITS
        last = np.maximum(below.sum(-1) - 1, 0)
        return np.asarray(np.take_along_axis(needed, last[..., None], -1)[..., 0])

    def _fastest(self, power: Array, needed: Array, band_time: Array) -> Modes:
        """Return the highest step of clients that send in turn, each over the whole band."""
        can = needed <= power[..., None] * TOLERANCE
        time = np.where(can, band_time, np.inf).min(-1)
        power = np.minimum(power, self._of_last(needed))
        energy = (self.draw * power + self.on_air) * time
        found = {"band_time": time, "widest": self.widest, "energy": energy}
        endless = np.full(time.shape, np.inf)
        return Modes(**{n: v[..., None] for n, v in (found | {"power": endless}).items()})

    def free_modes(self) -> Modes:
        """Return the modes of clients that choose their power: in each that of its least SNR."""
        needed, band_time = self._of_steps()
        radiated = self.draw[..., None] * needed * band_time
        most = self.power_max[..., None]
        if self.in_turn:
            can = (needed <= most * TOLERANCE) & np.isfinite(band_time)
            widest = np.broadcast_to(self.widest[..., None], can.shape)
            radiated = radiated + self.on_air[..., None] * band_time
        else:
            can, widest = np.isfinite(band_time), most * TOLERANCE / needed
        return Modes(
            band_time=np.where(can, band_time, np.inf),
            widest=widest,
            energy=np.where(can, radiated, np.inf),
            power=np.full(can.shape, np.inf),
        )

    def mode_power(self, share: Array, mode: Ints) -> Array:
        """Return the transmit power of one of the `free_modes` at a share [W]."""
        needed = self.noise * self.steps.snr[mode]
        if self.in_turn:
            return np.asarray(np.minimum(needed, self.power_max))
        return np.asarray(np.minimum(needed * share, self.power_max))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ToneLink(DiscreteLink):
    """The links of rounds over NB-IoT, (..., client): a device sends on 1, 3, 6 or 12 tones.

    `scale` is the number of bits of an upload with all tries of its blocks. A device on n tones can
    use n / 12 of the band, and of the time the part in which it is on air.
    """

    offers: tuple[NbIotSteps, ...]  # by number of tones

    def modes(self, density: Array, power: Array) -> Modes:
        """Return a mode for each number of tones, with its highest step."""
        found = []
        for steps in self.offers:
            part = steps.tones / ALL_TONES
            sent = np.minimum(density * part, power)
            place = np.searchsorted(steps.snr, sent / (self.noise * part) * TOLERANCE, side="right")
            found.append(self._mode(steps, np.maximum(place - 1, 0), sent, place > 0))
        return _joined(found)

    def free_modes(self) -> Modes:
        """Return the modes of clients that choose their power: in each that of its least SNR."""
        found = []
        for steps in self.offers:
            for i in range(len(steps.snr)):
                needed = self.noise * (steps.tones / ALL_TONES) * steps.snr[i]
                can = needed <= self.power_max * TOLERANCE
                found.append(self._mode(steps, np.full(needed.shape, i), needed, can))
        return _joined(found)

    def mode_power(self, share: Array, mode: Ints) -> Array:  # noqa: ARG002
        """Return the transmit power of one of the `free_modes` [W], the same at any share."""
        snr = np.concatenate([s.tones / ALL_TONES * s.snr for s in self.offers])
        return np.asarray(np.minimum(self.noise * snr[mode], self.power_max))

    def _mode(self, steps: NbIotSteps, place: Ints, power: Array, can: Bools) -> Modes:
        """Return the mode with a step of each client and a transmit power [W]."""
        part = steps.tones / ALL_TONES
        on_air = steps.on_air[place]
        sending = self.scale / steps.bits[place] * on_air  # [s]
        energy = (self.draw * power + self.on_air) * sending
        return Modes(
            band_time=np.where(can, sending * part, np.inf),
            widest=part * on_air / steps.cycle[place],
            energy=np.where(can, energy, np.inf),
            power=np.full(energy.shape, np.inf),
        )


def _joined(modes: list[Modes]) -> Modes:
    """Return modes of the same clients as one, (..., client, mode)."""
    names = ("band_time", "widest", "energy", "power")
    return Modes(**{name: np.stack([getattr(m, name) for m in modes], -1) for name in names})


def links_of(scenario: Scenario, fleet: Fleet, trace: Trace) -> Link:
    """Return the links of the rounds of a trace, by Shannon's formula or by a rate table."""
    return (links if scenario.rate_table is None else step_links)(scenario, fleet, trace)


def uploads_of(scenario: Scenario, fleet: Fleet, trace: Trace) -> Uploads:
    """Return the uploads of the rounds of a trace, by Shannon's formula or by a rate table."""
    return (uploads if scenario.rate_table is None else step_uploads)(scenario, fleet, trace)


def step_links(scenario: Scenario, fleet: Fleet, trace: Trace) -> DiscreteLink:
    """Return the links of the rounds of a trace with a rate table."""
    radio = scenario.radio
    assert radio is not None
    assert fleet.hardware is not None
    own, tries = fleet.hardware[trace.cohort], tries_of(radio)
    in_turn, tones = radio.access == "time", radio.rate_table == NB_IOT
    resting = own.receive_power if tones else own.idle_power
    found: dict[str, Any] = {
        "scale": scenario.model_bits * tries / (1.0 if tones else usable_band(scenario)),
        "noise": scenario.cell.bandwidth * noise_density(scenario) / trace.gain,
        "draw": radio.uplink_share / own.efficiency,
        "power_max": own.power_max,
        "least": 0.0,
        "most": own.spectral_cap,
        "on_air": own.circuit_power - resting if in_turn or tones else 0.0,
        "widest": radio.duty_cycle or 1.0,
    }
    arrays = {name: np.broadcast_to(value, trace.gain.shape) for name, value in found.items()}
    if tones:
        offers = tuple(nbiot_steps(n, radio.margin_db) for n in TONES)
        return ToneLink(**arrays, in_turn=False, offers=offers)
    return StepLink(**arrays, in_turn=in_turn, steps=rate_steps(scenario))


def step_uploads(scenario: Scenario, fleet: Fleet, trace: Trace) -> Uploads:
    """Return the uploads of the rounds of a trace with a rate table, under its power law."""
    radio, link = scenario.radio, step_links(scenario, fleet, trace)
    assert radio is not None
    assert fleet.hardware is not None
    own, band = fleet.hardware[trace.cohort], scenario.cell.bandwidth
    density = fleet.power[trace.cohort] * band
    if radio.power_law == "full":  # all the power, in one block at the least
        blocks = 1.0 if link.in_turn else max(1.0, band / radio.block)
        density = own.power_max * blocks
    modes = link.modes(density, own.power_max)
    send_power = own.circuit_power
    if link.in_turn:
        send_power = own.idle_power
    elif isinstance(link, ToneLink):
        send_power = own.receive_power
    best = modes.band_time.argmin(-1)[..., None]
    if (np.take_along_axis(modes.widest, best, -1) >= 1).all():  # at any share
        found = (modes.band_time, modes.energy)
        time, energy = (np.take_along_axis(values, best, -1)[..., 0] for values in found)
        return Uploads(band_time=time, energy=energy, send_power=send_power, limit=None)
    return limited_uploads(modes, send_power)
