"""Pilots, their files, what is planned from them, and running the plan."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import BadInput, Clients, Diverged, RoundPlan, Scenario, load_scenario, plan_training
from fedcell.cli.pilot import pilot_command
from fedcell.experiments.engines import Inline
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.learning.learner import Scores
from fedcell.learning.setup import prepare_training
from fedcell.planning.choose import choose_plan
from fedcell.planning.design import Setting, pilot_settings, trial_seeds, validation_settings
from fedcell.planning.fit import fit_law
from fedcell.planning.fitted import FORMS
from fedcell.planning.grid import evaluate_plans
from fedcell.planning.law import GivenLaw, features
from fedcell.planning.pilot import Pilot
from fedcell.planning.pilotfile import load_pilot, save_pilot
from fedcell.planning.piloting import run_pilot
from fedcell.planning.theory import Constants
from fedcell.planning.trials import Ask, PilotRunner, Trial, observe, run_trials
from fedcell.planning.validate import Validation, check_law, target_exponent
from fedcell.scenario.identity import pilot_identity
from support.laws import FLOOR, observed
from support.training import quadratics_of

OLD_PILOT = Path(__file__).parents[1] / "support" / "data" / "pilot-of-0.1.json"
WORLD: dict[str, dict[str, Any]] = {
    "cell": {"loss_rate": 0.1, "broadcast_time": 1.0},
    "clients": {"count": 12, "samples": 40, "spread": 0.0},
    "plan": {"cohort": 4, "local_steps": 4, "rounds": 300},
    "learning": {
        "model": "quadratic-apart",
        "quadratic": {"dimension": 5, "noise": 0.3, "distance": 0.5},
        "rate": 0.02,
        "target": 0.4,
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
    pilot_command(str(folder / "world.json"), budget="1ms", **files)
    return (folder / "pilot.json").read_bytes()


@pytest.fixture
def piloted(world, first_pilot):
    """A scenario with a pilot beside it."""
    (world.parent / "pilot.json").write_bytes(first_pilot)
    return world.parent / "pilot.json"


def strict(said):
    assert said.code == 0, said.err
    return json.loads(said.out, parse_constant=lambda what: pytest.fail(f"{what} in JSON"))


# The design.


@given(
    st.integers(1, 300), st.integers(1, 300), st.integers(1, 200), st.floats(0, 0.9), st.booleans()
)
def test_a_design_stays_within_what_there_is(count, cohort, steps, gamma, epochs):
    plan = RoundPlan(
        cohort=min(count, cohort), local_steps=steps, local_epochs=2 if epochs else None
    )
    scenario = Scenario(clients=Clients(count=count), plan=plan).using(cell={"loss_rate": gamma})
    settings = pilot_settings(scenario)
    assert len(set(settings)) == len(settings)
    assert all(1 <= s.cohort <= count and s.local_steps >= 1 for s in settings)
    assert {s.loss_rate for s in settings} == {gamma, 0.4 if gamma < 0.2 else 0.0}
    assert len({s.local_steps for s in settings}) == 3
    assert not set(validation_settings(settings)) & set(settings)


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_a_design_tells_the_coefficients_apart(name):
    settings = pilot_settings(load_scenario(name))
    k, e, g = (np.array(column) for column in zip(*map(_tuple, settings), strict=True))
    x = features(k, e, g, "independent")
    assert np.linalg.matrix_rank(x) == 5
    relative = x / (x @ FLOOR.coefficients)[:, None]  # as it is fitted
    scaled = relative / np.linalg.norm(relative, axis=0)
    assert np.linalg.cond(scaled[:, [0, 1, 2, 4]]) < 30


def _tuple(s):
    return s.cohort, s.local_steps, s.loss_rate


def test_local_epochs_are_planned_as_steps():
    scenario = Scenario.using(Scenario(), plan={"local_epochs": 2}, task={"batch_size": 10})
    sized = scenario.using(clients={"sizes": np.full(100, 25.0)})
    assert sized.mean_local_steps == 6  # two passes of three batches
    assert 6 in {s.local_steps for s in pilot_settings(sized)}


def test_clients_that_are_never_called_are_not_planned_with():
    sizes = np.r_[np.full(4, 100.0), np.full(8, 3.0)]
    clients = {"count": 12, "sizes": sizes, "min_samples": 10}
    scenario = Scenario(plan=RoundPlan(cohort=4)).using(clients=clients)
    assert max(s.cohort for s in pilot_settings(scenario)) == 4
    law = GivenLaw(mixing=300.0, drift=0.1, start=10.0)
    assert choose_plan(evaluate_plans(scenario, law, "even", 6)).cohort.value <= 4
    with pytest.raises(BadInput, match=r"no client has clients\.min_samples"):
        evaluate_plans(scenario.using(clients={"min_samples": 1e6}), law, "even", 6)


def test_trials_never_use_the_seed_of_the_run_that_they_predict():
    pilot, judges = trial_seeds(7), trial_seeds(7, validation=True)
    assert len({7, *pilot, *judges}) == 1 + len(pilot) + len(judges)


# Trials.


HERE = Setting(4, 4, 0.1)


def trial(losses, setting=HERE, seed=0, target=0.1, **more):
    return Trial(
        setting=setting, seed=seed, losses=tuple(losses), target=target, wall_seconds=1.0, **more
    )


def test_what_a_trial_says_of_a_target():
    run = trial([3.0, math.nan, 1.0, 1.5, 0.1])
    assert [run.rounds_to(x) for x in (3.0, 1.2, 0.5, 0.05)] == [1, 3, 5, None]
    assert run.answers_for(0.5)
    assert not run.answers_for(0.05)  # it was stopped before it could say
    ended = trial([3.0, 2.0], target=0.05)
    assert ended.answers_for(0.05)
    assert not ended.answers_for(0.05, rounds=3)  # it may go on
    assert trial([3.0, math.inf]).answers_for(0.05, rounds=3)
    assert trial([3.0, math.inf]).diverged
    seen = observe([run, trial([3.0, 2.0]), trial([math.inf])], 0.5, "independent")
    assert seen.rounds.tolist() == [5, 2]
    assert seen.censored.tolist() == [False, True]
    with pytest.raises(Diverged, match=r"every run diverged: lower learning\.rate"):
        observe([trial([math.inf])], 0.5, "independent")


def test_trials_go_seed_by_seed_until_the_budget_is_used_up():
    class Fake(PilotRunner):
        def run(self, setting, seed, measure_diversity=False):
            ran.append((setting, seed, measure_diversity))
            return trial([0.1], setting, seed)

    settings = [Setting(k, 4, 0.0) for k in (1, 2, 3)]
    for budget, expected in ((0.5, 6), (6.0, 6), (8.0, 8), (9.0, 9)):
        ran = []
        fake = Fake(scenario=Scenario(), target=0.1, rounds=5)
        found = list(run_trials(fake, settings, [11, 12, 13, 14], budget, measured=settings[1]))
        assert len(found) == expected, budget
        assert [seed for _, seed, _ in ran[:4]] == [11, 11, 11, 12]
        assert [measured for *_, measured in ran].count(True) == 1
        again = list(run_trials(fake, settings, [11, 12, 13, 14], budget, found))
        assert again == []
    more = list(run_trials(fake, settings, [11, 12, 13, 14], 12.0, found))
    assert [t.seed for t in more] == [14] * 3
    lower = replace_target(fake, 0.01)
    redone = list(run_trials(lower, settings, [11, 12, 13, 14], 0.5, found))
    assert len(redone) == 6


def replace_target(runner, target):
    runner.target = target
    return runner


def test_a_trial_is_the_run_that_fedcell_run_would_make(fedcell, world):
    runner = PilotRunner(scenario=load_scenario(world), target=0.4, rounds=300)
    run = runner.run(Setting(4, 4, 0.1), seed=5, measure_diversity=True)
    said = strict(fedcell("run", world, "--seed", 5, "--policy", "even", "--json"))
    assert said["policies"][0]["rounds"] == len(run.losses) == run.rounds_to(0.4)
    assert said["policies"][0]["train_loss"] == run.losses[-1]
    assert [t for t, _ in run.diversity][:3] == [0, 1, 2]
    assert all(x >= 1 for _, x in run.diversity)


def test_a_training_that_diverges_is_seen_and_left_out():
    wild = {"learning": WORLD["learning"] | {"rate": 5.0, "rate_decay": 0.0}}
    scenario = load_scenario("paper").using(**WORLD).using(**wild)
    runner = PilotRunner(scenario=scenario, target=0.4, rounds=2000)
    run = runner.run(Setting(12, 16, 0.0), seed=1)
    assert run.diverged
    assert run.rounds_to(0.4) is None
    (check,) = check_law(fit_law(observed(FLOOR), "floor"), [run], 0.4)
    assert [check.failure] == ["training diverges in 1 of 1 runs at K = 12, E_l = 16, gamma = 0"]


def test_overflow_is_divergence_even_if_the_model_stays():
    wild = {"learning": WORLD["learning"] | {"rate": 50.0}}
    scenario = load_scenario("paper").using(**WORLD).using(**wild)
    run = PilotRunner(scenario=scenario, target=0.4, rounds=40).run(Setting(12, 40, 0.0), seed=1)
    assert run.diverged  # its uploads are not finite, so they are left out and the loss stays


def test_a_pilot_looks_after_every_round(world):
    rare = load_scenario(world).using(learning={"evaluate_every": 10})
    often = load_scenario(world)
    a, b = (PilotRunner(scenario=s, target=0.4, rounds=300).run(HERE, 5) for s in (rare, often))
    assert a.losses == b.losses


# The command and its file.


def test_a_pilot_says_what_it_found(fedcell, world):
    said = strict(fedcell("pilot", "world.json", "--budget", "500ms", "--json"))
    assert set(said["coefficients"]) == set(FORMS[said["form"]])
    errors = said["left_out_errors"]
    better = min(("floor", "dropped"), key=lambda form: errors[form])
    assert said["form"] == (better if 1.1 * errors[better] < errors["paper"] else "paper")
    for part in said["coefficients"].values():
        assert part["low"] <= part["value"] <= part["high"]
    assert any(part["low"] < part["high"] for part in said["coefficients"].values())
    assert said["seeds"] >= 2
    assert said["settings"] == 6 == len(said["settings_table"])
    assert said["runs"] >= 12
    assert said["diversity"][0][0] == 0
    assert -3 < said["target_exponent"] < 0
    found = load_pilot(world.parent / "pilot-world.json")
    assert len(found.trials) == said["runs"]
    assert len(found.laws) == 2
    words = fedcell("pilot", "world.json", "--budget", "1ms")
    assert words.code == 0
    assert "Rounds to the target" in words.out
    assert "next: fedcell plan world.json --pilot pilot-world.json" in words.out


def test_a_pilot_goes_on_where_it_stopped(fedcell, world, monkeypatch):
    whole = PilotRunner.run
    assert fedcell("pilot", "world.json", "--budget", "1ms", "--out", "straight.json").code == 0
    ran = []

    def cut(self, setting, seed, measure_diversity=False):
        if len(ran) == 4:
            ran.clear()
            raise KeyboardInterrupt
        ran.append(setting)
        return whole(self, setting, seed, measure_diversity)

    monkeypatch.setattr(PilotRunner, "run", cut)
    asked = ("pilot", "world.json", "--budget", "1ms", "--out", "cut.json", "--store", "other")
    said = fedcell(*asked)
    assert said.code == 130
    assert "interrupted; to go on, give the same command again" in said.err
    assert len(load_pilot(world.parent / "cut.json").trials) == 4
    monkeypatch.setattr(PilotRunner, "run", whole)
    assert fedcell(*asked).code == 0
    straight, cut_up = (load_pilot(world.parent / f"{n}.json") for n in ("straight", "cut"))
    assert [(t.setting, t.seed, t.losses) for t in straight.trials] == [
        (t.setting, t.seed, t.losses) for t in cut_up.trials
    ]
    assert straight.laws[0].law == cut_up.laws[0].law


def test_a_pilot_of_short_runs_is_gone_on_with_by_longer_ones(fedcell, world):
    short = fedcell("pilot", "world.json", "--budget", "1ms", "--rounds", 1)
    assert short.code == 2
    assert "no run reached the loss 0.4, the lowest was 0.6125: take a higher" in short.err
    assert fedcell("pilot", "world.json", "--budget", "1ms").code == 0
    assert min(len(t.losses) for t in load_pilot(world.parent / "pilot-world.json").trials) > 1


def test_other_losses_are_another_pilot(fedcell, piloted):
    worst = {**WORLD, "cell": WORLD["cell"] | {"loss_kind": "worst-case"}}
    (piloted.parent / "worst.json").write_text(json.dumps(worst))
    said = fedcell("pilot", "worst.json", "--out", "pilot.json")
    assert said.code == 2
    assert "is of cell.loss_kind independent, not worst-case: choose another --out" in said.err


def test_another_target_is_fitted_from_the_same_curves(fedcell, piloted):
    pilot = load_pilot(piloted)
    looser = pilot.fit(0.8)
    assert float(looser.predict(4, 4, 0.1)[0]) < float(pilot.fit().predict(4, 4, 0.1)[0])
    with pytest.raises(BadInput, match=r"runs of the pilot stopped at the loss 0\.4: run it with"):
        pilot.fit(0.001)
    with pytest.raises(BadInput, match="`target` = nan: expected a finite number above 0"):
        pilot.fit(math.nan)
    plan = strict(fedcell("plan", "world.json", "--pilot", piloted, "--json"))
    early = strict(
        fedcell("plan", "world.json", "--pilot", piloted, "--target-loss", 0.8, "--json")
    )
    assert early["target"] == 0.8
    assert early["rounds"]["value"] < plan["rounds"]["value"]


def test_a_file_keeps_what_it_is_given(tmp_path):
    lost = (0, 3.0), (1, 2.5)
    runs = tuple(
        trial([2.0, math.nan, 0.1 + i], seed=i, diversity=lost, target=0.3) for i in range(3)
    )
    pilot = Pilot(
        identity={"scenario": {}, "data": None},
        target=0.2,
        seed=4,
        kind="worst-case",
        trials=(*runs, trial([1.0, math.inf], seed=9)),
        laws=(fit_law(observed(FLOOR, seeds=3, run_sd=0.1), "floor"),),
    )
    save_pilot(tmp_path / "p.json", pilot)
    again = load_pilot(tmp_path / "p.json")
    assert repr(again.trials) == repr(pilot.trials)  # NaN included
    assert (again.target, again.seed, again.kind) == (0.2, 4, "worst-case")
    assert again.laws[0].law == pilot.laws[0].law
    assert again.laws[0].bootstrap == pytest.approx(pilot.laws[0].bootstrap, rel=1e-5, abs=1e-9)
    assert again.diverged == [Setting(4, 4, 0.1)]
    newer = again.with_trial(trial([5.0], seed=1))
    assert len(newer.trials) == 4
    assert newer.laws == ()


def test_a_pilot_of_fedcell_0_1_is_read_and_fitted_again(tmp_path):
    """Its runs took time; laws are fitted anew. The file is one that 0.1 wrote."""
    old = json.loads(OLD_PILOT.read_text())
    assert old["format"] == 1
    pilot = load_pilot(OLD_PILOT)
    assert len(pilot.trials) == len(old["trials"]) == 12
    assert pilot.laws == ()
    assert pilot.trials[3].wall_seconds == old["trials"][3]["seconds"]
    law = pilot.fit()
    then = old["laws"][0]
    assert law.form == then["form"]
    assert law.law.mixing == pytest.approx(then["bound"]["mixing"], rel=1e-6)
    assert law.seed_sd == pytest.approx(then["luck"], rel=1e-6)
    pilot.fitted().save(tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text())["format"] == 2
    again = load_pilot(tmp_path / "new.json")
    assert again.trials == pilot.trials
    assert again.fit().law == law.law


class Mean:
    """A learner of one's own: every client pulls towards its own number."""

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
def test_a_pilot_of_ones_own_learner_is_planned_with_its_own_data_sizes(tmp_path, learning):
    """Whether or not the scenario also says what ours would train."""
    task = {"model_bits": 1e5, "cycles_per_sample": 1e5, "samples_per_step": "dataset"}
    scenario = Scenario(plan=RoundPlan(cohort=5, local_steps=10, rounds=200)).using(
        clients={"count": 20, "spread": 0.0}, task=task, learning=learning
    )
    make = lambda world, seed: Mean(20, world.plan.local_steps, seed)
    path = tmp_path / "mine.json"
    pilot = run_pilot(scenario, 0.001, path, target=0.5, learner=make)
    assert pilot.sizes == (60.0,) * 20
    again = load_pilot(path)
    assert again.sizes == pilot.sizes
    for kept in (pilot, path):
        plan = plan_training(scenario, kept, policy="even", max_steps=20)
        assert plan.grid is not None
        assert plan.grid.scenario.clients.sizes.values.tolist() == [60.0] * 20
    resumed = run_pilot(scenario, 0.001, path, target=0.5, learner=make)
    assert resumed.trials == again.trials


