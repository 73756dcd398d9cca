"""Runs, pilots and sweeps of data whose owners are given: what they depend on is known by them."""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from fedcell import (
    Adaptation,
    Compute,
    FedcellWarning,
    GivenLaw,
    Region,
    load_model,
    load_pilot,
    load_run,
    load_scenario,
    plan_training,
    run,
    run_adaptive,
)
from fedcell.errors import BadInput
from fedcell.experiments.executors import LocalProcesses
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.jobs import TrainingJob, train
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.experiments.training import Training, Until
from fedcell.learning import prepare_training
from fedcell.learning.setup import require_learning
from fedcell.planning.choice.plan import TrainingPlan
from support.owned import CLOUDS, clouds, npz, scenario_in, world
from support.sealing import rewrite

THREE = np.arange(CLOUDS) % 3
OTHER = np.roll(THREE, 1)  # as many samples each, and others
MOVED = np.where(np.arange(CLOUDS) == 7, 0, THREE)
NAMED = np.array(["a", "b", "c"])[THREE]
RANGES = "client,first,last\n0,0,19\n1,20,39\n2,40,59\n"
BY_FILE = 'dataset = "mine.npz"\npartition.owners = "who.csv"'


def test_a_run_resumes_with_the_same_owners_and_not_with_others(tmp_path):
    npz(tmp_path / "mine.npz", owner=THREE)
    scenario = scenario_in(tmp_path)
    whole = run(scenario, ["even"], folder=tmp_path / "whole")
    run(scenario, ["even"], folder=tmp_path / "run", rounds=2)
    npz(tmp_path / "mine.npz", owner=NAMED)  # the same clients by another word
    resumed = run(scenario, ["even"], folder=tmp_path / "run", resume=True)
    assert resumed.ledgers["even"].train_loss.tolist() == whole.ledgers["even"].train_loss.tolist()
    for owner in (OTHER, MOVED):
        npz(tmp_path / "mine.npz", owner=owner)
        with pytest.raises(BadInput, match=r"a different run \(data differs\)"):
            run(scenario, ["even"], folder=tmp_path / "run", resume=True)


def test_a_run_resumes_from_its_folder_wherever_its_files_are(tmp_path):
    npz(tmp_path / "mine.npz")
    (tmp_path / "who.csv").write_text(RANGES)
    first = run(scenario_in(tmp_path, BY_FILE), ["even"], folder=tmp_path / "run", rounds=2)
    kept = load_scenario(tmp_path / "run" / "scenario.json")
    assert require_learning(kept).partition.owners == str(tmp_path / "who.csv")
    assert prepare_training(kept).partition.sizes.tolist() == [20, 20, 20]
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "moved").mkdir()
    for name in ("mine.npz", "who.csv"):
        shutil.move(tmp_path / name, tmp_path / "moved" / name)
    moved = scenario_in(tmp_path / "moved", BY_FILE)
    resumed = run(moved, ["even"], folder=tmp_path / "run", resume=True)
    assert resumed.ledgers["even"].rounds == 4
    assert resumed.ledgers["even"].train_loss[0] == first.ledgers["even"].train_loss[0]
    (tmp_path / "moved" / "who.csv").write_text(RANGES.replace("19\n1,20", "18\n1,19"))
    with pytest.raises(BadInput, match=r"a different run \(data differs\)"):
        run(moved, ["even"], folder=tmp_path / "copy", resume=True)


def key_of(folder, *tables):
    return Training.of(scenario_in(folder, *tables), 3).key


def test_a_training_is_known_by_its_owners_too(tmp_path):
    npz(tmp_path / "mine.npz", owner=THREE)
    first = key_of(tmp_path)
    assert first == key_of(tmp_path, "", "count = 3")
    explicit = 'dataset = "mine.npz"\npartition.kind = "given"'
    assert first == key_of(tmp_path, explicit)
    assert first != key_of(tmp_path, 'dataset = "mine.npz"\npartition.kind = "iid"', "count = 3")
    npz(tmp_path / "mine.npz", owner=OTHER)
    assert first != key_of(tmp_path)
    npz(tmp_path / "mine.npz", owner=np.array(["x", "y", "z"])[THREE])
    assert first == key_of(tmp_path)
    npz(tmp_path / "mine.npz")
    ranges = "client,first,last\n" + "".join(f"{j},{i},{i}\n" for i, j in enumerate(THREE))
    (tmp_path / "who.csv").write_text(ranges)
    assert first == key_of(tmp_path, BY_FILE)
    (tmp_path / "who.csv").write_text(RANGES)
    assert first != key_of(tmp_path, BY_FILE)


