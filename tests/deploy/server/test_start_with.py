"""Runs that start with the devices that are there, over a grid in memory."""

import threading

import numpy as np
import pytest

from fedcell import ClientTable, Observer, Scenario, Target
from fedcell.cli.federation import RunWatch
from fedcell.deploy import FederationOptions
from fedcell.deploy.exchanges import read_exchanges
from fedcell.errors import BadInput

pytestmark = [
    pytest.mark.flower,
    pytest.mark.filterwarnings("ignore::fedcell.core.errors.FedcellWarning"),
]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import ConfigRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.clientapp import app  # noqa: E402
from fedcell.deploy.server import roster as roster_module  # noqa: E402
from fedcell.deploy.server.link import Link  # noqa: E402
from fedcell.deploy.server.presence import Presence  # noqa: E402
from fedcell.deploy.server.roster import Roster  # noqa: E402
from fedcell.deploy.server.run import run_federation  # noqa: E402
from support.appgrids import AppGrid, places, stepping  # noqa: E402
from support.federations import by_hand, federation_arguments, same, until, without, world  # noqa: E402
from support.grids import MemoryGrid, answering  # noqa: E402

COUNT, SIZES = 4, (10, 20, 30, 40)
FIRST = {"w": np.array([1.0, 2.0], np.float32)}


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages can be made inside a run of Flower only; polls are short."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(roster_module, "POLL", 0.02)


def carried_out(grid, scenario, **more):
    """A run over a grid, and the lines that it told."""
    said = []
    known = {"deadline": 5.0, "join_timeout": 1.0, "message": said.append, **more}
    return run_federation(grid, scenario, **federation_arguments(**known)), said


def own(**clients):
    """A scenario for a custom app."""
    return Scenario().using(
        clients={"count": COUNT, **clients},
        plan={"cohort": COUNT},
        cell={"gain_threshold": 0.0},
        task={"cycles_per_sample": 1e6, "batch_size": 5},
    )


def test_absent_devices_count_in_each_round_and_resume_to_the_same_bits(tmp_path):
    scenario = world(tmp_path / "world.toml", rounds=3)
    there = [one for one in places(COUNT) if one["partition-id"] not in (1, 2)]
    whole, said = carried_out(AppGrid(app, there), scenario, start_with=2, folder=tmp_path / "run")
    gone = {t: [1, 2] for t in (1, 2, 3)}
    assert same(whole.state.model, by_hand(scenario, 0, 3, without(gone)))
    assert said[0] == "begins with 2 devices; absent: client 1, client 2"
    losses = whole.ledgers["distributed"].train_loss
    assert said[1:] == [
        f"round {t}: loss {losses[t - 1]:.4f}, 2 of 4 uploads counted; absent: client 1, client 2"
        for t in (1, 2, 3)
    ]
    watched = []
    RunWatch(tmp_path / "run", watched.append).look()
    assert watched == said[1:]  # as the terminal of `fedcell deploy` has it
    rows = [row for row in read_exchanges(tmp_path / "run") if row.round > 0]
    assert {row.client for row in rows if row.outcome == "absent"} == {1, 2}
    assert len(rows) == 12
    # Others are there when it is resumed: it is the same run.
    parts = tmp_path / "parts"
    carried_out(AppGrid(app, there), scenario, start_with=2, folder=parts, rounds=2)
    again, _ = carried_out(
        AppGrid(app, places(COUNT)), scenario, start_with=2, folder=parts, rounds=3, resume=True
    )
    assert same(again.state.model, by_hand(scenario, 0, 3, without({1: [1, 2], 2: [1, 2]})))


def test_a_device_that_joins_later_takes_its_place(tmp_path):
    scenario = world(tmp_path / "world.toml", rounds=3)
    every = AppGrid(app, places(COUNT))
    grid = AppGrid(app, places(COUNT)[:3])
    late = max(every.nodes)

    def tell(words):
        if words.startswith("round 1"):
            grid.nodes[late] = every.nodes[late]

    result = run_federation(
        grid,
        scenario,
        folder=tmp_path / "run",
        options=FederationOptions(deadline=5.0, start_with=3, join_timeout=1.0),
        observer=Observer(message=tell),
    )
    rows = read_exchanges(tmp_path / "run")
    (joined,) = [row for row in rows if row.outcome == "introduced" and row.round > 0]
    assert (joined.client, joined.name, joined.why) == (3, "client-3", "joined during the run")
    gone = {t: [3] for t in range(1, joined.round)}
    assert same(result.state.model, by_hand(scenario, 0, 3, without(gone)))
    assert joined.round < 4


