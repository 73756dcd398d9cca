"""Which devices a run expects, and which of them are missing: values only, without Flower."""

import pytest

from fedcell.deploy.exchanges import Exchange
from fedcell.deploy.server.presence import (
    Presence,
    listed,
    missing_devices,
    missing_words,
    round_line,
)
from fedcell.deploy.wire.profile import Profile
from fedcell.errors import BadInput

TABLE = ("valve", "pump", "gate")  # not in the order of the alphabet


def test_missing_devices_are_named_by_partition_id():
    there = [Profile(name="x", client=0), Profile(name="y", client=2)]
    assert missing_devices(Presence(count=4), there) == [
        "client 1 (partition-id=1)",
        "client 3 (partition-id=3)",
    ]


def test_missing_devices_are_named_by_the_fleet_table():
    expected = Presence(count=3, names=TABLE)
    assert missing_devices(expected, []) == list(TABLE)
    assert missing_devices(expected, [Profile(name="gate")]) == ["valve", "pump"]
    assert missing_devices(expected, [Profile(name="x", client=1)]) == ["valve", "gate"]
    assert missing_words(expected, [Profile(name="gate")]) == "; missing: valve, pump"


def test_no_device_is_named_where_it_cannot_be_known_which_are_missing():
    assert missing_devices(Presence(count=3), [Profile(name="pump")]) == []
    assert missing_devices(Presence(count=3, names=TABLE), [Profile(name="other")]) == []
    assert missing_words(Presence(count=3), []) == ""


def test_a_sentence_names_ten_devices_at_most():
    assert listed(list("abcdefghij")) == "a, b, c, d, e, f, g, h, i, j"
    assert listed(list("abcdefghijkl")).endswith("i, j and 2 more")


def test_devices_without_a_partition_id_have_the_row_of_their_name():
    """Not the place of their name in the alphabet, which would be another row."""
    there = [Profile(name=name) for name in ("gate", "pump", "valve")]
    assert Presence(count=3, names=TABLE).places(there) == [2, 1, 0]
    assert Presence(count=3).places(there) == [0, 1, 2]
    strangers = [Profile(name=name) for name in ("gate", "pump", "x")]
    assert Presence(count=3, names=TABLE).places(strangers) == [0, 1, 2]  # as ever: by name


@pytest.mark.parametrize("least", [0, 4, -1])
def test_a_number_of_devices_to_start_with_that_cannot_be_is_refused(least):
    with pytest.raises(BadInput, match=rf"`start_with` = {least}: expected 1 to 3"):
        Presence(count=3, start_with=least)


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ({}, "does not say which client it is, which start-with needs"),
        ({"client": 1, "kappa": 1e-27}, "x gives its kappa; with start-with the fleet is as"),
        ({"client": 1, "samples": 9}, "x holds 9 samples, and client 1 of the scenario 20"),
        ({"client": 1, "samples": 20}, ""),
        ({"client": 1}, ""),
    ],
)
def test_a_device_must_fit_a_fleet_that_is_not_complete(device, why):
    profile = Profile(name="x", **device)
    some = Presence(count=3, start_with=1, sizes=[10, 20, 30])
    assert why in some.fault(profile)
    assert (some.fault(profile) == "") == (why == "")
    assert Presence(count=3, sizes=[10, 20, 30]).fault(profile) == ""  # complete: others check


def test_only_a_place_that_is_free_is_taken_later():
    some = Presence(count=3, names=TABLE, start_with=1)
    assert some.open_place(Profile(name="pump"), {0}) == 1
    assert some.open_place(Profile(name="pump"), {0, 1}) is None
    assert some.open_place(Profile(name="other"), {0}) is None
    assert some.open_place(Profile(name="other", client=7), {0}) is None
    assert Presence(count=3, names=TABLE).open_place(Profile(name="pump"), {0}) is None


def test_a_line_on_a_round_names_the_devices_with_missing_uploads():
    outcomes = ["arrived", "absent", "late", "absent", "lost", "duplicate"]
    rows = [
        Exchange(round=2, client=j, name=f"pump-{j}", outcome=outcome)
        for j, outcome in enumerate(outcomes)
    ]
    rows.append(Exchange(round=1, client=0, name="pump-0", outcome="failed"))
    said = round_line(2, 0.51234, 1, 5, rows)
    assert (
        said == "round 2: loss 0.5123, 1 of 5 uploads counted; late: pump-2; absent: pump-1, pump-3"
    )
    assert (
        round_line(3, float("nan"), 5, 5, rows) == "round 3: not evaluated, 5 of 5 uploads counted"
    )
