"""Strangers' bytes, answers and nodes: what is taken from them, and how long we wait for them."""

import io
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedcell import BadInput

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict  # noqa: E402
from flwr.common.config import parse_config_args  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.local.federation import node_config  # noqa: E402
from fedcell.deploy.server import link as link_module  # noqa: E402
from fedcell.deploy.server import roster as roster_module  # noqa: E402
from fedcell.deploy.server.link import (  # noqa: E402
    Link,
    Member,
)
from fedcell.deploy.server.roster import Roster  # noqa: E402
from fedcell.deploy.wire.arrays import (  # noqa: E402
    Decoded,
    array_record,
)
from fedcell.deploy.wire.layout import Layout  # noqa: E402
from fedcell.deploy.wire.profile import Profile  # noqa: E402
from support.faulty import announcing  # noqa: E402
from support.federations import until  # noqa: E402
from support.grids import MemoryGrid, answering, device, failing, silent  # noqa: E402

LAYOUT = Layout(("w",), ((3,),), ("float32",))
MODEL = np.arange(3, dtype=np.float32)


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def saved(array, **more):
    """A .npy of an array."""
    stream = io.BytesIO()
    np.save(stream, array, **more)
    return stream.getvalue()


def packed(data, stype="numpy.ndarray"):
    """Arrays of a message, as they come."""
    return Decoded(ArrayRecord({"w": Array("float32", (3,), stype, data)}))


GOOD = saved(MODEL)


def test_arrays_come_back_as_they_were():
    layout = Layout.of({"w": MODEL, "n": np.array(4, np.int64)})
    back = Decoded(array_record({"w": MODEL, "n": np.array(4, np.int64)})).of(layout)
    assert_array_equal(back["w"], MODEL)
    assert back["n"].shape == ()
    assert back["n"] == 4


def test_arrays_of_many_axes_come_back_in_their_order():
    turned = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    back = Decoded(array_record({"w": turned})).of(Layout.of({"w": turned}))
    assert_array_equal(back["w"], turned)


@pytest.mark.parametrize(
    ("decoded", "why"),
    [
        (Decoded(ArrayRecord({})), "has no array w"),
        (Decoded(array_record({"v": MODEL})), "has no array w"),
        (Decoded(array_record({"w": MODEL, "v": MODEL})), "arrays of other names"),
        (packed(GOOD, "torch"), "is packed as 'torch'"),
        (packed(b""), "cannot be unpacked"),
        (packed(b"PK" + GOOD), "cannot be unpacked"),
        (packed(GOOD[:-1]), "fewer or more numbers"),
        (packed(GOOD + b"x"), "fewer or more numbers"),
        (packed(saved(MODEL[:2])), r"has shape \(2,\), expected \(3,\)"),
        (packed(saved(MODEL.astype(float))), "holds float64, expected float32"),
        (packed(saved(MODEL.astype(">f4"))), "holds >f4, expected float32"),
        (packed(saved(MODEL.astype(object), allow_pickle=True)), "holds object"),
        (packed(saved(np.zeros(3, [("a", "f4")]))), "holds"),
        (packed(announcing(10**12)), "has shape"),
        (packed(announcing(3)), "fewer or more numbers"),
    ],
)
def test_arrays_that_are_no_model_are_refused(decoded, why):
    with pytest.raises(BadInput, match=why):
        decoded.of(LAYOUT)


