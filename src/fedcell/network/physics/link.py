"""Rates and powers of uploads: what (5)-(7) become with the radios that one can buy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.channel import rate_per_hertz, upload_energy
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.hardware.radio import Radio
from fedcell.scenario.scenario import Scenario

from .discrete.modes import Modes

if TYPE_CHECKING:
    from fedcell.network.round import Problem, Schedule


def ratio(decibels: float) -> float:
    """Return a ratio given in decibels."""
    return float(10 ** (decibels / 10))


def noise_density(scenario: Scenario) -> float:
    """Return the noise that a gain is compared with at the base station [W/Hz]: N_0 times noise
    figure and noise rise, over the gain of its antennas."""
    radio = scenario.radio or Radio()
    return scenario.cell.noise * ratio(
        radio.noise_figure_db + radio.noise_rise_db - radio.receive_gain_db
    )


def spectral_efficiency(snr: Array, gap: float, cap: Array | float) -> Array:
    """Return min(cap, log2(1 + SNR / gap)) [bit/s/Hz]."""
    return np.asarray(np.minimum(rate_per_hertz(snr, np.ones(()), gap), cap))


def usable_band(scenario: Scenario) -> float:
    """Return the band that carries bits of the uplink, on average over time [Hz]."""
    radio = scenario.radio or Radio()
    return scenario.cell.bandwidth * radio.usable_share * radio.uplink_share


def shannon_noise(scenario: Scenario) -> float:
    """Return the noise density with which Shannon's formula gives the rate: noise times gap."""
    return noise_density(scenario) * ratio((scenario.radio or Radio()).gap_db)


def whole_band_density(scenario: Scenario, fleet: Fleet) -> Array:
    """Return the power density of each client over the whole band, its limit kept [W/Hz]."""
    if fleet.hardware is None:
        return fleet.power
    return np.minimum(fleet.power, fleet.hardware.power_max / scenario.cell.bandwidth)


def uploads_per_second(problem: Problem, schedule: Schedule) -> Array:
    """Return the part of a model that each client sends in a second: a_j B r_j^0 over z_m."""
    if schedule.power is not None and problem.link is not None:
        return 1 / problem.link.upload(schedule.share, schedule.power)[0]
    if problem.extras is None or problem.extras.limit is None:
        return np.asarray(schedule.share / problem.band_time)
    return 1 / problem.extras.limit.upload_time(schedule.share)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PowerLimit:
    """Uploads that power_max limits, as functions of the share of the band, (..., client).

    Up to the share `cut` the density is that of the power law. Beyond it the device sends with
    power_max, and the density falls with the share. Beyond `floor` the SNR would fall below the
    least, and the device leaves the rest of its share unused.
    """

    band_time: Array  # u_j at the density of the power law [s]
    energy: Array  # of the amplifier for an upload at that density [J]
    scale: Array  # bits ln2 / usable band [s]
    snr: Array  # SNR / gap with power_max over the whole band
    cut: Array
    floor: Array
    power: Array  # that the amplifier draws at power_max, on average over time [W]

    def upload_time(self, share: Array) -> Array:
        """Return t(a) = bits / (B_u a log2(1 + SNR / (a gap))) beyond `cut`, else u / a [s]."""
        a = np.minimum(share, self.floor)
        with np.errstate(all="ignore"):
            limited = self.scale / (a * np.log1p(self.snr / a))
            return np.where(share > self.cut, limited, self.band_time / share)

    def upload_energy(self, share: Array) -> Array:
        """Return the joules that the amplifier draws for an upload."""
        with np.errstate(all="ignore"):
            limited = self.power * self.upload_time(share)
        return np.where(share > self.cut, limited, self.energy)

    def upload(self, share: Array) -> tuple[Array, Array]:
        """Return the time [s] and the amplifier's joules of an upload."""
        return self.upload_time(share), self.upload_energy(share)

    def drawn(self, share: Array) -> Array:
        """Return what the amplifier draws per second of an upload that lasts longer with a narrower
        share [W]; 0 where its joules are the same then."""
        return np.where(share > self.cut, self.power, 0.0)

    def __getitem__(self, where: Any) -> PowerLimit:
        """Return some of the rounds or clients."""
        return PowerLimit(**{f.name: getattr(self, f.name)[where] for f in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Uploads:
    """The uploads of rounds, (..., client): those of (6) and (7), and what acts on top of them."""

    band_time: Array  # u_j; where power_max acts, K-th of the time at the share 1/K [s]
    energy: Array  # of an upload, whatever its length [J]
    send_power: Array | None  # drawn for the whole length of an upload beside it [W]
    limit: PowerLimit | Modes | None  # what makes them other than in proportion to 1 / a


def uploads(scenario: Scenario, fleet: Fleet, trace: Trace) -> Uploads:
    """Return the uploads of the rounds of a trace."""
    density, bits = fleet.power[trace.cohort], scenario.model_bits
    noise, band = noise_density(scenario), usable_band(scenario)
    if fleet.hardware is None:
        rate = rate_per_hertz(density, trace.gain, noise)  # r_j^0 in (5)
        energy = upload_energy(bits, density, rate)
        return Uploads(band_time=bits / (band * rate), energy=energy, send_power=None, limit=None)
    radio, own = scenario.radio or Radio(), fleet.hardware[trace.cohort]
    gap = ratio(radio.gap_db)
    most = own.power_max / scenario.cell.bandwidth  # density of power_max over the whole band
    in_turn = radio.access == "time"
    if radio.power_law == "full":  # as dense as the share allows
        density = np.full(most.shape, np.inf)
    if in_turn:
        density = np.minimum(density, most)
    enough = np.expm1(own.spectral_cap * np.log(2)) * gap * noise / trace.gain  # reaches the cap
    density = np.minimum(density, enough)
    rate = spectral_efficiency(density * trace.gain / noise, gap, own.spectral_cap)
    band_time = bits / (band * rate)  # (6) at a_j = 1
    energy = upload_energy(bits, density, rate) / radio.usable_share / own.efficiency
    if in_turn:  # on air for u_j, whatever the share; idle_power between
        energy = energy + (own.circuit_power - own.idle_power) * band_time
        if radio.duty_cycle is not None:
            modes = Modes.capped(band_time, energy, radio.duty_cycle)
            return limited_uploads(modes, own.idle_power)
        return Uploads(band_time=band_time, energy=energy, send_power=own.idle_power, limit=None)
    cut = np.where(np.isfinite(density), most / density, 0.0)
    if (cut >= 1).all():
        return Uploads(band_time=band_time, energy=energy, send_power=own.circuit_power, limit=None)
    snr = most * trace.gain / noise / gap
    least = 0.0 if radio.snr_min_db is None else ratio(radio.snr_min_db) / gap
    limit = PowerLimit(
        band_time=band_time,
        energy=energy,
        scale=np.broadcast_to(bits * np.log(2) / band, snr.shape),
        snr=snr,
        cut=cut,
        floor=snr / least if least else np.full(snr.shape, np.inf),
        power=own.power_max * radio.uplink_share / own.efficiency,
    )
    return limited_uploads(limit, own.circuit_power)


def limited_uploads(limit: PowerLimit | Modes, send_power: Array) -> Uploads:
    """Return uploads with a limit, and what they take at even shares."""
    even = np.full(send_power.shape, 1 / send_power.shape[-1])
    return Uploads(
        band_time=limit.upload_time(even) * even,
        energy=limit.upload_energy(even),
        send_power=send_power,
        limit=limit,
    )
