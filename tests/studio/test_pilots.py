"""A pilot that the page starts: one at a time, with progress, cancelled cleanly, found again."""

import time
from pathlib import Path
from typing import Any

import pytest

from fedcell import load_pilot
from support.studios import MARKUP, Asking, served


def until(asking: Asking, wanted: Any, seconds: float = 90.0) -> dict:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status: dict = asking("pilot", do="status", asked={})
        if wanted(status):
            return status
        time.sleep(0.1)
    raise AssertionError(status)


@pytest.fixture
def asking(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with served() as each:
        yield each


@pytest.mark.long
def test_a_pilot_runs_is_cancelled_and_is_used(asking):
    first = asking("pilot", do="start", asked={}, budget="60s")
    assert first["job"]["state"] == "running"
    assert (
        "a pilot is in progress" in asking("pilot", do="start", asked={}, budget="5s")["faults"][0]
    )
    status = until(asking, lambda s: s["holds"] and s["holds"]["reached"] >= 3)
    assert status["job"]["elapsed"] < 60
    asking("pilot", do="cancel", asked={})
    status = until(asking, lambda s: s["job"]["state"] != "running")
    assert (status["job"]["state"], status["job"]["fault"]) == ("cancelled", None)
    kept = load_pilot("pilot-digits.json")
    assert len(kept.trials) >= status["holds"]["reached"] >= 3
    answer = asking("view", asked={}, page="a", number=1)
    assert [answer["plan"]["cohort"], answer["plan"]["local_steps"]] in answer["surface"]["tried"]


@pytest.mark.long
def test_a_changed_scenario_gets_a_pilot_of_its_own(asking):
    asked = {"changes": {"learning.rate": 0.05}}
    started = asking("pilot", do="start", asked=asked, budget="2s")
    name = Path(started["file"]).name
    assert name.startswith("pilot-digits-")
    until(asking, lambda s: s["job"]["state"] != "running")
    status = asking("pilot", do="status", asked=asked)
    if status["holds"] and "fault" not in status["holds"]:  # the budget sufficed for a trial
        assert load_pilot(name).identity["scenario"]["learning"]["rate"] == 0.05
    assert asking("pilot", do="status", asked={})["holds"] is None


@pytest.mark.long
def test_the_end_of_the_server_ends_the_pilot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with served() as asking:
        asking("pilot", do="start", asked={}, budget="600s")
        begin = time.monotonic()
    assert time.monotonic() - begin < 60


@pytest.mark.long
def test_a_pilot_that_fails_says_why(asking):
    Path("pilot-digits.json").write_text("{}")
    asking("pilot", do="start", asked={}, budget="2s")
    status = until(asking, lambda s: s["job"]["state"] != "running")
    assert "pilot-digits.json" in status["job"]["fault"]
    assert "Traceback" not in status["job"]["fault"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"do": "start", "budget": "now"}, "budget = now: expected a time"),
        ({"do": "start", "budget": "1000d"}, "expected 1s to 24h"),
        ({"do": "start", "budget": MARKUP}, "budget ="),
        ({"do": "dance"}, "expected start, cancel or status"),
        ({"do": "start", "asked": {"changes": {"learning.dataset": "x"}}}, "scenario's file"),
    ],
    ids=str,
)
def test_what_cannot_be_run_is_said(asking, body, said):
    answer = asking("pilot", **({"asked": {}} | body))
    assert said in answer["faults"][0]


def test_a_scenario_that_trains_nothing_has_no_pilot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with served("paper") as asking:
        answer = asking("pilot", do="start", asked={}, budget="5s")
        assert "trains nothing" in answer["faults"][0]
        assert asking("start")["planning"]["trains"] is False
    assert list(tmp_path.iterdir()) == []
