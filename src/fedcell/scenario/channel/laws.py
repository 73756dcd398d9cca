"""Path loss in decibels by name: TR 38.901, LTE macro, free space.

Formulas and tables are those of 3GPP TR 38.901 v19.4.0, with its own speed of light, 3.0e8 m/s.
Distances are horizontal (d_2D) in metres; `f` is the carrier in GHz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, log, log10
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array

if TYPE_CHECKING:
    from .spec import ChannelSpec

LIGHT = 3.0e8  # [m/s] as TR 38.901 has it; the exact value moves losses by up to 0.006 dB
LOW, HIGH = "low", "high"  # building losses


@dataclass(frozen=True, kw_only=True, eq=False)
class Propagation:
    """What a path-loss law says of some distances.

    Parameters
    ----------
    los : ndarray
        Path loss with line of sight [dB], or the only one.
    nlos : ndarray, optional
        Path loss without line of sight [dB]; None: the law knows one state.
    los_probability : ndarray or float
        Probability of line of sight.
    shadow_los, shadow_nlos : ndarray or float
        Standard deviations of shadowing [dB].
    correlation_los, correlation_nlos, correlation_state : float
        Distances over which shadowing and the state of sight decorrelate to 1/e [m].
    delay_los, delay_nlos, delay_indoor : float, optional
        Median delay spreads [s]; None: the law has none.
    rician_db : float, optional
        Mean Rician K-factor with line of sight [dB].

    Examples
    --------
    >>> Propagation(los=np.array([80.0]), shadow_los=4.0, correlation_los=37.0).nlos is None
    True
    """

    los: Array
    nlos: Array | None = None
    los_probability: Array | float = 1.0
    shadow_los: Array | float = 0.0
    shadow_nlos: Array | float = 0.0
    correlation_los: float = inf
    correlation_nlos: float = inf
    correlation_state: float = inf
    delay_los: float | None = None
    delay_nlos: float | None = None
    delay_indoor: float | None = None
    rician_db: float | None = None

    @property
    def obstructed(self) -> Array:
        """Return the path loss without line of sight, or the only one [dB]."""
        return self.los if self.nlos is None else self.nlos


class PathLossLaw(Protocol):
    """Path loss of clients at some distances, as another package may add one under a name.

    The name is `cell.channel.model` of a scenario::

        [project.entry-points."fedcell.channels"]
        two-slopes = "mine.channels:two_slopes"

    `fedcell.network.check_channel` tests whether a law keeps this contract.
    """

    def __call__(self, distance: Array, spec: ChannelSpec) -> Propagation:
        """Return the path loss at some distances.

        Parameters
        ----------
        distance : ndarray
            Horizontal distances to the station [m], of any shape.
        spec : ChannelSpec
            The table [cell.channel]; the law may use its options.

        Returns
        -------
        Propagation
            Arrays of the shape of `distance`, or numbers.

        Raises
        ------
        BadInput
            If a distance, the carrier or a height is outside the law's range.
        """
        ...


def free_space(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return 20 lg(4 pi d f / c)."""
    return Propagation(los=20 * np.log10(4 * np.pi * distance * spec.carrier / LIGHT))