def test_a_file_of_another_pilot_is_not_gone_on_with(fedcell, piloted):
    other = {**WORLD, "learning": WORLD["learning"] | {"rate": 0.03}}
    (piloted.parent / "other.json").write_text(json.dumps(other))
    said = fedcell("pilot", "other.json", "--out", piloted)
    assert said.code == 2
    sentence = "holds a pilot with other settings (learning.rate): choose another --out"
    assert sentence in said.err


def test_a_scenario_that_learns_nothing_has_no_pilot(fedcell, piloted):
    said = fedcell("plan", "paper", "--pilot", piloted)
    assert said.code == 2
    assert "the scenario has no [learning], so no pilot is of it" in said.err


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
    lossy = strict(plan_of(cell={"loss_rate": 0.3}))
    law = load_pilot(piloted).fit().law
    k, e = lossy["cohort"]["value"], lossy["local_steps"]["value"]
    assert lossy["rounds"]["value"] == pytest.approx(float(law.rounds(k, e, 0.3)))
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
        (lambda d: d.update(format=99), "is a pilot of a newer fedcell (0.2.0, format 99"),
        (lambda d: d.update(trials=3), "trials = 3: expected a list of tables"),
        (lambda d: d["trials"][0].pop("losses"), "trials[0].losses is missing"),
        (lambda d: d["trials"][0].update(cohort=0), "trials[0].cohort = 0: expected a whole"),
        (lambda d: d["trials"][0].update(cohort=True), "trials[0].cohort = True: expected"),
        (lambda d: d["trials"][0].update(cohort="5"), "trials[0].cohort = '5': expected a whole"),
        (lambda d: d["trials"][0].update(local_steps=1.7), "trials[0].local_steps = 1.7: expec"),
        (lambda d: d["trials"][0].update(loss_rate="much"), "trials[0].loss_rate = 'much': ex"),
        (lambda d: d["trials"][0].update(losses=[]), "trials[0].losses = []: expected a list"),
        (lambda d: d["trials"][0].update(wall_seconds=-1e9), "trials[0].wall_seconds = -1"),
        (lambda d: d["trials"].append(None), "trials[12] = None: expected a table"),
        (lambda d: d.update(kind="odd"), "kind = 'odd': expected \"independent\" or"),
        (lambda d: d.update(target=-1), "target = -1: expected a number above 0"),
        (lambda d: d["laws"][0].update(form="odd"), "laws[0].form = 'odd': expected \"paper\" or"),
        (lambda d: d["laws"][0].update(run_sd=-1), "laws[0].run_sd = -1: expected a number from"),
        (lambda d: d["laws"][0]["law"].update(mixing=-1), "laws[0].law.mixing = -1: expected"),
        (lambda d: d["laws"][0].update(bootstrap=[[1, 2]]), "laws[0].bootstrap = [[1, 2]]: exp"),
        (lambda d: d["laws"][0].update(seed_sd=None), "laws[0].seed_sd = None: expected a number"),
        (lambda d: d["laws"][0].update(seed_sd=1e308), "laws[0].seed_sd = 1e+308: expected"),
        (lambda d: d["laws"][0].update(seeds=-1), "laws[0].seeds = -1: expected a whole number"),
        (lambda d: d.update(trials=[]), "laws: there are some, and no runs; run the pilot again"),
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
            ["world.json", "--target-loss", "1e-9", "--rounds", "2"],
            "no run reached the loss 1e-09, the lowest was",
        ),
        (["world.json", "--out", "p.txt"], "p.txt: the name must end in one of: json"),
        (["world.json", "--out", "no/p.json"], "no/p.json: cannot be written: there is no folder"),
        (["world.json", "--out", "pilot.json", "--seed", "3"], "pilot.json: is of --seed 0, not 3"),
        (["aimless.json"], "there is no loss to reach: set learning.target or --target-loss"),
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
    law = fit_law(observed(FLOOR, seeds=6, seed_sd=0.1, run_sd=0.1), "floor")
    g = float(law.predict(10, 10, 0.0)[0])
    here, there = Setting(10, 10, 0.0), Setting(20, 10, 0.0)
    runs = [trial([1.0] * (int(g) - 1) + [0.05], here, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9 + [0.05], there, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9, there, seed=9)]
    first, second = check_law(law, runs, 0.1)
    assert first.measured == int(g)
    assert first.error == pytest.approx(g / int(g) - 1)
    assert first.inside
    assert not replace(first, measured=first.predicted.high * 1.01).inside
    assert not replace(first, measured=first.predicted.low * 0.99).inside
    assert second.missed == 1
    found = Validation(name="here", checks=(first, second))
    assert (found.to_dict()["settings"], found.to_dict()["reached"]) == (2, 1)
    assert (found.coverage, found.median_error) == (1.0, abs(first.error))
    assert found.failures == ["1 of 5 runs did not reach the loss at K = 20, E_l = 10, gamma = 0"]
    off = replace(first, measured=first.predicted.value / 1.4)
    assert off.failure == "the law is +40% off at K = 10, E_l = 10, gamma = 0"
    near = replace(first, measured=first.predicted.value / 1.2)
    assert near.failure is None


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_exponent_of_the_target(power):
    losses = (100 / np.arange(1, 2000)) ** (1 / power)
    assert target_exponent([trial(losses, target=0.5)], 0.2) == pytest.approx(-power, rel=0.1)


