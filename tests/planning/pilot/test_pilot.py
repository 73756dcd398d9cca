"""Pilots, their files, what is planned from them, and running the plan."""

import importlib
import itertools
import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import (
    Compute,
    FedcellWarning,
    Region,
    RoundPlan,
    Scenario,
    load_scenario,
    plan_training,
)
from fedcell.cli.commands.pilot import pilot_command
from fedcell.errors import BadInput, Diverged, NotReached
from fedcell.experiments.executors import Inline, WorkerDiedError
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.learning.learner import Scores
from fedcell.learning.setup import prepare_training
from fedcell.planning.choice.choose import choose_plan
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.law.fit import fit_law
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.law.theory import Constants
from fedcell.planning.pilot.candidates import search_space
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot, save_pilot
from fedcell.planning.pilot.run import run_pilot
from fedcell.planning.pilot.runner import PilotRunner, TrialJob
from fedcell.planning.pilot.trial import Trial, observe
from fedcell.planning.pilot.validation import Validation, check_law, target_exponent, validate_pilot
from fedcell.planning.setting import Setting, trial_seeds, validation_settings
from fedcell.scenario.identity import pilot_identity
from fedcell.scenario.target import Target
from support.laws import FLOOR, observed
from support.training import quadratics_of

OLD_PILOT = Path(__file__).parents[2] / "support" / "data" / "pilot-of-0.1.json"
WORLD: dict[str, dict[str, Any]] = {
    "cell": {"loss_rate": 0.1, "broadcast_time": 1.0},
    "clients": {"count": 12, "samples": 40, "spread": 0.0},
    "plan": {"cohort": 4, "local_steps": 4, "rounds": 300},
    "learning": {
        "model": "quadratic-apart",
        "quadratic": {"dimension": 5, "noise": 0.3, "distance": 0.5},
        "rate": 0.02,
        "target": 0.4,
        "deliver": "last",  # whose loss swings
    },
}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world.json").write_text(json.dumps(WORLD))
    return tmp_path / "world.json"


