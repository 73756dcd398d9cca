"""Pilots: what they find, continue, share and say."""

import importlib
import itertools
import json
import math
import re
import time
from dataclasses import replace

import numpy as np
import pytest

from fedcell import Compute, Region, load_scenario
from fedcell.errors import BadInput, NotReached
from fedcell.experiments.executors import Inline, WorkerDiedError
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.planning.law.fit import fit_law
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.run import run_pilot
from fedcell.planning.pilot.runner import PilotRunner, TrialJob
from fedcell.planning.pilot.trial import Trial, observe
from fedcell.planning.pilot.validation import validate_pilot
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Target
from support.pilots import HERE, WORLD, passing, strict, trial_of

K4 = np.array(4)


FEW = ("--steps", "1..16")  # a quadratic takes its steps one by one


def test_a_pilot_looks_after_every_round(world):
    rare = load_scenario(world).using(learning={"evaluate_every": 10})
    often = load_scenario(world)
    runners = [PilotRunner(scenario=s, target=Target(loss=0.4)) for s in (rare, often)]
    a, b = (runner.run(TrialJob(HERE, 5, 300)) for runner in runners)
    assert a.losses == b.losses


def test_a_pilot_says_what_it_found(fedcell, world):
    said = strict(fedcell("pilot", "world.json", "--budget", "2s", *FEW, "--json"))
    assert set(said["coefficients"]) == {"mixing", "drift", "start", "floor"}
    assert said["settings"] >= 5
    assert said["seeds"] >= 2
    assert 1.5 < said["seconds"] < 2.5
    assert -3 < said["target_exponent"] < 0
    found = load_pilot(world.parent / "pilot-world.json")
    assert len(found.trials) == said["runs"]
    assert found.seconds == pytest.approx(said["seconds"], abs=0.1)
    words = fedcell("pilot", "world.json", "--budget", "2s", *FEW)  # which is used up
    assert words.code == 0
    assert "Rounds to the target" in words.out
    assert "next: fedcell plan world.json --pilot pilot-world.json" in words.out
    assert len(load_pilot(world.parent / "pilot-world.json").trials) == said["runs"]
    assert fedcell("pilot", "world.json", "--budget", "3s", *FEW).code == 0
    assert len(load_pilot(world.parent / "pilot-world.json").trials) > said["runs"]


def test_a_pilot_goes_on_where_it_stopped(fedcell, world, monkeypatch):
    whole, ran = PilotRunner.run, []
    monkeypatch.setattr("fedcell.planning.pilot.run.SAVE_INTERVAL", 0.0)

    def stop(self, ask):
        if len(ran) == 9:
            raise KeyboardInterrupt
        ran.append(ask)
        return whole(self, ask)

    monkeypatch.setattr(PilotRunner, "run", stop)
    asked = ("pilot", "world.json", "--budget", "2s", *FEW, "--out", "cut.json", "--store", "o")
    said = fedcell(*asked)
    assert said.code == 130
    assert "interrupted; to resume, give the same command again" in said.err
    before = load_pilot(world.parent / "cut.json").trials
    assert len(before) == 6  # and three that found out how long a round takes
    monkeypatch.setattr(PilotRunner, "run", whole)
    assert fedcell(*asked).code == 0
    after = {(t.setting, t.seed): t for t in load_pilot(world.parent / "cut.json").trials}
    assert len(after) > len(before)
    assert all(after[t.setting, t.seed] == t for t in before)


@pytest.mark.usefixtures("world")
def test_a_pilot_that_gets_nowhere_says_how_near_it_came(fedcell):
    short = fedcell("pilot", "world.json", "--budget", "1s", *FEW, "--rounds", 1)
    assert short.code == 2
    assert "no run reached training loss 0.4 in the mean of 5 rounds, the nearest" in short.err
    assert "take an easier --target-loss, a larger --budget, or longer runs" in short.err
    assert "already holds runs" not in short.err  # nor does it: five rounds are needed


@pytest.mark.usefixtures("world")
def test_a_failed_pilot_names_an_easier_target_that_its_file_serves(fedcell):
    hard = ("--target-loss", "1e-9", "--rounds", 60)
    said = fedcell("pilot", "world.json", "--budget", "1s", *FEW, *hard, "--out", "hard.json")
    assert said.code == 2
    found = re.search(
        r"; \S*hard\.json already holds runs to training loss (\S+): give it to `fedcell plan` "
        r"with --target-loss (\S+)$",
        " ".join(said.err.split()),
    )
    assert found is not None, said.err
    assert found[1] == found[2]
    plan = fedcell(
        "plan", "world.json", "--pilot", "hard.json", "--target-loss", found[2], "--json"
    )
    assert strict(plan)["target"]["loss"] == float(found[2])


