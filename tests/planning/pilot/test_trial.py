"""Trials: their curves, targets and rounds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import Scenario, load_scenario
from fedcell.errors import BadInput, Diverged
from fedcell.planning.law.fit import fit_law
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.run import run_pilot
from fedcell.planning.pilot.runner import PilotRunner, TrialJob
from fedcell.planning.pilot.trial import observe
from fedcell.planning.pilot.validation import check_law
from fedcell.planning.setting import Setting, trial_seeds
from fedcell.scenario.target import Target
from support.laws import FLOOR, observed
from support.pilots import HERE, WORLD, passing, sampled_trial, strict, trial, trial_of


def test_trials_never_use_the_seed_of_the_run_that_they_predict():
    pilot, judges = trial_seeds(7), trial_seeds(7, validation=True)
    assert len({7, *pilot, *judges}) == 1 + len(pilot) + len(judges)


def test_what_a_trial_says_of_a_target():
    run = trial([3.0, math.nan, 1.0, 1.5, 0.1])
    assert [run.rounds_to(passing(x)) for x in (3.0, 1.2, 0.5, 0.05)] == [1, 3, 5, None]
    assert trial([3.0, math.inf]).diverged
    seen = observe([run, trial([3.0, 2.0]), trial([math.inf])], passing(0.5), "independent")
    assert seen.rounds.tolist() == [5, 2]
    assert seen.censored.tolist() == [False, True]
    with pytest.raises(Diverged, match=r"every run diverged: lower learning\.rate"):
        observe([trial([math.inf])], passing(0.5), "independent")


def test_a_trial_is_the_run_that_fedcell_run_would_make(fedcell, world):
    runner = PilotRunner(scenario=load_scenario(world), target=Target(loss=0.4, hold=5))
    run = runner.run(TrialJob(Setting(4, 4, 0.1), 5, 300))
    said = strict(fedcell("run", world, "--seed", 5, "--policy", "even", "--json"))
    assert (
        said["policies"][0]["rounds"] == len(run.losses) == run.rounds_to(Target(loss=0.4, hold=5))
    )
    assert said["policies"][0]["train_loss"] == run.losses[-1]


def test_a_training_that_diverges_is_seen_and_left_out():
    wild = {"learning": WORLD["learning"] | {"rate": 5.0, "rate_decay": 0.0}}
    scenario = load_scenario("paper").using(**WORLD).using(**wild)
    runner = PilotRunner(scenario=scenario, target=passing(0.4))
    run = runner.run(TrialJob(Setting(12, 16, 0.0), 1, 2000))
    assert run.diverged
    assert run.rounds_to(passing(0.4)) is None
    (check,) = check_law(fit_law(observed(FLOOR)), [run], passing(0.4))
    assert [check.failure] == [
        "training diverges in 1 of 1 runs with 12 clients a round, 16 steps each"
    ]


def test_overflow_is_divergence_even_if_the_model_stays():
    wild = {"learning": WORLD["learning"] | {"rate": 50.0}}
    scenario = load_scenario("paper").using(**WORLD).using(**wild)
    runner = PilotRunner(scenario=scenario, target=passing(0.4))
    run = runner.run(TrialJob(Setting(12, 40, 0.0), 1, 40))
    assert run.diverged  # its uploads are not finite, so they are left out and the loss stays


@given(st.floats(1e-6, 1e6), st.floats(0.01, 1))
def test_an_eased_target_is_no_harder_than_what_was_reached(loss, accuracy):
    assert loss <= Target(loss=1e-9).eased_to(loss).value <= 1.11 * loss
    assert accuracy - 0.0101 <= Target(accuracy=1.0).eased_to(accuracy).value <= accuracy


def test_which_runs_answer_another_target():
    easy, hard = Target(loss=0.5, hold=1), Target(loss=0.2, hold=1)
    accurate = Target(accuracy=0.9, hold=1)
    there = trial_of((1.0, 0.4), easy)
    assert there.answers(easy)
    assert not there.answers(hard)  # it was stopped before
    assert not there.answers(accurate)  # which it did not watch
    assert trial_of((1.0, 0.1), easy).answers(hard)
    assert trial_of((1.0, 0.8), easy).answers(hard)  # it was cut for another reason
    assert trial_of((1.0, math.inf), easy).answers(hard)
    assert trial_of((1.0, 0.1), accurate, accuracies=(0.5, 0.95)).answers(hard)
    assert not trial_of((1.0, 0.3), accurate, accuracies=(0.5, 0.95)).answers(hard)
    seen = observe([there, trial_of((1.0, 0.1), easy, seed=1)], hard, "independent")
    assert seen.censored.tolist() == [True, False]
    with pytest.raises(BadInput, match="there are no runs yet"):
        observe([there], accurate, "independent")


def test_a_scenario_that_learns_nothing_has_no_trials():
    runner = PilotRunner(scenario=Scenario(), target=passing(0.4))
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        runner.run(TrialJob(HERE, 1, 5))
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        run_pilot(Scenario(), budget=1.0, target=0.4)


def test_a_trial_that_cannot_reach_the_target_is_stopped(world):
    runner = PilotRunner(scenario=load_scenario(world), target=Target(loss=0.05))
    run = runner.run(TrialJob(Setting(1, 16, 0.1), 5, 400))
    assert run.rounds_to(runner.target) is None
    assert 120 <= len(run.losses) < 400
    assert run.least_rounds(runner.target) > 400
    hurried = runner.run(TrialJob(Setting(1, 16, 0.1), 5, 400, deadline=0.0))
    assert hurried.losses == run.losses[:1]


def test_other_targets_of_a_sampled_run_are_less_certain():
    run = sampled_trial(0.1)
    assert run.rounds_error(run.target) == 0
    assert run.rounds_to(passing(1.0)) == 21
    # Two errors of 0.1 at a fall of 0.05 a round.
    assert run.rounds_error(passing(1.0)) == pytest.approx(0.1 / 0.05 / 21, rel=0.2)
    assert sampled_trial(0.02).rounds_error(passing(1.0)) < run.rounds_error(passing(1.0))
    assert sampled_trial(0.1, hold=4).rounds_error(Target(loss=1.0, hold=4)) < (
        run.rounds_error(passing(1.0))
    )
    assert sampled_trial(0.0).rounds_error(passing(1.0)) == 0


def test_a_law_of_thinly_sampled_runs_has_wider_intervals():
    laws = []
    for error in (0.0, 0.3):
        trials = [
            replace(sampled_trial(error), setting=Setting(k, e, 0.1), seed=seed)
            for k in (2, 8)
            for e in (2, 8)
            for seed in range(2)
        ]
        pilot = Pilot(
            identity={}, target=trials[0].target, seed=0, kind="independent", trials=tuple(trials)
        )
        laws.append(pilot.fit(passing(1.0)))
    exact, thin = (law.log_rounds(np.array(4), np.array(4), 0.1)[1] for law in laws)
    assert float(thin) > 1.05 * float(exact)
