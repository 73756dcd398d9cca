"""A run is loaded from its folder as `run` returned it, or as far as it has come."""

import math
import os
import shutil

import numpy as np
import pytest

from fedcell import FedcellWarning, Observer, load_run, load_scenario, run
from fedcell.errors import BadFile, BadInput
from fedcell.simulation.summary import RoundReport
from support.runs import SCENARIO, assert_same
from support.sealing import rewrite, unseal


def test_client_totals_of_an_earlier_end_are_not_loaded(tmp_path):
    """A resumed run keeps the clients.csv of its previous end until it ends again."""
    run(SCENARIO, ["even"], rounds=3, folder=tmp_path / "before")
    run(SCENARIO, ["even"], rounds=6, folder=tmp_path / "now")
    shutil.copy(tmp_path / "before" / "clients.csv", tmp_path / "now")
    with pytest.raises(BadFile, match=r"clients.csv: is not of the rounds of ledger.csv"):
        load_run(tmp_path / "now")
    rewrite(tmp_path / "now" / "summary.json", complete=False)
    under_way = load_run(tmp_path / "now")
    assert not under_way.complete
    assert under_way.ledgers["even"].totals.energy.size == 0
    assert under_way.ledgers["even"].rounds == 6


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("world", ["quadratic", "digits"])
def test_what_is_loaded_is_what_was_returned(tmp_path, world, every):
    scenario = SCENARIO if world == "quadratic" else load_scenario("digits")
    scenario = scenario.using(learning={"evaluate_every": every})
    result = run(scenario, ["even", "optimal"], rounds=7, target=1e-9, folder=tmp_path / "o")
    loaded = load_run(tmp_path / "o")
    assert_same(loaded, result)
    assert loaded.complete
    assert loaded.summary() == result.summary()
    assert_same(load_run(str(tmp_path / "o")), result)


def test_an_interrupted_run_is_loaded_with_its_rounds_so_far(tmp_path):
    def stop(report: RoundReport) -> None:
        if report.round == 4:
            raise KeyboardInterrupt

    scenario = SCENARIO.using(learning={"evaluate_every": 3})
    result = run(scenario, ["even"], folder=tmp_path / "o", observer=Observer(round=stop))
    loaded = load_run(tmp_path / "o")
    assert_same(loaded, result)
    assert (loaded.complete, loaded.state.rounds) == (False, 4)
    ended = run(scenario, ["even"], rounds=4, folder=tmp_path / "o", resume=True)
    assert np.isfinite(ended.state.last_loss)  # evaluated out of turn, which is kept
    assert_same(load_run(tmp_path / "o"), ended)


def test_interrupted_while_a_round_is_saved_it_is_whole_all_the_same(tmp_path, monkeypatch):
    """SIGTERM comes most likely while files are brought to the disk."""
    fsync, calls = os.fsync, 0

    def interrupted(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 14:
            raise KeyboardInterrupt
        fsync(handle)

    monkeypatch.setattr(os, "fsync", interrupted)
    result = run(SCENARIO, ["even"], folder=tmp_path / "o")
    assert 0 < result.state.rounds < 8
    assert_same(load_run(tmp_path / "o"), result)


def test_a_run_in_progress_is_loaded_without_client_totals(tmp_path):
    seen = []

    def look(_: RoundReport) -> None:
        seen.append(load_run(tmp_path / "o"))

    result = run(SCENARIO, ["even"], folder=tmp_path / "o", observer=Observer(round=look))
    assert [one.state.rounds for one in seen] == list(range(1, 9))
    for t, one in enumerate(seen, 1):
        ledger = one.ledgers["even"]
        assert ledger.total_energy.tolist() == result.ledgers["even"].total_energy[:t].tolist()
        assert ledger.totals.energy.size == 0
        assert not one.complete
        assert repr(one.outcome.initial) == repr(result.outcome.initial)
        assert math.isnan(one.outcome.policies[0].highest_client_energy)
    assert "after 8 rounds: training loss" in seen[-1].summary()
    seen[-1].plot()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", None, "holds no run: expected run.json in it"),
        ("checkpoint.npz", None, "no round is done yet: resume the run"),
        ("checkpoint.npz", b"PK", "checkpoint.npz: is damaged"),
        ("ledger.csv", b"", "ledger.csv: is damaged: delete it, and resume the run"),
        ("ledger.csv", b"policy,round\neven,1\n", "ledger.csv: is damaged"),
        ("ledger.csv", "cut", "ledger.csv: has fewer rounds than checkpoint.npz: resume"),
        ("ledger.csv", "number", "ledger.csv: is damaged"),
        ("ledger.csv", "missing", "ledger.csv: is damaged"),
        ("ledger.csv", "count", "ledger.csv: is damaged"),
        ("ledger.csv", "short", "ledger.csv: is damaged"),
        ("clients.csv", b"policy,client\neven,1\n", "clients.csv: is damaged: resume"),
        ("clients.csv", b"policy\n", "clients.csv: is not of the rounds of ledger.csv"),
        ("summary.json", b"{}", "summary.json: is damaged: resume"),
        ("summary.json", b'{"policies": 3}', "summary.json: is damaged"),
        ("summary.json", None, "summary.json: cannot be read"),
        ("run.json", b'{"fedcell": "9", "format": 9}', "is a run of a newer fedcell"),
    ],
)
def test_folders_that_cannot_be_loaded_say_why(tmp_path, name, content, message):
    run(SCENARIO, ["even"], folder=tmp_path / "o")
    file = tmp_path / "o" / name
    lines = file.read_bytes().splitlines(keepends=True)
    if content is None:
        file.unlink()
    elif content == "cut":
        file.write_bytes(b"".join(lines[:-2]))
    elif content == "number":
        file.write_bytes(b"".join(lines).replace(b"even,3,", b"even,3,x"))
    elif content == "count":
        file.write_bytes(b"".join(lines).replace(b",3,3,", b",nan,3,"))
    elif content == "short":
        file.write_bytes(b"".join([*lines[:3], b"even,3\n"]))
    elif content == "missing":
        file.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    else:
        file.write_bytes(content)
    with pytest.raises(BadFile, match=message):
        load_run(tmp_path / "o")
    with pytest.raises(BadInput, match="holds no run"):
        load_run(tmp_path)


def test_a_run_is_drawn_again_from_its_folder(fedcell, tmp_path):
    run(SCENARIO, ["even"], folder=tmp_path / "o")
    said = fedcell("figure", tmp_path / "o")
    assert said.code == 0
    assert (tmp_path / "o" / "loss.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "o" / "loss.png").exists()
    said = fedcell("figure", tmp_path / "o", "--by", "energy")
    assert (said.code, "--by and --axis are for sweeps" in said.err) == (2, True)
    shutil.rmtree(tmp_path / "o")
    said = fedcell("figure", tmp_path)
    assert (said.code, "holds no sweep" in said.err) == (2, True)


def test_a_ledger_of_older_runs_is_read_in_the_order_that_it_has(tmp_path):
    """Those that were written at the end have one policy after the other."""
    result = run(SCENARIO, ["even", "optimal"], folder=tmp_path / "o")
    file = tmp_path / "o" / "ledger.csv"
    unseal(file)
    header, *lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([header, *lines[::2], *lines[1::2]]))
    with pytest.warns(FedcellWarning, match=r"o/ledger\.csv: has no checksum"):
        assert_same(load_run(tmp_path / "o"), result)