def test_a_pilot_that_misses_an_accuracy_speaks_of_accuracies(tmp_path):
    goal = Target(accuracy=0.95, hold=2)
    run = trial_of((2.0, 1.0, 0.9), goal, accuracies=(0.2, 0.81, 0.82))
    pilot = Pilot(identity={}, target=goal, seed=0, kind="independent", trials=(run,))
    words = r"the nearest was 0\.815 \(4 clients a round, 2 steps each, after 3 rounds\): take an "
    with pytest.raises(NotReached, match=words) as error:
        pilot.fit()
    assert "already holds" not in str(error.value)  # no file, so nothing to be given
    pilot.save(tmp_path / "p.json")
    told = (
        r"p\.json already holds runs to accuracy 0\.81: give it to `plan_training` with "
        r"`accuracy` 0\.81"
    )
    with pytest.raises(NotReached, match=told):
        load_pilot(tmp_path / "p.json").fit()
    low = replace(run, accuracies=(0.001, 0.002, 0.003))
    with pytest.raises(NotReached, match=r"longer runs \(`rounds`\)$"):
        replace(load_pilot(tmp_path / "p.json"), trials=(low,)).fit()


def test_a_law_is_fitted_to_the_runs_that_a_pilot_has(piloted):
    """Not to those of the pilot that it was made of."""
    pilot = load_pilot(piloted)
    law = pilot.fit()
    fewer = replace(pilot, trials=pilot.trials[: len(pilot.trials) // 2])
    assert fewer.fit().settings + 1 <= law.settings or fewer.fit().seeds < law.seeds


def test_a_pilot_to_another_target_continues_with_the_runs_of_its_file(fedcell, world, monkeypatch):
    asked: list[TrialJob] = []
    whole = PilotRunner.run

    def noted(self: PilotRunner, ask: TrialJob) -> Trial:
        asked.append(ask)
        return whole(self, ask)

    monkeypatch.setattr(PilotRunner, "run", noted)
    path = world.parent / "p.json"
    words = ["pilot", "world.json", *FEW, "--out", "p.json", "--budget", "1s", "--store"]
    assert fedcell(*words, "s1", "--target-loss", 0.5).code == 0
    first = load_pilot(path)
    # An easier target is read from the curves of the same runs: none of them is made again.
    asked.clear()
    said = fedcell(*words, "s2", "--target-loss", 0.6)
    assert said.code == 0
    every = len(first.trials)
    assert f"{every} of {every} runs made before tell of training loss 0.6" in said.err
    easier = load_pilot(path)
    assert easier.target.loss == 0.6
    assert set(first.trials) <= set(easier.trials)
    made = {(trial.setting, trial.seed) for trial in first.trials}
    assert not made & {(ask.setting, ask.seed) for ask in asked}
    # For a harder one, runs that ended at the easier target are run again.
    asked.clear()
    assert fedcell(*words, "s3", "--target-loss", 0.35).code == 0
    harder = load_pilot(path)
    again = {(a.setting, a.seed) for a in asked} & {(t.setting, t.seed) for t in easier.trials}
    assert again
    mine = [t for t in harder.trials if (t.setting, t.seed) in again and t.target == harder.target]
    before = {(t.setting, t.seed): t for t in easier.trials}
    assert mine
    for trial in mine:
        old = before[trial.setting, trial.seed].losses
        assert tuple(trial.losses[: len(old)]) == tuple(old)[: len(trial.losses)]
    assert harder.fit().predict(K4, K4, 0.1)[0] > harder.fit(0.5).predict(K4, K4, 0.1)[0]
    # What was made for the hardest target serves the others still.
    assert strict(fedcell("plan", "world.json", "--pilot", path, "--target-loss", 0.6, "--json"))


def test_another_target_is_fitted_from_the_same_curves(fedcell, piloted):
    pilot = load_pilot(piloted)
    looser = pilot.fit(0.8)
    assert looser.predict(K4, K4, 0.1)[0] < pilot.fit().predict(K4, K4, 0.1)[0]
    for harder in (0.001, 0.39):  # though some run was lucky beyond its end
        with pytest.raises(NotReached, match=r"stopped at training loss 0\.4, in the mean of 5 "):
            pilot.fit(harder)
    first = pilot.fit(Target(loss=0.4, hold=1))  # who is there in the mean was there in a round
    assert first.predict(K4, K4, 0.1)[0] < pilot.fit().predict(K4, K4, 0.1)[0]
    with pytest.raises(BadInput, match="`target` = nan: expected a finite number above 0"):
        pilot.fit(math.nan)
    plan = strict(fedcell("plan", "world.json", "--pilot", piloted, "--json"))
    early = strict(
        fedcell("plan", "world.json", "--pilot", piloted, "--target-loss", 0.8, "--json")
    )
    assert early["target"]["loss"] == 0.8
    assert early["rounds"]["value"] < plan["rounds"]["value"]


def test_a_scenario_that_learns_nothing_has_no_pilot(fedcell, piloted):
    said = fedcell("plan", "paper", "--pilot", piloted)
    assert said.code == 2
    assert (
        "this scenario trains nothing (no [learning] table): a pilot cannot belong to it"
        in said.err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["paper"], "the scenario has no [learning]"),
        (["world.json", "--budget", "long"], "--budget = long: expected a time such as 90s"),
        (
            ["world.json", "--target-loss", "0"],
            "--target-loss = 0.0: expected a finite number above",
        ),
        (["world.json", "--target-loss", "nan"], "--target-loss = nan: expected a finite number"),
        (
            ["world.json", "--target-loss", "1e-9", "--budget", "1s", "--steps", "1..16"],
            "no run reached training loss 1e-09 in the mean of 5 rounds, the nearest was",
        ),
        (["world.json", "--target-accuracy", "1.5"], "--target-accuracy = 1.5: expected a number"),
        (
            ["world.json", "--target-accuracy", "0.5", "--target-loss", "0.5"],
            "--target-loss and --target-accuracy: give one of them",
        ),
        (["world.json", "--clients", "20..3"], "--clients = 20..3: expected a range of whole"),
        (["world.json", "--clients", "13..20"], "--clients = (13, 20): expected two whole numbers"),
        (["world.json", "--steps", "0"], "--steps = 0: expected a range of whole numbers from 1"),
        (["world.json", "--budget", "1ms"], "--budget = 0.001 s is for "),
        (["world.json", "--out", "p.txt"], "p.txt: the name must end in one of: json"),
        (["world.json", "--out", "no/p.json"], "no/p.json: cannot be written: there is no folder"),
        (["world.json", "--out", "pilot.json", "--seed", "3"], "pilot.json: is of --seed 0, not 3"),
        (["aimless.json"], "there is no loss to reach: set learning.target or --target"),
    ],
)
def test_pilots_that_are_refused(fedcell, piloted, words, said):
    aimless = {**WORLD, "learning": {k: v for k, v in WORLD["learning"].items() if k != "target"}}
    (piloted.parent / "aimless.json").write_text(json.dumps(aimless))
    answer = fedcell("pilot", *words)
    assert answer.code == 2
    assert said in answer.err