@pytest.fixture(scope="module")
def first_pilot(tmp_path_factory):
    """The file of a pilot, made once."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "world.json").write_text(json.dumps(WORLD))
    files = {"out_path": folder / "pilot.json", "store": folder / "runs"}
    pilot_command(str(folder / "world.json"), budget="4s", steps="1..16", **files)
    return (folder / "pilot.json").read_bytes()


@pytest.fixture
def piloted(world, first_pilot):
    """A scenario with a pilot beside it."""
    (world.parent / "pilot.json").write_bytes(first_pilot)
    return world.parent / "pilot.json"


def strict(said):
    assert said.code == 0, said.err
    return json.loads(said.out, parse_constant=lambda what: pytest.fail(f"{what} in JSON"))


def test_clients_that_are_never_called_are_not_planned_with():
    sizes = np.r_[np.full(4, 100.0), np.full(8, 3.0)]
    clients = {"count": 12, "sizes": sizes, "min_samples": 10}
    scenario = Scenario(plan=RoundPlan(cohort=4)).using(clients=clients)
    assert search_space(scenario).cohorts.max() == 4
    law = GivenLaw(mixing=300.0, drift=0.1, start=10.0)
    assert choose_plan(evaluate_plans(scenario, law, "even", 6)).cohort <= 4
    with pytest.raises(BadInput, match=r"every client holds fewer than clients\.min_samples"):
        evaluate_plans(scenario.using(clients={"min_samples": 1e6}), law, "even", 6)


def test_trials_never_use_the_seed_of_the_run_that_they_predict():
    pilot, judges = trial_seeds(7), trial_seeds(7, validation=True)
    assert len({7, *pilot, *judges}) == 1 + len(pilot) + len(judges)


# Trials.


HERE = Setting(4, 4, 0.1)
K4 = np.array(4)
FEW = ("--steps", "1..16")  # a quadratic takes its steps one by one


def passing(loss):
    """A loss that is reached when it is first passed."""
    return Target(loss=loss, hold=1)


def trial(losses, setting=HERE, seed=0, target=0.1, **more):
    return Trial(
        setting=setting,
        seed=seed,
        losses=tuple(losses),
        target=passing(target),
        wall_seconds=1.0,
        **more,
    )


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


def test_a_pilot_looks_after_every_round(world):
    rare = load_scenario(world).using(learning={"evaluate_every": 10})
    often = load_scenario(world)
    runners = [PilotRunner(scenario=s, target=Target(loss=0.4)) for s in (rare, often)]
    a, b = (runner.run(TrialJob(HERE, 5, 300)) for runner in runners)
    assert a.losses == b.losses


# The command and its file.


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


def trial_of(losses, target, setting=Setting(4, 2, 0.0), seed=0, **more):  # noqa: B008
    return Trial(setting=setting, seed=seed, losses=losses, target=target, wall_seconds=1.0, **more)


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


@given(st.floats(1e-6, 1e6), st.floats(0.01, 1))
def test_an_eased_target_is_no_harder_than_what_was_reached(loss, accuracy):
    assert loss <= Target(loss=1e-9).eased_to(loss).value <= 1.11 * loss
    assert accuracy - 0.0101 <= Target(accuracy=1.0).eased_to(accuracy).value <= accuracy


def test_a_law_is_fitted_to_the_runs_that_a_pilot_has(piloted):
    """Not to those of the pilot that it was made of."""
    pilot = load_pilot(piloted)
    law = pilot.fit()
    fewer = replace(pilot, trials=pilot.trials[: len(pilot.trials) // 2])
    assert fewer.fit().settings + 1 <= law.settings or fewer.fit().seeds < law.seeds


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


def test_other_losses_are_another_pilot(fedcell, piloted):
    worst = {**WORLD, "cell": WORLD["cell"] | {"loss_kind": "worst-case"}}
    (piloted.parent / "worst.json").write_text(json.dumps(worst))
    said = fedcell("pilot", "worst.json", "--out", "pilot.json")
    assert said.code == 2
    assert "is of cell.loss_kind independent, not worst-case: choose another --out" in said.err


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


def test_a_file_keeps_what_it_is_given(tmp_path):
    runs = tuple(
        trial([2.0, math.nan, 0.1 + i], seed=i, accuracies=(0.1, math.nan, 0.5), target=0.3)
        for i in range(3)
    )
    pilot = Pilot(
        identity={"scenario": {}, "data": None},
        target=Target(accuracy=0.5, hold=2),
        seed=4,
        kind="worst-case",
        seconds=12.5,
        trials=(*runs, trial([1.0, math.inf], seed=9)),
    )
    save_pilot(tmp_path / "p.json", pilot)
    again = load_pilot(tmp_path / "p.json")
    assert repr(again.trials) == repr(pilot.trials)  # NaN included
    assert (again.target, again.seed, again.kind) == (pilot.target, 4, "worst-case")
    assert again.seconds == 12.5
    assert again.diverged == [Setting(4, 4, 0.1)]
    assert len(again.with_trial(trial([5.0], seed=1)).trials) == 4


def test_a_pilot_of_fedcell_0_1_is_read_and_fitted_again(tmp_path):
    """Its runs took time; they were to a loss at its first passage. The file is one of 0.1."""
    old = json.loads(OLD_PILOT.read_text())
    assert old["format"] == 1
    with pytest.warns(FedcellWarning, match="has no checksum"):
        pilot = load_pilot(OLD_PILOT)
    assert len(pilot.trials) == len(old["trials"]) == 12
    assert pilot.target == passing(old["target"])
    assert pilot.trials[3].wall_seconds == old["trials"][3]["seconds"]
    law = pilot.fit()
    here = pilot.trials[0].setting
    rounds = [t.rounds_to(pilot.target) for t in pilot.trials if t.setting == here]
    found, _, _ = law.predict(np.array(here.cohort), np.array(here.local_steps), here.loss_rate)
    assert float(found) == pytest.approx(np.mean(rounds), rel=0.1)
    pilot.save(tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text())["format"] == 3
    again = load_pilot(tmp_path / "new.json")
    assert again.trials == pilot.trials


class Mean:
    """A custom learner: every client pulls towards its own number."""

    def __init__(self, count, steps, seed):
        rng = np.random.default_rng(seed)
        self.sizes = np.full(count, 60)
        self.homes, self.steps = rng.normal(size=count), steps

    def start(self):
        return np.full(1, 5.0, np.float32)

    def train(self, model, clients, round):  # noqa: ARG002
        for client in clients:
            pull = 1 - 0.98**self.steps
            yield (model + pull * (self.homes[client] - model)).astype(np.float32)

    def evaluate(self, model):
        return Scores(float((model[0] - self.homes.mean()) ** 2))


@pytest.mark.parametrize("learning", [None, {"dataset": "digits"}])
def test_a_plan_uses_the_data_sizes_of_a_custom_learner(tmp_path, learning):
    """Whether or not the scenario also says what ours would train."""
    task = {"model_bits": 1e5, "cycles_per_sample": 1e5, "samples_per_step": "dataset"}
    scenario = Scenario(plan=RoundPlan(cohort=5, local_steps=10, rounds=200)).using(
        clients={"count": 20, "spread": 0.0}, task=task, learning=learning
    )
    make = lambda world, seed: Mean(20, world.plan.local_steps, seed)
    path = tmp_path / "mine.json"
    pilot = run_pilot(scenario, 2.0, path, target=0.5, compute=Compute(learner=make))
    assert pilot.sizes == (60.0,) * 20
    again = load_pilot(path)
    assert again.sizes == pilot.sizes
    for kept in (pilot, path):
        plan = plan_training(scenario, kept, region=Region(policy="even"))
        assert plan.grid is not None
        assert plan.grid.scenario.clients.sizes.values.tolist() == [60.0] * 20
    resumed = run_pilot(scenario, 2.0, path, target=0.5, compute=Compute(learner=make))
    assert {*again.trials} <= {*resumed.trials}  # with time left it may go on


def test_a_file_of_another_pilot_is_not_resumed(fedcell, piloted):
    other = {**WORLD, "learning": WORLD["learning"] | {"rate": 0.03}}
    (piloted.parent / "other.json").write_text(json.dumps(other))
    said = fedcell("pilot", "other.json", "--out", piloted)
    assert said.code == 2
    sentence = "holds a pilot with other settings (learning.rate): choose another --out"
    assert sentence in said.err


def test_a_scenario_that_learns_nothing_has_no_pilot(fedcell, piloted):
    said = fedcell("plan", "paper", "--pilot", piloted)
    assert said.code == 2
    assert (
        "this scenario trains nothing (no [learning] table): a pilot cannot belong to it"
        in said.err
    )


def test_a_plan_may_change_the_radio_and_not_the_learning(fedcell, piloted, world):
    def plan_of(**changes):
        tables = {name: dict(table) for name, table in WORLD.items()}
        for name, values in changes.items():
            tables[name] = tables.get(name, {}) | values
        (world.parent / "other.json").write_text(json.dumps(tables))
        return fedcell("plan", "other.json", "--pilot", piloted, "--json")

    base = strict(plan_of())
    slow = strict(plan_of(cell={"bandwidth": 1e4}))
    assert slow["duration"]["value"] > base["duration"]["value"]
    lossy = plan_of(cell={"loss_rate": 0.3})
    assert lossy.code == 2
    assert "the pilot tried cell.loss_rate 0.1, and this scenario has 0.3: run" in lossy.err
    other = strict(plan_of(plan={"cohort": 2, "local_steps": 9}))
    assert (other["cohort"], other["cost"]) == (base["cohort"], base["cost"])
    for changes, named in (
        ({"learning": {"rate": 0.03}}, "learning.rate"),
        ({"clients": {"count": 13}}, "clients.count"),
        ({"task": {"batch_size": 7}}, "task.batch_size"),
        ({"plan": {"selection": "weighted"}}, "plan.selection"),
    ):
        said = plan_of(**changes)
        assert said.code == 2
        assert (
            f"this pilot was run with other settings ({named}): run `fedcell pilot` for this"
            in said.err
        )


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d.pop("format"), "is not a pilot that fedcell wrote: run `fedcell pilot`"),
        (lambda d: d.update(format=99), "is a pilot of a newer fedcell (0.3.0, format 99"),
        (lambda d: d.update(trials=3), "trials = 3: expected a list of tables"),
        (lambda d: d["trials"][0].pop("losses"), "trials[0].losses is missing"),
        (lambda d: d["trials"][0].update(cohort=0), "trials[0].cohort = 0: expected a whole"),
        (lambda d: d["trials"][0].update(cohort=True), "trials[0].cohort = True: expected"),
        (lambda d: d["trials"][0].update(cohort="5"), "trials[0].cohort = '5': expected a whole"),
        (lambda d: d["trials"][0].update(local_steps=1.7), "trials[0].local_steps = 1.7: expec"),
        (lambda d: d["trials"][0].update(loss_rate="much"), "trials[0].loss_rate = 'much': ex"),
        (lambda d: d["trials"][0].update(losses=[]), "trials[0].losses = []: expected a list"),
        (lambda d: d["trials"][0].update(wall_seconds=-1e9), "trials[0].wall_seconds = -1"),
        (lambda d: d["trials"].insert(0, None), "trials[0] = None: expected a table"),
        (lambda d: d.update(kind="odd"), "kind = 'odd': expected \"independent\" or"),
        (lambda d: d.update(target=-1), "target = -1: expected a table"),
        (lambda d: d["target"].update(loss=-1), "target.loss = -1: expected a number above 0"),
        (
            lambda d: d["target"].update(accuracy=0.5),
            "target.loss = 0.4 and accuracy = 0.5: expected one",
        ),
        (lambda d: d["target"].update(hold=0), "target.hold = 0: expected a whole number"),
        (lambda d: d.update(seconds=-1), "seconds = -1: expected a number from 0"),
        (lambda d: d["trials"][0].update(accuracies=[2.0]), "trials[0].accuracies"),
        (lambda d: d.update(seed=math.inf), "seed = inf: expected a whole number from 0"),
        (lambda d: d["trials"][0].update(cohort=10**8), "trials[0].cohort = 100000000: expected"),
        (lambda d: d["trials"][0].update(seed=2**70), "trials[0].seed = 1180591620717411303424"),
        (lambda d: d.update(what="validation"), "holds a validation, not a pilot"),
    ],
)
def test_damaged_pilots_are_refused(fedcell, piloted, damage, said):
    content = json.loads(piloted.read_text())
    damage(content)
    piloted.write_text(json.dumps(content))
    before = piloted.read_bytes()
    for words in (
        ["plan", "world.json", "--pilot", piloted],
        ["pilot", "world.json", "--out", piloted],
    ):
        answer = fedcell(*words)
        assert answer.code == 2
        assert f"fedcell: {piloted}: {said}" in answer.err
    assert piloted.read_bytes() == before


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


# Judging a pilot.


def test_predictions_beside_what_was_measured():
    law = fit_law(observed(FLOOR, seeds=6, seed_sd=0.1, run_sd=0.1))
    g = float(law.predict(np.array(10), np.array(10), 0.0)[0])
    here, there = Setting(10, 10, 0.0), Setting(20, 10, 0.0)
    runs = [trial([1.0] * (int(g) - 1) + [0.05], here, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9 + [0.05], there, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9, there, seed=9)]
    first, second = check_law(law, runs, passing(0.1))
    assert first.measured == int(g)
    assert first.error == pytest.approx(g / int(g) - 1)
    assert first.inside
    assert not replace(first, measured=first.predicted.high * 1.01).inside
    assert not replace(first, measured=first.predicted.low * 0.99).inside
    assert second.missed == 1
    found = Validation(name="here", checks=(first, second))
    assert (found.to_dict()["settings"], found.to_dict()["reached"]) == (2, 1)
    assert (found.coverage, found.median_error) == (1.0, abs(first.error))
    words = "1 of 5 runs did not reach the loss with 20 clients a round, 10 steps each"
    assert found.failures == [words]
    off = replace(first, measured=first.predicted.value / 1.4)
    assert off.failure == "the law is +40% off with 10 clients a round, 10 steps each"
    near = replace(first, measured=first.predicted.value / 1.2)
    assert near.failure is None


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_exponent_of_the_target(power):
    losses = (100 / np.arange(1, 2000)) ** (1 / power)
    found = target_exponent([trial(losses, target=0.5)], passing(0.2))
    assert found == pytest.approx(-power, rel=0.1)


def test_a_pilot_is_judged_by_runs_that_it_has_not_seen(fedcell, piloted):
    words = ["world.json", "--pilot", piloted, "--budget", "200ms"]
    figure = piloted.parent / "v.png"
    said = strict(fedcell("validate", *words, "--figure", figure, "--json"))
    seen = {t.setting for t in load_pilot(piloted).trials}
    seeds = {t.seed for t in load_pilot(piloted).trials}
    judged = load_pilot(piloted.parent / "validation-world.json", "validation").trials
    assert not seen & {t.setting for t in judged}
    assert not seeds & {t.seed for t in judged}
    assert 1 <= said["settings"] <= 4
    assert said["settings"] == len(said["rows"])
    assert figure.stat().st_size > 10_000
    words = fedcell("validate", *words)
    assert "rounds at settings that the pilot has not seen" in words.out
    assert "median error" in words.out
    assert "did not reach" not in words.out  # what the budget cut says nothing of the law


# Running a plan.


@pytest.mark.filterwarnings("default")
def test_a_plan_is_run_and_compared_with_what_it_said(fedcell, piloted):
    plan = piloted.parent / "plan.json"
    words = ["plan", "world.json", "--pilot", piloted, "--policy", "distributed", "--out", plan]
    assert fedcell(*words).code == 0
    planned = json.loads(plan.read_text())
    said = strict(fedcell("run", "--plan", plan, "--out", "run", "--json"))
    assert said["cohort"] == planned["cohort"]
    assert said["local_steps"] == planned["local_steps"]
    assert said["policies"][0]["policy"] == "distributed"  # the plan's own first
    beside = {row["policy"]: row for row in said["plan"]}
    assert len(beside) == 5
    for row, actual in zip(said["plan"], said["policies"], strict=True):
        assert row["rounds"]["taken"] == actual["to_target"]["rounds"]
        assert row["energy"]["taken"] == actual["to_target"]["energy"]
        low, high = row["duration"]["low"], row["duration"]["high"]
        assert row["duration"]["inside"] == (low <= row["duration"]["taken"] <= high)
    assert beside["distributed"]["cost"]["value"] == planned["cost"]["value"]
    words = fedcell("run", "world.json", "--plan", plan, "--out", "again")
    assert "The plan's predictions against this run" in words.out
    other = fedcell("run", "--plan", plan, "--out", "other", "--target-loss", 0.9)
    assert "this is not what was planned (another target)" in other.err
    changed = {**WORLD, "cell": WORLD["cell"] | {"bandwidth": 1e6}}
    (piloted.parent / "changed.json").write_text(json.dumps(changed))
    other = fedcell("run", "changed.json", "--plan", plan, "--out", "changed")
    assert (
        "this is not what was planned (cell.bandwidth): predictions are not compared" in other.err
    )
    assert "The plan's predictions" not in other.out
    few = fedcell("run", "--plan", plan, "--out", "few", "--rounds", 1)
    assert "the target was not reached: there is nothing to compare the plan with" in few.out


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d.clear(), "is not a plan that fedcell wrote: plan again with `fedcell plan`"),
        (lambda d: d.update(format=1), "is a plan of an older fedcell (0.3.0, format 1; this one"),
        (lambda d: d.update(cohort=0), "cohort = 0: expected a whole number from 1"),
        (lambda d: d["rounds"].update(high=None), "rounds.high = None: expected a number above"),
        (lambda d: d["rounds"].update(low=-1), "rounds.low = -1: expected a number above 0"),
        (
            lambda d: d["rounds"].update(low=1e9, high=2e9),
            "is not between low = 1e+09 and high = 2e+09; plan again",
        ),
        (lambda d: d.update(cohort=math.inf), "cohort = inf: expected a whole"),
        (lambda d: d.update(policies=3), "policies = 3: expected a list of tables"),
        (lambda d: d["law"].update(drift=True), "drift = True: expected a number from 0"),
        (lambda d: d["scenario"]["cell"].update(noise=-1), "cell.noise = -1: expected a number"),
        (lambda d: d.update(scenario=None), "its scenario has measured gains: name its file"),
        (
            lambda d: (
                d.update(cohort=10**6),
                d["cohort_interval"].update(value=10**6, high=10**6),
            ),
            "plan.cohort = 1000000 is more than the 12",
        ),
        (
            lambda d: d["cohort_interval"].update(value=10**6),
            "cohort_interval.value = 1e+06 is not between low =",
        ),
        (
            lambda d: d["local_steps_interval"].update(value=1, low=1),
            "is not local_steps_interval.value = 1; plan again",
        ),
        (
            lambda d: (d.update(policy="evil:p"), d["policies"][0].update(policy="evil:p")),
            "which is not built-in: give --policy evil:p if",
        ),
        (lambda d: d.update(policy="evil:p"), "policies: evil:p is not among them; plan again"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_damaged_plans_are_refused(fedcell, piloted, damage, said):
    plan = piloted.parent / "plan.json"
    assert fedcell("plan", "world.json", "--pilot", piloted, "--out", plan).code == 0
    content = json.loads(plan.read_text())
    del content["checksum"]
    damage(content)
    plan.write_text(json.dumps(content))
    answer = fedcell("run", "--plan", plan, "--out", "run")
    assert answer.code == 2
    assert said in answer.err
    assert not (piloted.parent / "run").exists()


def test_a_plan_of_listed_clients_is_run(fedcell, piloted):
    """Real fleets travel with their plan."""
    rows = [{"kappa": 1e-27 * (1 + i), "distance": 50.0 + i} for i in range(12)]
    listed = {**WORLD, "clients": {"samples": 40, "spread": 0.0, "table": rows}}
    (piloted.parent / "listed.json").write_text(json.dumps(listed))
    plan = fedcell("plan", "listed.json", "--pilot", piloted, "--out", "plan.json")
    assert plan.code == 0, plan.err
    said = strict(fedcell("run", "--plan", "plan.json", "--out", "run", "--json"))
    assert len(said["plan"]) == 5


def test_a_plan_never_takes_the_place_of_its_pilot(fedcell, piloted):
    before = piloted.read_bytes()
    for words in (
        ["plan", "world.json", "--pilot", piloted, "--out", piloted],
        ["validate", "world.json", "--pilot", piloted, "--budget", "1ms", "--out", piloted],
    ):
        assert fedcell(*words).code == 2
    assert piloted.read_bytes() == before


def test_a_plan_is_one_of_the_settings_that_were_tried(fedcell, piloted):
    """Never beyond, and within what is asked for."""
    pilot = load_pilot(piloted)
    reached = {(s.cohort, s.local_steps) for s in pilot.reached(pilot.target)}
    for words in ([], ["--minimise", "energy"], ["--minimise", "duration"], ["--policy", "even"]):
        said = strict(fedcell("plan", "world.json", "--pilot", piloted, "--json", *words))
        assert (said["cohort"], said["local_steps"]) in reached
    few = max(k for k, _ in reached)
    said = strict(fedcell("plan", "world.json", "--pilot", piloted, "--clients", few, "--json"))
    assert said["cohort"] == few
    far = fedcell("plan", "world.json", "--pilot", piloted, "--steps", "400..500")
    assert far.code == 2
    assert "no setting within --clients and --steps reached the target" in far.err


def test_a_run_needs_a_scenario_or_a_plan(fedcell):
    answer = fedcell("run")
    assert answer.code == 2
    assert "which scenario? name a file, or one of: paper, cnn, digits, mnist" in answer.err


# Constants.


def test_the_constants_of_a_scenario(fedcell, world):
    figure = world.parent / "c.png"
    words = ["world.json", "--rounds", 12, "--every", 4, "--clients", 4, "--figure", figure]
    words += ["--target-loss", 0.2]
    said = strict(fedcell("constants", *words, "--json"))
    assert said["rounds"] == [0, 4, 8, 12]
    assert len(said["lambdas"]) == 4
    assert said["lambda"]["max"] == max(said["lambdas"]) >= said["lambda"]["p90"] >= 1
    symbols = [estimate["symbol"] for estimate in said["estimates"]]
    assert symbols == ["L", "mu", "lambda", "C_1", "sigma^2", "G^2", "phi_0", "f_0"]
    assert all(e["low"] <= e["value"] <= e["high"] for e in said["estimates"])
    least = quadratics_of(load_scenario(world)).least_loss
    by_hand = Constants(**said["constants"]).law(0.2 - least).rounds(4, 4, 0.1)
    assert said["theorem_1"]["corrected"] == pytest.approx(float(by_hand))
    assert said["rounds_taken"] is None
    assert figure.stat().st_size > 10_000
    words = fedcell("constants", "world.json", "--rounds", 3)
    assert "Theorem 1 with these constants" in words.out
    assert "lambda: " in words.out
    assert "measured: more than 3" in words.out


def test_constants_need_a_learning_table(fedcell):
    answer = fedcell("constants", "paper")
    assert answer.code == 2
    assert "the scenario has no [learning]" in answer.err


def test_the_identity_of_a_pilot_is_of_the_learning():
    scenario = load_scenario("digits")
    setup = prepare_training(scenario)
    mine = pilot_identity(setup.scenario, setup.fingerprint)
    radio = prepare_training(scenario.using(cell={"bandwidth": 1e6}, clients={"kappa": 1e-26}))
    assert pilot_identity(radio.scenario, radio.fingerprint) == mine
    for changes in (
        {"learning": {"rate": 0.2}},
        {"learning": {"momentum": 0.5}},
        {"clients": {"count": 49}},
        {"task": {"batch_size": 5}},
    ):
        other = prepare_training(scenario.using(**changes))
        assert pilot_identity(other.scenario, other.fingerprint) != mine, changes
    assert pilot_identity(setup.scenario, "other data") != mine


def test_a_scenario_that_learns_nothing_has_no_trials():
    runner = PilotRunner(scenario=Scenario(), target=passing(0.4))
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        runner.run(TrialJob(HERE, 1, 5))
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        run_pilot(Scenario(), budget=1.0, target=0.4)


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


def test_a_trial_that_cannot_reach_the_target_is_stopped(world):
    runner = PilotRunner(scenario=load_scenario(world), target=Target(loss=0.05))
    run = runner.run(TrialJob(Setting(1, 16, 0.1), 5, 400))
    assert run.rounds_to(runner.target) is None
    assert 120 <= len(run.losses) < 400
    assert run.least_rounds(runner.target) > 400
    hurried = runner.run(TrialJob(Setting(1, 16, 0.1), 5, 400, deadline=0.0))
    assert hurried.losses == run.losses[:1]


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


def test_validation_judges_untried_settings_or_else_other_seeds():
    reached = [Setting(k, e, 0.0) for k in (1, 4, 16) for e in (1, 4, 16)]
    between = {Setting(k, e, 0.0) for k in (2, 8) for e in (2, 8)}
    assert set(validation_settings(reached, reached)) == between
    one = Setting(2, 8, 0.0)
    assert set(validation_settings(reached, [*reached, one])) == between - {one}
    assert set(validation_settings(reached, [*reached, *between])) == between
    assert validation_settings([one], [one]) == [one]


def test_laws_of_a_pilot_follow_from_its_own_runs(piloted):
    """Another pilot that is made of it does not keep what was fitted to other runs."""
    pilot = load_pilot(piloted)
    fields_before = dict(vars(load_pilot(piloted)))
    law = pilot.fit()
    assert {name: getattr(pilot, name) for name in fields_before} == fields_before
    some = replace(pilot, trials=pilot.trials[: len(pilot.trials) // 2])
    fresh = replace(load_pilot(piloted), trials=some.trials)
    own, other, whole = ([*each.coefficients] for each in (some.fit(), fresh.fit(), law))
    assert own == other != whole
    assert pilot.fit() is law


# Curves that were judged on a part of the samples.


def sampled_trial(error, target=0.5, hold=1):
    """A run to a target, thinly sampled before it."""
    losses = np.linspace(2.0, 0.5, 31)
    errors = np.where(losses > 0.6, error, 0.0)
    return Trial(
        setting=HERE,
        seed=0,
        losses=tuple(losses.tolist()),
        target=Target(loss=target, hold=hold),
        wall_seconds=1.0,
        errors=tuple(errors.tolist()),
        samples=(128,) * 31,
    )


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


def test_a_pilot_file_keeps_how_sure_each_round_is(tmp_path):
    pilot = Pilot(
        identity={},
        target=passing(0.5),
        seed=0,
        kind="independent",
        trials=(sampled_trial(0.1), trial([1.0, 0.4], seed=1)),
    )
    save_pilot(tmp_path / "p.json", pilot)
    thin, exact = load_pilot(tmp_path / "p.json").trials
    assert thin.errors == pytest.approx(pilot.trials[0].errors)
    assert thin.samples == (128,) * 31
    assert exact.errors == exact.samples == ()
    content = json.loads((tmp_path / "p.json").read_text())
    content["trials"][0]["errors"].pop()
    (tmp_path / "p.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match="errors are not as many as losses"):
        load_pilot(tmp_path / "p.json")


def test_a_failed_pilot_says_what_came_nearest_and_how_long_it_would_take():
    goal = passing(0.5)
    losses = tuple((2.3 * np.arange(1, 61) ** -0.3).tolist())
    run = Trial(setting=HERE, seed=0, losses=losses, target=goal, wall_seconds=6.0)
    pilot = Pilot(identity={}, target=goal, seed=0, kind="independent", trials=(run,))
    words = r"the nearest was 0\.6734 \(4 clients a round, 4 steps each, after 60 rounds; by its "
    with pytest.raises(NotReached, match=rf"{words}curve it takes about 162, which run in 16"):
        pilot.fit()
