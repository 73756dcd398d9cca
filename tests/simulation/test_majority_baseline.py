"""Rounds that do not count as success: a loss that is not finite, or a model that guesses."""

import json
from collections.abc import Iterator, Sequence
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest

from fedcell import Compute, Scenario, load_run, load_scenario, run, run_adaptive, run_seeds
from fedcell.experiments.jobs import train_curve
from fedcell.experiments.store import Store
from fedcell.experiments.training import Curve, Until
from fedcell.learning import prepare_training
from fedcell.learning.learner import Learner, Scores, majority_of
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.trial import Trial
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Scored, Target
from fedcell.show.results import summary
from fedcell.simulation.train import simulate

WORLD = Scenario().using(
    clients={"count": 8, "samples": 20},
    plan={"cohort": 8, "local_steps": 2, "rounds": 12},
    task={"model_bits": 1e4, "cycles_per_sample": 1e4},
)
LOSS = Target(loss=0.5, hold=2)


class Scripted:
    """Counts its rounds in its model, and has the scores that are listed for each; an average of
    the last models lies nearest to the last for nine rounds."""

    def __init__(self, scores: Sequence[Scores]) -> None:
        self.scores, self.sizes = scores, np.full(8, 20)

    def start(self) -> Any:
        return np.zeros(1, np.float32)

    def train(self, model: Any, clients: Sequence[int], round: int) -> Iterator[Any]:  # noqa: ARG002
        return (model + np.float32(1) for _ in clients)

    def evaluate(self, model: Any) -> Scores:
        return self.scores[min(round(float(model[0])), len(self.scores) - 1)]


def scripted(*scores: Scores) -> Any:
    """A custom learner that has these scores, the first before the first round."""
    return lambda scenario, seed: Scripted(scores)  # noqa: ARG005


START, GUESS = Scores(2.3, 2.3, 0.1, 0.1), Scores(0.0, 0.0, 0.098, 0.1)
LEARNT = Scores(0.4, 0.4, 0.9, 0.1)


def test_a_model_that_guesses_does_not_end_a_run(tmp_path):
    learner = scripted(START, *[GUESS] * 4, LEARNT)
    result = run(
        WORLD, ["even"], target=LOSS, folder=tmp_path / "run", compute=Compute(learner=learner)
    )
    ledger, outcome = result.ledgers["even"], result.outcome
    assert ledger.rounds == 5
    assert ledger.rounds_to(LOSS) == 5
    assert ledger.seconds_to(LOSS) == ledger.total_duration[4]
    (note,) = outcome.notes
    assert note == (
        "training loss 0.5 was met in round 2 by a model with accuracy 0.098, no better than "
        "always answering with the most common class (0.1): such rounds do not count"
    )
    assert f"note: {note}" in " ".join(summary(result).split())
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["initial"]["majority"] == 0.1
    loaded = load_run(tmp_path / "run")
    assert loaded.outcome == outcome
    assert loaded.ledgers["even"].rounds_to(LOSS) == 5


def test_a_run_that_only_guesses_does_not_reach_its_target(tmp_path):
    learner, folder = scripted(START, GUESS), tmp_path / "run"
    run(WORLD, ["even"], target=LOSS, rounds=4, folder=folder, compute=Compute(learner=learner))
    result = run(
        WORLD, ["even"], target=LOSS, folder=folder, resume=True, compute=Compute(learner=learner)
    )
    ledger = result.ledgers["even"]
    assert (ledger.rounds, result.outcome.policies[0].to_target) == (12, None)
    assert (ledger.rounds_to(LOSS), ledger.seconds_to(LOSS), ledger.joules_to(LOSS)) == (None,) * 3
    assert "training loss 0.5 in the mean of 2 rounds was not reached" in summary(result)
    assert (
        run_seeds(WORLD, ["even"], seeds=2, target=LOSS, compute=Compute(learner=learner)).reached
        == 0
    )
    adaptive = run_adaptive(WORLD, ["even"], target=LOSS, compute=Compute(learner=learner))
    assert adaptive.outcome.policies[0].to_target is None
    assert simulate(WORLD, "even", Scripted([START, GUESS]), target=LOSS).rounds == 12


