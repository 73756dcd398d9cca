"""Trainings whose models are judged on few samples while their target is far."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from fedcell import load_scenario
from fedcell.core.errors import BadInput
from fedcell.experiments.jobs import TrainingJob, train
from fedcell.experiments.sampling import MIN_PART, is_baseline, is_cut
from fedcell.experiments.store import Store
from fedcell.experiments.training import Curve, Race, Sampled, Training, Until
from fedcell.learning import prepare_training
from fedcell.learning.engines.engine import Engine
from fedcell.learning.evaluation import Sampling
from fedcell.scenario.target import Target

DIGITS = load_scenario("digits")


def curves(target, k, e, seed, rounds=60, deliver="last"):
    """The same training, judged on all samples and on as many as its target needs."""
    world = DIGITS.with_plan(k, e).using(learning={"deliver": deliver})
    training = Training.of(world, seed)
    return [
        train(TrainingJob(training, Until(rounds, target, sampled=s))).curve for s in (False, True)
    ]


@pytest.mark.parametrize("deliver", ["last", "average"])
@pytest.mark.parametrize(
    ("target", "k", "e"),
    [
        (Target(loss=1.2, hold=5), 1, 10),
        (Target(loss=0.8, hold=1), 3, 10),
        (Target(loss=0.5, hold=2), 8, 20),
        (Target(accuracy=0.8, hold=1), 3, 10),
        (Target(accuracy=0.85, hold=5), 6, 20),
        (Target(loss=1e-3, hold=5), 4, 5),  # not within the rounds
    ],
)
def test_the_round_that_reaches_a_target_is_that_of_all_samples(target, k, e, deliver):
    for seed in (1, 2):
        exact, sampled = curves(target, k, e, seed, 60, deliver)
        assert exact.sampled is None
        assert sampled.reached(target) == exact.reached(target)
        assert sampled.rounds == exact.rounds
        known = sampled.sampled
        assert known is not None
        assert len(known.errors) == len(known.samples) == sampled.rounds
        assert min(known.samples) < max(known.samples) or exact.reached(target) is None
        values, truth = (np.array(c.values(target)) for c in (sampled, exact))
        errors = np.array(known.errors)
        assert (values[errors == 0] == truth[errors == 0]).all() or target.accuracy
        assert (np.abs(values - truth)[errors > 0] <= 5 * errors[errors > 0]).all()
        if exact.reached(target):
            assert set(errors[-target.hold :]) == {0.0}


def test_few_samples_are_judged_on_while_the_target_is_far():
    _, curve = curves(Target(loss=0.6, hold=1), 2, 10, 5)
    assert np.mean(curve.sampled.samples) < 0.5 * prepare_training(DIGITS).partition.index.size


def test_a_sampled_curve_answers_only_what_it_was_made_for(tmp_path):
    target = Target(loss=1.0, hold=1)
    exact, sampled = curves(target, 4, 10, 3)
    assert exact.key == sampled.key
    asked = Until(60, target)
    assert not sampled.answers(asked)
    assert not sampled.answers(Until(sampled.rounds))
    assert sampled.answers(replace(asked, sampled=True))
    assert not sampled.answers(Until(60, Target(loss=1.5, hold=1), sampled=True))
    assert exact.answers(replace(asked, sampled=True))
    store = Store(tmp_path)
    store.put(sampled, 1.0)
    assert store.get(exact.key, 3) is None
    assert store.get(exact.key, 3, target) == sampled
    store.put(exact, 1.0)
    assert store.get(exact.key, 3) == exact
    assert store.get(exact.key, 3, target) == sampled
    shorter = Until(2, target, sampled=True)
    assert len(sampled.first(shorter).sampled.errors) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"errors": [0.0]},
        {"samples": [0]},
        {"target": {"loss": -1.0}},
        {"errors": None},
        {"target": None},
    ],
)
def test_a_damaged_sampled_curve_is_refused(tmp_path, damage, monkeypatch):
    target = Target(loss=1.0, hold=1)
    known = Sampled(target, (0.1, 0.0), (128, 500))
    curve = Curve(key="ab" * 16, seed=0, train_loss=(2.0, 0.9), sampled=known)
    store = Store(tmp_path)
    monkeypatch.setattr(
        Curve, "to_dict", lambda self, whole=Curve.to_dict: _damaged(whole(self), damage)
    )
    store.put(curve)
    with pytest.raises(BadInput, match="is damaged"):
        store.get(curve.key, 0, target)


def _damaged(content, damage):
    content["sampled"] = {**content["sampled"], **damage}
    return content


# When a training is cut.


FALLING = (2.3 * np.exp(-0.001 * np.arange(1, 101))).tolist()
TARGET = Target(loss=0.5, hold=1)


def test_a_training_that_cannot_reach_its_target_in_its_rounds_is_cut():
    begin = time.monotonic()
    assert is_cut(FALLING, Until(300, TARGET, stop_if_unreachable=True), begin)
    assert not is_cut(FALLING, Until(300, TARGET), begin)
    assert not is_cut(FALLING, Until(5000, TARGET, stop_if_unreachable=True), begin)
    assert not is_cut([], Until(300, TARGET, deadline=0.0, stop_if_unreachable=True), begin)


def test_a_training_that_cannot_reach_its_target_in_its_time_is_cut():
    now = time.monotonic()
    slow = Until(100_000, TARGET, deadline=now + 50, stop_if_unreachable=True)
    assert is_cut(FALLING, slow, now - 50)  # half of its time for 100 rounds
    assert not is_cut(FALLING, replace(slow, deadline=now + 5000), now - 50)
    assert not is_cut(FALLING, slow, now - 0.5 * MIN_PART * 50)  # that is too early to tell
    assert is_cut(FALLING[:1], replace(slow, deadline=now), now - 1)


def test_a_training_that_another_has_beaten_is_cut(tmp_path):
    race = Race(tmp_path / "least", cost=2.0, worse=1.5)
    until = Until(1000, TARGET, race=race)
    begin = time.monotonic()
    assert not is_cut(FALLING, until, begin)  # no other is there yet
    race.file.write_text("100.0")
    assert is_cut(FALLING, until, begin)
    assert not is_cut(FALLING[:75], until, begin)
    race.file.write_text("what")
    assert not is_cut(FALLING, until, begin)


def test_a_baseline_model_is_found_on_as_many_samples_as_that_takes():
    setup = prepare_training(DIGITS, 1)
    judge = setup.learner(1)
    assert isinstance(judge, Sampling)
    assert is_baseline(judge, np.zeros_like(judge.start()))
    done = train(TrainingJob(Training.of(DIGITS, 1), Until(15)))
    assert done.curve.accuracy > 0.5
    model = judge.start()
    for t in range(12):
        model = np.mean(list(judge.train(model, list(range(10)), t)), 0)
    assert not is_baseline(judge, model)
    assert not math.isnan(judge.strata("test").majority)


def test_a_first_model_without_a_loss_is_refused_as_by_a_full_evaluation(monkeypatch):
    nothing = lambda self, model, part, places: np.full((2, len(places)), math.nan)  # noqa: ARG005
    monkeypatch.setattr(Engine, "judge", nothing)
    with pytest.raises(BadInput, match="training loss of the first model is not a number"):
        train(TrainingJob(Training.of(DIGITS, 1), Until(5, TARGET, sampled=True)))
