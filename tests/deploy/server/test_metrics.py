"""Metrics that devices report by name, and targets of them."""

import numpy as np
import pytest

from fedcell import Scenario, Target, load_run
from fedcell.deploy import FederationOptions
from fedcell.errors import BadInput

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.flower import run_federation  # noqa: E402
from fedcell.learning import Scores  # noqa: E402
from fedcell.simulation import simulate  # noqa: E402
from support.appgrids import AppGrid, places, stepping  # noqa: E402

SAMPLES = (60, 20, 90, 10)
FIRST = np.full(3, 1.0, np.float32)
OWN = Scenario().using(
    cell={"gain_threshold": 0.0},
    clients={"count": 4},
    plan={"cohort": 2, "local_steps": 3, "rounds": 20},
    task={"cycles_per_sample": 1e4, "model_bits": 96.0},
)
OPTIONS = FederationOptions(policy="even", arrays={"w": FIRST}, metrics={"mae": "lower"})
TARGET = Target(metric="mae", level=0.3)


def toward(_place, w, _config):
    """A step of a third towards 0."""
    return w * np.float32(2 / 3)


class Simulated:
    """The devices as a learner."""

    sizes = np.array(SAMPLES)
    better = {"mae": "lower"}  # noqa: RUF012

    def start(self):
        return FIRST

    def train(self, model, clients, round):  # noqa: ARG002
        for _ in clients:
            yield toward(0, model, {})

    def evaluate(self, model):
        return Scores(float(np.mean(model**2)), metrics={"mae": float(np.abs(model).mean())})


def grid_of():
    measure = lambda w: {"mae": float(np.abs(w).mean())}
    return AppGrid(stepping(toward, SAMPLES, measure=measure), places(4))


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def test_a_federation_reaches_a_metric_in_the_round_of_its_simulation(tmp_path):
    found = run_federation(grid_of(), OWN, target=TARGET, options=OPTIONS, folder=tmp_path / "a")
    (row,) = found.outcome.policies
    simulated = simulate(OWN, "even", Simulated(), target=TARGET)
    assert row.to_target.rounds == simulated.rounds_to(TARGET) == simulated.rounds
    assert found.ledgers["even"].metrics["mae"] == pytest.approx(simulated.metrics["mae"], rel=1e-5)
    loaded = load_run(tmp_path / "a")
    assert loaded.outcome.target == TARGET
    assert loaded.ledgers["even"].metrics["mae"][-1] == row.scores.metrics["mae"]


def test_metrics_that_no_device_is_asked_for_are_refused():
    with pytest.raises(BadInput, match="devices report them"):
        FederationOptions(metrics={"mae": "lower"})
    with pytest.raises(BadInput, match="rmse is not measured: name one of"):
        run_federation(
            grid_of(), OWN, target=Target(metric="rmse", level=1), options=OPTIONS, rounds=1
        )
