"""The runs view reads what folders hold, and nothing outside them."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcell import load_run, load_scenario, load_seeds, run, run_seeds
from fedcell.deploy.exchanges import Exchange, ExchangeFile, Outcome
from fedcell.experiments.executors import Inline
from fedcell.experiments.statistics import mean_band
from fedcell.experiments.store import Store
from fedcell.paper.load import Edition
from fedcell.paper.reproduce import reproduce
from support.studios import MARKUP, served


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A run, seeds, and a panel of the paper that trains nothing."""
    home: Path = tmp_path_factory.mktemp("runs")
    digits = load_scenario("digits")
    run(digits, ["optimal", "even"], rounds=6, folder=home / "one")
    run_seeds(digits, ["optimal", "even"], seeds=2, rounds=4, folder=home / "inside" / "seeds")
    reproduce("fig6a", Store(home / "store"), Inline(), edition=Edition(quick=True), seeds=2).save(
        home / "panel"
    )
    return home


def files_of(home: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in sorted(home.rglob("*")) if f.is_file()}


def test_all_that_a_folder_holds_is_listed_and_shown_and_nothing_is_written(home):
    before = files_of(home)
    with served(None, folders=(home,)) as asking:
        assert asking("start")["planning"] is None
        listed = {each["name"]: each for each in asking("runs")["runs"]}
        assert {name: each["kind"] for name, each in listed.items()} == {
            "one": "run",
            "panel": "sweep",
            "inside/seeds": "seeds",
            "inside/seeds/seed0": "run",
            "inside/seeds/seed1": "run",
        }
        assert listed["one"]["status"] == "complete"
        for name in listed:
            assert "faults" not in asking("run", name=name)
        assert b"<svg" in asking("figure", name="panel")
    assert files_of(home) == before


def test_curves_of_a_run_are_those_of_its_ledger(home):
    result = load_run(home / "one")
    with served(None, folders=(home,)) as asking:
        shown = asking("run", name="one")
    even = result.ledgers["even"]
    assert shown["scores"]["train_loss"] == even.column("train_loss").tolist()
    assert shown["policies"]["even"]["duration"] == even.total_duration.tolist()
    assert shown["clients"]["even"]["energy"] == even.totals.energy.tolist()
    assert shown["round"] == list(range(1, 7))


def test_bands_of_seeds_are_those_of_the_library(home):
    result = load_seeds(home / "inside" / "seeds")
    with served(None, folders=(home,)) as asking:
        shown = asking("run", name="inside/seeds")
    rounds = [np.arange(1.0, 5.0)] * 2
    losses = [each.ledgers["even"].column("train_loss") for each in result.finished]
    _, mean, low, high = mean_band(rounds, losses, 300)
    band = shown["bands"]["rounds"][""]
    # Without a target the mean of five rounds is drawn, which four rounds do not fill.
    assert (band["mean"], band["low"], band["high"]) == (
        mean.tolist(),
        low.tolist(),
        high.tolist(),
    )
    assert set(shown["bands"]["energy"]) == {"optimal", "even"}


def test_verdicts_and_lines_of_a_panel_are_shown(home):
    with served(None, folders=(home,)) as asking:
        shown = asking("run", name="panel")
        other = asking("run", name="panel", by="energy", axis="nothing")
    verdicts = (home / "panel" / "verdicts.csv").read_text().splitlines()
    assert len(shown["verdicts"]) == len(verdicts) - 1
    assert shown["verdicts"][0]["outcome"] in ("held", "not held", "inconclusive")
    assert {line["policy"] for line in shown["lines"]} >= {"even", "optimal"}
    assert (other["by"], other["axis"]) == ("energy", shown["axis"])


def test_a_run_in_progress_grows(tmp_path):
    """The folder of a run in progress: fewer rounds, a lock that is held, no summary of the end."""
    seen: list[Any] = []
    with served(None, folders=(tmp_path,)) as asking:
        from fedcell import Observer

        def look(report: Any) -> None:
            if report.round in (2, 4):
                seen.append(asking("run", name="live"))

        digits = load_scenario("digits")
        run(digits, ["even"], rounds=5, folder=tmp_path / "live", observer=Observer(round=look))
        seen.append(asking("run", name="live"))
    lengths = [len(each["round"]) for each in seen]
    assert lengths[0] < lengths[1] < lengths[2] == 5
    assert [each["status"] for each in seen] == ["running", "running", "complete"]
    assert [each["clients"] is None for each in seen] == [True, True, False]


def test_exchanges_of_a_federation_are_shown_by_model_and_by_clock(home, tmp_path):
    shutil.copytree(home / "one", tmp_path / "federation")
    file = ExchangeFile(tmp_path / "federation")
    shared = {"share": 0.5, "freq": 1e8, "modelled_training": 2.0, "modelled_energy": 3.0}
    rows = [
        Exchange(
            round=1, client=0, name=MARKUP, outcome=Outcome.ARRIVED, modelled_upload=1.0,
            measured_upload=1.5, measured_training=2.5, **shared,
        ),
        Exchange(round=1, client=1, name="pi", outcome=Outcome.LATE, why=MARKUP, **shared),
    ]  # fmt: skip
    file.begin(0)
    file.add(rows)
    with served(None, folders=(tmp_path,)) as asking:
        shown = asking("run", name="federation")["exchanges"]
    assert shown["devices"][0]["name"] == MARKUP  # the page shows it as text
    assert (shown["devices"][0]["modelled_upload"], shown["devices"][0]["measured_upload"]) == (
        1.0,
        1.5,
    )
    assert shown["events"][0]["why"] == MARKUP


@pytest.mark.parametrize(
    "name", ["../one", "/etc", "one/../../etc", "", None, 3, "outside", "outside/one", MARKUP]
)
def test_no_path_outside_is_read(home, tmp_path, name):
    shutil.copytree(home / "one", tmp_path / "here" / "one")
    os.symlink(home, tmp_path / "here" / "outside")
    with served(None, folders=(tmp_path / "here",)) as asking:
        assert [each["name"] for each in asking("runs")["runs"]] == ["one"]
        answer = asking("run", name=name)
        assert answer == {"faults": ["there is no such run in the folders of this page"]}
        assert list(asking("figure", name=name)) == ["faults"]


def test_damaged_runs_are_named_and_do_not_hide_others(home, tmp_path):
    shutil.copytree(home / "one", tmp_path / "sound")
    shutil.copytree(home / "one", tmp_path / "broken")
    (tmp_path / "broken" / "ledger.csv").write_text("nonsense")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "experiment.json").write_text("{}")
    with served(None, folders=(tmp_path,)) as asking:
        listed = {each["name"]: each for each in asking("runs")["runs"]}
        assert listed["sound"]["status"] == "complete"
        assert "is damaged" in listed["broken"]["fault"]
        assert listed["sweep"]["fault"]
        assert "is damaged" in asking("run", name="broken")["fault"]


def test_without_a_world_nothing_is_planned_or_started(home):
    with served(None, folders=(home,)) as asking:
        for what in ("view", "take", "pilot"):
            status, content, _ = asking.request(
                "POST",
                f"/api/{what}",
                b'{"do": "start"}',
                **{"X-Fedcell-Token": asking.server.token},
            )
            assert (status, json.loads(content)) == (
                404,
                {"faults": ["there is no such question"]},
            )
