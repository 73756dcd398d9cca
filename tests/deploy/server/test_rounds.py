"""Whole runs over a grid in memory: what a device may say without harm to others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario, load_run
from fedcell.deploy import FederationOptions
from fedcell.deploy.exchanges import Outcome, read_exchanges

pytestmark = [
    pytest.mark.flower,
    pytest.mark.filterwarnings("ignore::fedcell.core.errors.FedcellWarning"),
]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.screening import screened  # noqa: E402
from fedcell.deploy.server.run import run_federation  # noqa: E402
from fedcell.deploy.wire.arrays import array_record  # noqa: E402
from support import faulty  # noqa: E402
from support.appgrids import AppGrid, places  # noqa: E402
from support.federations import by_hand, federation_arguments, same, world  # noqa: E402
from support.grids import MemoryGrid  # noqa: E402

COUNT, SIZES = 4, (10, 20, 30, 40)
FIRST = {"w": np.array([1.0, 2.0], np.float32), "n": np.array(3, np.int64)}
STEPS = ([0.1, 0.0], [0.0, 0.1], [0.1, 0.1], [-0.1, 0.0])  # what each device adds to w


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def device(place, times=1.0, said=None, scores=None, broken=()):
    """A device with an update this many times as long, and more metrics than it should have; it
    does not reply in rounds that are broken."""

    def node(message, _seconds):
        match message.metadata.message_type:
            case "query":
                profile = {"name": f"pump-{place}", "client": place, "samples": SIZES[place]}
                records = {"profile": ConfigRecord(profile)}
            case "train":
                if message.content["config"]["server-round"] in broken:
                    raise ValueError("not a message")
                sent = message.content["arrays"]
                step = times * np.array(STEPS[place], np.float32)
                arrays = {"w": sent["w"].numpy() + step, "n": sent["n"].numpy()}
                metrics = {"num-examples": SIZES[place], **(said or {})}
                records = {"arrays": array_record(arrays), "metrics": MetricRecord(metrics)}
            case _:
                records = {"m": MetricRecord({"loss": 0.5, "accuracy": 0.25, **(scores or {})})}
        return [Message(RecordDict(records), reply_to=message)]

    return node


def fleet(**strange):
    """Devices, some of them strange: by place, as `pump_3={"times": 9}`."""
    return MemoryGrid({100 + j: device(j, **strange.get(f"pump_{j}", {})) for j in range(COUNT)})


def carried_out(grid, folder=None, rounds=1, **more):
    """A run over a grid."""
    scenario = Scenario().using(
        clients={"count": COUNT},
        plan={"cohort": COUNT},
        cell={"gain_threshold": 0.0},
        task={"cycles_per_sample": 1e6, "batch_size": 5},
    )
    known = {"deadline": 60.0, "arrays": FIRST, "join_timeout": 120.0, **more}
    arguments = federation_arguments(**known)
    return run_federation(grid, scenario, rounds=rounds, folder=folder, **arguments)


def averaging():
    """Flower's own way."""
    return FedAvg(fraction_train=1.0, min_train_nodes=1, min_available_nodes=1)


def test_models_of_arrays_with_counters_are_averaged():
    model = carried_out(fleet()).state.model
    q = np.array(SIZES) / sum(SIZES)
    assert_allclose(model[:2], FIRST["w"] + q @ np.array(STEPS), rtol=1e-6)  # (4)
    assert model[2] == 3


def test_what_devices_claim_of_their_scores_ends_no_run():
    lies = {"pump_1": {"scores": {"accuracy": 7.0}}, "pump_2": {"scores": {"loss": float("nan")}}}
    (ledger,) = carried_out(fleet(**lies)).ledgers.values()
    assert ledger.train_loss.tolist() == [0.5]
    assert ledger.accuracy.tolist() == [0.25]


