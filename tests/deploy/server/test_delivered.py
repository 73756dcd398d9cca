"""Federations judge and keep the model that they deliver, as simulations do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import Scenario, load_model, load_scenario, run
from fedcell.deploy import FederationOptions
from fedcell.simulation.state import moved_average

pytestmark = [
    pytest.mark.flower,
    pytest.mark.filterwarnings("ignore::fedcell.core.errors.FedcellWarning"),
]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.clientapp import app as ready  # noqa: E402
from fedcell.deploy.server.run import run_federation  # noqa: E402
from fedcell.deploy.wire.arrays import array_record  # noqa: E402
from support.appgrids import AppGrid, places  # noqa: E402
from support.grids import MemoryGrid  # noqa: E402

COUNT, FIRST = 3, np.array([1.0, 2.0], np.float32)
WORLD = """
[clients]
count = 4
[plan]
cohort = 2
local_steps = 3
[learning]
dataset = "digits"
model = "logistic"
rate = 0.05
"""


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def device(place, seen):
    """A device that adds 1 to each weight, scores a model by their mean, and notes what it gets."""

    def node(message, _seconds):
        kind = message.metadata.message_type
        if kind == "query":
            records = {
                "profile": ConfigRecord({"name": f"d{place}", "client": place, "samples": 10})
            }
        else:
            model = message.content["arrays"]["w"].numpy()
            if place == 0:
                seen.append((kind, model.copy()))
            records = {"m": MetricRecord({"loss": float(model.mean()), "accuracy": 0.5})}
            if kind == "train":
                metrics = MetricRecord({"num-examples": 10})
                records = {"arrays": array_record({"w": model + 1}), "metrics": metrics}
        return [Message(RecordDict(records), reply_to=message)]

    return node


def test_devices_score_the_average_and_train_from_the_last_model(tmp_path):
    seen: list = []
    grid = MemoryGrid({100 + j: device(j, seen) for j in range(COUNT)})
    scenario = Scenario().using(
        clients={"count": COUNT},
        plan={"cohort": COUNT},
        cell={"gain_threshold": 0.0},
        task={"cycles_per_sample": 1e6, "batch_size": 5},
    )
    result = run_federation(
        *(grid, scenario),
        rounds=4,
        folder=tmp_path / "run",
        options=FederationOptions(deadline=5.0, arrays={"w": FIRST}, join_timeout=120.0),
    )
    average, expected = FIRST, []
    for t in range(1, 5):
        average = moved_average(average, FIRST + np.float32(t), t)
        expected.append(average)
    (ledger,) = result.ledgers.values()
    assert_allclose(ledger.train_loss, [model.mean() for model in expected], rtol=1e-6)
    assert_allclose(result.outcome.other.train_loss, FIRST.mean() + 4, rtol=1e-6)
    trained = [model for kind, model in seen if kind == "train"]
    assert_allclose(trained, [FIRST + t for t in range(4)], rtol=1e-6)
    lines = (tmp_path / "run" / "scores.csv").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    scored = {int(row["round"]): float(row["train_loss"]) for row in rows}
    assert_allclose([scored[t] for t in range(1, 5)], ledger.train_loss)
    assert_allclose(load_model(tmp_path / "run").weights, average)


@pytest.mark.parametrize("deliver", ["last", "average"])
def test_a_federation_delivers_the_bits_of_the_simulation(tmp_path, deliver):
    (tmp_path / "world.toml").write_text(f'{WORLD}deliver = "{deliver}"\n')
    scenario = load_scenario(tmp_path / "world.toml")
    grid = AppGrid(ready, places(4))
    settings = FederationOptions(policy="even")
    there = run_federation(grid, scenario, rounds=4, seed=1, options=settings)
    here = run(scenario, ["even"], rounds=4, seed=1)
    assert there.state.deliver == here.state.deliver == deliver
    assert there.state.delivered.tobytes() == here.state.delivered.tobytes()
    assert there.state.other.tobytes() == here.state.other.tobytes()
    assert there.ledgers["even"].train_loss.tolist() == here.ledgers["even"].train_loss.tolist()