@pytest.mark.long
@pytest.mark.parametrize("workers", [None, 2])
def test_pilots_share_their_runs_with_sweeps_and_others(tmp_path, workers):
    """Runs are made by the sweeps' engines, kept in a store, and found there again."""
    scenario = load_scenario("digits").using(learning={"target": 1.6, "hold": 1})
    store = Store(tmp_path / "store")
    region, folder = Region(steps=(20, 20), clients=(4, 8)), store.folder
    options = {"region": region, "compute": Compute(store=folder)}
    many = {"region": region, "compute": Compute(store=folder, workers=workers)}
    first = run_pilot(scenario, budget=10.0, **many)
    assert {trial.wall_seconds > 0 for trial in first.trials} == {True}
    again = {(t.setting, t.seed): t for t in run_pilot(scenario, budget=3.0, **options).trials}
    both = [(t, again[t.setting, t.seed]) for t in first.trials if (t.setting, t.seed) in again]
    assert both
    assert all(one.losses == other.losses for one, other in both if other.wall_seconds == 0)
    assert any(other.wall_seconds == 0 for _, other in both)
    # A sweep may ask for any target, so it does not take runs that were sampled for one.
    here = next(t for t in first.trials if t.rounds_to(first.target))
    assert here.errors
    world = here.setting.apply_to(scenario)
    experiment = Experiment.sweep(world, {}, seeds=[here.seed], rounds=50)
    result = run_sweep(experiment, store, Inline())
    assert result.made == 1
    exact = result.curves[0, here.seed]
    assert exact.reached(first.target) == here.rounds_to(first.target)
    # But its own serve every pilot.
    last = {(t.setting, t.seed): t for t in run_pilot(scenario, budget=3.0, **options).trials}
    found = last[here.setting, here.seed]
    assert found.wall_seconds == 0
    assert found.errors == ()
    assert found.losses == exact.train_loss[: len(found.losses)]


