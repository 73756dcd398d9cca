"""When the models of a run are judged on test data."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedcell import load_scenario, run
from fedcell.learning import prepare_training
from fedcell.learning.learner import Scores
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.scenario.target import Target
from fedcell.simulation import evaluation as judging
from fedcell.simulation.evaluation import TEST_EVERY, SparseEvaluator, choose_evaluator
from fedcell.simulation.train import at_target, simulate, train_rounds

DIGITS = load_scenario("digits")


@pytest.fixture
def setup(monkeypatch):
    """The digits, whose test data counts as large."""
    monkeypatch.setattr(judging, "MANY_SAMPLES", 100)
    return prepare_training(DIGITS, 1)


def test_small_test_sets_and_accuracies_are_judged_in_every_round():
    learner = prepare_training(DIGITS, 1).learner(1)
    assert choose_evaluator(learner, None) is None
    assert choose_evaluator(learner, Target(loss=0.5)) is None


def test_large_ones_are_judged_where_something_asks_for_it(setup):
    learner = setup.learner(1)
    assert choose_evaluator(learner, Target(accuracy=0.9)) is None
    ledger = simulate(setup.scenario, "even", learner, rounds=13, seed=1)
    tested = np.flatnonzero(np.isfinite(ledger.accuracy)) + 1
    assert tested.tolist() == [TEST_EVERY, 2 * TEST_EVERY, 13]
    assert np.isfinite(ledger.train_loss).all()


def test_what_is_judged_has_the_bits_of_a_full_evaluation(setup, monkeypatch):
    sparse = simulate(setup.scenario, "even", setup.learner(1), rounds=12, seed=1)
    monkeypatch.setattr(judging, "MANY_SAMPLES", 10**6)
    full = simulate(setup.scenario, "even", setup.learner(1), rounds=12, seed=1)
    assert sparse.train_loss.tolist() == full.train_loss.tolist()
    known = np.isfinite(sparse.accuracy)
    assert not known.all()
    assert sparse.accuracy[known].tolist() == full.accuracy[known].tolist()
    assert sparse.test_loss[known].tolist() == full.test_loss[known].tolist()


def test_a_run_ends_with_scores_on_test_data(setup):
    target = Target(loss=1.2, hold=1)
    ledger = simulate(setup.scenario, "even", setup.learner(1), rounds=60, seed=1, target=target)
    assert ledger.rounds == ledger.rounds_to(target) < 60
    assert np.isfinite(ledger.accuracy[-1])


def test_a_model_that_guesses_near_the_target_is_noticed():
    """Its training loss is at the target, and its accuracy is asked for at once."""

    class Guesser:
        test_samples = 10**6

        def train_scores(self, _):
            return Scores(0.1)

        def with_test_scores(self, _, scores):
            return replace(scores, test_loss=2.3, accuracy=0.1, majority=0.1)

    evaluator = SparseEvaluator(Guesser(), Target(loss=0.2))
    assert evaluator(np.zeros(3), 3, False).guesses
    assert not SparseEvaluator(Guesser(), Target(loss=0.01))(np.zeros(3), 3, False).guesses


@pytest.mark.parametrize("first", [3, 5, 7])
def test_a_resumed_run_is_judged_as_an_uninterrupted_one(setup, first):
    world, learner, target = setup.scenario, setup.learner(1), Target(loss=0.9, hold=1)
    fleet = draw_fleet(world, 1)
    evaluator = choose_evaluator(learner, target)

    def last(rounds, state=None):
        trace = draw_trace(world, fleet, rounds, 1)
        rules = [at_target(target)]
        *_, state = train_rounds(world, learner, fleet, trace, state, rules, evaluator=evaluator)
        return state

    begun = last(first)
    assert np.isfinite(begun.history.accuracy[-1])  # the last round of a run is judged on all
    resumed, whole = last(12, begun), last(12)
    for name in ("train_loss", "test_loss", "accuracy"):
        one, other = (getattr(state.history, name) for state in (resumed, whole))
        np.testing.assert_array_equal(one, other)


def test_a_run_says_where_its_time_went(fedcell, tmp_path):
    result = run(DIGITS, ["even"], rounds=3)
    watch = result.stopwatch
    assert watch is not None
    assert watch.training > 0
    assert watch.evaluation > 0
    said = fedcell("run", "digits", "--rounds", 3, "--policy", "even", "--out", tmp_path / "r")
    assert re.search(r"this machine took \S+ s training, \S+ s evaluating models", said.out)
