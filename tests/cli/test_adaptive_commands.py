"""fedcell run --adaptive, as people and programs see it."""

import csv
import json

import pytest

from fedcell import Region, TrainingPlan, load_scenario, plan_training
from fedcell.scenario.save import save_scenario
from fedcell.simulation.folder.listing import list_runs
from support.piloted import PILOT, piloted_file
from support.quadratics import MISLED, NARROW, STEPS_ARE_WORTHLESS


@pytest.fixture
def world(tmp_path):
    save_scenario(NARROW, tmp_path / "narrow.toml")
    return tmp_path / "narrow.toml"


def test_table_json_and_files_tell_of_the_same_changes(fedcell, world, tmp_path):
    words = ["run", world, "--adaptive", "--policy", "even", "--out"]
    told, asked = fedcell(*words, tmp_path / "a"), fedcell(*words, tmp_path / "b", "--json")
    assert (told.code, asked.code, told.err, asked.err) == (0, 0, "", "")
    changes = json.loads(asked.out)["changes"]
    assert len(changes) >= 2
    assert changes == json.loads((tmp_path / "a" / "summary.json").read_text())["changes"]
    with (tmp_path / "b" / "changes.csv").open(newline="") as file:
        rows = [
            {"round": int(row["round"]), "cohort": int(row["clients"])}
            | {"local_steps": int(row["steps"]), "why": row["why"]}
            for row in csv.DictReader(file)
        ]
    assert rows == changes
    table = told.out.split("Changes of the plan\n")[1].split("\nround 6:")[0]
    shown = [list(map(int, line.split())) for line in table.splitlines()[2:]]
    assert shown == [[c["round"], c["cohort"], c["local_steps"]] for c in changes]
    sentences = " ".join(told.out.split())
    assert all(f"round {c['round']}: {c['why']}" in sentences for c in changes)
    assert "10 clients a round, each trains for 2 steps, a batch each, at first;" in sentences
    assert "changes.csv" in told.out.splitlines()[-1]
    assert [entry.status for entry in list_runs([tmp_path / "a"])] == ["complete"]


def test_a_forecast_that_failed_is_named_where_changes_are(fedcell, tmp_path):
    """On the screen, in changes.csv, in summary.json and in --json."""
    law = STEPS_ARE_WORTHLESS
    plan = plan_training(
        MISLED, law, region=Region(clients=(10, 10), steps=(16, 16), policy="even")
    )
    plan.save(tmp_path / "plan.json")
    words = ["run", "--plan", tmp_path / "plan.json", "--adaptive", "--clients", "10..10"]
    said = fedcell(*words, "--out", tmp_path / "a")
    asked = fedcell(*words, "--out", tmp_path / "b", "--json")
    assert (said.code, asked.code) == (0, 0), said.err
    last = json.loads(asked.out)["changes"][-1]
    assert (last["cohort"], last["local_steps"]) == (10, 16)
    assert last["why"].startswith("forecast at round ")
    assert last["why"].endswith("back to 10 clients a round, 16 steps each")
    assert f"round {last['round']}: {last['why']}" in " ".join(said.out.split())
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["changes"][-1] == last
    assert last["why"] in (tmp_path / "a" / "changes.csv").read_text()


@pytest.mark.long
def test_it_begins_with_the_plan_of_a_pilot_or_with_a_plan(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = piloted_file(tmp_path)
    assert fedcell("plan", digits, "--pilot", PILOT, "--out", "plan.json").code == 0
    begun = []
    for start in ([digits, "--pilot", PILOT], ["--plan", "plan.json"], [digits]):
        said = fedcell("run", *start, "--adaptive", "--out", f"run-{len(begun)}", "--json")
        assert said.code == 0, said.err
        answer = json.loads(said.out)
        begun.append((answer["cohort"], answer["local_steps"]))
        assert ("plan" in answer) == ("--plan" in start)
        assert answer["policies"][0]["to_target"] is not None
    plan, own = TrainingPlan.load("plan.json"), load_scenario("digits").plan
    planned = plan.cohort, plan.local_steps
    assert planned != (own.cohort, own.local_steps)
    assert begun == [planned, planned, (own.cohort, own.local_steps)]


def test_resumed_by_the_same_command_only(fedcell, world, tmp_path):
    words = ["run", world, "--adaptive", "--policy", "even", "--json"]
    straight = json.loads(fedcell(*words, "--out", tmp_path / "a").out)
    assert fedcell(*words, "--rounds", 8, "--out", tmp_path / "b").code == 0
    other = fedcell(*words, "--every", 4, "--resume", "--out", tmp_path / "b")
    assert other.code == 2
    assert "already holds a different run (adaptive.every differs)" in other.err
    plain = fedcell(*[w for w in words if w != "--adaptive"], "--resume", "--out", tmp_path / "b")
    assert plain.code == 2
    assert json.loads(fedcell(*words, "--resume", "--out", tmp_path / "b").out) == straight


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--every", 3, "--clients", "2..5"], "--every, --clients: for a plan that adapts: give"),
        (["--adaptive", "--seeds", 3], "--adaptive and --seeds: a run that adapts has one seed"),
        (["--adaptive", "--target-loss", "none"], "--adaptive: a plan is one to a target: give"),
        (["--adaptive", "--clients", "a few"], "--clients = a few: expected a range"),
        (["--adaptive", "--clients", "30..40"], "--clients = (30, 40): expected two whole numbers"),
        (["--adaptive", "--pilot", "none.json"], "none.json"),
        (["--adaptive", "--pilot", PILOT], "this pilot was run with other settings"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(fedcell, world, tmp_path, words, said):
    answer = fedcell("run", world, *words, "--out", tmp_path / "out")
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_epochs_do_not_adapt_and_one_start_is_enough(fedcell, tmp_path):
    world = NARROW.using(plan={"local_epochs": 2, "local_steps": 1})
    save_scenario(world, tmp_path / "epochs.toml")
    refused = fedcell("run", tmp_path / "epochs.toml", "--adaptive", "--out", tmp_path / "out")
    assert "plan.local_epochs: an adaptive plan chooses plan.local_steps" in refused.err
    plan = tmp_path / "plan.json"
    fedcell("plan", piloted_file(tmp_path), "--pilot", PILOT, "--out", plan)
    both = ["--plan", plan, "--pilot", PILOT, "--out", tmp_path / "out"]
    said = fedcell("run", "digits", "--adaptive", *both)
    assert "--plan and --pilot: give one of them, or none" in said.err