class Deadly:
    """An engine whose first processes die."""

    def __init__(self, deaths: int) -> None:
        self.deaths = deaths

    def run(self, work, jobs):
        for i, job in enumerate(jobs):
            yield job, WorkerDiedError("it died") if i < self.deaths else work(job)


def test_a_process_that_dies_costs_a_pilot_its_run_alone(world):
    scenario = load_scenario(world)
    asked = [TrialJob(Setting(3, 4, 0.1), seed, 5) for seed in range(4)]
    runner = PilotRunner(scenario=scenario, target=passing(0.4), engine=Deadly(2))
    assert [trial.seed for trial in runner.run_all(asked)] == [2, 3]
    runner = PilotRunner(scenario=scenario, target=passing(0.4), engine=Deadly(3))
    with pytest.raises(
        BadInput, match=r"3 runs of the pilot killed their process.*3 clients.*workers"
    ):
        list(runner.run_all(asked))


def test_a_budget_that_went_into_compiling_is_named(world, monkeypatch):
    """What is compiled is kept, so the same budget may do at the second attempt."""
    run = importlib.import_module("fedcell.planning.pilot.run")
    scenario = load_scenario(world)
    monkeypatch.setattr(run, "MIN_ROUNDS", 0)  # any budget is large enough
    monkeypatch.setattr(run, "warm_up", lambda _: time.sleep(0.2))
    with pytest.raises(BadInput, match=r"ran out .*or try again: .*compiling took 0\.\d+ s of it"):
        run_pilot(scenario, budget=0.1)


@pytest.mark.long
@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_that_is_set_changes_no_budget(world, monkeypatch, jump):
    """Each look at the clock on the wall finds it set by a day."""
    looks = itertools.count()
    monkeypatch.setattr("time.time", lambda: 1e9 + jump * next(looks))
    scenario = load_scenario(world)
    options = {"region": Region(steps=(1, 16)), "path": world.parent / "p.json"}
    pilot = run_pilot(scenario, budget=2.0, **options)
    assert 0 <= load_pilot(options["path"]).seconds < abs(jump)
    more = run_pilot(scenario, budget=4.0, **options)  # the rest of it is still there
    assert len(more.trials) > len(pilot.trials)
    judged = validate_pilot(scenario, more, 0.2, world.parent / "v.json")
    assert judged.checks
    assert 0 <= json.loads((world.parent / "v.json").read_text())["seconds"] < abs(jump)


def test_intervals_of_a_pilot_allow_for_where_it_looks(piloted):
    pilot = load_pilot(piloted)
    law, plain = pilot.fit(), fit_law(observe(pilot.trials, pilot.target, pilot.kind))
    here = pilot.reached(pilot.target)[0]
    k, e = np.array(here.cohort), np.array(here.local_steps)
    wide, narrow = (each.predict(k, e, here.loss_rate, runs=math.inf) for each in (law, plain))
    spans = [math.log(float(high) / float(low)) for _, low, high in (wide, narrow)]
    assert spans[0] == pytest.approx(2 * spans[1])
    assert law.spread(k, e, here.loss_rate) > plain.spread(k, e, here.loss_rate)


def test_a_pilot_says_which_part_of_its_time_went_into_judging(fedcell, piloted):
    report = load_pilot(piloted).report
    assert 0 < report.judging_seconds < report.run_seconds
    assert report.to_dict()["judging_seconds"] == report.judging_seconds
    said = fedcell("pilot", "world.json", "--budget", "2s", *FEW, "--out", piloted)
    assert re.search(r"judging models took \d+% of the time of the runs", said.out), said.err


def test_a_failed_pilot_says_what_came_nearest_and_how_long_it_would_take():
    goal = passing(0.5)
    losses = tuple((2.3 * np.arange(1, 61) ** -0.3).tolist())
    run = Trial(setting=HERE, seed=0, losses=losses, target=goal, wall_seconds=6.0)
    pilot = Pilot(identity={}, target=goal, seed=0, kind="independent", trials=(run,))
    words = r"the nearest was 0\.6734 \(4 clients a round, 4 steps each, after 60 rounds; by its "
    with pytest.raises(NotReached, match=rf"{words}curve it takes about 162, which run in 16"):
        pilot.fit()
