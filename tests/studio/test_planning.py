"""Answers of the page are those of the command line, for the same question."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcell.core.files.formats import as_json
from fedcell.scenario.load import SHIPPED, shipped
from support.studios import LAW, MARKUP, Asking, served

PILOT = Path("benchmarks/results/planning/pilot-digits.json").resolve()


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with served("digits", PILOT) as each:
        yield each


number = iter(range(1, 10**6))


def view(asking: Asking, asked: dict, **more: Any) -> dict:
    answer: dict = asking("view", asked=asked, page="test", number=next(number), **more)
    return answer


QUESTIONS: list[dict] = [
    {},
    {"changes": {"cell.bandwidth": 5e6}},
    {"changes": {"cell.loss_rate": 0.3}},
    {"changes": {"cell.loss_rate": 0.3, "task.energy_weight": 0.2, "cell.distance": 150.0}},
    {"deadline": 60.0, "confidence": 0.8},
    {"deadline": 60.0, "energy": 60.0, "minimise": "duration"},
    {"energy_per_client": 1.5, "minimise": "energy"},
    {"policy": "even"},
    {"cohort": 6},
    {"cohort": 3, "local_steps": 48},
    {"target": 0.3},
    {"law": LAW},
    {"law": LAW, "changes": {"clients.count": 6}, "seed": 3},
    {"law": LAW, "changes": {"learning.rate": 0.05, "learning.partition.spread": 0.2}},
    {"law": LAW, "cohort": 9, "local_steps": 33},
    {"confidence": 0.9},
]


EVERY = [  # half of them in `make test`
    *QUESTIONS[::2],
    *(pytest.param(asked, marks=pytest.mark.long) for asked in QUESTIONS[1::2]),
]


@pytest.mark.parametrize("asked", EVERY, ids=str)
def test_the_answer_is_that_of_the_command_line(asking, fedcell, tmp_path, monkeypatch, asked):
    monkeypatch.chdir(tmp_path)
    answer = view(asking, asked)
    words = asking("take", asked=asked, what="words")
    if words["needs"]:
        Path(words["needs"]).write_bytes(asking("take", asked=asked, what="toml"))
    import shlex

    said = fedcell(*shlex.split(words["command"])[1:], "--json")
    assert said.code == 0, said.err
    told, plan = json.loads(said.out), answer["plan"]
    for own in (told, plan):  # a changed scenario has another name, and 20e6 is 2e7 in its file
        own.pop("name")
    assert json.loads(json.dumps(plan)) == told
    assert answer["draft"] is False


@pytest.mark.parametrize("asked", QUESTIONS[2::4], ids=str)
def test_the_lines_of_python_make_the_same_plan(asking, asked):
    words = asking("take", asked=asked, what="words")
    names: dict[str, Any] = {}
    exec(words["python"], names)
    assert json.loads(as_json(names["plan"].to_dict())) == view(asking, asked)["plan"]


def test_the_pictures_are_those_of_the_plan(asking):
    answer = view(asking, {"law": LAW, "deadline": 60.0})
    plan, surface = answer["plan"], answer["surface"]
    import base64

    cost = np.frombuffer(base64.b64decode(surface["cost"]), "<f4")
    cost = cost.reshape(len(surface["cohorts"]), len(surface["steps"]))
    i, j = (
        surface["cohorts"].index(plan["cohort"]),
        np.argmin(np.abs(np.array(surface["steps"]) - plan["local_steps"])),
    )
    assert cost[i, j] == pytest.approx(plan["cost"]["value"], rel=0.02)
    assert all(each["duration"] <= 60.0 for each in answer["front"])
    lanes = answer["round"]["lanes"]
    assert len(lanes) == plan["cohort"]
    assert sum(lane["share"] for lane in lanes) == pytest.approx(1.0)
    assert max(lane["states"]["wait"][1] for lane in lanes) == answer["round"]["duration"]
    parts = [sum(device["parts"].values()) for device in answer["parts"]["devices"]]
    assert parts == sorted(parts, reverse=True)
    assert parts[0] == pytest.approx(max(d["energy"] for d in plan["devices"]))
    law = answer["law"]
    near = int(np.argmin(np.abs(np.array(law["steps"]) - plan["local_steps"])))
    assert law["mean"][near] == pytest.approx(plan["rounds"]["value"], rel=0.02)


FAULTS = [
    ({"changes": {"cell.bandwidth": -1}}, "cell.bandwidth = -1: expected a number above 0"),
    ({"changes": {"cell.bandwith": 1}}, "did you mean cell.bandwidth"),
    ({"changes": {"sell.bandwidth": 1}}, "sell.bandwidth: known: cell"),
    ({"changes": {"radio.power_max": 1}}, "this scenario has no [radio]"),
    ({"changes": {"learning.dataset": "x"}}, "change it in the scenario's file"),
    ({"changes": {"clients.table": "/etc/passwd"}}, "change it in the scenario's file"),
    ({"changes": {"learning.partition.owners": "x"}}, "change it in the scenario's file"),
    ({"changes": {"learning": {"dataset": "../x.npz"}}}, "learning"),
    ({"changes": {"learning.partition.kind": "os:system"}}, "names a file or a function"),
    ({"changes": {"cell.channel.model": "a/b"}}, "names a file or a function"),
    ({"changes": {"cell.channel": {"measured": "x.csv"}}}, "cell.channel"),
    ({"policy": "os:system"}, "policy"),
    ({"policy": MARKUP}, "policy"),
    ({"deadline": 1e-3}, "no plan keeps the deadline"),
    ({"cohort": 17}, "no setting within clients a round and local steps"),
    ({"target": 1e-9}, "stopped at"),
    ({"changes": {"clients.count": 70}}, "would hold the pilot of this question"),
    ({"law": {"mixing": "x"}}, "law.mixing"),
    ({"nonsense": 1}, "nonsense is not a key"),
    ({"confidence": 2}, "confidence"),
    ({"changes": {MARKUP: 1}}, "known: cell"),
]


@pytest.mark.parametrize(("asked", "said"), FAULTS, ids=str)
def test_a_bad_question_is_answered_with_a_sentence(asking, asked, said):
    answer = view(asking, asked)
    assert list(answer) == ["faults"]
    assert said in " ".join(answer["faults"])
    assert "`" not in " ".join(answer["faults"])


@pytest.mark.parametrize("name", [n for n in SHIPPED if n not in ("mnist", "watch")])
def test_every_shipped_scenario_has_its_keys_described(name: str):
    from fedcell import load_scenario
    from fedcell.studio.keys import described_keys

    tables = described_keys(load_scenario(name))
    keys = {key["path"]: key for table in tables for key in table["keys"]}
    assert all(key["text"] and key["expected"] for key in keys.values())
    assert keys["cell.bandwidth"]["unit"] == "Hz"
    assert not keys["clients.table"]["editable"]
    import tomllib

    for table, values in tomllib.loads(shipped(name)).items():
        for key, value in values.items() if isinstance(values, dict) else ():
            if not isinstance(value, dict | list) and (shown := keys.get(f"{table}.{key}")):
                assert shown["value"] == pytest.approx(value)


def test_the_newest_question_of_a_page_wins(asking, monkeypatch):
    from fedcell.network.simulate import simulate_each
    from fedcell.planning.costs import rounds

    begun, go_on = threading.Event(), threading.Event()

    def slow(*given: Any, **more: Any) -> Any:
        begun.set()
        go_on.wait(20)
        return simulate_each(*given, **more)

    monkeypatch.setattr(rounds, "simulate_each", slow)
    old: list[dict] = []
    asked = {"law": LAW, "changes": {"cell.bandwidth": 3.3e6}}
    thread = threading.Thread(
        target=lambda: old.append(asking("view", asked=asked, page="wins", number=1))
    )
    thread.start()
    assert begun.wait(20)
    newer: list[dict] = []
    other = threading.Thread(
        target=lambda: newer.append(asking("view", asked={}, page="wins", number=2))
    )
    other.start()
    time.sleep(0.2)  # the newer question is known, and waits for the older one to end
    go_on.set()
    thread.join(20)
    other.join(20)
    assert old == [{"superseded": True}]
    assert newer[0]["plan"]["cohort"] == 3


def test_a_slow_surface_is_drawn_as_a_draft_first(monkeypatch):
    with served("digits", PILOT) as asking:
        assert view(asking, {}, draft=True)["draft"] is False  # nothing was slow yet
        monkeypatch.setattr("fedcell.studio.planning.DRAFT_FROM", 0.0)
        asked = {"changes": {"cell.bandwidth": 3e6}}
        draft = view(asking, asked, draft=True)
        assert draft["draft"] is True
        assert "plan" not in draft
        exact = view(asking, asked)
        assert exact["draft"] is False
        assert draft["surface"]["steps"] == exact["surface"]["steps"]
        known = view(asking, asked | {"deadline": 100.0}, draft=True)
        assert known["draft"] is False  # the surface is known: no draft is needed


def test_the_number_of_a_question_is_whole(asking):
    for wrong in ("1", None, 1.5, [1]):
        assert "whole number" in asking("view", asked={}, page="x", number=wrong)["faults"][0]


def test_a_page_gets_the_devices_that_spend_most(tmp_path, monkeypatch):
    (tmp_path / "fleet.csv").write_text("samples\n" + "\n".join(str(n) for n in range(300, 320)))
    (tmp_path / "many.toml").write_text('[clients]\ntable = "fleet.csv"\n')
    monkeypatch.setattr("fedcell.studio.planning.MOST_DEVICES", 3)
    with served(str(tmp_path / "many.toml")) as asking:
        answer = view(asking, {"law": LAW})
    assert len(answer["plan"]["devices"]) == 3
    spent = [device["energy"] for device in answer["plan"]["devices"]]
    parts = [sum(device["parts"].values()) for device in answer["parts"]["devices"]]
    assert spent == pytest.approx(parts[:3])


def test_without_a_pilot_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with served() as asking:
        answer = view(asking, {})
        assert "run one, or give a law by hand" in answer["faults"][0]
        status = asking("pilot", do="status", asked={})
        assert (status["holds"], status["job"]) == (None, None)
        assert status["file"] == "pilot-digits.json"


def test_the_files_can_be_taken_along(asking, tmp_path):
    from fedcell import load_plan, load_scenario

    asked = {"changes": {"cell.bandwidth": 5e6}}
    (tmp_path / "mine.toml").write_bytes(asking("take", asked=asked, what="toml"))
    assert load_scenario(tmp_path / "mine.toml").cell.bandwidth == 5e6
    (tmp_path / "plan.json").write_bytes(asking("take", asked=asked, what="plan"))
    assert load_plan(tmp_path / "plan.json").cohort == view(asking, asked)["plan"]["cohort"]
    assert asking("take", asked=asked, what="png").startswith(b"\x89PNG")
    assert b"<svg" in asking("take", asked=asked, what="svg")
    assert "faults" in asking("take", asked=asked, what="exe")
