"""Listings of runs, with damaged and unfinished ones among them."""

import json
import os
import socket
from pathlib import Path

import pytest

from fedcell import Observer, Scenario, load_scenario, run, run_seeds
from fedcell.errors import BadFile
from fedcell.simulation.folder.listing import list_runs
from fedcell.simulation.summary import RoundReport
from support.printed import tables

SCENARIO = Scenario().using(
    clients={"count": 6},
    plan={"cohort": 3, "local_steps": 2, "rounds": 12},
    learning={"model": "quadratic-apart", "target": 2.0},
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    def stop(report: RoundReport) -> None:
        if report.round == 3:
            raise KeyboardInterrupt

    run(SCENARIO, ["even", "optimal"], folder=tmp_path / "first")
    run(SCENARIO, ["optimal"], seed=4, folder=tmp_path / "stopped", observer=Observer(round=stop))
    run_seeds(SCENARIO, ["even"], seeds=[2, 10], folder=tmp_path / "seeds")
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_runs_are_found_and_described(home):
    found = list_runs([home])
    assert [str(entry.folder.relative_to(home)) for entry in found] == [
        "first",
        "seeds/seed2",
        "seeds/seed10",
        "stopped",
    ]
    assert [entry.status for entry in found] == ["complete"] * 3 + ["stopped"]
    assert [entry.outcome.seed for entry in found if entry.outcome] == [0, 2, 10, 4]
    assert (found[3].rounds, found[3].most_rounds) == (3, 12)
    assert {entry.trained for entry in found} == {"quadratic-apart"}
    assert len(list_runs([home / "first", home / "first"])) == 1


def test_the_tables_have_what_the_runs_have_and_fit_a_terminal(fedcell, home, monkeypatch):
    monkeypatch.chdir(home)
    said = fedcell("runs")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    answer = json.loads(fedcell("runs", "--json").out)
    printed = tables(said.out)
    rows, taken = printed["4 runs of quadratic-apart"].rows(), printed["What they took"].rows()
    for row, cost, entry in zip(rows, taken, answer, strict=True):
        assert row["run"] == cost["run"] == entry["folder"]
        assert row["state"] == entry["status"]
        assert row["rounds"] == f"{entry['rounds']}/{entry['most_rounds']}"
        assert (row["clients"], row["steps"], row["seed"]) == ("3", "2", str(entry["seed"]))
        assert float(row["loss"]) == pytest.approx(entry["train_loss"], rel=1e-3)
        assert cost["policy"] == entry["policy"]
        assert float(cost["time [s]"]) == pytest.approx(entry["duration"], rel=1e-3)
        assert float(cost["energy [J]"]) == pytest.approx(entry["energy"], rel=1e-3)
        goal = entry["to_target"]
        assert cost["to target"] == ("-" if goal is None else f"{goal['rounds']} rounds")
        assert cost["[s]"] == ("-" if goal is None else f"{goal['duration']:.4g}")
        assert cost["[J]"] == ("-" if goal is None else f"{goal['energy']:.4g}")
    assert [entry["to_target"] is None for entry in answer] == [False, False, False, True]
    mine = tables(fedcell("runs", "--policy", "optimal").out)["What they took"].rows()
    assert [row["run"] for row in mine] == ["first", "stopped"]
    assert (
        "none of them was priced under distributed"
        in fedcell("runs", "--policy", "distributed").out
    )


def test_many_columns_are_stacked(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a-run-of-digits-that-has-a-long-name"
    run(load_scenario("digits"), ["even"], rounds=1, folder=f"{name}0")
    run(SCENARIO, ["even"], folder=f"{name}1")
    said = fedcell("runs")
    assert max(map(len, said.out.splitlines())) <= 80
    printed = tables(said.out)
    assert printed["2 runs"].rows()[0]["trained"] == "digits, own layers"
    assert printed["2 runs"].rows()[1]["run"] == f"{name}1"


def test_runs_are_compared_under_a_policy_that_all_have(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(SCENARIO, ["even", "optimal"], folder="a")
    run(SCENARIO, ["optimal"], folder="b")
    taken = tables(fedcell("runs").out)["What they took"].rows()
    assert [row["policy"] for row in taken] == ["optimal", "optimal"]
    run(SCENARIO, ["distributed"], folder="c")
    taken = tables(fedcell("runs").out)["What they took"].rows()
    assert [row["policy"] for row in taken] == ["even", "optimal", "distributed"]


def test_damaged_runs_are_listed_with_what_is_wrong_and_the_others_as_ever(fedcell, home):
    (home / "first" / "ledger.csv").write_text("no ledger\n")
    (home / "stopped" / "scenario.json").write_text('{"plan": 3}')
    (home / "seeds" / "seed2" / "checkpoint.npz").unlink()
    said = fedcell("runs", home)
    assert said.code == 0
    notes = [line for line in said.out.splitlines() if line.startswith("note: ")]
    assert f"{home}/first/ledger.csv: is damaged" in notes[0]
    assert "no round is done yet" in notes[1]
    assert f"{home}/stopped/scenario.json: is damaged" in notes[2]
    assert len(tables(said.out)["1 run of quadratic-apart"].rows()) == 1
    answer = json.loads(fedcell("runs", home, "--json").out)
    assert [entry["status"] for entry in answer] == ["damaged", "damaged", "complete", "damaged"]
    assert answer[0]["train_loss"] is None


def test_a_run_with_a_live_process_is_listed_as_running(home):
    lock = home / "stopped" / ".lock"

    def status() -> str:
        return list_runs([home / "stopped"])[0].status

    lock.write_text(f"process {os.getpid()} on {socket.gethostname()}")
    assert status() == "running"
    lock.write_text(f"process 4194305 on {socket.gethostname()}")  # more than there can be
    assert status() == "stopped"
    lock.write_text("process 7 on another machine")
    assert status() == "running"
    lock.write_text("")
    assert status() == "stopped"


def test_places_without_runs_are_refused(fedcell, tmp_path):
    (tmp_path / "file").write_text("")
    for place, message in [
        ("file", "is not a folder: name a run, or a folder that holds runs"),
        ("none", "is not a folder"),
        (".", "holds no run: expected run.json in it, or in one inside"),
    ]:
        said = fedcell("runs", tmp_path / place)
        assert (said.code, said.out) == (2, "")
        assert message in said.err
    with pytest.raises(BadFile, match="holds no run"):
        list_runs([tmp_path])
