"""What a device says of itself, and the fleet that a federation of such devices is.

Before the first round the server asks everybody (Sec. IV-D: channel state and data of the
clients); what a device does not say is as the scenario has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL
from fedcell.core.showing import shortened
from fedcell.learning.setup import MAX_SAMPLES
from fedcell.network.channel import gain_at_rate
from fedcell.scenario.arrays import MAX_NAME_LENGTH, ClientTable, in_range
from fedcell.scenario.scenario import Scenario

LONGEST_VALUE = 60  # characters of a value that a refusal quotes
WHOLE = {"client": 10**7, "samples": MAX_SAMPLES}  # the largest of each
NUMBERS = ("kappa", "power", "gain", "rate", "freq_min", "freq_max", "cycles_per_sample", "battery")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One device, as it introduces itself; None where it leaves something to the scenario.

    >>> Profile.of({"name": "pump-1", "samples": 120, "kappa": 5e-27}).samples
    120
    """

    name: str
    client: int | None = None  # its place in the fleet, where it knows one
    samples: int | None = None  # D_j
    kappa: float | None = None  # kappa_j [J s^2]
    power: float | None = None  # p_j^0 [W/Hz]
    gain: float | None = None  # mean channel power gain, linear; or
    rate: float | None = None  # what it was seen to send with the whole band [bit/s]
    freq_min: float | None = None  # [cycle/s]
    freq_max: float | None = None  # [cycle/s]
    cycles_per_sample: float | None = None  # alpha_0 of this device [cycle]
    battery: float | None = None  # what it may spend in all [J]
    clock: float | None = None  # its time when it answered [s since 1970]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Profile":
        """From what came over the network, if it can be."""
        known = {f.name for f in fields(cls)}
        if strange := sorted(set(said) - known):
            raise BadInput(f"it speaks of {strange[0][:40]!r}, which nobody asked for")
        values: dict[str, Any] = {"name": _checked_name(said.get("name"))}
        for key, most in WHOLE.items():
            if (value := said.get(key)) is not None:
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                    raise BadInput(
                        f"{key} = {_shown(value)}: expected a whole number from 0 to {most:g}"
                    )
                values[key] = value
        for key in (*NUMBERS, "clock"):
            if (value := said.get(key)) is not None:
                values[key] = _checked_number(key, value)
        if "gain" in values and "rate" in values:
            raise BadInput("it gives both gain and rate: one of them will do")
        return cls(**values)

    @property
    def numbers(self) -> list[str]:
        """What it says of its radio, processor and battery, by name."""
        return [name for name in NUMBERS if getattr(self, name) is not None]

    def to_dict(self) -> dict[str, Any]:
        """What it says, without what it leaves out."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def presentable(name: Any) -> bool:
    """Whether a device can be called by a name: it is shown, and stands in tables."""
    return (
        isinstance(name, str)
        and bool(name.strip())
        and name.isprintable()
        and len(name) <= MAX_NAME_LENGTH
    )


def _checked_name(name: Any) -> str:
    if isinstance(name, str) and len(name) > MAX_NAME_LENGTH:
        raise BadInput(f"its name has more than {MAX_NAME_LENGTH} characters")
    if not presentable(name):
        raise BadInput("it has no name that can be shown")
    return str(name)


def _checked_number(key: str, value: Any) -> float:
    """A number in the range that a fleet table has for it."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 < value <= LARGE and bool(in_range(key, np.array(float(value)))):
        return float(value)
    most = "1 (linear, not dB)" if key == "gain" else f"{LARGE:g}"
    raise BadInput(f"{key} = {_shown(value)}: expected a number above 0, from {SMALL:g} to {most}")


def _shown(value: Any) -> str:
    """A value of a stranger, cut; Python does not write out integers of thousands of digits."""
    if isinstance(value, int) and abs(value) > LARGE:
        return f"about {'-' if value < 0 else ''}2**{value.bit_length()}"
    return shortened(repr(value), LONGEST_VALUE)


def ordered(profiles: Sequence[Profile]) -> list[int]:
    """The client that each device is: the place that it claims, or, where none claims one, by
    name."""
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
    """The scenario with its devices as they are: a table, where they say anything of themselves.

    `devices` has the profile of each client, and `names` what the clients are called where the
    owners of the data say so. D_j are not changed here.
    """
    said = {name for p in devices.values() for name in p.numbers}
    if not said:
        return scenario
    n = scenario.clients.count
    if scenario.clients.table is not None:
        raise BadInput(
            f"it gives {', '.join(sorted(said))}, and so does clients.table of the scenario: leave "
            "them out of one of the two"
        )
    if absent := [j for j in range(n) if j not in devices]:
        raise BadInput(
            f"client {absent[0]} has not introduced itself, and others tell what they are like: "
            "the fleet is not known without it"
        )
    everybody = [devices[j] for j in range(n)]
    gains = [_gain_of(scenario, profile) for profile in everybody]
    columns: dict[str, Any] = {"name": names or [profile.name for profile in everybody]}
    columns |= {
        name: [getattr(profile, name) for profile in everybody]
        for name in NUMBERS
        if name in said and name not in ("gain", "rate")
    }
    if {"gain", "rate"} & said:
        columns["gain"] = gains
    return scenario.using(clients={"table": ClientTable(**columns)})


def _gain_of(scenario: Scenario, profile: Profile) -> float | None:
    """The mean gain that a device gives, or that with which (5) has the rate that it gives."""
    if profile.rate is None:
        return profile.gain
    power = scenario.clients.power if profile.power is None else profile.power
    per_hertz = profile.rate / scenario.cell.bandwidth  # r_j^0
    gain = float(gain_at_rate(np.array(power), np.array(per_hertz), scenario.cell.noise))
    if not 0 < gain <= 1:
        raise BadInput(
            f"{profile.name}: rate = {profile.rate:g} bit/s is more than cell.bandwidth = "
            f"{scenario.cell.bandwidth:g} Hz carries with its power: check the units"
        )
    return gain
