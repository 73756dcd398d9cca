"""Times and energies as people write and read them."""

import pytest

from fedcell.core.quantities import parse_duration, parse_energy, readable_duration
from fedcell.errors import BadInput


@pytest.mark.parametrize(
    ("text", "value"), [("2h", 7200), ("90s", 90), ("1.5min", 90), ("90", 90), ("1e3 ms", 1)]
)
def test_times_as_people_write_them(text, value):
    assert parse_duration(text, "--deadline") == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("500J", 500), ("2kJ", 2000), ("1Wh", 3600), ("100mWh", 360), ("100 mWh", 360)),
        *(("5mJ", 0.005), ("2kWh", 7.2e6), ("1MWh", 3.6e9), ("1MJ", 1e6), ("1e3J", 1e3), ("7", 7)),
    ],
)
def test_energies_as_people_write_them(text, value):
    assert parse_energy(text, "--energy-budget") == value


@pytest.mark.parametrize(
    "text", ["", "h", "2 parsec", "-1s", "0s", "1..2s", "nan", "inf", "1e999s"]
)
def test_quantities_that_are_refused(text):
    with pytest.raises(BadInput, match=r"--deadline = .*: expected a time such as 90s"):
        parse_duration(text, "--deadline")


def test_units_that_are_not_known_are_met_with_those_that_are():
    with pytest.raises(
        BadInput, match=r"= 5mwh: expected an energy .*; units: J, .*, mWh, Wh, kWh"
    ):
        parse_energy("5mwh", "--energy-budget")
    with pytest.raises(BadInput, match=r"= 5 weeks: .*; units: s, ms, min, h, d$"):
        parse_duration("5 weeks", "--deadline")


def test_times_as_people_read_them():
    assert [readable_duration(x) for x in (3.2, 300, 8000, 3e5)] == [
        "3.2 s",
        "5 min",
        "2.22 h",
        "3.47 d",
    ]
