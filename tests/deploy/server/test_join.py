"""Introductions that cannot be: the device is refused by name, and the others train."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import Observer, Scenario
from fedcell.deploy import FederationOptions
from fedcell.errors import BadInput
from fedcell.learning import prepare_training

pytestmark = [
    pytest.mark.flower,
    pytest.mark.filterwarnings("ignore::fedcell.core.errors.FedcellWarning"),
]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.clientapp import app as ready  # noqa: E402
from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.server import link as link_module  # noqa: E402
from fedcell.deploy.server import roster as roster_module  # noqa: E402
from fedcell.deploy.server.join import join_devices  # noqa: E402
from fedcell.deploy.server.run import run_federation  # noqa: E402
from fedcell.deploy.wire.arrays import array_record  # noqa: E402
from support.appgrids import AppGrid, places  # noqa: E402
from support.federations import federation_arguments, world  # noqa: E402
from support.grids import MemoryGrid  # noqa: E402

COUNT, SAMPLES = 8, 40
FIRST = {"w": np.ones(3, np.float32)}
WORLD = Scenario().using(
    clients={"count": COUNT},
    plan={"cohort": COUNT},
    cell={"gain_threshold": 0.0},
    task={"cycles_per_sample": 1e6, "batch_size": 5},
)
LATER = 0.03  # [s] after which the good devices answer: the bad one is first
GOOD = {"samples": SAMPLES, "kappa": 5e-27, "freq_max": 1e9}


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages can be made inside a run of Flower only; polls are short."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(roster_module, "POLL", 0.01)
    monkeypatch.setattr(link_module, "ASK_AGAIN_AFTER", 0.05)


def pump(said, after=0.0):
    """A device that introduces itself by what stands in `said` when it is asked, and trains."""

    def node(message, seconds):
        if seconds < after:
            return []
        match message.metadata.message_type:
            case "query":
                records = {"profile": ConfigRecord(dict(said))}
            case "train":
                w = message.content["arrays"]["w"].numpy()
                metrics = MetricRecord({"num-examples": SAMPLES})
                records = {"arrays": array_record({"w": 0.5 * w}), "metrics": metrics}
            case _:
                records = {"metrics": MetricRecord({"loss": 0.5})}
        return [Message(RecordDict(records), reply_to=message)]

    return node


def good(count=COUNT, placed=True):
    """Devices that are as they should be, by node."""
    place = [{"client": j} if placed else {} for j in range(count)]
    return {100 + j: pump({"name": f"pump-{j}", **place[j], **GOOD}, LATER) for j in range(count)}


def trained(nodes, folder, scenario=WORLD, seconds=10.0, **more):
    """The exchanges of a run of one round."""
    grid = nodes if isinstance(nodes, MemoryGrid) else MemoryGrid(nodes)
    known = {"arrays": FIRST, "deadline": 60.0, "join_timeout": seconds, **more}
    run_federation(
        *(grid, scenario), rounds=1, folder=folder / "run", **federation_arguments(**known)
    )
    return read_exchanges(folder / "run")


def check_refused(exchanges, name, why, count=COUNT):
    """All good devices have trained, and the bad one is refused by name."""
    refused = {(e.name, e.why) for e in exchanges if e.outcome == "refused"}
    assert {refused_name for refused_name, _ in refused} == {name}
    assert any(why in reason for _, reason in refused), refused
    arrived = [e.client for e in exchanges if e.round == 1 and e.outcome == "arrived"]
    assert sorted(arrived) == list(range(count))


NUMBER = "expected a number above 0"
BAD = [
    *(({"kappa": x}, NUMBER) for x in (1e-300, 0.0, -1.0, 1e61, 1.7e308, "5e-27", True, [5e-27])),
    *(({"power": x}, NUMBER) for x in (5e-61, -4e-7, float("nan"), float("inf"), b"\x01")),
    *(({"gain": x}, NUMBER) for x in (2, 1.0000001, 0, 1e-61, -90.0, float("-inf"))),
    *(({"freq_max": x}, NUMBER) for x in (0, 1e100, "2 GHz")),
    *(({"cycles_per_sample": x}, NUMBER) for x in (0.0, 1e-300, float("nan"))),
    *(({"battery": x}, NUMBER) for x in (-1, float("inf"), 1e308)),
    *(({"clock": x}, NUMBER) for x in (-1.0, float("nan"), "noon", 1e300)),
    *(({"rate": x}, NUMBER) for x in (0.0, -1e6, float("inf"))),
    ({"freq_min": 3e9}, "freq_min = 3e+09 is above freq_max = 1e+09"),
    ({"freq_min": 5e8, "freq_max": 4e8}, "freq_min = 5e+08 is above freq_max = 4e+08"),
    ({"freq_max": 1e6}, "freq_min = 1e+07 of the scenario is above freq_max = 1e+06"),
    ({"freq_max": None, "freq_min": 2.1e9}, "above freq_max = 2e+09 of the scenario"),
    ({"rate": 1e12}, "more than cell.bandwidth"),
    ({"rate": 1e-59}, "clients.table.gain"),
    ({"gain": 1e-9, "rate": 1e6}, "both gain and rate"),
    ({"power": 1e60}, "no round can be priced"),
    ({"gain": 1e-60, "power": 1e-60}, "no round can be priced"),
    ({"cycles_per_sample": 1e60}, "no round can be priced"),
    ({"cycles_per_sample": 1e-60}, "no round can be priced"),
    *(({"samples": x}, "samples = ") for x in (-1, 2.5, True, "40", 10**9 + 1, 2**62)),
    ({"samples": None}, "its profile lacks samples"),
    *(({"client": x}, "client = ") for x in (-1, 0.0, "0", True, 2**62)),
    ({"client": COUNT}, "there are 8, from 0 on"),
    ({"client": None}, "does not say which client it is"),
    ({"root": 1}, "unknown field 'root'"),
    ({"node_id": 7, "kappa": 5e-27}, "unknown field 'node_id'"),
]
UNNAMED = [None, "", "  ", "a\x1b[2J", "a\nb", "\u202egnp", "x" * 101, 7, True, b"pump", ["pump"]]


def said_badly(change):
    """What a good device says, with a change; None leaves a key out."""
    said = {"name": "bad", "client": 0, **GOOD} | change
    return {key: value for key, value in said.items() if value is not None}


@pytest.mark.parametrize(("change", "why"), BAD)
def test_bad_introduction_refuses_that_device_only(change, why, tmp_path):
    exchanges = trained({1: pump(said_badly(change)), **good()}, tmp_path)
    check_refused(exchanges, "bad", why)


@pytest.mark.parametrize("name", UNNAMED)
def test_device_without_usable_name_is_refused_by_its_node(name, tmp_path):
    exchanges = trained({7: pump(said_badly({"name": name})), **good()}, tmp_path)
    check_refused(exchanges, "node 7", "name")


def test_table_of_bad_introductions_is_long_enough():
    assert len(BAD) + len(UNNAMED) >= 45


def test_partition_ids_are_settled_by_the_complete_kind(tmp_path):
    for placed in (True, False):
        odd = said_badly({"client": None if placed else 0})
        folder = tmp_path / str(placed)
        exchanges = trained({1: pump(odd), **good(placed=placed)}, folder)
        says = "does not say" if placed else "says"
        check_refused(exchanges, "bad", f"bad {says} which client it is")


def test_corrected_profile_of_the_same_node_joins(tmp_path):
    said = {"name": "pump-0", "client": 0, **GOOD, "gain": 2.0}
    nodes = good() | {100: pump(said)}
    threading.Timer(0.15, said.update, ({"gain": 1e-10},)).start()
    exchanges = trained(nodes, tmp_path)
    of_pump = [(e.outcome, e.why) for e in exchanges if e.name == "pump-0" and e.round == 0]
    assert [outcome for outcome, _ in of_pump] == ["refused", "introduced"]
    assert "gain = 2.0" in of_pump[0][1]


def test_corrected_device_takes_the_open_place(tmp_path):
    grid = MemoryGrid(good())
    grid.nodes[100] = pump({"name": "pump-0", "client": 0, **GOOD, "samples": -3})

    def restart():
        grid.nodes[300] = grid.nodes.pop(100)
        grid.nodes[300] = pump({"name": "pump-0", "client": 0, **GOOD})

    threading.Timer(0.15, restart).start()
    exchanges = trained(grid, tmp_path)
    assert [e.outcome for e in exchanges if e.round == 1] == ["arrived"] * COUNT


def test_failure_to_gather_names_missing_and_refused_devices(tmp_path):
    nodes = good() | {103: pump({"name": "pump-3", "client": 3, **GOOD, "kappa": 1e-300})}
    nodes |= {1: pump({"name": "odd", **GOOD})}
    with pytest.raises(BadInput) as refused:
        trained(nodes, tmp_path, seconds=0.5)
    said = str(refused.value)
    assert "7 of 8 devices introduced themselves within 0.5 s; missing: client 3" in said
    assert "refused: odd: odd does not say which client it is" in said
    assert "refused: pump-3: kappa = 1e-300" in said
    assert "\n" not in said


def test_table_of_the_scenario_refuses_a_device_that_gives_the_same(tmp_path):
    listed = WORLD.using(clients={"table": {"kappa": [5e-27] * COUNT}})
    plain = {100 + j: pump({"name": f"p{j}", "client": j, "samples": 9}) for j in range(COUNT)}
    nodes = {1: pump({"name": "bad", "client": 0, "samples": 9, "battery": 5.0}), **plain}
    check_refused(trained(nodes, tmp_path, listed), "bad", "clients.table of the scenario")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"samples": 7}, "bad holds 7 samples, and client 0 of the scenario"),
        ({"client": None}, "the data of the scenario is dealt by client"),
        ({"client": 9}, "there are 4, from 0 on"),
        ({"freq_max": 1e3}, "above freq_max"),
    ],
)
def test_ready_app_refuses_what_does_not_fit_the_data(change, why, tmp_path):
    learning = {"model": "quadratic-apart", "rate": 0.01}
    scenario = WORLD.using(clients={"count": 4}, plan={"cohort": 4}, learning=learning)
    grid = AppGrid(ready, places(4))
    said = {"name": "bad", "client": 0} | change
    said = {key: value for key, value in said.items() if value is not None}
    nodes = {1: pump(said), **grid.nodes}
    grid.nodes = {1: nodes[1]}
    threading.Timer(0.1, setattr, (grid, "nodes", nodes)).start()
    check_refused(trained(grid, tmp_path, scenario, arrays=None), "bad", why, 4)


def test_device_names_do_not_deal_the_data_of_owners(tmp_path):
    """A profile with values brings its name along; the owners of the samples stay."""
    ranges = ["dog,0,199", "ant,200,499", "cat,500,549", "bee,550,1500"]
    (tmp_path / "owners.csv").write_text("\n".join(["client,first,last", *ranges]) + "\n")
    partition = {"kind": "given", "owners": str(tmp_path / "owners.csv")}
    scenario = world(tmp_path / "world.toml").using(learning={"partition": partition})
    nodes = [one | {"kappa": 5e-27, "device": f"z-{9 - j}"} for j, one in enumerate(places(4))]
    setup, _ = join_devices(AppGrid(ready, nodes), scenario).federation(FederationOptions(), 0)
    dealt = prepare_training(scenario, 0)
    assert setup.client_names == dealt.client_names
    assert_array_equal(setup.partition.index, dealt.partition.index)
    assert setup.scenario.clients.table.kappa.tolist() == [5e-27] * 4


def test_silent_newcomers_do_not_delay_rounds(monkeypatch):
    """One place is free, and a node that does not reply is connected."""
    monkeypatch.setattr(roster_module, "INTRODUCTION_TIMEOUT", 300.0)
    grid = MemoryGrid(good())
    rounds = []

    def leave(_report):
        rounds.append(time.monotonic())
        grid.nodes.pop(100, None)
        grid.nodes[500] = lambda *_: []

    run_federation(
        grid,
        WORLD,
        rounds=4,
        options=FederationOptions(deadline=5.0, arrays=FIRST),
        observer=Observer(round=leave),
    )
    assert len(rounds) == 4
    assert rounds[-1] - rounds[0] < 100  # the node has 300 s


def test_device_that_comes_back_during_a_round_is_called_in_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(roster_module, "NEWCOMER_POLL", 0.05)
    grid = MemoryGrid(good())
    slow = pump({"name": "pump-1", "client": 1, **GOOD}, 0.4)
    grid.nodes[101] = slow
    returned = pump({"name": "pump-0", "client": 0, **GOOD})

    def leave(report):
        if report.round == 1:
            grid.nodes.pop(100)
        if report.round == 2:  # it is absent in round 2, and back while round 3 goes on
            threading.Timer(0.1, grid.nodes.update, ({600: returned},)).start()

    run_federation(
        *(grid, WORLD),
        rounds=4,
        folder=tmp_path / "run",
        options=FederationOptions(deadline=20.0, arrays=FIRST),
        observer=Observer(round=leave),
    )
    rows = [e for e in read_exchanges(tmp_path / "run") if e.client == 0 and e.round > 0]
    called = {e.round: e.outcome for e in rows if e.share is not None}
    assert called == {1: "arrived", 2: "absent", 3: "absent", 4: "arrived"}
    assert [(e.round, e.why) for e in rows if e.outcome == "introduced"] == [(4, "came back")]