@st.composite
def hostile(draw):
    """Bytes at random, or a file that was good once."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=300))
    start, data = draw(st.sampled_from([b"", b"\x93NUMPY\x01\x00"])), bytearray(GOOD)
    for place in draw(st.lists(st.integers(0, len(GOOD) - 1), min_size=1, max_size=8)):
        data[place] = draw(st.integers(0, 255))
    return start + bytes(data)


@given(hostile())
def test_whatever_bytes_come_are_a_model_or_refused_and_cost_nothing(data):
    tracemalloc.start()
    try:
        found = packed(data).of(LAYOUT)
    except BadInput:
        found = {}
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2e6
    assert all((a.shape, a.dtype) == ((3,), np.float32) for a in found.values())


def test_more_bytes_than_a_model_can_have_are_not_looked_at():
    assert packed(GOOD).excess(LAYOUT) is None
    assert "12" in packed(bytes(10**6)).excess(LAYOUT)


NAMES = st.text(st.characters(exclude_categories=["C"]) | st.sampled_from('\\"= '), max_size=20)


@given(st.dictionaries(st.sampled_from(["device", "rate", "kappa"]), NAMES | st.floats(0, 1e9)))
def test_settings_of_a_node_are_read_by_flower_as_they_are_written(settings):
    assert parse_config_args([node_config(settings)] if settings else None) == settings


def member(node):
    """A device behind a node."""
    return Member(node, Profile(name=f"device-{node}"))


def sent(grid, seconds):
    """A model to all nodes; the answers by client, and when each was there."""
    orders = {n: (member(n), {"server-round": 1}) for n in grid.nodes}
    begin, answers, times = time.monotonic(), {}, {}
    for answer in Link(grid).send("train", {"w": MODEL}, orders, seconds):
        answers[answer.client], times[answer.client] = answer, time.monotonic() - begin
    return answers, times


def upload(_message):
    """A model."""
    return RecordDict({"arrays": array_record({"w": MODEL}), "m": MetricRecord({"freq": 2.0})})


def test_the_deadline_holds_while_an_upload_is_stuck_and_hides_no_other():
    stuck = threading.Event()

    def blocking(_message, _seconds):
        stuck.wait(300)
        return []

    grid = MemoryGrid({1: blocking, 2: answering(upload), 3: answering(upload, 0.5), 4: silent})
    answers, times = sent(grid, 2.5)
    stuck.set()
    assert {n: a.outcome for n, a in answers.items()} == {
        1: "late",
        2: "arrived",
        3: "arrived",
        4: "late",
    }
    assert set(list(times)[:2]) == {2, 3}
    assert 0.5 <= times[3] < 2.5 <= min(times[1], times[4])
    assert max(times.values()) < 60  # nothing waits for the stuck upload
    assert answers[1].why == "no answer within 2.5 s"


def test_an_answer_is_measured_in_bytes_and_seconds():
    answers, _ = sent(MemoryGrid({7: answering(upload)}), 5.0)
    answer = answers[7]
    assert answer.bytes_sent == answer.bytes_received > MODEL.nbytes
    assert answer.sent <= answer.made <= answer.came
    assert answer.metrics == {"freq": 2.0}
    assert_array_equal(answer.arrays.of(LAYOUT)["w"], MODEL)


def test_a_second_answer_to_the_same_message_is_counted_and_not_taken():
    answers, _ = sent(MemoryGrid({1: answering(upload, times=3)}), 5.0)
    assert (answers[1].outcome, answers[1].repeated) == ("arrived", 2)


def test_what_cannot_even_be_pulled_is_malformed_and_shown_without_harm():
    def broken(_message, _seconds):
        raise KeyError("\x1b[2J" + "x" * 10**6)

    answers, _ = sent(MemoryGrid({1: broken, 2: answering(upload)}), 5.0)
    assert (answers[1].outcome, answers[2].outcome) == ("malformed", "arrived")
    assert answers[1].came is not None  # the device is there
    assert answers[1].why.isprintable()
    assert len(answers[1].why) <= 200


@pytest.mark.parametrize(
    ("code", "outcome", "why"),
    [
        (2, "failed", "raised an error: ValueError: no pump"),
        (3, "late", "its message ran out of time"),
        (5, "failed", "its node is gone"),
        (99, "failed", "error 99"),
    ],
)
def test_an_error_says_what_it_is(code, outcome, why):
    grid = MemoryGrid({1: failing(code, "Traceback\n  line\nValueError: no pump")})
    answers, _ = sent(grid, 5.0)
    assert answers[1].outcome == outcome
    assert answers[1].why.startswith(why)


def test_a_message_that_is_not_taken_is_not_waited_for():
    grid = MemoryGrid({1: silent, 2: answering(upload)})
    grid.refused = {1}
    answers, times = sent(grid, 300.0)
    assert (answers[1].outcome, answers[2].outcome) == ("failed", "arrived")
    assert max(times.values()) < 100


def test_nobody_is_late_where_the_server_itself_has_lost_its_way():
    class Lost(MemoryGrid):
        def get_node_ids(self):
            raise ConnectionError("no SuperLink")

    with pytest.raises(ConnectionError):
        sent(Lost({1: silent, 2: answering(upload)}), 0.2)


def test_a_message_outlives_the_wait_for_its_answer():
    grid = MemoryGrid({1: answering(upload)})
    sent(grid, 5.0)
    ((message, _),) = grid.sent.values()
    assert message.metadata.ttl > 5.0


def test_an_answer_without_arrays_or_with_several_sets_has_none():
    def two(message):
        return RecordDict({"a": upload(message)["arrays"], "b": upload(message)["arrays"]})

    grid = MemoryGrid({1: answering(lambda _: RecordDict({})), 2: answering(two)})
    answers, _ = sent(grid, 5.0)
    assert answers[1].arrays is None
    assert answers[2].arrays is None


@pytest.fixture
def quick(monkeypatch):
    """Nobody is patient."""
    monkeypatch.setattr(roster_module, "POLL", 0.02)
    monkeypatch.setattr(roster_module, "INTRODUCTION_TIMEOUT", 300.0)
    monkeypatch.setattr(link_module, "ASK_AGAIN_AFTER", 0.0)


def met(grid, count=2, seconds=60.0):
    """Roster of a grid, and what was told of them."""
    told = []
    members = Roster(Link(grid), {"seed": 0}, told.extend)
    members.gather(count, seconds)
    return members, told


def outcomes(told):
    """Names and outcomes."""
    return sorted((line.name, line.outcome) for line in told)


def looks(members, round, condition):
    """Looks who is there until a condition holds, and gives it."""

    def look():
        members.refresh(round)
        return condition()

    return until(look)


@pytest.mark.usefixtures("quick")
class TestMembers:
    """Who belongs to a federation."""

    def test_devices_are_clients_as_they_say(self):
        grid = MemoryGrid({10: device("b", client=0), 20: device("a", client=1)})
        members, told = met(grid)
        assert [members.connected(j).profile.name for j in (0, 1)] == ["b", "a"]
        assert outcomes(told) == [("a", "introduced"), ("b", "introduced")]
        assert members.name_of(0) == "b"

    def test_somebody_silent_keeps_nobody_waiting(self):
        grid = MemoryGrid({1: silent, 2: device("a"), 3: device("b", after=0.3)})
        begin = time.monotonic()
        met(grid, seconds=20.0)
        assert time.monotonic() - begin < 10

    def test_a_device_that_connects_later_is_asked_while_others_are_silent(self):
        grid = MemoryGrid({1: silent, 2: device("a")})
        threading.Timer(0.3, grid.nodes.update, ({3: device("b")},)).start()
        begin = time.monotonic()
        met(grid, seconds=20.0)
        assert time.monotonic() - begin < 10

    def test_too_few_are_told_who_was_refused_last(self):
        grid = MemoryGrid({1: device("a"), 2: device("b", kappa=-1.0)})
        with pytest.raises(BadInput, match=r"1 of 2 devices .* kappa = -1.0"):
            met(grid, seconds=0.5)

    @pytest.mark.parametrize(
        ("one", "other", "why"),
        [
            ({"name": "a"}, {"name": "a"}, "another device is called a"),
            ({"name": "a", "client": 0}, {"name": "b", "client": 0}, "so does another"),
            ({"name": "a", "client": 0}, {"name": "b"}, "b does not say which client it is"),
            ({"name": "a"}, {"name": "b", "client": 0}, "b says which client it is, and others"),
            ({"name": "a", "client": 0}, {"name": "b", "client": 2}, "there are 2, from 0 on"),
        ],
    )
    def test_one_that_cannot_stand_beside_the_first_is_refused_and_no_other(self, one, other, why):
        third = {"name": "c"} if "client" not in one else {"name": "c", "client": 1}
        told = []

        def after(rows, node):  # replies when so many rows are written
            return lambda message, seconds: node(message, seconds) if len(told) >= rows else []

        nodes = {1: device(**one), 2: after(1, device(**other)), 3: after(2, device(**third))}
        members = Roster(Link(MemoryGrid(nodes)), {"seed": 0}, told.extend)
        members.gather(2, 60.0)
        assert sorted(m.profile.name for m in members.all_connected().values()) == ["a", "c"]
        refused = [line.why for line in told if line.outcome == "refused"]
        assert why in refused[0]  # later ones may have come after the two devices of the run

    def test_one_more_than_there_are_places_is_refused(self):
        grid = MemoryGrid({n: device(name) for n, name in enumerate("abc")})
        members, _ = met(grid)
        assert len(members.all_connected()) == 2

    def test_who_comes_back_under_another_node_takes_its_place(self):
        grid = MemoryGrid({1: device("a"), 2: device("b")})
        members, told = met(grid)
        del grid.nodes[2]
        members.refresh(1)
        assert members.connected(1) is None
        assert members.name_of(1) == "b"
        asked = []
        node = device("b")
        grid.nodes[3] = lambda message, seconds: node(message, seconds) if asked else []
        begin = time.monotonic()
        members.refresh(2)
        assert members.connected(1) is None  # it is asked, and the round continues without it
        assert time.monotonic() - begin < 100
        asked.append(True)
        assert looks(members, 3, lambda: members.connected(1)).node == 3
        assert (told[-1].client, told[-1].why, told[-1].round) == (1, "came back", 3)

    def test_a_namesake_waits_until_the_first_is_silent(self):
        grid = MemoryGrid({1: device("a"), 2: device("b")})
        members, told = met(grid)
        grid.nodes[3] = device("b")
        why = "another device called b is connected"
        looks(members, 1, lambda: told[-1].why == why)
        assert members.connected(1).node == 2
        members.note_reply(1, False)
        assert looks(members, 9, lambda: members.connected(1).node == 3)

    def test_a_stranger_under_way_is_refused_once_and_delays_no_round(self):
        grid = MemoryGrid({1: device("a"), 2: device("b")})
        members, told = met(grid)
        grid.nodes |= {3: device("c"), 4: silent}
        begin = time.monotonic()
        looks(members, 1, lambda: told[-1].name == "c")
        for turn in range(2, 6):
            members.refresh(turn)
        assert time.monotonic() - begin < 100  # the silent one has 300 s
        assert [line.outcome for line in told if line.name == "c"] == ["refused"]

    def test_a_round_whose_devices_are_all_gone_waits_for_one(self):
        grid = MemoryGrid({1: device("a"), 2: device("b")})
        members, _ = met(grid)
        polls = []

        def some_nodes():  # they are back at the tenth poll
            polls.append(True)
            return list(grid.nodes) if len(polls) > 9 else []

        grid.get_node_ids = some_nodes
        members.refresh(1, [0], 300.0)
        assert len(polls) > 9
        assert members.connected(0) is not None
        grid.nodes.clear()
        members.refresh(2, [0], 0.1)
        assert members.all_connected() == {}


def test_a_clock_is_off_by_what_it_is_certainly_off(monkeypatch):
    monkeypatch.setattr(roster_module, "POLL", 0.02)
    ahead = {"name": "a", "clock": time.time() + 1000}
    grid = MemoryGrid({1: answering(lambda _: RecordDict({"profile": ConfigRecord(ahead)}))})
    members, _ = met(grid, count=1)
    assert members.connected(0).offset == pytest.approx(1000, abs=2)