@pytest.mark.parametrize("how", ["clip", "exclude"])
def test_a_strategy_of_flower_averages_screened_replies_by_known_sizes(how):
    lies = {
        "pump_3": {"times": 1000.0},
        "pump_0": {"said": {"num-examples": 10**9}},
        "pump_1": {"said": {"extra": 1.0}},
    }
    settings = FederationOptions(deadline=60.0, screen=how, strategy=averaging())
    model = carried_out(fleet(**lies), options=settings).state.model
    start = np.array([1.0, 2.0, 3.0], np.float32)
    times = (1.0, 1.0, 1.0, 1000.0)
    sent = {
        j: start + np.array([*(times[j] * np.array(STEPS[j])), 0.0], np.float32)
        for j in range(COUNT)
    }
    kept, _ = screened(sent, start, how, 3.0)
    weights = {j: SIZES[j] for j in kept}
    expected = sum(weights[j] * kept[j] for j in kept) / sum(weights.values())
    assert_allclose(model, expected, rtol=1e-5)


@pytest.mark.parametrize("how", ["clip", "exclude"])
def test_an_update_a_thousand_times_as_long_is_clipped_or_excluded_on_request(how, tmp_path):
    scenario = world(tmp_path / "world.toml")
    (tmp_path / "marks").mkdir()
    nodes = [one | {"marks": str(tmp_path / "marks")} for one in places(COUNT)]
    nodes[1]["fault"] = "far"
    result = run_federation(
        AppGrid(faulty.app, nodes),
        scenario,
        rounds=1,
        folder=tmp_path / "run",
        options=FederationOptions(deadline=300.0, screen=how),
    )
    rows = [e for e in read_exchanges(tmp_path / "run") if e.round == 1]
    outcome = Outcome.CLIPPED if how == "clip" else Outcome.EXCLUDED
    arrived = Outcome.ARRIVED
    assert {e.client: e.outcome for e in rows} == {0: arrived, 1: outcome, 2: arrived, 3: arrived}
    (why,) = [e.why for e in rows if e.client == 1]
    assert "times as long as the median one" in why
    received = result.ledgers["distributed"].received
    assert received.tolist() == [4 if how == "clip" else 3]
    sent, models = {}, []

    def far(_, client, model, upload):
        models.append(model)
        sent[client] = model + 1000 * (upload - model) if client == 1 else upload
        return upload

    by_hand(scenario, 0, 1, far)
    kept, _ = screened(sent, models[0], how, 3.0)
    expected = by_hand(scenario, 0, 1, lambda _, j, *__: kept.get(j))
    assert same(result.state.model, expected)


def test_a_resumed_run_remembers_what_had_not_arrived(tmp_path):
    grid = fleet(pump_2={"broken": (1, 3)})
    whole = carried_out(grid, tmp_path / "whole", rounds=4)
    carried_out(grid, tmp_path / "parts", rounds=2)
    lines = (tmp_path / "parts" / "exchanges.csv").read_text()
    (tmp_path / "parts" / "exchanges.csv").write_text(lines + "3,0,pump")  # a kill
    carried_out(grid, tmp_path / "parts", rounds=4, resume=True)
    parts = load_run(tmp_path / "parts")
    assert_array_equal(parts.state.model, whole.state.model)
    for result in (whole, parts):
        (ledger,) = result.ledgers.values()
        assert ledger.received.tolist() == [3, 4, 3, 4]
    (ledger,) = whole.ledgers.values()
    assert ledger.totals.arrived.tolist() == [4, 4, 2, 4]
    called = [line.round for line in read_exchanges(tmp_path / "parts") if line.share]
    assert called == sorted([1, 2, 3, 4] * COUNT)


def test_a_round_in_which_nothing_arrives_leaves_the_model_as_it_is():
    grid = fleet(**{f"pump_{j}": {"broken": (1,)} for j in range(COUNT)})
    result = carried_out(grid)
    assert_array_equal(result.state.model, [1, 2, 3])
    (ledger,) = result.ledgers.values()
    assert ledger.received.tolist() == [0]
