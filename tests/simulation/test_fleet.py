"""A mixed fleet of named devices from its table to a trained model: plan, run, schedule, files."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest

from fedcell import load_scenario, run, schedule_round
from fedcell.learning import prepare_training
from fedcell.network import Ledger, draw_fleet
from fedcell.scenario.load import shipped
from fedcell.simulation.summary import PolicyOutcome

FAR = (9, 33, 50)
LAW = ("--mixing", 50, "--drift", 0.02, "--start", 250, "--floor", 12, "--steps", "1..60")


def sixty_devices() -> str:
    """Pumps, gates, meters and cameras, some of them far away; with blank cells."""
    kinds = {
        "pump": "1.2,39,,",
        "gate": "2.0,36,,",
        "meter": "0.4,30,2e5,0.02",
        "camera": "2.5,39,4e4,",
    }
    rng = random.Random(7)
    lines = ["name,kind,freq_max_ghz,power_dbm,cycles_per_sample,loss_rate,distance,battery_j"]
    for i in range(60):
        kind = list(kinds)[i % 4]
        distance = 600 if i in FAR else round(rng.uniform(50, 220))
        battery = rng.choice(["", "40", "60"]) if kind == "meter" else ""
        lines.append(f"{kind}-{i},{kind},{kinds[kind]},{distance},{battery}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def world(tmp_path):
    """The digits over sixty devices."""
    (tmp_path / "fleet.csv").write_text(sixty_devices())
    text = shipped("digits").replace("count = 50", 'table = "fleet.csv"')
    (tmp_path / "digits60.toml").write_text(text)
    return tmp_path / "digits60.toml"


def test_sixty_devices_are_planned_run_and_scheduled(fedcell, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned = fedcell("plan", world, *LAW, "--out", "plan.json")
    assert planned.code == 0, planned.err
    assert max(map(len, planned.out.splitlines())) <= 80
    for words in (
        "pays most: ",
        "keeps the batteries with a chance",
        "is in outage in more than 99.99 %",
    ):
        assert words in " ".join(planned.out.split())
    plan = json.loads(Path("plan.json").read_text())
    assert [d["client"] for d in plan["devices"] if d["heard"] < 1e-4] == list(FAR)

    told = fedcell("run", "--plan", "plan.json", "--rounds", 3, "--out", "told")
    assert told.code == 0, told.err
    assert max(map(len, told.out.splitlines())) <= 80
    answer = json.loads((tmp_path / "told" / "summary.json").read_text())
    with (tmp_path / "told" / "clients.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows[:60]] == [d["name"] for d in plan["devices"]]
    assert {row["kind"] for row in rows} == {"pump", "gate", "meter", "camera"}
    for outcome in answer["policies"]:
        own = [row for row in rows if row["policy"] == outcome["policy"]]
        payer = max(own, key=lambda row: float(row["energy"]))
        most = outcome["energy_per_client"]
        assert (most["name"], most["client"]) == (payer["name"], int(payer["client"]))
        assert f"{most['name']}" in told.out
    assert sum("is in outage in" in note for note in answer["notes"]) == 3

    with (tmp_path / "told" / "ledger.csv").open() as file:
        ledger = {(row["policy"], int(row["round"])): row for row in csv.DictReader(file)}
    for policy in ("even", "optimal"):
        options = ["--plan", "plan.json", "--round", 2, "--policy", policy, "--json"]
        second = json.loads(fedcell("schedule", *options).out)
        cost = float(ledger[policy, 2]["duration"])
        assert second["duration"] + second["broadcast_time"] == cost
        assert second["energy"] == pytest.approx(float(ledger[policy, 2]["energy"]), rel=1e-12)
        assert float(ledger[policy, 2]["objective"]) == second["objective"]


def test_a_run_says_whose_battery_would_have_been_empty(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.csv").write_text(
        "name,battery\n" + "".join(f"meter-{i},{0.25 if i < 5 else ''}\n" for i in range(8))
    )
    text = shipped("digits").replace("count = 50", 'table = "fleet.csv"')
    (tmp_path / "mine.toml").write_text(text.replace("cohort = 10", "cohort = 4"))
    said = fedcell("run", "mine.toml", "--rounds", 6, "--policy", "even", "--out", "r")
    assert said.code == 0, said.err
    result = run(load_scenario("mine.toml"), ["even"], rounds=6)
    ledger = result.ledgers["even"]
    empty = emptied_by_hand(
        ledger, draw_fleet(prepare_training(load_scenario("mine.toml")).scenario).battery
    )
    assert empty  # or the test says nothing
    with (tmp_path / "r" / "clients.csv").open() as file:
        rows = list(csv.DictReader(file))
    shown = {
        int(row["client"]): int(row["battery_empty_in_round"])
        for row in rows
        if row["battery_empty_in_round"]
    }
    assert shown == empty
    assert [row["battery"] for row in rows] == ["0.25"] * 5 + [""] * 3
    first = min(empty.values())
    words = " ".join(said.out.split())
    assert "under even, depleted batteries: meter-" in words
    assert f"in round {first}" in words
    (outcome,) = result.outcome.to_dict()["policies"]
    assert {e["client"]: e["round"] for e in outcome["empty_batteries"]} == empty
    assert [e["round"] for e in outcome["empty_batteries"]] == sorted(empty.values())


def emptied_by_hand(ledger: Ledger, battery) -> dict[int, int]:
    """Round by round and client by client."""
    spent, empty = dict.fromkeys(range(len(battery)), 0.0), {}
    assert ledger.spending is not None
    for t, (clients, energies) in enumerate(
        zip(ledger.spending.client.tolist(), ledger.spending.energy.tolist(), strict=True), 1
    ):
        for j, energy in zip(clients, energies, strict=True):
            if j >= 0:
                spent[j] += energy
                if spent[j] > battery[j]:
                    empty.setdefault(j, t)
    return empty


def test_batteries_of_those_that_train_in_vain_are_spent_too():
    world = load_scenario("digits").using(
        clients={"table": {"battery": [0.3] * 6}},
        plan={"cohort": 1, "cohort_drawn": "after-training"},
    )
    result = run(world, ["even"], rounds=5)
    spending = result.ledgers["even"].spending
    assert spending is not None
    when, idle = spending.emptied(np.full(6, 0.3)), spending.idle
    assert idle is not None
    in_vain = idle.trained.sum(0) * idle.energy
    assert (in_vain > 0.3).any()
    assert (when[in_vain > 0.3] > 0).all()


def test_fleets_without_batteries_or_names_say_nothing_of_them(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fedcell("run", "digits", "--rounds", 2, "--policy", "even", "--out", "r")
    assert "batteries" not in said.out
    header = (tmp_path / "r" / "clients.csv").read_text().splitlines()[0]
    assert header == "policy,client,called,arrived,duration,energy"
    (outcome,) = json.loads((tmp_path / "r" / "summary.json").read_text())["policies"]
    assert outcome["empty_batteries"] == []
    payer = outcome["energy_per_client"]["client"]
    assert f"highest energy use: client {payer}" in said.out


def test_labels_that_are_called_like_a_column_keep_their_own(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.csv").write_text("policy,site\n" + "ours,roof\n" * 4)
    text = shipped("digits").replace("count = 50", 'table = "fleet.csv"')
    (tmp_path / "mine.toml").write_text(text.replace("cohort = 10", "cohort = 2"))
    assert fedcell("run", "mine.toml", "--rounds", 1, "--policy", "even", "--out", "r").code == 0
    with (tmp_path / "r" / "clients.csv").open() as file:
        row = next(csv.DictReader(file))
    assert (row["policy"], row["policy (label)"], row["site"]) == ("even", "ours", "roof")


def test_an_outcome_without_a_table_has_a_payer_by_number():
    result = run(load_scenario("digits"), ["even"], rounds=2)
    outcome = PolicyOutcome.of("even", result.ledgers["even"], None)
    energy = result.ledgers["even"].totals.energy
    assert outcome.highest_client == int(np.argmax(energy))
    assert (outcome.highest_client_name, outcome.empty_batteries) == (None, ())


def test_the_round_of_a_training_scenario_needs_its_data_first():
    setup = prepare_training(load_scenario("digits"), seed=4)
    one = schedule_round(setup.scenario, "even", round=3, seed=4)
    ledger = run(load_scenario("digits"), ["even"], rounds=3, seed=4).ledgers["even"]
    assert one.of is not None
    assert one.cost.duration + one.of.broadcast_time == ledger.duration[2]