def test_a_pilot_is_judged_by_runs_that_it_has_not_seen(fedcell, piloted):
    words = ["world.json", "--pilot", piloted, "--budget", "1ms"]
    figure = piloted.parent / "v.png"
    said = strict(fedcell("validate", *words, "--figure", figure, "--json"))
    seen = {t.setting for t in load_pilot(piloted).trials}
    seeds = {t.seed for t in load_pilot(piloted).trials}
    judged = load_pilot(piloted.parent / "validation-world.json", "validation").trials
    assert not seen & {t.setting for t in judged}
    assert not seeds & {t.seed for t in judged}
    assert said["settings"] == 5 == len(said["rows"])
    assert figure.stat().st_size > 10_000
    words = fedcell("validate", *words)
    assert "rounds at settings that the pilot has not seen" in words.out
    assert "median error" in words.out


# Running a plan.


@pytest.mark.filterwarnings("default")
def test_a_plan_is_run_and_compared_with_what_it_said(fedcell, piloted):
    plan = piloted.parent / "plan.json"
    words = ["plan", "world.json", "--pilot", piloted, "--policy", "distributed", "--out", plan]
    assert fedcell(*words).code == 0
    planned = json.loads(plan.read_text())
    said = strict(fedcell("run", "--plan", plan, "--out", "run", "--json"))
    assert said["cohort"] == planned["cohort"]["value"]
    assert said["local_steps"] == planned["local_steps"]["value"]
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
    assert "this is not what was planned (cell): predictions are not compared" in other.err
    assert "The plan's predictions" not in other.out
    few = fedcell("run", "--plan", plan, "--out", "few", "--rounds", 1)
    assert "the target was not reached: there is nothing to compare the plan with" in few.out


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d.clear(), "is not a plan that fedcell wrote: plan again with `fedcell plan`"),
        (lambda d: d.update(format=1), "is a plan of an older fedcell (0.2.0, format 1; this one"),
        (lambda d: d["cohort"].update(value=0), "cohort.value = 0: expected a whole number from 1"),
        (lambda d: d["rounds"].update(high=None), "rounds.high = None: expected a number above"),
        (lambda d: d["rounds"].update(low=-1), "rounds.low = -1: expected a number above 0"),
        (
            lambda d: d["rounds"].update(low=1e9, high=2e9),
            "is not between low = 1e+09 and high = 2e+09; plan again",
        ),
        (lambda d: d["cohort"].update(value=math.inf), "cohort.value = inf: expected a whole"),
        (lambda d: d.update(policies=3), "policies = 3: expected a list of tables"),
        (lambda d: d["law"].update(drift=True), "drift = True: expected a number from 0"),
        (lambda d: d["scenario"]["cell"].update(noise=-1), "cell.noise = -1: expected a number"),
        (lambda d: d.update(scenario=None), "its scenario has measured gains: name its file"),
        (
            lambda d: d["cohort"].update(value=10**6, high=10**6),
            "plan.cohort = 1000000 is more than the 12",
        ),
        (lambda d: d["cohort"].update(value=10**6), "cohort.value = 1e+06 is not between low = 4"),
        (
            lambda d: (d.update(policy="evil:p"), d["policies"][0].update(policy="evil:p")),
            "which is not one of ours: give --policy evil:p if",
        ),
        (lambda d: d.update(policy="evil:p"), "policies: evil:p is not among them; plan again"),
    ],
)
def test_damaged_plans_are_refused(fedcell, piloted, damage, said):
    plan = piloted.parent / "plan.json"
    assert fedcell("plan", "world.json", "--pilot", piloted, "--out", plan).code == 0
    content = json.loads(plan.read_text())
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


