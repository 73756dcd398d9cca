"""Pilots on devices: the runs that the simulator would make, or those of a custom learner."""

import json

import numpy as np
import pytest

from fedcell import Observer, Region, Scenario, load_scenario, plan_training
from fedcell.deploy import FederationOptions

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell import Compute  # noqa: E402
from fedcell.deploy.clientapp import app as ready  # noqa: E402
from fedcell.deploy.flower import pilot_federation  # noqa: E402
from fedcell.planning.pilot.pilotfile import load_pilot  # noqa: E402
from fedcell.planning.pilot.run import prepare_pilot  # noqa: E402
from fedcell.planning.pilot.runner import TrialJob  # noqa: E402
from support.appgrids import AppGrid, places, stepping  # noqa: E402

COUNT = 4
WORLD = """
[cell]
gain_threshold = 0.0
loss_rate = 0.1
[clients]
count = 4
[plan]
cohort = 2
local_steps = 4
rounds = 40
[learning]
dataset = "digits"
model = "logistic"
rate = 0.05
target = 1.2
"""


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def world(tmp_path):
    """A small scenario with a target."""
    (tmp_path / "world.toml").write_text(WORLD)
    return load_scenario(tmp_path / "world.toml")


def as_kept(losses):
    """Losses as a file of a pilot keeps them."""
    return [float(f"{loss:.9g}") for loss in losses]


def check_trials(pilot, world, kept=np.array):
    """Every run is the simulator's own, as far as it went, to the last bit, or to the last digit
    that a file keeps; where the simulator judged on a part of the samples, within its errors."""
    assert len(pilot.trials) > 2
    assert len({trial.setting for trial in pilot.trials}) > 1
    runner, *_ = prepare_pilot(world, None, 0, "it", Compute(threads=1), Observer())
    for trial in pilot.trials:
        own = runner.run(TrialJob(trial.setting, trial.seed, 40))
        n = len(trial.losses)
        assert 1 <= n <= len(own.losses)
        assert trial.rounds_to(world.goal()) == own.rounds_to(world.goal()) or n < len(own.losses)
        errors = np.zeros(n) if not own.errors else np.array(own.errors[:n])
        losses, simulated = np.array(trial.losses), np.array(kept(own.losses[:n]))
        exact = errors == 0
        assert losses[exact].tobytes() == simulated[exact].tobytes()
        assert (np.abs(losses - simulated) <= 5 * errors + 1e-8).all()


def test_a_pilot_of_the_ready_app_is_the_one_that_the_simulator_makes(world, tmp_path):
    heard = []
    pilot = pilot_federation(
        AppGrid(ready, places(COUNT)),
        world,
        "8s",
        tmp_path / "pilot.json",
        region=Region(steps=(2, 8)),
        observer=Observer(trial=lambda trial, _: heard.append(trial)),
    )
    check_trials(pilot, world)
    assert len(heard) == len(pilot.trials)
    kept = load_pilot(tmp_path / "pilot.json")
    assert [list(t.losses) for t in kept.trials] == [as_kept(t.losses) for t in pilot.trials]
    plan = plan_training(world, kept)
    assert 1 <= plan.cohort <= COUNT
    assert 2 <= plan.local_steps <= 8


OWN = Scenario().using(
    cell={"gain_threshold": 0.0},
    clients={"count": 3},
    plan={"cohort": 2, "local_steps": 2, "rounds": 60},
    task={"cycles_per_sample": 1e4, "batch_size": 10, "samples_per_step": "batch"},
)


def test_a_pilot_of_a_custom_app_runs_and_can_be_planned_with(tmp_path):
    """Each step takes a tenth of the way to a point near 0, so more steps take fewer rounds."""
    points = np.array([[0.05], [-0.05], [0.0]])
    asked = set()

    def step(place, w, config):
        asked.add(config["local-steps"])
        return points[place] + (w - points[place]) * 0.9 ** config["local-steps"]

    pilot = pilot_federation(
        AppGrid(stepping(step, (30, 30, 30)), places(3)),
        OWN,
        "8s",
        tmp_path / "pilot.json",
        target=0.1,
        region=Region(steps=(1, 8)),
        options=FederationOptions(policy="optimal", arrays={"w": np.ones(5, np.float32)}),
    )
    assert len(pilot.trials) > 2
    assert len(asked) > 1
    assert asked <= set(range(1, 9))
    for trial in pilot.trials:
        assert np.all(np.isfinite(trial.losses))
        assert trial.losses[-1] < trial.losses[0]
    by_steps = {}
    for trial in pilot.trials:
        if (rounds := trial.rounds_to(pilot.target)) is not None:
            by_steps.setdefault(trial.setting.local_steps, []).append(rounds)
    few, many = min(by_steps), max(by_steps)
    assert np.mean(by_steps[few]) > np.mean(by_steps[many])
    content = json.loads((tmp_path / "pilot.json").read_text())
    assert content["trials"]


@pytest.mark.slow
def test_a_pilot_runs_in_flower_s_simulation(world, tmp_path):
    from fedcell.deploy.local.federation import LocalFederation
    from fedcell.deploy.options import RunConfig
    from support.federations import ENOUGH

    config = RunConfig(
        scenario=str(tmp_path / "world.toml"),
        pilot_file=str(tmp_path / "pilot.json"),
        pilot_budget="25s",
        rounds=40,
        deadline=60.0,
    )
    with LocalFederation(tmp_path / "federation") as federation:
        federation.start_superlink(simulation=True)
        federation.wait(federation.submit(config, COUNT), ENOUGH)
    pilot = load_pilot(tmp_path / "pilot.json")
    check_trials(pilot, world, as_kept)
    assert plan_training(world, pilot).cohort <= COUNT
