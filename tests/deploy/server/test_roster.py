"""Devices that join, leave, come back or are refused."""

import threading
import time

import pytest

from fedcell.errors import BadInput

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import ConfigRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.server import link as link_module  # noqa: E402
from fedcell.deploy.server import roster as roster_module  # noqa: E402
from fedcell.deploy.server.link import (  # noqa: E402
    Link,
)
from fedcell.deploy.server.roster import Roster  # noqa: E402
from support.federations import until  # noqa: E402
from support.grids import MemoryGrid, answering, device, silent  # noqa: E402


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages can be made inside a run of Flower only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def quick(monkeypatch):
    """Polls are short."""
    monkeypatch.setattr(roster_module, "POLL", 0.02)
    monkeypatch.setattr(roster_module, "INTRODUCTION_TIMEOUT", 300.0)
    monkeypatch.setattr(link_module, "ASK_AGAIN_AFTER", 0.0)


def met(grid, count=2, seconds=60.0):
    """Roster of a grid, and the rows that it wrote."""
    told = []
    members = Roster(Link(grid), {"seed": 0}, told.extend)
    members.gather(count, seconds)
    return members, told


def outcomes(told):
    """Names and outcomes."""
    return sorted((line.name, line.outcome) for line in told)


def looks(members, round, condition):
    """Refresh until a condition holds, and return it."""

    def look():
        members.refresh(round)
        return condition()

    return until(look)


@pytest.mark.usefixtures("quick")
class TestRoster:
    """The roster of a federation."""

    def test_devices_are_clients_as_they_say(self):
        grid = MemoryGrid({10: device("b", client=0), 20: device("a", client=1)})
        members, told = met(grid)
        assert [members.connected(j).profile.name for j in (0, 1)] == ["b", "a"]
        assert outcomes(told) == [("a", "introduced"), ("b", "introduced")]
        assert members.name_of(0) == "b"

    def test_a_silent_node_delays_no_other(self):
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

    def test_too_few_devices_name_those_refused_last(self):
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
    def test_only_a_device_that_conflicts_with_the_first_is_refused(self, one, other, why):
        third = {"name": "c"} if "client" not in one else {"name": "c", "client": 1}
        told = []

        def after(rows, node):  # replies when this many rows are written
            return lambda message, seconds: node(message, seconds) if len(told) >= rows else []

        nodes = {1: device(**one), 2: after(1, device(**other)), 3: after(2, device(**third))}
        members = Roster(Link(MemoryGrid(nodes)), {"seed": 0}, told.extend)
        members.gather(2, 60.0)
        assert sorted(m.profile.name for m in members.all_connected().values()) == ["a", "c"]
        refused = [line.why for line in told if line.outcome == "refused"]
        assert why in refused[0]  # later ones may have come after the two devices of the run

    def test_a_device_without_a_free_place_is_refused(self):
        grid = MemoryGrid({n: device(name) for n, name in enumerate("abc")})
        members, _ = met(grid)
        assert len(members.all_connected()) == 2

    def test_a_device_that_comes_back_under_another_node_takes_its_place(self):
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

    def test_a_stranger_during_the_run_is_refused_once_and_delays_no_round(self):
        grid = MemoryGrid({1: device("a"), 2: device("b")})
        members, told = met(grid)
        grid.nodes |= {3: device("c"), 4: silent}
        begin = time.monotonic()
        looks(members, 1, lambda: told[-1].name == "c")
        for turn in range(2, 6):
            members.refresh(turn)
        assert time.monotonic() - begin < 100  # the silent one has 300 s
        assert [line.outcome for line in told if line.name == "c"] == ["refused"]

    def test_a_round_without_connected_devices_waits_for_one(self, monkeypatch):
        grid = MemoryGrid({1: device("a"), 2: device("b")})
        members, _ = met(grid)
        polls = []

        def some_nodes():  # they are back at the tenth poll
            polls.append(True)
            return list(grid.nodes) if len(polls) > 9 else []

        monkeypatch.setattr(grid, "get_node_ids", some_nodes)
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