def test_a_plan_beyond_its_pilot_says_so(fedcell, piloted):
    lossy = {**WORLD, "cell": WORLD["cell"] | {"loss_rate": 0.8}}
    (piloted.parent / "lossy.json").write_text(json.dumps(lossy))
    said = fedcell("plan", "lossy.json", "--pilot", piloted)
    assert "note: the pilot tried gamma from 0.1 to 0.4, and 0.8 is beyond" in said.out
    tried = {trial.setting.local_steps for trial in load_pilot(piloted).trials}
    law = GivenLaw(mixing=1.0, drift=0.0, start=1e5)  # the more steps the better
    with_it = replace(load_pilot(piloted).laws[0], law=law, form="paper")
    pilot = replace(load_pilot(piloted), laws=(with_it, with_it))
    save_pilot(piloted, pilot)
    far = fedcell("plan", "world.json", "--pilot", piloted, "--max-steps", 4000)
    assert f"note: the pilot tried E_l from {min(tried)} to {max(tried)}, and " in far.out
    near = fedcell("plan", "world.json", "--pilot", piloted)
    assert f"note: E_l = {max(tried)} is the most that was tried: pilot again" in near.out
    assert "is beyond" not in near.out


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


def test_constants_of_nothing(fedcell):
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


def test_a_law_from_a_file_predicts_as_it_did(tmp_path):
    law = fit_law(observed(FLOOR, seeds=4, seed_sd=0.2, run_sd=0.1), "floor")
    pilot = Pilot(identity={}, target=0.2, seed=0, kind="independent", laws=(law,))
    save_pilot(tmp_path / "p.json", replace(pilot, trials=(trial([0.1]),)))
    again = load_pilot(str(tmp_path / "p.json")).fit()
    for mine, theirs in zip(law.predict(5, 10, 0.1), again.predict(5, 10, 0.1), strict=True):
        assert float(mine) == pytest.approx(float(theirs), rel=1e-4)
    assert again.law == law.law