def test_a_worker_reads_files_again_that_have_changed(tmp_path):
    """One that lives on, as on a cluster, must not keep a curve under the name of another."""

    def curve():
        training = Training.of(scenario_in(tmp_path), 0)
        return train(TrainingJob(training, Until(3))).curve

    npz(tmp_path / "mine.npz", owner=THREE)
    first = curve()
    npz(tmp_path / "mine.npz", owner=MOVED)
    os.utime(tmp_path / "mine.npz", ns=(time.time_ns(), time.time_ns() + 10**9))
    second = curve()
    assert second.train_loss != first.train_loss
    assert second.key != first.key


def test_workers_of_a_sweep_train_with_the_owners_that_are_given(tmp_path, monkeypatch):
    npz(tmp_path / "mine.npz")
    (tmp_path / "who.csv").write_text(RANGES)
    monkeypatch.chdir(tmp_path)
    scenario = scenario_in(tmp_path, BY_FILE)
    axes = {"learning.partition.kind": ["given", "iid"], "clients.count": [3]}
    experiment = Experiment.sweep(scenario, axes, seeds=[1], rounds=3, policies=["even"])
    result = run_sweep(experiment, Store(tmp_path / "store"), LocalProcesses(2))
    assert result.failures == {}
    (curve,) = result.curves_of(0)
    ledger = run(scenario, ["even"], rounds=3, seed=1).ledgers["even"]
    assert list(curve.train_loss) == ledger.train_loss.tolist()
    (dealt,) = result.curves_of(1)
    assert list(dealt.train_loss) != ledger.train_loss.tolist()


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_pilots_and_plans_know_their_owners(tmp_path, fedcell, monkeypatch):
    npz(tmp_path / "mine.npz", owner=np.where(THREE == 1, "d", NAMED))
    (tmp_path / "fleet.csv").write_text("name,distance\na,50\nb,60\nc,70\nd,80\n")
    world(tmp_path, 'dataset = "mine.npz"\ntarget = 0.9\nhold = 1', 'table = "fleet.csv"')
    monkeypatch.chdir(tmp_path)
    said = fedcell("pilot", "world.toml", "--budget", "8s", "--workers", 2, "--out", "pilot.json")
    assert said.code == 0, said.err
    assert said.err.count("1 client holds no samples and never trains: b") == 1
    assert max(s.cohort for s in load_pilot("pilot.json").tried) <= 3
    said = fedcell("plan", "world.toml", "--pilot", "pilot.json", "--out", "plan.json")
    assert said.code == 0, said.err
    planned = TrainingPlan.load("plan.json")
    assert require_learning(planned.apply_to()).dataset == str(tmp_path / "mine.npz")
    said = fedcell("run", "--plan", "plan.json", "--json", "--out", "run")
    assert said.code == 0, said.err
    rows = (tmp_path / "run" / "clients.csv").read_text().splitlines()
    assert [row.split(",")[3] for row in rows if row.split(",")[1] == "1"] == ["0"] * 5
    assert json.loads(said.out)["policies"]
    npz(tmp_path / "mine.npz", owner=NAMED)
    said = fedcell("plan", "world.toml", "--pilot", "pilot.json", "--out", "plan.json")
    assert said.code == 2
    assert "this pilot was run with other settings (data)" in said.err


LAW = GivenLaw(mixing=3.0, drift=0.1, start=3.0)


@pytest.mark.filterwarnings("always")
def test_a_plan_says_when_a_run_has_other_data_or_owners(tmp_path, fedcell, monkeypatch):
    monkeypatch.chdir(tmp_path)
    npz(Path("mine.npz"), owner=THREE)
    world(tmp_path, 'dataset = "mine.npz"\ntarget = 0.9\nhold = 1')
    plan = plan_training(
        load_scenario("world.toml"), LAW, region=Region(policy="even", steps=(1, 3))
    )
    plan.save("plan.json")
    same = run(plan.apply_to(), ["even"], folder="same")
    assert plan.compare(same).differing == ()
    assert TrainingPlan.load("plan.json").compare(load_run("same")).differing == ()
    nearly = clouds()["x_train"] * np.float32(1.01)
    for i, other in enumerate(({"owner": OTHER}, {"x_train": nearly})):
        npz(Path("mine.npz"), **{"owner": THREE} | other)
        taken = run(plan.apply_to(), ["even"], folder=f"run{i}")
        for result in (taken, load_run(f"run{i}")):
            outcome = plan.compare(result)
            assert outcome.differing == ("data",)
            assert {row["inside"] for row in outcome.rows()} == {None}
            assert "this is not the run that was planned (data)" in outcome.summary()
            assert "within" not in outcome.summary()
        said = fedcell("run", "--plan", "plan.json", "--out", f"cli{i}")
        assert said.code == 0
        assert "this is not what was planned (data): predictions are not compared" in said.err
        assert "within" not in said.out
        with pytest.warns(FedcellWarning, match=r"not what was planned \(data\)"):
            run_adaptive(load_scenario("world.toml"), ["even"], adaptation=Adaptation(start=plan))


