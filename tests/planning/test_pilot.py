"""Pilots, their files, what is planned from them, and running the plan."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import BadInput, Clients, Plan, Scenario, load_scenario
from fedcell.cli.pilot import pilot_command
from fedcell.learning.setup import gather_material
from fedcell.planning.fit import fit
from fedcell.planning.grid import chart
from fedcell.planning.observations import features
from fedcell.planning.pilot import (
    Conductor,
    Setting,
    Trial,
    conduct,
    design,
    local_steps,
    observe,
    seeds_of,
)
from fedcell.planning.pilotfile import Pilot, load_pilot, save_pilot
from fedcell.planning.plan import propose
from fedcell.planning.theory import Bound
from fedcell.planning.validate import against, failures, held_out, summary, target_exponent
from fedcell.scenario.identity import pilot_identity
from support.laws import FLOOR, observed

WORLD = {
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
    pilot_command(str(folder / "world.json"), budget="1ms", written=folder / "pilot.json")
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
    plan = Plan(cohort=min(count, cohort), local_steps=steps, local_epochs=2 if epochs else None)
    scenario = Scenario(clients=Clients(count=count), plan=plan).using(cell={"loss_rate": gamma})
    settings = design(scenario)
    assert len(set(settings)) == len(settings)
    assert all(1 <= s.cohort <= count and s.local_steps >= 1 for s in settings)
    assert {s.loss_rate for s in settings} == {gamma, 0.4 if gamma < 0.2 else 0.0}
    assert len({s.local_steps for s in settings}) == 3
    assert not set(held_out(settings)) & set(settings)


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_a_design_tells_the_coefficients_apart(name):
    settings = design(load_scenario(name))
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
    assert local_steps(sized) == 6  # two passes of three batches
    assert 6 in {s.local_steps for s in design(sized)}


def test_clients_that_are_never_called_are_not_planned_with():
    sizes = np.r_[np.full(4, 100.0), np.full(8, 3.0)]
    clients = {"count": 12, "sizes": sizes, "min_samples": 10}
    scenario = Scenario(plan=Plan(cohort=4)).using(clients=clients)
    assert max(s.cohort for s in design(scenario)) == 4
    law = Bound(mixing=300.0, drift=0.1, start=10.0)
    assert propose(chart(scenario, law, "even", 6)).cohort.value <= 4
    with pytest.raises(BadInput, match=r"no client has clients\.min_samples"):
        chart(scenario.using(clients={"min_samples": 1e6}), law, "even", 6)


def test_blocks_never_use_the_seed_of_the_run_that_they_predict():
    pilot, judges = seeds_of(7), seeds_of(7, validation=True)
    assert len({7, *pilot, *judges}) == 1 + len(pilot) + len(judges)


# Trials.


HERE = Setting(4, 4, 0.1)


def trial(losses, setting=HERE, seed=0, target=0.1, **more):
    return Trial(
        setting=setting, seed=seed, losses=tuple(losses), target=target, seconds=1.0, **more
    )


def test_what_a_trial_says_of_a_target():
    run = trial([3.0, math.nan, 1.0, 1.5, 0.1])
    assert [run.rounds_to(x) for x in (3.0, 1.2, 0.5, 0.05)] == [1, 3, 5, None]
    assert run.serves(0.5)
    assert not run.serves(0.05)  # it was stopped before it could say
    ended = trial([3.0, 2.0], target=0.05)
    assert ended.serves(0.05)
    assert not ended.serves(0.05, rounds=3)  # it may go on
    assert trial([3.0, math.inf]).serves(0.05, rounds=3)
    assert trial([3.0, math.inf]).diverged
    seen = observe([run, trial([3.0, 2.0]), trial([math.inf])], 0.5, "independent")
    assert seen.rounds.tolist() == [5, 2]
    assert seen.censored.tolist() == [False, True]
    with pytest.raises(BadInput, match=r"every run diverged: lower learning\.rate"):
        observe([trial([math.inf])], 0.5, "independent")


def test_trials_go_block_by_block_until_the_budget_is_used_up():
    class Fake(Conductor):
        def run(self, setting, seed, watch=False):
            ran.append((setting, seed, watch))
            return trial([0.1], setting, seed)

    settings = [Setting(k, 4, 0.0) for k in (1, 2, 3)]
    for budget, expected in ((0.5, 6), (6.0, 6), (8.0, 8), (9.0, 9)):
        ran = []
        fake = Fake(scenario=Scenario(), target=0.1, rounds=5)
        found = list(conduct(fake, settings, [11, 12, 13, 14], budget, watched=settings[1]))
        assert len(found) == expected, budget
        assert [seed for _, seed, _ in ran[:4]] == [11, 11, 11, 12]
        assert [watch for *_, watch in ran].count(True) == 1
        again = list(conduct(fake, settings, [11, 12, 13, 14], budget, found))
        assert again == []
    more = list(conduct(fake, settings, [11, 12, 13, 14], 12.0, found))
    assert [t.seed for t in more] == [14] * 3
    lower = replace_target(fake, 0.01)
    redone = list(conduct(lower, settings, [11, 12, 13, 14], 0.5, found))
    assert len(redone) == 6


def replace_target(conductor, target):
    conductor.target = target
    return conductor


def test_a_trial_is_the_run_that_fedcell_run_would_make(fedcell, world):
    conductor = Conductor(scenario=load_scenario(world), target=0.4, rounds=300)
    run = conductor.run(Setting(4, 4, 0.1), seed=5, watch=True)
    said = strict(fedcell("run", world, "--seed", 5, "--policy", "even", "--json"))
    assert said["policies"][0]["rounds"] == len(run.losses) == run.rounds_to(0.4)
    assert said["policies"][0]["train_loss"] == run.losses[-1]
    assert [t for t, _ in run.diversity][:3] == [0, 1, 2]
    assert all(x >= 1 for _, x in run.diversity)


def test_a_training_that_diverges_is_seen_and_left_out():
    wild = {"learning": WORLD["learning"] | {"rate": 5.0, "rate_decay": 0.0}}
    scenario = load_scenario("paper").using(**WORLD).using(**wild)
    conductor = Conductor(scenario=scenario, target=0.4, rounds=2000)
    run = conductor.run(Setting(12, 16, 0.0), seed=1)
    assert run.diverged
    assert run.rounds_to(0.4) is None
    rows = against(fit(observed(FLOOR), "floor"), [run], 0.4)
    assert failures(rows) == ["training diverges in 1 of 1 runs at K = 12, E_l = 16, gamma = 0"]


def test_overflow_is_divergence_even_if_the_model_stays():
    wild = {"learning": WORLD["learning"] | {"rate": 50.0}}
    scenario = load_scenario("paper").using(**WORLD).using(**wild)
    run = Conductor(scenario=scenario, target=0.4, rounds=40).run(Setting(12, 40, 0.0), seed=1)
    assert run.diverged  # its uploads are not finite, so they are left out and the loss stays


def test_a_pilot_looks_after_every_round(world):
    rare = load_scenario(world).using(learning={"evaluate_every": 10})
    often = load_scenario(world)
    a, b = (Conductor(scenario=s, target=0.4, rounds=300).run(HERE, 5) for s in (rare, often))
    assert a.losses == b.losses


# The command and its file.


def test_a_pilot_says_what_it_found(fedcell, world):
    said = strict(fedcell("pilot", "world.json", "--budget", "500ms", "--json"))
    assert said["form"] in ("paper", "dropped", "floor")
    assert {"mixing", "drift", "start"} <= set(said["coefficients"])
    for part in said["coefficients"].values():
        assert part["low"] <= part["high"]
    assert said["blocks"] >= 2
    assert said["settings"] == 6 == len(said["table"])
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
    whole = Conductor.run
    assert fedcell("pilot", "world.json", "--budget", "1ms", "--out", "straight.json").code == 0
    ran = []

    def cut(self, setting, seed, watch=False):
        if len(ran) == 4:
            ran.clear()
            raise KeyboardInterrupt
        ran.append(setting)
        return whole(self, setting, seed, watch)

    monkeypatch.setattr(Conductor, "run", cut)
    said = fedcell("pilot", "world.json", "--budget", "1ms", "--out", "cut.json")
    assert said.code == 130
    assert "interrupted; to go on, give the same command again" in said.err
    assert len(load_pilot(world.parent / "cut.json").trials) == 4
    monkeypatch.setattr(Conductor, "run", whole)
    assert fedcell("pilot", "world.json", "--budget", "1ms", "--out", "cut.json").code == 0
    straight, cut_up = (load_pilot(world.parent / f"{n}.json") for n in ("straight", "cut"))
    assert [(t.setting, t.seed, t.losses) for t in straight.trials] == [
        (t.setting, t.seed, t.losses) for t in cut_up.trials
    ]
    assert straight.laws[0].bound == cut_up.laws[0].bound


def test_a_pilot_of_short_runs_is_gone_on_with_by_longer_ones(fedcell, world):
    short = fedcell("pilot", "world.json", "--budget", "1ms", "--rounds", 1)
    assert short.code == 2
    assert "no run reached the loss 0.4, the lowest was 0.5896: take a higher" in short.err
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
    with pytest.raises(BadInput, match="the target loss nan: expected a finite number above 0"):
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
        laws=(fit(observed(FLOOR, blocks=3, noise=0.1), "floor"),),
    )
    save_pilot(tmp_path / "p.json", pilot, {"anything": 1})
    again = load_pilot(tmp_path / "p.json")
    assert repr(again.trials) == repr(pilot.trials)  # NaN included
    assert (again.target, again.seed, again.kind) == (0.2, 4, "worst-case")
    assert again.laws[0].bound == pilot.laws[0].bound
    assert again.laws[0].replicates == pytest.approx(pilot.laws[0].replicates, rel=1e-5, abs=1e-9)
    assert again.diverged == [Setting(4, 4, 0.1)]
    newer = again.with_trial(trial([5.0], seed=1))
    assert len(newer.trials) == 4
    assert newer.laws == ()


def test_a_plan_may_change_the_radio_and_not_the_learning(fedcell, piloted, world):
    def plan_of(**changes):
        tables = {name: dict(table) for name, table in WORLD.items()}
        for name, values in changes.items():
            tables[name] = tables.get(name, {}) | values
        (world.parent / "other.json").write_text(json.dumps(tables))
        return fedcell("plan", "other.json", "--pilot", piloted, "--json")

    base = strict(plan_of())
    slow = strict(plan_of(cell={"bandwidth": 1e4}))
    assert slow["seconds"]["value"] > base["seconds"]["value"]
    assert strict(plan_of(cell={"loss_rate": 0.3}))["rounds"]["value"] > 0
    assert strict(plan_of(plan={"cohort": 2, "local_steps": 9}))["cohort"] == base["cohort"]
    for changes, named in (
        ({"learning": {"rate": 0.03}}, "learning.rate"),
        ({"clients": {"count": 13}}, "clients.count"),
        ({"task": {"batch_size": 7}}, "task.batch_size"),
        ({"plan": {"selection": "weighted"}}, "plan.selection"),
    ):
        said = plan_of(**changes)
        assert said.code == 2
        assert f"is the pilot of another learning (other {named}): run one for this" in said.err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d.pop("format"), "is not a pilot of this version of fedcell"),
        (lambda d: d.update(format=99), "is not a pilot of this version of fedcell"),
        (lambda d: d.update(trials=3), "is not a pilot of this version of fedcell"),
        (lambda d: d["trials"][0].pop("losses"), "is damaged (KeyError: 'losses')"),
        (lambda d: d["trials"][0].update(cohort=0), "is damaged (ValueError: a run with"),
        (lambda d: d["trials"][0].update(loss_rate="much"), "is damaged (ValueError"),
        (lambda d: d["trials"][0].update(losses=[]), "is damaged"),
        (lambda d: d["trials"].append(None), "is damaged (TypeError"),
        (lambda d: d.update(kind="odd"), "is damaged (ValueError: odd, target"),
        (lambda d: d.update(target=-1), "is damaged"),
        (lambda d: d["laws"][0].update(form="odd"), "is damaged (ValueError: a law)"),
        (lambda d: d["laws"][0].update(noise=-1), "is damaged (ValueError: the errors of a law)"),
        (lambda d: d["laws"][0]["bound"].update(mixing=-1), "mixing = -1: expected a number"),
        (lambda d: d["laws"][0].update(replicates=[[1, 2]]), "is damaged (ValueError"),
        (lambda d: d["laws"][0].update(luck=None), "is damaged (ValueError: the errors of a law)"),
        (lambda d: d["laws"][0].update(luck=1e308), "is damaged (ValueError: the errors of a law)"),
        (lambda d: d["laws"][0].update(blocks=-1), "is damaged (ValueError: the counts of a law)"),
        (lambda d: d.update(trials=[]), "is damaged (ValueError: laws without runs)"),
        (lambda d: d.update(seed=math.inf), "is damaged (OverflowError"),
        (lambda d: d["trials"][0].update(cohort=10**8), "is damaged (ValueError: a run with"),
        (lambda d: d["trials"][0].update(seed=2**70), "is damaged (ValueError: a run with seed"),
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
    law = fit(observed(FLOOR, blocks=6, luck=0.1, noise=0.1), "floor")
    g = float(law.predict(10, 10, 0.0)[0])
    here, there = Setting(10, 10, 0.0), Setting(20, 10, 0.0)
    runs = [trial([1.0] * (int(g) - 1) + [0.05], here, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9 + [0.05], there, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9, there, seed=9)]
    first, second = against(law, runs, 0.1)
    assert first["measured"] == int(g)
    assert first["error"] == pytest.approx(g / int(g) - 1)
    assert first["inside"]
    assert second["missed"] == 1
    said = summary([first, second])
    assert (said["settings"], said["reached"], said["coverage"]) == (2, 1, 1.0)
    assert failures([first, second]) == [
        "1 of 5 runs did not reach the loss at K = 20, E_l = 10, gamma = 0"
    ]
    off = dict(first, error=0.4)
    assert failures([off]) == ["the law is +40% off at K = 10, E_l = 10, gamma = 0"]


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
        assert row["rounds"]["actual"] == actual["to_target"]["rounds"]
        assert row["joules"]["actual"] == actual["to_target"]["joules"]
        low, high = row["seconds"]["low"], row["seconds"]["high"]
        assert row["seconds"]["inside"] == (low <= row["seconds"]["actual"] <= high)
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
        (lambda d: d.clear(), "is not a plan of this version of fedcell"),
        (lambda d: d["cohort"].update(value=0), "is damaged (ValueError: cohort 0"),
        (lambda d: d["rounds"].update(high=None), "is damaged (TypeError"),
        (lambda d: d["rounds"].update(low=-1), "is damaged (ValueError: rounds from -1"),
        (lambda d: d["cohort"].update(value=math.inf), "is damaged (OverflowError"),
        (lambda d: d.update(policies=3), "is damaged (TypeError"),
        (lambda d: d["world"]["cell"].update(noise=-1), "cell.noise = -1: expected a number"),
        (lambda d: d.update(world=None), "its scenario has measured gains: name its file"),
        (lambda d: d["cohort"].update(value=10**6), "plan.cohort = 1000000 is more than the 12"),
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
    far = fedcell(
        "plan", "world.json", "--pilot", piloted, "--max-steps", 4000, "--minimise", "joules"
    )
    assert far.code == 0


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
    assert said["theorem_1"]["corrected"] > 0
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
    material = gather_material(scenario)
    mine = pilot_identity(material.scenario, material.data)
    radio = gather_material(scenario.using(cell={"bandwidth": 1e6}, clients={"kappa": 1e-26}))
    assert pilot_identity(radio.scenario, radio.data) == mine
    other = gather_material(scenario.using(learning={"rate": 0.2}))
    assert pilot_identity(other.scenario, other.data) != mine


def test_a_law_from_a_file_predicts_as_it_did(tmp_path):
    law = fit(observed(FLOOR, blocks=4, luck=0.2, noise=0.1), "floor")
    pilot = Pilot(identity={}, target=0.2, seed=0, kind="independent", laws=(law,))
    save_pilot(tmp_path / "p.json", replace(pilot, trials=(trial([0.1]),)))
    again = load_pilot(str(tmp_path / "p.json")).fit()
    for mine, theirs in zip(law.predict(5, 10, 0.1), again.predict(5, 10, 0.1), strict=True):
        assert float(mine) == pytest.approx(float(theirs), rel=1e-4)
    assert isinstance(again.bound, Bound)


def test_a_scenario_that_learns_nothing_has_no_trials():
    conductor = Conductor(scenario=Scenario(), target=0.4, rounds=5)
    with pytest.raises(BadInput, match=r"has no \[learning\]"):
        conductor.run(HERE, 1)