def test_too_few_devices_to_start_with_are_named(tmp_path):
    scenario = world(tmp_path / "world.toml")
    grid = AppGrid(app, places(COUNT)[1:3])
    missing = r"missing: client 0 \(partition-id=0\), client 3 \(partition-id=3\)"
    for least in (3, None):
        with pytest.raises(BadInput, match=rf"2 of 4 devices .*; {missing}: start the others"):
            carried_out(grid, scenario, start_with=least, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_all_devices_are_waited_for_while_there_is_time(tmp_path):
    scenario = world(tmp_path / "world.toml", rounds=1)
    grid, late = AppGrid(app, places(COUNT)[:3]), AppGrid(app, places(COUNT)).nodes
    threading.Timer(0.3, grid.nodes.update, (late,)).start()
    result, said = carried_out(grid, scenario, start_with=1, join_timeout=120.0)
    assert len(said) == 1  # no device was absent
    assert same(result.state.model, by_hand(scenario, 0, 1, without({})))


def test_a_round_that_calls_absent_devices_only_waits_for_none(tmp_path):
    """One that has never been there may never come; the deadline would pass in each round."""
    scenario = world(tmp_path / "world.toml", cohort=1, rounds=6)
    settings = FederationOptions(deadline=10**6)
    grid = AppGrid(app, places(COUNT)[:1])
    result, said = carried_out(grid, scenario, start_with=1, options=settings)
    assert sum("0 of 1 uploads counted; absent: client" in line for line in said) >= 1
    assert result.state.rounds == 6


def test_a_custom_app_needs_the_samples_of_absent_devices():
    grid = AppGrid(stepping(lambda _, w, __: w * 0.5, SIZES), places(COUNT)[:2])
    with pytest.raises(BadInput, match="`start_with`: the samples of absent devices are not known"):
        carried_out(grid, own(), arrays=FIRST, start_with=1, rounds=1)
    table = ClientTable(name=("d", "c", "b", "a"), samples=SIZES)
    for clients in ({"sizes": np.array(SIZES, float)}, {"table": table}):
        result, said = carried_out(grid, own(**clients), arrays=FIRST, start_with=1, rounds=1)
        assert np.allclose(result.state.model, FIRST["w"] * 0.5)  # the mean of those that came
        assert result.ledgers["distributed"].received.tolist() == [2]
        names = "b, a" if "table" in clients else "client 2, client 3"
        assert said[0] == f"begins with 2 devices; absent: {names}"


def test_devices_known_by_name_are_the_clients_of_the_fleet_table():
    """Without a partition-id, and beside another device."""

    def device(name, samples):
        said = {"name": name, "samples": samples}
        return answering(lambda _: RecordDict({"profile": ConfigRecord(said)}))

    expected = Presence(count=3, names=("d", "c", "a"), start_with=1)
    grid = MemoryGrid({1: device("a", 5), 2: device("stranger", 5)})
    told = []
    members = Roster(Link(grid), {"seed": 0}, told.extend, expected)
    assert list(members.gather(3, 0.5)) == [2]
    (refused,) = [row for row in told if row.outcome == "refused"]
    assert "stranger does not say which client it is" in refused.why
    grid.nodes[3] = device("d", 7)

    def joined():
        members.refresh(1)  # asks in the background
        return members.connected(0) is not None

    until(joined, what="the reply of a device that joins later")
    assert members.connected(0).profile.name == "d"
    assert members.connected(1) is None
    assert members.name_of(1) == "c"


def test_a_run_stops_at_an_accuracy(tmp_path):
    scenario = world(tmp_path / "world.toml", rounds=40)
    result, _ = carried_out(AppGrid(app, places(COUNT)), scenario, target=Target(accuracy=0.3))
    accuracy = result.ledgers["distributed"].accuracy
    assert result.state.rounds < 40
    assert Target(accuracy=0.3).reached(accuracy) == result.state.rounds