def test_a_plan_says_when_a_run_has_another_fleet_or_other_gains(tmp_path):
    gains = np.random.default_rng(0).uniform(1e-14, 1e-12, (200, 3))
    npz(tmp_path / "mine.npz", owner=THREE)
    base = scenario_in(tmp_path).using(cell={"gains": gains}, learning={"target": 0.9, "hold": 1})
    plan = plan_training(base, LAW, region=Region(policy="even", steps=(1, 3)))
    plan.save(tmp_path / "plan.json")
    plan = TrainingPlan.load(tmp_path / "plan.json")  # which does not hold the gains
    assert plan.scenario is None
    asked = {"rounds": 30}
    assert plan.compare(run(plan.apply_to(base), ["even"], **asked)).differing == ()
    for changes, named in (
        ({"cell": {"gains": gains * 1.5}}, "cell.gains"),
        ({"clients": {"kappa": 1e-26}}, "clients.kappa"),
    ):
        result = run(plan.apply_to(base.using(**changes)), ["even"], **asked)
        assert plan.compare(result).differing == (named,)


def test_a_plan_without_a_fingerprint_is_read_with_a_note(tmp_path):
    npz(tmp_path / "mine.npz", owner=THREE)
    plan = plan_training(
        scenario_in(tmp_path), LAW, target=0.9, region=Region(policy="even", steps=(1, 3))
    )
    plan.save(tmp_path / "plan.json")
    rewrite(tmp_path / "plan.json", identity=None)
    with pytest.warns(FedcellWarning, match="plan.json: has no fingerprint of data, owners and"):
        assert TrainingPlan.load(tmp_path / "plan.json").identity is None


@pytest.mark.filterwarnings("default")
def test_the_command_shows_the_samples_of_clients_by_name(tmp_path, fedcell, monkeypatch):
    npz(tmp_path / "mine.npz", owner=np.where(THREE == 1, "", NAMED))
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = fedcell("partition", "world.toml", "--figure", "held.png")
    assert said.code == 0
    assert "40 samples of mine over 2 clients, as given" in said.out
    rows = [line.split() for line in said.out.splitlines()]
    assert ["a", "20", "1", "0", "(100%)", "0.50"] in rows
    assert ["c", "20", "1", "2", "(100%)", "0.50"] in rows
    assert said.err.count("20 of 60 training samples belong to no client") == 1
    assert (tmp_path / "held.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(fedcell("partition", "world.toml", "--json").out)
    assert [row["name"] for row in found["owners"]] == ["a", "c"]
    for seed in (0, 5):
        again = fedcell("partition", "world.toml", "--json", "--seed", seed)
        assert json.loads(again.out) == found


@pytest.mark.filterwarnings("default")
def test_constants_are_measured_over_those_that_have_data(tmp_path, fedcell, monkeypatch):
    npz(tmp_path / "mine.npz", owner=np.where(THREE == 1, 4, THREE))
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = fedcell("constants", "world.toml", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["constants"]["samples"] == 20
    assert "2 clients hold no samples" in said.err


def test_a_model_is_judged_on_data_that_has_owners(tmp_path):
    npz(tmp_path / "mine.npz", owner=THREE)
    run(scenario_in(tmp_path), ["even"], rounds=2, folder=tmp_path / "run")
    assert load_model(tmp_path / "run").evaluate().samples == 20


def test_clients_that_only_the_owners_name_are_called_so_in_a_run(tmp_path):
    npz(tmp_path / "mine.npz", owner=NAMED)
    result = run(scenario_in(tmp_path), ["even"], rounds=3, folder=tmp_path / "run")
    (outcome,) = result.outcome.policies
    assert outcome.highest_client is not None
    assert outcome.highest_client_name == "abc"[outcome.highest_client]
    lines = (tmp_path / "run" / "clients.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["even", str(j), name] for j, name in enumerate("abc")
    ]


def test_a_custom_learner_does_not_resume_with_other_owners(tmp_path):
    """It takes them from the scenario, and may have as many samples of each client as before."""

    def mine(scenario, seed):
        return prepare_training(scenario, seed).learner()

    npz(tmp_path / "mine.npz")
    task = {"model_bits": 1e4, "cycles_per_sample": 1e4}
    owners = tmp_path / "who.csv"
    owners.write_text(RANGES)
    scenario = scenario_in(tmp_path, BY_FILE, "count = 3").using(task=task)
    run(scenario, ["even"], rounds=2, folder=tmp_path / "run", compute=Compute(learner=mine))
    run(
        scenario,
        ["even"],
        rounds=3,
        folder=tmp_path / "run",
        resume=True,
        compute=Compute(learner=mine),
    )
    owners.write_text(RANGES.replace("0,0,19\n1,20,39", "1,0,19\n0,20,39"))
    with pytest.raises(BadInput, match="holds a different run"):
        run(
            scenario,
            ["even"],
            rounds=4,
            folder=tmp_path / "run",
            resume=True,
            compute=Compute(learner=mine),
        )
