"""The profile that a device sends, and the fleet of a federation of such devices.

Before the first round the server asks all devices (Sec. IV-D: channel state and data of the
clients); what a profile leaves out is taken from the scenario.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL
from fedcell.core.showing import shortened
from fedcell.learning.setup import MAX_SAMPLES
from fedcell.network.physics.discrete.inverse import gain_of_rate
from fedcell.network.physics.link import usable_band
from fedcell.scenario.arrays import MAX_NAME_LENGTH, ClientTable, in_range
from fedcell.scenario.scenario import Scenario

MAX_VALUE_LENGTH = 60  # characters of a value that a refusal quotes
WHOLE = {"client": 10**7, "samples": MAX_SAMPLES}  # whole numbers and their maxima
NUMBERS = ("kappa", "power", "gain", "rate", "freq_min", "freq_max", "cycles_per_sample", "battery")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A device as it introduces itself; None leaves a value to the scenario.

    Attributes
    ----------
    name : str
        Name of the device, printable and unique in the federation.
    client : int or None
        Its place in the fleet (partition-id), counted from 0.
    samples : int or None
        D_j, the number of its training samples.
    kappa : float or None
        kappa_j, energy coefficient of its processor [J s^2].
    power : float or None
        p_j^0, transmit power density [W/Hz].
    gain : float or None
        Mean channel power gain, linear; an alternative to `rate`.
    rate : float or None
        Upload rate that was measured with the whole band [bit/s].
    freq_min, freq_max : float or None
        Bounds of its frequency f_j [cycle/s].
    cycles_per_sample : float or None
        alpha_0 of this device [cycle].
    battery : float or None
        Energy that it may spend over the whole run [J].
    sets_power : bool or None
        Whether it can send with the transmit power that the server asks for.
    clock : float or None
        Its time when it sent the profile [s since 1970].

    Examples
    --------
    >>> Profile.of({"name": "pump-1", "samples": 120, "kappa": 5e-27}).samples
    120
    """

    name: str
    client: int | None = None
    samples: int | None = None
    kappa: float | None = None
    power: float | None = None
    gain: float | None = None
    rate: float | None = None
    freq_min: float | None = None
    freq_max: float | None = None
    cycles_per_sample: float | None = None
    battery: float | None = None
    sets_power: bool | None = None
    clock: float | None = None

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> "Profile":
        """Decode a profile that came over the network.

        Parameters
        ----------
        sent : mapping
            Values by field; each is checked for its type and range.

        Raises
        ------
        BadInput
            If a field is unknown, or its value is invalid.
        """
        known = {f.name for f in fields(cls)}
        if strange := sorted(set(sent) - known):
            raise BadInput(f"unknown field {strange[0][:40]!r} in the device profile")
        values: dict[str, Any] = {"name": _check_name(sent.get("name"))}
        for key, most in WHOLE.items():
            if (value := sent.get(key)) is not None:
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                    raise BadInput(
                        f"{key} = {_shown(value)}: expected a whole number from 0 to {most:g}"
                    )
                values[key] = value
        for key in (*NUMBERS, "clock"):
            if (value := sent.get(key)) is not None:
                values[key] = _check_number(key, value)
        if (able := sent.get("sets_power")) is not None:
            if not isinstance(able, bool):
                raise BadInput(f"sets_power = {_shown(able)}: expected true or false")
            values["sets_power"] = able
        if "gain" in values and "rate" in values:
            raise BadInput("the profile gives both gain and rate: leave one of them out")
        return cls(**values)

    @property
    def numbers(self) -> list[str]:
        """Names of the given values of its radio, processor and battery."""
        return [name for name in NUMBERS if getattr(self, name) is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return the given values by field."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def presentable(name: Any) -> bool:
    """Return whether a name can be printed and written to tables."""
    return (
        isinstance(name, str)
        and bool(name.strip())
        and name.isprintable()
        and len(name) <= MAX_NAME_LENGTH
    )


def _check_name(name: Any) -> str:
    if isinstance(name, str) and len(name) > MAX_NAME_LENGTH:
        raise BadInput(f"its name has more than {MAX_NAME_LENGTH} characters")
    if not presentable(name):
        raise BadInput("it has no name that can be shown")
    return str(name)


def _check_number(key: str, value: Any) -> float:
    """Return a number if it is in the range that fleet tables allow."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 < value <= LARGE and bool(in_range(key, np.array(float(value)))):
        return float(value)
    most = "1 (linear, not dB)" if key == "gain" else f"{LARGE:g}"
    raise BadInput(f"{key} = {_shown(value)}: expected a number above 0, from {SMALL:g} to {most}")


def _shown(value: Any) -> str:
    """Shorten a value of a device; Python does not print integers of thousands of digits."""
    if isinstance(value, int) and abs(value) > LARGE:
        return f"about {'-' if value < 0 else ''}2**{value.bit_length()}"
    return shortened(repr(value), MAX_VALUE_LENGTH)


def ordered(profiles: Sequence[Profile]) -> list[int]:
    """Return the client of each device: its partition-id, or, where none gives one, the order of
    names."""
    claimed = [profile.client for profile in profiles]
    if all(place is None for place in claimed):
        by_name = sorted(range(len(profiles)), key=lambda i: profiles[i].name)
        places = [0] * len(profiles)
        for place, i in enumerate(by_name):
            places[i] = place
        return places
    unplaced = [p.name for p, place in zip(profiles, claimed, strict=True) if place is None]
    if unplaced:
        raise BadInput(
            f"{unplaced[0]} does not say which client it is, and others do: give all of them a "
            "partition-id, or none"
        )
    return [int(place) for place in claimed if place is not None]


def introduced(
    scenario: Scenario, devices: Mapping[int, Profile], names: Sequence[str] | None = None
) -> Scenario:
    """Return the scenario with a fleet table from the profiles, where these give any values.

    `devices` has the profile of each client, and `names` the names of the clients where the data
    has named owners. D_j are not changed here.
    """
    said = {name for p in devices.values() for name in p.numbers}
    if not said:
        return scenario
    n = scenario.clients.count
    if scenario.clients.table is not None:
        raise BadInput(
            f"the profile gives {', '.join(sorted(said))}, and so does clients.table of the "
            "scenario: leave them out of one of the two"
        )
    if absent := [j for j in range(n) if j not in devices]:
        raise BadInput(
            f"client {absent[0]} has not introduced itself, and the profiles of others describe "
            "their devices: start it, or put all devices into a fleet table (clients.table)"
        )
    profiles = [devices[j] for j in range(n)]
    gains = [_gain_of(scenario, profile) for profile in profiles]
    columns: dict[str, Any] = {"name": names or [profile.name for profile in profiles]}
    columns |= {
        name: [getattr(profile, name) for profile in profiles]
        for name in NUMBERS
        if name in said and name not in ("gain", "rate")
    }
    if {"gain", "rate"} & said:
        columns["gain"] = gains
    return scenario.using(clients={"table": ClientTable(**columns)})


def _gain_of(scenario: Scenario, profile: Profile) -> float | None:
    """Return the mean gain of a profile, or the one with which (5) gives its rate."""
    if profile.rate is None:
        return profile.gain
    power = scenario.clients.power if profile.power is None else profile.power
    if scenario.radio is not None and scenario.radio.power_max is not None:
        power = min(power, scenario.radio.power_max / scenario.cell.bandwidth)
    per_hertz = profile.rate / usable_band(scenario)  # r_j^0
    gain = float(gain_of_rate(scenario, np.array(power), np.array(per_hertz)))
    if not 0 < gain <= 1:
        raise BadInput(
            f"{profile.name}: rate = {profile.rate:g} bit/s is more than cell.bandwidth = "
            f"{scenario.cell.bandwidth:g} Hz carries with its power: check the units"
        )
    return gain