def lte_macro(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return the macro-cell law of TR 36.942: 128.1 + 37.6 lg d_km at 2 GHz and 15 m."""
    _check(spec, distance, near=35.0, far=inf, carrier=(0.8, 2.2))
    over_roofs = spec.station_height or 15.0
    los = 40 * (1 - 4e-3 * over_roofs) * np.log10(distance / 1e3)
    los = los - 18 * log10(over_roofs) + 21 * log10(spec.carrier / 1e6) + 80
    return Propagation(los=los)


def uma(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return urban macro (Tables 7.4.1-1, 7.4.2-1, 7.5-6)."""
    f, bs, ut = spec.carrier / 1e9, spec.station_height or 25.0, spec.device_height or 1.5
    # Above 13 m the height of the environment is random.
    _check(spec, distance, near=10.0, far=5e3, ut=(ut, 1.5, 13.0), bs=bs)
    d = np.hypot(distance, bs - ut)
    bend = 4 * (bs - 1) * (ut - 1) * f * 1e9 / LIGHT  # d'_BP, with h_E = 1 m
    near = 28 + 22 * np.log10(d) + 20 * log10(f)
    beyond = 28 + 40 * np.log10(d) + 20 * log10(f) - 9 * log10(bend**2 + (bs - ut) ** 2)
    los = np.where(distance <= bend, near, beyond)
    nlos = 13.54 + 39.08 * np.log10(d) + 20 * log10(f) - 0.6 * (ut - 1.5)
    return Propagation(
        los=los,
        nlos=np.maximum(los, nlos),
        los_probability=_street(distance, 63.0),
        shadow_los=4.0,
        shadow_nlos=6.0,
        correlation_los=37.0,
        correlation_nlos=50.0,
        correlation_state=50.0,  # Table 7.6.3.1-2
        delay_los=10 ** (-7.067 - 0.0794 * log10(f)),
        delay_nlos=10 ** (-6.47 - 0.134 * log10(f)),
        delay_indoor=10**-6.62,
        rician_db=9.0,
    )


def umi(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return urban micro, street canyon (Tables 7.4.1-1, 7.4.2-1, 7.5-6)."""
    f, bs, ut = spec.carrier / 1e9, spec.station_height or 10.0, spec.device_height or 1.5
    _check(spec, distance, near=10.0, far=5e3, ut=(ut, 1.5, 22.5), bs=bs)
    d = np.hypot(distance, bs - ut)
    bend = 4 * (bs - 1) * (ut - 1) * f * 1e9 / LIGHT
    near = 32.4 + 21 * np.log10(d) + 20 * log10(f)
    beyond = 32.4 + 40 * np.log10(d) + 20 * log10(f) - 9.5 * log10(bend**2 + (bs - ut) ** 2)
    los = np.where(distance <= bend, near, beyond)
    nlos = 22.4 + 35.3 * np.log10(d) + 21.3 * log10(f) - 0.3 * (ut - 1.5)
    return Propagation(
        los=los,
        nlos=np.maximum(los, nlos),
        los_probability=_street(distance, 36.0),
        shadow_los=4.0,
        shadow_nlos=7.82,
        correlation_los=10.0,
        correlation_nlos=13.0,
        correlation_state=50.0,
        delay_los=10 ** (-0.18 * log10(1 + f) - 7.28),
        delay_nlos=10 ** (-0.22 * log10(1 + f) - 6.87),
        delay_indoor=10**-6.62,
        rician_db=9.0,
    )


def _street(distance: Array, scale: float) -> Array:
    """Return the probability of line of sight in a street, certain up to 18 m."""
    part = 18 / np.maximum(distance, 18.0)
    return np.asarray(part + np.exp(-distance / scale) * (1 - part))


def rma(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return rural macro (Tables 7.4.1-1, 7.4.2-1, 7.5-6)."""
    f, bs, ut = spec.carrier / 1e9, spec.station_height or 35.0, spec.device_height or 1.5
    h, width = spec.building_height, spec.street_width
    _check(spec, distance, near=10.0, far=5e3, ut=(ut, 1.0, 10.0), bs=bs, carrier=(0.5, 30.0))
    lengths = {  # Table 7.4.1-1
        "station_height": (bs, 10, 150),
        "building_height": (h, 5, 50),
        "street_width": (width, 5, 50),
    }
    if wrong := [
        f'cell.channel.{key} = {given:g}: "rma" holds for {low} to {high} m'
        for key, (given, low, high) in lengths.items()
        if not low <= given <= high
    ]:
        raise BadInput(*wrong)
    d = np.hypot(distance, bs - ut)
    bend = 2 * np.pi * bs * ut * f * 1e9 / LIGHT

    def line(d: Array | float) -> Array:  # PL1
        return np.asarray(
            20 * np.log10(40 * np.pi * np.asarray(d) * f / 3)
            + min(0.03 * h**1.72, 10) * np.log10(d)
            - min(0.044 * h**1.72, 14.77)
            + 0.002 * log10(h) * np.asarray(d)
        )

    los = np.where(distance <= bend, line(d), line(bend) + 40 * np.log10(d / bend))
    nlos = (
        161.04
        - 7.1 * log10(width)
        + 7.5 * log10(h)
        - (24.37 - 3.7 * (h / bs) ** 2) * log10(bs)
        + (43.42 - 3.1 * log10(bs)) * (np.log10(d) - 3)
        + 20 * log10(f)
        - (3.2 * log10(11.75 * ut) ** 2 - 4.97)
    )
    return Propagation(
        los=los,
        nlos=np.maximum(los, nlos),
        los_probability=np.exp(-np.maximum(distance - 10, 0) / 1000),
        shadow_los=np.where(distance <= bend, 4.0, 6.0),
        shadow_nlos=8.0,
        correlation_los=37.0,
        correlation_nlos=120.0,
        correlation_state=60.0,
        delay_los=10**-7.49,
        delay_nlos=10**-7.43,
        delay_indoor=10**-7.47,
        rician_db=7.0,
    )


def _office(distance: Array, spec: ChannelSpec, probability: Array) -> Propagation:
    """Return an indoor office (Tables 7.4.1-1, 7.5-6)."""
    f, bs, ut = spec.carrier / 1e9, spec.station_height or 3.0, spec.device_height or 1.0
    d = np.hypot(distance, bs - ut)
    _check(spec, distance, near=1.0, far=150.0)
    los = 32.4 + 17.3 * np.log10(d) + 20 * log10(f)
    nlos = 17.3 + 38.3 * np.log10(d) + 24.9 * log10(f)
    return Propagation(
        los=los,
        nlos=np.maximum(los, nlos),
        los_probability=probability,
        shadow_los=3.0,
        shadow_nlos=8.03,
        correlation_los=10.0,
        correlation_nlos=6.0,
        correlation_state=10.0,
        delay_los=10 ** (-0.01 * log10(1 + f) - 7.692),
        delay_nlos=10 ** (-0.28 * log10(1 + f) - 7.173),
        rician_db=7.0,
    )


def inh_open(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return an open office: seats in sight of the station."""
    near, far = np.exp(-(distance - 5) / 70.8), 0.54 * np.exp(-(distance - 49) / 211.7)
    sight = np.where(distance <= 5, 1.0, np.where(distance <= 49, near, far))
    return _office(distance, spec, sight)


def inh_mixed(distance: Array, spec: ChannelSpec) -> Propagation:
    """Return a mixed office: rooms and corridors."""
    near, far = np.exp(-(distance - 1.2) / 4.7), 0.32 * np.exp(-(distance - 6.5) / 32.6)
    sight = np.where(distance <= 1.2, 1.0, np.where(distance < 6.5, near, far))
    return _office(distance, spec, sight)


@dataclass(frozen=True)
class Factory:
    """A factory hall of TR 38.901, with the clutter of its calibration (Table 7.8-7)."""

    nlos: tuple[float, float]  # of the path loss: a + b lg d + 20 lg f
    shadow: float  # without line of sight [dB]
    station: float  # [m]
    density: float = 0.0  # r, share of the floor that clutter covers
    size: float = 10.0  # d_cl [m]
    height: float | None = None  # h_c [m], where the station is above the clutter
    always: bool = False  # line of sight

    def __call__(self, distance: Array, spec: ChannelSpec) -> Propagation:
        f, ut = spec.carrier / 1e9, spec.device_height or 1.5
        bs = spec.station_height or self.station
        _check(spec, distance, near=1.0, far=600.0)
        lg_d = np.log10(np.hypot(distance, bs - ut))
        los = 31.84 + 21.5 * lg_d + 19 * log10(f)
        losses = [los, self.nlos[0] + self.nlos[1] * lg_d + 20 * log10(f)]
        if self.nlos == DENSE_LOW:
            losses.append(SPARSE_LOW[0] + SPARSE_LOW[1] * lg_d + 20 * log10(f))
        size = spec.clutter_size or self.size
        return Propagation(
            los=los,
            nlos=np.maximum.reduce(losses) if not self.always else None,
            los_probability=self._sight(distance, spec, bs, ut, size),
            shadow_los=4.3,
            shadow_nlos=self.shadow,
            correlation_los=10.0,
            correlation_nlos=10.0,
            correlation_state=size / 2,
            rician_db=7.0,
        )

    def _sight(
        self, distance: Array, spec: ChannelSpec, bs: float, ut: float, size: float
    ) -> Array | float:
        """Return the probability of line of sight, exp(-d / k)."""
        if self.always:
            return 1.0
        density = spec.clutter_density or self.density
        k = -size / log(1 - density)
        if self.height is not None:  # the station is above the clutter
            top = spec.clutter_height or self.height
            if not ut < top < bs:
                raise BadInput(
                    f"cell.channel.clutter_height = {top:g}: expected between the devices at "
                    f"{ut:g} m and the station at {bs:g} m"
                )
            k *= (bs - ut) / (top - ut)
        return np.asarray(np.exp(-distance / k))


SPARSE_LOW, DENSE_LOW = (33.0, 25.5), (18.6, 35.7)
LAWS: Mapping[str, Callable[[Array, ChannelSpec], Propagation]] = {
    "uma": uma,
    "umi": umi,
    "rma": rma,
    "inh-open": inh_open,
    "inh-mixed": inh_mixed,
    "inf-sl": Factory(SPARSE_LOW, 5.7, station=1.5, density=0.2, size=10.0),
    "inf-dl": Factory(DENSE_LOW, 7.2, station=1.5, density=0.6, size=2.0),
    "inf-sh": Factory((32.4, 23.0), 5.9, station=8.0, density=0.2, size=10.0, height=2.0),
    "inf-dh": Factory((33.63, 21.9), 4.0, station=8.0, density=0.6, size=2.0, height=6.0),
    "inf-hh": Factory((31.84, 21.5), 4.3, station=8.0, always=True),
    "lte-macro": lte_macro,
    "free-space": free_space,
}


def _check(
    spec: ChannelSpec,
    distance: Array,
    *,
    near: float,
    far: float,
    ut: tuple[float, float, float] | None = None,
    bs: float | None = None,
    carrier: tuple[float, float] = (0.5, 100.0),
) -> None:
    """Refuse what is outside the range in which a law was measured."""
    faults, f, d = [], spec.carrier / 1e9, np.asarray(distance)
    if d.size and (d.min() < near or d.max() > far):
        wrong = d.min() if d.min() < near else d.max()
        reach = f"{near:g} m or more" if far == inf else f"{near:g} to {far:g} m"
        faults.append(
            f'cell.channel.model = "{spec.model}" holds for {reach}, and a client is at '
            f"{wrong:g} m: change cell.distance or the model"
        )
    if not carrier[0] <= f <= carrier[1]:
        faults.append(
            f'cell.channel.carrier = {spec.carrier:g}: "{spec.model}" holds for {carrier[0]:g} to '
            f"{carrier[1]:g} GHz"
        )
    if ut is not None and not ut[1] <= ut[0] <= ut[2]:
        faults.append(
            f'cell.channel.device_height = {ut[0]:g}: "{spec.model}" holds for {ut[1]:g} to '
            f"{ut[2]:g} m"
        )
    if ut is not None and bs is not None and bs <= ut[0]:
        faults.append(
            f"cell.channel.station_height = {bs:g}: expected above the devices at {ut[0]:g} m"
        )
    if faults:
        raise BadInput(*faults)


def with_spec(found: Propagation, spec: ChannelSpec) -> Propagation:
    """Return a propagation with what [cell.channel] sets itself."""
    changes: dict[str, object] = {}
    if spec.line_of_sight == "always" or found.nlos is None:
        changes |= {"nlos": None, "los_probability": 1.0}
    elif spec.line_of_sight == "never":
        changes["los_probability"] = 0.0
    if spec.shadowing is not None:
        changes |= {"shadow_los": spec.shadowing, "shadow_nlos": spec.shadowing}
    if (distance := spec.correlation_distance) is not None:
        names = ("correlation_los", "correlation_nlos", "correlation_state")
        changes |= dict.fromkeys(names, distance)
    if (delay := spec.delay_spread) is not None:
        changes |= {"delay_los": delay, "delay_nlos": delay, "delay_indoor": delay}
    if spec.rician_db is not None:
        changes["rician_db"] = spec.rician_db
    return replace(found, **changes)  # type: ignore[arg-type]


def wall_loss(building: str, carrier: float) -> float:
    """Return the loss of an outer wall [dB] (Table 7.4.3-2), of a carrier [Hz].

    >>> round(wall_loss("low", 3.5e9), 2), round(wall_loss("high", 3.5e9), 2)
    (12.7, 27.5)
    """
    f = carrier / 1e9
    glass, coated, concrete = 2 + 0.2 * f, 25.4 + 0.11 * f, 5 + 4 * f
    pane, share = (glass, 0.3) if building == LOW else (coated, 0.7)
    return 5 - 10 * log10(share * 10 ** (-pane / 10) + (1 - share) * 10 ** (-concrete / 10))


INDOOR_SLOPE = 0.5  # [dB/m] behind the wall
WALL_SPREAD = {LOW: 4.4, HIGH: 6.5}  # sigma_P [dB]
