"""Durations and energies with units: 2h, 90s, 1.5kJ, 100mWh."""

import re
from math import isfinite

from .errors import BadInput

SECONDS = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0}
JOULES = {"J": 1.0, "mJ": 1e-3, "kJ": 1e3, "MJ": 1e6}
JOULES |= {"mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6, "MWh": 3.6e9}


def parse_duration(given: str | float, name: str) -> float:
    """Return a duration [s] from text such as 90s or 2h; a bare number is in seconds."""
    return _quantity(given, SECONDS, name, "a time such as 90s, 15min or 2h")


def parse_energy(given: str | float, name: str) -> float:
    """Return an energy [J] from text such as 500J or 1Wh; a bare number is in joules."""
    return _quantity(given, JOULES, name, "an energy such as 500J, 2kJ or 1Wh")


def _quantity(given: str | float, units: dict[str, float], name: str, expected: str) -> float:
    text = given if isinstance(given, str) else f"{given}"
    match = re.fullmatch(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    try:
        value = float(match[1]) * units[match[2] or next(iter(units))] if match else 0.0
    except (ValueError, KeyError):
        value = 0.0
    if not (value > 0 and isfinite(value)):
        raise BadInput(f"{name} = {text}: expected {expected}; units: {', '.join(units)}")
    return value


def readable_duration(seconds: float) -> str:
    """Return seconds as text in a unit that suits them."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
