"""Profiles of devices, valid or refused, and the fleet that they make."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fedcell import Scenario
from fedcell.deploy.wire.profile import NUMBERS, Profile, introduced, ordered
from fedcell.errors import BadInput
from fedcell.network import draw_fleet
from fedcell.network.channel import rate_per_hertz

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=200),
    st.binary(max_size=20),
    st.lists(st.floats(), max_size=3),
)
KEYS = [field.name for field in fields(Profile)]


@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=50)), ANYTHING))
def test_a_profile_is_one_or_is_refused_with_a_sentence(said):
    try:
        profile = Profile.of(said)
    except BadInput:
        return
    assert profile.to_dict().items() <= said.items()
    assert profile.name.isprintable()
    assert all(value > 0 for name in NUMBERS if (value := getattr(profile, name)) is not None)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "no name"),
        ({"name": "  "}, "no name"),
        ({"name": "a\x1b[2J"}, "no name"),
        ({"name": "x" * 2**20}, "more than 100 characters"),
        ({"name": "a", "root": 1}, "unknown field 'root'"),
        ({"name": "a", "kappa": -1.0}, "kappa = -1.0"),
        ({"name": "a", "kappa": float("nan")}, "kappa = nan"),
        ({"name": "a", "battery": 10**400}, "battery"),
        ({"name": "a", "power": "1"}, "power = '1'"),
        ({"name": "a", "samples": 2.5}, "samples = 2.5"),
        ({"name": "a", "samples": True}, "samples = True"),
        ({"name": "a", "client": -1}, "client = -1"),
        ({"name": "a", "gain": 1e-9, "rate": 1e6}, "both gain and rate"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(said, why):
    with pytest.raises(BadInput, match=why) as refused:
        Profile.of(said)
    assert len(str(refused.value)) < 1000


def test_devices_are_placed_as_they_say_or_else_by_name():
    named = [Profile(name=name) for name in ("c", "a", "b")]
    assert ordered(named) == [2, 0, 1]
    assert ordered([Profile(name="x", client=1), Profile(name="y", client=0)]) == [1, 0]
    with pytest.raises(BadInput, match="y does not say which client it is"):
        ordered([Profile(name="x", client=1), Profile(name="y")])


@given(st.floats(1e4, 2e7), st.one_of(st.none(), st.floats(1e-9, 1e-6)))
def test_a_rate_becomes_the_gain_with_which_it_is_the_rate(rate, power):
    scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 2})
    devices = {0: Profile(name="a", rate=rate, power=power), 1: Profile(name="b")}
    table = introduced(scenario, devices).clients.table
    cell = scenario.cell
    used = scenario.clients.power if power is None else power
    gain = np.array(table.gain[0])
    assert_allclose(cell.bandwidth * rate_per_hertz(np.array(used), gain, cell.noise), rate, 1e-9)
    assert table.gain[1] is None or not np.isfinite(table.gain[1])


def test_devices_that_say_nothing_of_themselves_leave_the_scenario_as_it_is():
    scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 2})
    assert introduced(scenario, {0: Profile(name="a"), 1: Profile(name="b")}) is scenario


def test_what_devices_say_of_themselves_is_the_fleet():
    scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 2})
    devices = {0: Profile(name="a", kappa=7e-27), 1: Profile(name="b", freq_max=5e8)}
    fleet = draw_fleet(introduced(scenario, devices))
    assert fleet.kappa[0] == 7e-27
    assert fleet.freq_max[1] == 5e8
    with pytest.raises(BadInput, match="client 1 has not introduced itself"):
        introduced(scenario, {0: devices[0]})