def test_without_a_majority_only_a_finite_loss_is_asked_for():
    learner = scripted(Scores(2.3, nan, 0.1), Scores(0.4, nan, 0.1))
    assert (
        run(WORLD, ["even"], target=LOSS, compute=Compute(learner=learner)).ledgers["even"].rounds
        == 2
    )
    learner = scripted(Scores(2.3), Scores(0.4))
    assert (
        run(WORLD, ["even"], target=LOSS, compute=Compute(learner=learner)).ledgers["even"].rounds
        == 2
    )


@pytest.mark.parametrize("broken", [nan, inf])
def test_an_accuracy_beside_a_loss_that_is_not_finite_does_not_count(broken):
    learner = scripted(
        START, Scores(broken, nan, 0.95, 0.1), Scores(broken, nan, 0.95, 0.1), LEARNT
    )
    target = Target(accuracy=0.85, hold=1)
    result = run(WORLD, ["even"], target=target, compute=Compute(learner=learner))
    assert result.ledgers["even"].rounds_to(target) == 3
    (note,) = result.outcome.notes
    assert note.startswith("the training loss is not finite after round 1")


def test_the_share_of_the_most_common_class_needs_two_classes():
    assert majority_of(np.array([0, 1, 1, 2])) == 0.5
    assert isnan(majority_of(np.array([3, 3, 3])))  # all models find the only class
    assert isnan(majority_of(np.array([], int)))


def test_an_accuracy_target_is_reached_by_whatever_has_that_accuracy():
    scored = Scored(train_loss=[2.3, 2.3], accuracy=[0.05, 0.1], majority=0.1)
    assert Target(accuracy=0.1, hold=1).reached_by(scored) == 2


def test_one_device_with_huge_weights_does_not_reach_the_target():
    world = load_scenario("digits").using(clients={"count": 8}, plan={"cohort": 8})
    setup = prepare_training(world)

    class Attacked:
        """Our engine, with a first device that answers with one large number."""

        def __init__(self, learner: Learner) -> None:
            self.learner, self.sizes, self.start = learner, learner.sizes, learner.start
            self.evaluate = learner.evaluate

        def train(self, model: Any, clients: Sequence[int], round: int) -> Iterator[Any]:
            for client, upload in zip(
                clients, self.learner.train(model, clients, round), strict=True
            ):
                yield np.full_like(upload, 1e4) if client == 0 else upload

    ledger = simulate(setup.scenario, "even", Attacked(setup.learner(1)), rounds=8, target=1.0)
    assert ledger.rounds == 8
    assert ledger.rounds_to(1.0) is None
    assert ledger.train_loss[-1] > 2
    assert ledger.accuracy[-1] <= ledger.majority


def test_a_training_that_is_judged_at_its_target_continues_while_it_guesses():
    """Pilots and sweeps judge models on test data only where the loss is at the target."""
    losses = [Scores(2.3), *[Scores(0.4)] * 9]
    judge = Scripted([START, *[GUESS] * 4, LEARNT])
    until = Until(9, LOSS)
    found = train_curve(WORLD, Scripted(losses), 0, until, tester=judge)
    assert (len(found.train_loss), found.baseline_rounds) == (5, (2, 3, 4))
    assert len(train_curve(WORLD, Scripted(losses), 0, until).train_loss) == 2


def test_files_keep_which_rounds_guess(tmp_path):
    losses = (2.3, 0.4, 0.4, 0.4)
    curve = Curve(key="ab" * 16, seed=0, train_loss=losses, baseline_rounds=(2, 3))
    assert curve.reached(LOSS) == 4
    assert curve.counted(LOSS) == (2.3, inf, inf, 0.4)
    assert curve.first(Until(3)).baseline_rounds == (2, 3)
    assert curve.first(Until(2)).reached(LOSS) is None
    store = Store(tmp_path)
    store.put(curve)
    assert store.get(curve.key, 0) == curve
    setting = Setting(4, 2, 0.0)
    trial = Trial(
        setting=setting, seed=0, losses=losses, target=LOSS, wall_seconds=1.0, guessing=(3,)
    )
    pilot = Pilot(identity={}, target=LOSS, seed=0, kind="independent", trials=(trial,))
    pilot.save(tmp_path / "pilot.json")
    (again,) = load_pilot(tmp_path / "pilot.json").trials
    assert again == trial
    assert again.rounds_to(LOSS) == 4
    assert Pilot.reached(pilot, Target(loss=0.5, hold=3)) == (setting,)