def test_a_scenario_that_learns_nothing_has_no_trials():
    runner = PilotRunner(scenario=Scenario(), target=0.4, rounds=5)
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        runner.run(HERE, 1)
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        run_pilot(Scenario(), budget=0.001, target=0.4)


@pytest.mark.parametrize("workers", [None, 2])
def test_pilots_share_their_runs_with_sweeps_and_others(tmp_path, workers):
    """Runs are made by the sweeps' engines, kept in their store, and found there again."""
    scenario = load_scenario("digits").using(learning={"target": 1.6}, plan={"rounds": 6})
    store = Store(tmp_path / "store")
    first = run_pilot(scenario, budget=0.001, workers=workers, store=store)
    assert {trial.wall_seconds > 0 for trial in first.trials} == {True}
    again = run_pilot(scenario, budget=0.001, store=store).trials[: len(first.trials)]
    assert {trial.wall_seconds for trial in again} == {0.0}
    assert [(t.losses, t.diversity) for t in again] == [
        (t.losses, t.diversity) for t in first.trials
    ]
    assert first.trials[0].diversity
    here = first.trials[0]
    world = here.setting.apply_to(scenario)
    experiment = Experiment.sweep(world, {}, seeds=[here.seed], rounds=6)
    result = run_sweep(experiment, store, Inline())
    assert result.made == 0
    assert result.curves[0, here.seed].train_loss == here.losses


def test_wall_time_is_the_part_of_the_clock_where_runs_go_on_side_by_side(world):
    class Two(Inline):
        workers = 2

        def run(self, work, jobs):
            for job in jobs:
                yield job, replace(work(job), seconds=4.0)

    runner = PilotRunner(scenario=load_scenario(world), target=0.4, rounds=300, engine=Two())
    (trial,) = runner.run_all([Ask(HERE, 5)])
    assert trial.wall_seconds == 2.0
    assert trial.losses == runner.run(HERE, 5).losses
