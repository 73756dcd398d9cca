"""Runs and their folders: what is written, what is refused, and resuming to the same bits."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from fedcell import (
    BadInput,
    draw_fleet,
    draw_trace,
    load_scenario,
    simulate,
    simulate_network,
)
from fedcell.learning.learner import Scores
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import NAMED
from fedcell.planning.pilot.runner import PilotRunner
from fedcell.scenario.load import shipped
from fedcell.show.figures import runs as figures
from fedcell.show.results import summary
from fedcell.simulation.run import Progress, run
from fedcell.simulation.summary import RoundReport
from support.examples import examples
from support.sealing import rewrite

Tables = dict[str, Any]

QUADRATIC: Tables = {
    "cell": {"loss_rate": 0.2},
    "clients": {"count": 6},
    "plan": {"cohort": 3, "local_steps": 2, "rounds": 5},
    "learning": {"model": "quadratic-apart"},
}
DIGITS: Tables = tomllib.loads(shipped("digits"))
FILES = {"ledger.csv", "clients.csv", "scenario.json", "summary.json", "loss.png"}
KEPT = {"run.json", "checkpoint.npz", "history.csv"}
MAIN = "from fedcell.cli.main import main; main()"


def changed(tables: Tables, **changes: Tables) -> Tables:
    """Tables with other values; None takes a key away."""
    merged = {name: dict(table) for name, table in tables.items()}
    for name, values in changes.items():
        merged[name] = {k: v for k, v in (merged.get(name, {}) | values).items() if v is not None}
    return merged


def write(path: Path, tables: Tables) -> Path:
    path.write_text(json.dumps(tables))
    return path


def held(folder: Path) -> dict[str, bytes]:
    """All that a folder holds, hidden files included."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def results(folder: Path) -> list[bytes]:
    """What must agree to the last bit: the tables, and the model."""
    with np.load(folder / "checkpoint.npz") as saved:
        model = saved["model"].tobytes()
    tables = ("ledger.csv", "clients.csv", "history.csv")
    return [model, *((folder / name).read_bytes() for name in tables)]


def column(folder: Path, name: str) -> list[float]:
    with (folder / "ledger.csv").open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def strict_json(text: str) -> Any:
    def refuse(what: str) -> None:
        raise ValueError(f"{what} is not JSON")

    return json.loads(text, parse_constant=refuse)


def written_summary(folder: Path) -> Any:
    """What summary.json says of the run, without its checksums."""
    content = strict_json((folder / "summary.json").read_text())
    assert content.pop("checksum")
    assert set(content.pop("files")) == {"clients.csv"}
    return content


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return write(tmp_path / "world.json", QUADRATIC)


class Drawn:
    """Stands for a figure of a run."""

    def __init__(self, ledgers: Any, target: Any, **_: Any) -> None:
        self.text = f"{list(ledgers)} {target}"

    def savefig(self, path: Path, **_: Any) -> None:
        path.write_text(self.text)


@pytest.fixture
def no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of the time of a short run."""
    monkeypatch.setattr(figures, "run_figure", Drawn)


# What a run writes.


def test_a_run_leaves_its_files_and_answers_in_json(fedcell, tmp_path):
    out = tmp_path / "new" / "deep"  # is made
    words = ["--policy", "even", "--policy", "optimal", "--rounds", 4, "--seed", 3, "--out", out]
    said = fedcell("run", "digits", *words, "--json")
    assert (said.code, said.err) == (0, "")
    assert set(held(out)) == FILES | KEPT
    answer = strict_json(said.out)
    assert answer == written_summary(out)
    assert [row["policy"] for row in answer["policies"]] == ["even", "optimal"]
    assert (answer["complete"], answer["seed"]) == (True, 3)
    assert answer["samples_per_step"] == "batch"
    assert answer["partition"]["samples"] == 1501
    loss = column(out, "train_loss")
    assert loss[::2] == loss[1::2]  # one training, priced twice, round after round
    assert answer["policies"][0]["train_loss"] == loss[-1]
    assert len((out / "clients.csv").read_text().splitlines()) == 1 + 2 * 50
    assert b"\r" not in (out / "ledger.csv").read_bytes()
    assert imread(out / "loss.png").shape[2] == 4


def test_a_run_prints_a_table_and_names_its_folder(fedcell, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fedcell("run", world, "--seed", 2)
    assert (said.code, said.err) == (0, "")
    assert "written to run-world-seed2: ledger.csv" in said.out
    assert all(name in said.out for name in NAMED)
    assert set(held(tmp_path / "run-world-seed2")) == FILES | KEPT


def _with_table(folder: Path) -> Tables:
    np.save(folder / "measured.npy", np.random.default_rng(1).uniform(1e-14, 1e-12, (5, 4)))
    table = [{"kappa": (4 + j) * 1e-27, "power": 4e-7, "freq_max": 1e9 + j} for j in range(4)]
    tables = changed(DIGITS, cell={"gains": "measured.npy"}, clients={"count": 4, "table": table})
    return changed(tables, plan={"cohort": 2})


def _with_own_data(folder: Path) -> Tables:
    rng = np.random.default_rng(2)
    parts = {"x_train": rng.normal(size=(60, 5)), "y_train": rng.integers(0, 3, 60)}
    np.savez(folder / "mine.npz", **parts, x_test=parts["x_train"], y_test=parts["y_train"])
    learning = {"dataset": "mine.npz", "model": "logistic", "rate": 0.3, "evaluate_every": 2}
    return {"clients": {"count": 7}, "plan": {"cohort": 3, "rounds": 5}, "learning": learning}


WORLDS = {
    "digits": lambda _: changed(DIGITS, plan={"rounds": 4}),
    "epochs": lambda _: changed(DIGITS, plan={"rounds": 2, "local_epochs": 2}),
    "table and gains": _with_table,
    "own data": _with_own_data,
    "quadratic": lambda _: QUADRATIC,
    "quadratic with sizes": lambda _: changed(QUADRATIC, clients={"sizes": [9, 8, 7, 30, 5, 4]}),
    "weighted": lambda _: changed(
        QUADRATIC, plan={"selection": "weighted", "cohort_drawn": "after-training"}
    ),
    "a ring": lambda _: changed(QUADRATIC, cell={"distance": [50, 200]}),
}


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize("name", WORLDS)
def test_the_scenario_that_was_used_gives_the_same_run(fedcell, tmp_path, monkeypatch, name):
    """From elsewhere, and without the options that it was run with."""
    (tmp_path / "here").mkdir()
    write(tmp_path / "here" / "world.json", WORLDS[name](tmp_path / "here"))
    monkeypatch.chdir(tmp_path)
    options = ["--seed", 5, "--policy", "distributed"]
    ending = [] if "gains" in name else ["--rounds", 3, "--target-loss", 1e-9]
    first = ["here/world.json", *options, *ending, "--out", "first"]
    said = fedcell("run", *first)
    assert (said.code, said.err) == (0, "")
    assert load_scenario(tmp_path / "first" / "scenario.json").learning is not None
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    again = ["../first/scenario.json", *options, "--out", "second"]
    assert fedcell("run", *again).code == 0
    assert results(tmp_path / "first") == results(tmp_path / "there" / "second")
    before = held(tmp_path / "first")  # and it is the same run, wherever its files lie
    assert fedcell("run", *again[:-1], "../first", "--resume").code == 0
    assert held(tmp_path / "first") == before


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("tables", [QUADRATIC, changed(DIGITS, plan={"local_steps": 1})])
def test_figures_and_losses_where_few_rounds_are_evaluated(fedcell, tmp_path, tables, rounds):
    file = write(tmp_path / "world.json", changed(tables, learning={"evaluate_every": 3}))
    words = ["--rounds", rounds, "--policy", "even", "--json"]
    said = fedcell("run", file, *words, "--out", tmp_path / "o")
    assert (said.code, said.err) == (0, "")
    assert imread(tmp_path / "o" / "loss.png").size
    evaluated = np.flatnonzero(np.isfinite(column(tmp_path / "o", "train_loss"))) + 1
    assert evaluated.tolist() == {1: [1], 2: [2], 4: [3, 4]}[rounds]
    assert strict_json(said.out)["policies"][0]["train_loss"] > 0


@pytest.mark.usefixtures("no_figure")
def test_threads_change_nothing(fedcell, tmp_path):
    for threads in (1, 2, 5):
        words = ["--rounds", 3, "--policy", "even", "--threads", threads]
        assert fedcell("run", "digits", *words, "--out", tmp_path / str(threads)).code == 0
    assert results(tmp_path / "1") == results(tmp_path / "2") == results(tmp_path / "5")


@pytest.mark.usefixtures("no_figure")
def test_a_run_stops_at_its_target(fedcell, tmp_path):
    words = ["--policy", "even", "--json", "--target-loss"]
    row = strict_json(fedcell("run", "digits", *words, 1.5, "--out", tmp_path / "o").out)
    loss = column(tmp_path / "o", "train_loss")
    assert loss[-1] <= 1.5 < min(loss[:-1])
    assert row["policies"][0]["to_target"]["rounds"] == len(loss)
    more = [*words, 1.2, "--out", tmp_path / "o", "--resume"]
    assert strict_json(fedcell("run", "digits", *more).out)["policies"][0]["rounds"] > len(loss)
    fedcell("run", "digits", *words, 1.2, "--out", tmp_path / "straight")
    assert results(tmp_path / "o") == results(tmp_path / "straight")


# Stopped and resumed.


@contextmanager
def process(*words: object) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which does not outlive the test."""
    command = [sys.executable, "-c", MAIN, *map(str, words)]
    pipe = subprocess.PIPE
    # A shell that starts us in the background has interrupts ignored, and children inherit that.
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as started:
        try:
            yield started
        finally:
            started.kill()


def wait_for_a_round(started: subprocess.Popen[str], folder: Path) -> None:
    """Until the process has written a checkpoint; it may have ended by then."""
    file = folder / "checkpoint.npz"
    before, deadline = (file.stat().st_mtime_ns if file.exists() else 0), time.monotonic() + 120
    while started.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.stat().st_mtime_ns > before:
            return
        time.sleep(0.002)


def rounds_done(folder: Path) -> int:
    if not (folder / "checkpoint.npz").exists():
        return 0
    with np.load(folder / "checkpoint.npz") as saved:
        return int(saved["rounds"])


LONG = ["run", "digits", "--rounds", 120, "--target-loss", 1e-9, "--policy", "optimal", "--out"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straight") / "run"
    run(load_scenario("digits"), {"optimal": "optimal"}, rounds=120, target=1e-9, folder=folder)
    return folder


@pytest.mark.long
def test_killed_at_random_moments_and_resumed_to_the_same_bits(fedcell, tmp_path, uninterrupted):
    moments, folder, stops = random.Random(7), tmp_path / "run", [0]
    for _ in range(4):
        with process(*LONG, folder, *["--resume"] * (folder / "run.json").exists()) as started:
            wait_for_a_round(started, folder)
            time.sleep(moments.uniform(0, 0.3))
            started.send_signal(signal.SIGKILL)
        stops.append(rounds_done(folder))
    assert stops == sorted(stops)
    assert any(0 < done < 120 for done in stops), "no kill hit the run: give it more rounds"
    assert not {"clients.csv", "loss.png"} & set(held(folder)) or stops[-1] == 120
    assert fedcell(*LONG, folder, "--resume").code == 0
    assert results(folder) == results(uninterrupted)
    assert set(held(folder)) == FILES | KEPT  # nothing aside is left


def test_ctrl_c_leaves_results_and_says_how_to_go_on(fedcell, tmp_path, uninterrupted):
    folder = tmp_path / "a run"
    with process(*LONG, folder, "--json") as started:
        wait_for_a_round(started, folder)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=120)
    assert started.returncode == 130
    assert f"give the same command with --resume --out '{folder}'" in err
    assert len(err.splitlines()) == 1
    answer, done = strict_json(out), rounds_done(folder)
    assert 0 < done < 120
    assert answer["complete"] is False
    assert set(held(folder)) == FILES | KEPT
    loss = column(folder, "train_loss")
    assert answer["policies"][0]["rounds"] == len(loss) <= done + 1  # a save may be cut short
    assert loss == column(uninterrupted, "train_loss")[: len(loss)]
    assert fedcell(*LONG, folder, "--resume").code == 0
    assert results(folder) == results(uninterrupted)
    assert held(folder)["summary.json"] == held(uninterrupted)["summary.json"]


KILLING = """
import os, signal, sys
from fedcell.show.figures import runs as figures
from fedcell.cli.main import main

class Drawn:
    def __init__(self, *_, **__):
        pass
    def savefig(self, path, **_):
        path.write_text("a figure")

figures.run_figure = Drawn

def at(moment, *words):
    '''The command in a fork that is killed when it changes a file: before, if even, or after.'''
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    count = 0
    def deadly(change):
        def changed(*arguments):
            nonlocal count
            for turn in (count, count + 1):
                if turn == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                if turn == count:
                    done = change(*arguments)
            count += 2
            return done
        return changed
    os.replace, os.ftruncate = deadly(os.replace), deadly(os.ftruncate)
    write = os.write
    os.write = deadly(lambda handle, text: write(handle, text[:20]))  # a part at a time
    sys.argv = ["fedcell", *words]
    sys.stdout = open(os.devnull, "w")
    try:
        main()
    except SystemExit as stop:
        os._exit(stop.code)
    os._exit(0)

file, home = sys.argv[1:]
for moment in range(500):
    words = ["run", file, "--rounds", "3", "--policy", "even", "--out", f"{home}/{moment}"]
    code = at(moment, *words)
    begun = os.path.exists(f"{home}/{moment}/run.json")
    again = at(-1, *words, *["--resume"] * begun)
    print(moment, code, again, flush=True)
    if code == 0:
        break
"""


@pytest.mark.long
def test_killed_at_every_change_of_a_file_and_resumed(tmp_path):
    """The folder, what the run is, records, checkpoints, results: no moment leaves a folder that
    can neither be resumed nor started, or that ends elsewhere."""
    file = write(tmp_path / "world.json", changed(QUADRATIC, cell={"gains": None}))
    command = [sys.executable, "-c", KILLING, file, tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    said = [list(map(int, line.split())) for line in ran.stdout.splitlines()]
    moments = len(said) - 1  # the last was not killed
    assert moments > 2 * (2 + 3 + 4 + 3 * 4)  # what it is and is given, rounds, results, lines
    assert [codes for _, *codes in said] == [[-signal.SIGKILL, 0]] * moments + [[0, 0]]
    straight = held(tmp_path / str(moments))
    assert set(straight) == FILES | KEPT
    assert all(held(tmp_path / str(moment)) == straight for moment in range(moments))


def interrupt_after(rounds: int) -> Progress:
    def each(report: RoundReport) -> None:
        if report.round == rounds:
            raise KeyboardInterrupt

    return Progress(round=each)


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize("every", [1, 3])
def test_more_rounds_are_as_if_never_stopped(fedcell, tmp_path, every):
    for name, tables in (("q", QUADRATIC), ("d", changed(DIGITS, plan={"local_steps": 2}))):
        file = write(tmp_path / f"{name}.json", changed(tables, learning={"evaluate_every": every}))
        words = ["run", file, "--policy", "even", "--out"]
        for rounds in (4, 7, 7):
            resume = ["--resume"] * (tmp_path / name).exists()
            assert fedcell(*words, tmp_path / name, "--rounds", rounds, *resume).code == 0
        assert fedcell(*words, tmp_path / f"{name}7", "--rounds", 7).code == 0
        assert held(tmp_path / name) == held(tmp_path / f"{name}7")


@pytest.mark.usefixtures("no_figure")
def test_an_interrupted_run_may_end_where_it_stopped(fedcell, world, tmp_path):
    """Its last round is then evaluated, as that of a run which was to end there."""
    write(world, changed(QUADRATIC, learning={"evaluate_every": 3}))
    words = ["run", world, "--policy", "even", "--rounds", 4, "--out"]
    stopped = run(
        load_scenario(world), {"even": "even"}, folder=tmp_path / "a", progress=interrupt_after(4)
    )
    assert not stopped.complete
    assert np.isnan(stopped.outcome.policies[0].scores.train_loss)
    assert fedcell(*words, tmp_path / "a", "--resume").code == 0
    assert fedcell(*words, tmp_path / "b").code == 0
    assert results(tmp_path / "a") == results(tmp_path / "b")


def test_resuming_what_is_finished_changes_nothing(fedcell, world, tmp_path):
    words = ["run", world, "--out", tmp_path / "o"]
    assert fedcell(*words).code == 0
    before = held(tmp_path / "o")
    assert fedcell(*words, "--resume", "--json").code == 0
    assert held(tmp_path / "o") == before


def test_interrupted_before_the_first_round(fedcell, world, tmp_path, monkeypatch):
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedcell.simulation.execution.train_rounds", stop)
        said = fedcell("run", world, "--out", tmp_path / "o")
        assert (said.code, said.out) == (130, "")
        assert said.err == (
            "fedcell: interrupted; to go on, give the same command with --resume "
            f"--out {tmp_path / 'o'}\n"
        )
        patch.setattr(PilotRunner, "run_all", stop)
        assert fedcell("demo", "--out", tmp_path / "demo").code == 130
    assert set(held(tmp_path / "o")) == {"run.json", "scenario.json"}
    assert fedcell("run", world, "--out", tmp_path / "o", "--resume").code == 0
    assert set(held(tmp_path / "o")) == FILES | KEPT


# Folders that are refused, and left as they are.


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    world = load_scenario(write(folder / "world.json", QUADRATIC))
    run(world, {"even": "even"}, folder=folder / "run")
    return folder / "run"


@pytest.fixture
def done(finished: Path, tmp_path: Path) -> Path:
    return Path(copytree(finished, tmp_path / "done"))


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        ([], {}, "holds this run already: give --resume"),
        (["--resume", "--rounds", "4"], {}, "has done 5 rounds already: give --rounds 5 or more"),
        (
            ["--resume", "--seed", "1"],
            {},
            "already holds a different run (seed differs): choose another --out",
        ),
        (["--seed", "1"], {}, "already holds a different run (seed differs): choose another --out"),
        (["--resume"], {"learning": {"rate": 0.2}}, "(learning.rate differs)"),
        (["--resume"], {"clients": {"sizes": [1, 2, 3, 4, 5, 6]}}, "(clients.sizes differs)"),
        (["--resume"], {"cell": {"noise": 1e-19}, "plan": {"cohort": 2}}, "cell.noise, plan."),
        (
            ["--resume"],
            {"learning": {"model": "logistic"}, "clients": {"count": 9}},
            "(data, clients.count, learning.model, task.cycles_per_sample, task.model_bits differ",
        ),
    ],
)
def test_another_run_is_refused_and_left_alone(fedcell, done, world, words, changes, message):
    write(world, changed(QUADRATIC, **changes))
    before = held(done)
    said = fedcell("run", world, "--out", done, *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert said.err.startswith(f"fedcell: {done}: ")
    assert len(said.err.splitlines()) == 1
    assert held(done) == before


@pytest.mark.usefixtures("no_figure")
def test_other_data_is_another_run_and_the_same_elsewhere_is_not(fedcell, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "world.json", _with_own_data(tmp_path / name))
    words = ["--policy", "even", "--out", tmp_path / "o"]
    assert fedcell("run", tmp_path / "one" / "world.json", *words, "--rounds", 2).code == 0
    assert fedcell("run", tmp_path / "two" / "world.json", *words, "--resume").code == 0
    with np.load(tmp_path / "two" / "mine.npz") as saved:
        np.savez(tmp_path / "two" / "mine.npz", **dict(saved) | {"x_test": saved["x_test"] + 1})
    before = held(tmp_path / "o")
    said = fedcell("run", tmp_path / "two" / "world.json", *words, "--resume")
    assert said.code == 2
    assert "already holds a different run (data differs)" in said.err
    assert held(tmp_path / "o") == before


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_places_that_are_no_run(fedcell, world, tmp_path, resume):
    (tmp_path / "file").write_text("keep")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("keep")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = held(tmp_path)
    for place, message in [
        ("file", "is not a folder: choose another --out"),
        ("full", "holds other things than a run: choose another --out"),
        ("file/inside", "there is no run to resume" if resume else "cannot be made: Not a dir"),
        ("loop", "loop"),
    ]:
        said = fedcell("run", world, "--out", tmp_path / place, *resume)
        assert (said.code, said.out) == (2, ""), place
        assert message in said.err
        assert len(said.err.splitlines()) == 1
    said = fedcell("run", world, "--out", "/proc/here", *resume)
    assert said.code == 2
    assert "/proc/here: " in said.err
    assert held(tmp_path) == before


@pytest.mark.usefixtures("no_figure")
def test_what_is_not_there_cannot_be_resumed_and_what_is_empty_is_begun(fedcell, world, tmp_path):
    said = fedcell("run", world, "--out", tmp_path / "o", "--resume")
    assert said.code == 2
    assert "there is no run to resume; leave --resume out to start one" in said.err
    for name, resume in (("a", []), ("b", ["--resume"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".fedcell-12-0123456789abcdef-run.json").write_text(
            '{"scen'
        )  # killed right there
        assert fedcell("run", world, "--out", tmp_path / name, *resume).code == 0
        assert set(held(tmp_path / name)) == FILES | KEPT
    assert not (tmp_path / "o").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_may_not_be_written(fedcell, world, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    said = fedcell("run", world, "--out", tmp_path / "closed" / "o")
    assert said.code == 2
    assert "cannot be made: Permission denied: choose another --out" in said.err


@pytest.mark.parametrize("name", ["checkpoint.npz", "history.csv", "run.json"])
@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "text"])
def test_damaged_files_are_named_with_the_way_out(fedcell, done, world, name, damage):
    file = done / name
    good = file.read_bytes()
    noise = bytearray(good)
    noise[len(good) // 2 :] = bytes(len(good) - len(good) // 2)
    bad = {"empty": b"", "cut": good[: len(good) // 2], "noise": bytes(noise), "text": b"\xff{"}
    file.write_bytes(bad[damage])
    before = held(done)
    said = fedcell("run", world, "--out", done, "--resume")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"fedcell: {file}: is damaged: ")
    ways_out = {"checkpoint.npz": "delete it", "history.csv": "delete checkpoint.npz to start"}
    assert ways_out.get(name, "choose another --out") in said.err
    assert len(said.err.splitlines()) == 1
    assert held(done) == before
    if name == "checkpoint.npz":
        file.unlink()
        assert fedcell("run", world, "--out", done, "--policy", "even", "--resume").code == 0


SAVED = {  # a checkpoint of one round
    "model": np.zeros(20, np.float32),
    "average": np.zeros(20, np.float32),
    "deliver": np.int64(1),
    "rounds": np.int64(1),
    "last": np.zeros(4),
    "checksum": np.int64(0),
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", b"[]", "is damaged"),
        ("run.json", b'{"format": 0}', "is not a run that fedcell wrote"),
        (
            "run.json",
            b'{"fedcell": "0.1.0", "format": 1}',
            "is a run of an older fedcell (0.1.0, format 1; this one reads 3): choose",
        ),
        ("run.json", b'{"fedcell": "0.9", "format": 4}', "is a run of a newer fedcell (0.9,"),
        ("run.json", b'{"fedcell": "0.2.0", "format": 3}', "already holds a different run"),
        (
            "run.json",
            b'{"fedcell": "0.2.0", "format": 3, "scenario": 3, "seed": "0"}',
            "already holds a different run",
        ),
        ("run.json", b"[" * 100_000, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": 3.0}, "does not fit"),
        ("checkpoint.npz", SAVED | {"last": np.zeros(3)}, "does not fit"),
        ("checkpoint.npz", SAVED | {"rounds": np.zeros(2)}, "does not fit"),
        ("checkpoint.npz", SAVED | {"rounds": np.int64(0)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"deliver": np.int64(2)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"deliver": np.int64(-1)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"deliver": np.zeros(2)}, "does not fit"),
        ("checkpoint.npz", SAVED | {"rounds": np.int64(-3)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"rounds": np.int64(2)}, "history.csv: is damaged"),
        ("checkpoint.npz", SAVED | {"checksum": np.int64(7)}, "history.csv: is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([-1.0, 1, 1, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([np.nan, 1, 1, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([0.5, 1, 1, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([np.inf, 1, 1, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([1e300, 1, 1, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([0, -np.inf, 1, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([0, 1, -5.0, 1])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"last": np.array([0, 1, 1, 7.0])}, "is damaged"),
        ("checkpoint.npz", SAVED | {"model": np.full(20, np.nan, np.float32)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"model": np.full(20, np.inf, np.float32)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"model": np.zeros(20)}, "does not fit"),
        ("checkpoint.npz", SAVED | {"model": np.zeros(9, np.float32)}, "does not fit"),
        ("checkpoint.npz", {"model": np.zeros(20, np.float32)}, "is damaged"),
        ("checkpoint.npz", SAVED | {"model": np.array([None])}, "does not fit"),
    ],
)
def test_files_of_something_else(fedcell, done, world, name, content, message):
    if isinstance(content, dict):
        np.savez(done / name, **content)
    else:
        (done / name).write_bytes(content)
    said = fedcell("run", world, "--out", done, "--resume")
    assert said.code == 2
    assert message in said.err
    assert len(said.err.splitlines()) == 1


# Input that is refused: one sentence, and nothing left behind.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper"], "the scenario has no [learning]"),
        (["nowhere"], "nowhere is no file and not a shipped scenario"),
        (["digits", "--target-loss", "0"], "--target-loss = 0.0: expected a finite number above"),
        (["digits", "--target-loss", "-1"], "--target-loss = -1.0: expected a finite number"),
        (["digits", "--target-loss", "nan"], "--target-loss = nan: expected a finite number"),
        (["digits", "--target-loss", "inf"], "--target-loss = inf: expected a finite number"),
        (["digits", "--target-loss", "1e-99"], "learning.target = 1e-99: expected a number above"),
        (["digits", "--target-loss", "low"], "--target-loss"),
        (["digits", "--policy", "even", "--policy", "even"], "--policy: give each once"),
        (["digits", "--policy", "evn"], "evn is not a policy: did you mean even?"),
        (["digits", "--policy", ""], " is not a policy: known: even"),
        (["digits", "--policy", "no.such:thing"], "no.such:thing cannot be loaded"),
        (["digits", "--rounds", "0"], "--rounds"),
        (["digits", "--rounds", "1.5"], "--rounds"),
        (["digits", "--seed", "-1"], "--seed"),
        (["digits", "--seed", str(2**64)], "expected a whole number from 0 to 2^64 - 1"),
        (["digits", "--threads", "0"], "--threads"),
        (["digits", "--resume"], "run-digits-seed0: there is no run to resume"),
    ],
)
def test_bad_options(fedcell, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    said = fedcell("run", *words)
    assert (said.code, said.out) == (2, "")
    assert message in " ".join(said.err.split())
    assert not list(tmp_path.iterdir())


SPLIT, NETS = "learning.partition", "learning.layers"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "digit"}, "digit is not a dataset: did you mean digits?"),
        ({"dataset": "no.npz"}, "no.npz: cannot be read: No such file or directory"),
        ({"dataset": "bad.npz"}, "bad.npz: is not a sound .npz file of arrays"),
        ({"dataset": "\x00.npz"}, "holds a character that cannot be shown"),
        ({"dataset": ""}, "learning.dataset = '': expected text"),
        ({"dataset": ["digits"]}, "learning.dataset = ['digits']: expected text"),
        ({"model": "resnet"}, "learning.model = 'resnet': expected \"cnn-small\" or"),
        ({"model": "cnn-small", "layers": None}, "convolution 1 with kernel 5 is given 2 x 2"),
        ({"rate": -1}, "learning.rate = -1: expected a number above 0"),
        ({"rate": 0}, "learning.rate = 0: expected a number above 0"),
        ({"rate": float("nan")}, "learning.rate = nan: expected a number above 0"),
        ({"rate": "0.1"}, "learning.rate = '0.1': expected a number above 0"),
        ({"rates": 0.1}, "learning.rates is not a key; did you mean learning.rate?"),
        ({"rate_decay": float("inf")}, "learning.rate_decay = inf: expected a number from 0"),
        ({"momentum": 1}, "learning.momentum = 1: expected a number from 0 to below 1"),
        ({"target": 0}, "learning.target = 0: expected a number above 0"),
        ({"evaluate_every": 0}, "learning.evaluate_every = 0: expected a whole number"),
        ({"evaluate_samples": 1.5}, "learning.evaluate_samples = 1.5: expected a whole number"),
        ({"aggregation": "median"}, "learning.aggregation = 'median': expected \"unbiased\" or"),
        ({"partition": {"kind": "even"}}, f"{SPLIT}.kind = 'even': expected \"iid\" or"),
        ({"partition": {"kind": "iid", "alpha": 0.1}}, f"{SPLIT}.alpha is for dirichlet and"),
        ({"partition": {"sigma": 1.0}}, f"{SPLIT}.sigma is for lognormal"),
        ({"partition": {"spread": 1}}, f"{SPLIT}.spread = 1: expected a number from 0 to below 1"),
        ({"partition": {"kind": "dirichlet", "sizes": "uniform"}}, f"{SPLIT}.sizes = "),
        ({"partition": {"kind": "shards", "num_shards_per_partition": 99}}, f"{SPLIT}.num_shards"),
        ({"partition": []}, f"{SPLIT} = []: expected a table"),
        ({"layers": []}, f"{NETS} = []: expected a table"),
        ({"layers": {"hidden": 32}}, f"{NETS}.hidden = 32: expected a list"),
        ({"layers": {"hidden": ["a"]}}, f"{NETS}.hidden = ['a']: expected a list"),
        ({"layers": {"hidden": [0]}}, f"{NETS}.hidden = [0]: expected a list"),
        ({"layers": {"convs": {}}}, f"{NETS}.convs = {{}}: expected a list of tables"),
        ({"layers": {"convs": [8]}}, f"{NETS}.convs[0] = 8: expected a table"),
        ({"layers": {"convs": [{}]}}, f"{NETS}.convs[0].channels is missing"),
        ({"layers": {"convs": [{"channels": -1}]}}, f"{NETS}.convs[0].channels = -1: expected"),
        ({"layers": {"convs": [{"channels": 2, "kernel": 8}]}}, "kernel 8 is given 8 x 8 pixels"),
        ({"quadratic": {"noise": -1}}, "learning.quadratic.noise = -1: expected a number"),
        ({"quadratic": {"curvature_min": 3}}, "learning.quadratic.curvature_min = 3 is above"),
    ],
)
@pytest.mark.parametrize("command", ["run", "partition"])
def test_a_bad_learning_table(fedcell, tmp_path, monkeypatch, command, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("bad.npz").write_text("no")
    write(Path("world.json"), changed(DIGITS, learning=changes))
    place = ["--out", "new/o"] if command == "run" else ["--figure", "o.png"]
    said = fedcell(command, "world.json", *place, "--json")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert set(held(tmp_path)) == {"world.json", "bad.npz"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": {"count": 1502}}, "clients.count = 1502: expected 1 to 1501, as many as"),
        ({"plan": {"cohort": 51}}, "plan.cohort = 51 is more than the 50 clients there are"),
        ({"cell": {"gain_threshold": 1e9}}, "no client was ever called"),
        ({"clients": {"table": [{"samples": 5}] * 50}}, "clients.table has samples"),
        ({"clients": {"sizes": [1, 2]}}, "clients.sizes has 2 numbers for 50 clients"),
        ({"cell": {"gains": "no.npy"}}, "cell.gains: no.npy cannot be read: No such file"),
    ],
)
def test_a_scenario_that_cannot_be_run(fedcell, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    write(Path("world.json"), changed(DIGITS, **changes))
    said = fedcell("run", "world.json", "--out", "o")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert set(held(tmp_path)) == {"world.json"}


def test_more_rounds_than_gains(fedcell, tmp_path):
    file = write(tmp_path / "world.json", _with_table(tmp_path))
    said = fedcell("run", file, "--rounds", 6, "--out", tmp_path / "o")
    assert said.code == 2
    assert "cell.gains holds 5 rounds and 6 are needed" in said.err
    assert not (tmp_path / "o").exists()


def test_data_that_cannot_be_had(fedcell, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    said = fedcell("run", "mnist", "--data-dir", tmp_path / "data", "--out", tmp_path / "o")
    assert (said.code, said.out) == (2, "")
    assert "cannot be downloaded" in said.err
    assert str(tmp_path / "data") in said.err  # where to put it
    assert not held(tmp_path)


STRANGE = st.sampled_from(
    [
        *[None, True, 0, -1, 1, 3, 0.5, 1e-300, 1e59, 10**30, float("nan"), float("inf"), ""],
        *["x", "\x00.npz", "dirichlet", "mlp", "quadratic-apart", [], [1], [[]], [{}], {}],
    ]
)
KEYS = st.sampled_from(
    [
        *["dataset", "partition", "model", "layers", "quadratic", "rate", "momentum", "target"],
        *["partition.kind", "partition.sizes", "partition.spread", "partition.alpha"],
        *["partition.same_skew_as", "partition.seed", "layers.convs", "layers.hidden"],
        *["quadratic.dimension", "quadratic.distance", "aggregation", "evaluate_samples"],
    ]
)


@pytest.mark.long
@given(strange=st.dictionaries(KEYS, STRANGE, min_size=1, max_size=3))
@examples(150)
def test_strange_learning_never_ends_in_a_traceback(fedcell, tmp_path, strange):
    learning = json.loads(json.dumps(DIGITS["learning"]))
    for key, value in strange.items():
        *above, last = key.split(".")
        table = learning.setdefault(above[0], {}) if above else learning
        if isinstance(table, dict):
            table[last] = deepcopy(value)
    file = write(tmp_path / "world.json", DIGITS | {"learning": learning})
    said = fedcell("partition", file, "--json")
    assert said.code in (0, 2)
    if said.code == 0:
        assert strict_json(said.out)["samples"] == 1501
    else:
        assert said.out == ""
        assert all(line.startswith("fedcell: ") for line in said.err.splitlines())


# The other commands that learn, or price what is learnt.


def test_partition_shows_and_draws(fedcell, tmp_path):
    figure = tmp_path / "p.png"
    said = fedcell("partition", "digits", "--figure", figure, "--seed", 4, "--json")
    assert (said.code, said.err) == (0, "")
    answer = strict_json(said.out)
    assert (answer["dataset"], answer["kind"], answer["clients"]) == ("digits", "pathological", 50)
    assert answer["classes_per_client"] == 3
    assert imread(figure).size
    assert list(tmp_path.iterdir()) == [figure]
    said = fedcell("partition", "digits", "--seed", 4)
    assert "1501 samples of digits over 50 clients" in said.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper"], "the scenario has no [learning]"),
        (["digits", "--figure", "p.txt"], "p.txt: the name must end in one of: png"),
        (["digits", "--figure", "no/p.png"], "no/p.png: cannot be written: there is no folder"),
        (["digits", "--seed", "-1"], "--seed"),
    ],
)
def test_partition_refuses(fedcell, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    said = fedcell("partition", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert not list(tmp_path.iterdir())


def test_quadratics_have_no_partition(fedcell, world):
    said = fedcell("partition", world)
    assert said.code == 2
    assert "quadratics need no data: there is no partition to show" in said.err


def test_cost_is_that_of_what_is_trained(fedcell, tmp_path):
    said = fedcell("cost", "digits", "--rounds", 6, "--seed", 2, "--policy", "even", "--json")
    answer = strict_json(said.out)
    assert answer["samples_per_step"] == "batch"
    settled = prepare_training(load_scenario("digits"), 2).scenario
    assert settled.task.model_bits == 117056
    ledger = simulate_network(settled, "even", 6, 2)
    assert answer["policies"][0]["energy"]["value"] == pytest.approx(ledger.energy.mean())
    words = ["--rounds", 6, "--seed", 2, "--policy", "even", "--target-loss", 1e-9]
    assert fedcell("run", "digits", *words, "--out", tmp_path / "o").code == 0
    assert column(tmp_path / "o", "energy") == ledger.energy.tolist()


@pytest.mark.long
def test_the_demo_works_twice(fedcell, tmp_path):
    first = fedcell("demo", "--out", tmp_path / "d", "--budget", "8s")
    assert first.code == 0
    for part in (
        "Rounds to the target",
        "clients a round and let each train",
        "The plan's predictions against this run",
    ):
        assert part in first.out
    before = held(tmp_path / "d")
    own = {"partition.png", "pilot.json", "plan.json", "plan.png"}
    pilots = {name for name in before if name.startswith("runs/")}  # the pilot's trainings
    assert pilots
    assert set(before) - pilots == own | {f"run/{name}" for name in FILES | KEPT}
    second = fedcell("demo", "--out", tmp_path / "d", "--budget", "8s")
    # But for the seconds that training took, which the second did not do.
    said, again = (
        [line for line in o.splitlines() if "this machine took" not in line]
        for o in (first.out, second.out)
    )
    assert (second.code, again) == (0, said)
    assert held(tmp_path / "d") == before


# What goes wrong while it learns.


@pytest.mark.filterwarnings("default")
def test_uploads_that_are_not_finite_are_named_left_out_and_counted(fedcell, tmp_path):
    learning = {"rate": 1e38, "model": "logistic", "layers": None}
    file = write(tmp_path / "world.json", changed(DIGITS, learning=learning))
    words = ["--rounds", 3, "--policy", "even", "--out", tmp_path / "o"]
    said = fedcell("run", file, *words, "--json")
    assert said.code == 0
    answer = strict_json(said.out)
    assert answer == written_summary(tmp_path / "o")
    received = column(tmp_path / "o", "received")
    discarded = column(tmp_path / "o", "discarded_uploads")
    assert received == discarded
    notes = said.err.splitlines()
    assert sum(discarded) == answer["policies"][0]["discarded_uploads"] > 0
    assert [note[:22] for note in notes] == [f"fedcell: note: round {t}" for t in (1, 2, 3)]
    assert all("the uploads of clients" in note for note in notes)
    assert set(column(tmp_path / "o", "train_loss")) == {answer["initial"]["train_loss"]}
    assert imread(tmp_path / "o" / "loss.png").size


@pytest.mark.filterwarnings("default")
def test_losses_that_are_not_numbers_are_null(fedcell, tmp_path):
    """Weights are finite and what they make of an image is not."""
    learning = {"rate": 1e16, "model": "mlp", "layers": None}
    steps = {"local_steps": 1}
    file = write(tmp_path / "world.json", changed(DIGITS, learning=learning, plan=steps))
    words = ["--rounds", 3, "--policy", "even", "--out", tmp_path / "o"]
    said = fedcell("run", file, *words, "--json")
    assert said.code == 0
    answer = strict_json(said.out)
    assert answer["policies"][0]["train_loss"] is None
    assert answer["initial"]["train_loss"] == pytest.approx(2.3, abs=0.2)
    assert answer == written_summary(tmp_path / "o")
    assert np.isnan(column(tmp_path / "o", "train_loss")).all()
    again = fedcell("run", file, *words, "--resume")
    assert "the training loss is not a number: training diverged" in again.out
    assert imread(tmp_path / "o" / "loss.png").size


@pytest.mark.usefixtures("no_figure")
def test_the_model_stays_where_nothing_arrives(fedcell, tmp_path):
    file = write(
        tmp_path / "world.json",
        changed(DIGITS, cell={"loss_rate": 0.97}, learning={"deliver": "last"}),
    )
    words = ["--rounds", 12, "--policy", "even", "--out", tmp_path / "o", "--json"]
    answer = strict_json(fedcell("run", file, *words).out)
    received = column(tmp_path / "o", "received")
    loss = [answer["initial"]["train_loss"], *column(tmp_path / "o", "train_loss")]
    assert 0 < received.count(0) < 12
    for i, arrived in enumerate(received):
        assert (loss[i + 1] == loss[i]) == (arrived == 0)


def test_calls_that_are_refused_in_a_sentence(world):
    scenario = load_scenario(world)
    setup = prepare_training(scenario)
    calls: list[tuple[dict[str, Any], str]] = [
        ({"rounds": 0}, "`rounds` = 0: expected a whole number above 0"),
        ({"rounds": range(2, 4)}, "`rounds` = range"),
        ({"target": float("nan")}, "`target` = nan: expected a finite number above 0"),
        ({"target": "low"}, "`target` = low: expected a finite number above 0"),
        ({"learner": None}, "the learner is a NoneType: expected sizes, start, train and evaluate"),
        ({"seed": -1}, "`seed` = -1: expected a whole number"),
    ]
    for wrong, message in calls:
        call: dict[str, Any] = {"learner": setup.learner(), "rounds": 2} | wrong
        with pytest.raises(BadInput, match=message):
            simulate(setup.scenario, "even", **call)
    calls = [
        ({"policies": ["evn"]}, "evn is not a policy"),
        ({"resume": True}, "`resume` needs the folder of the run: give `folder`"),
        ({"rounds": 1.5}, "`rounds` = 1.5"),
    ]
    for wrong, message in calls:
        with pytest.raises(BadInput, match=message):
            run(scenario, **wrong)
    with pytest.raises(BadInput, match="`threads` = 0: expected a whole number above 0"):
        run(load_scenario("digits"), ["even"], rounds=1, threads=0)
    with pytest.raises(BadInput, match="`data` is a str: expected a Dataset"):
        prepare_training(load_scenario("digits"), data="x")  # type: ignore[arg-type]


def test_a_trace_of_ones_own_is_trained_and_priced(world):
    """Measured channels as a trace: who is called, and whose upload is lost, is what it says."""
    setup = prepare_training(load_scenario(world))
    scenario, learner = setup.scenario, setup.learner()
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 4)
    silent = replace(trace, lost=np.ones_like(trace.lost))
    ledger = simulate(scenario, "even", learner, rounds=4, trace=silent)
    assert ledger.received.tolist() == [0, 0, 0, 0]
    first = learner.evaluate(learner.start()).train_loss
    assert ledger.train_loss.tolist() == [first] * 4
    same = simulate(scenario, "even", learner, rounds=4, trace=trace)
    assert same.train_loss.tolist() == simulate(scenario, "even", learner, 4).train_loss.tolist()


def test_a_trace_with_fewer_rounds_than_asked_for_is_refused(world):
    setup = prepare_training(load_scenario(world))
    scenario, learner = setup.scenario, setup.learner()
    trace = draw_trace(scenario, draw_fleet(scenario), 4)
    with pytest.raises(BadInput, match="the trace holds 4 rounds and `rounds` = 6: ask for fewer"):
        simulate(scenario, "even", learner, rounds=6, trace=trace)
    assert simulate(scenario, "even", learner, rounds=3, trace=trace).rounds == 3
    assert simulate(scenario, "even", learner, trace=trace).rounds == 4


@pytest.mark.parametrize("complete", [True, False])
def test_only_a_run_that_went_to_its_end_is_said_to_diverge(world, complete):
    """An interrupted one may only not have been evaluated after its last round."""
    result = run(load_scenario(world), ["even"], rounds=2)
    (outcome,) = result.outcome.policies
    unknown = replace(outcome, scores=Scores(float("nan")))
    cut = replace(result.outcome, complete=complete, policies=(unknown,))
    assert ("diverged" in summary(replace(result, outcome=cut))) == complete


def test_a_link_in_the_place_of_the_picture_is_not_followed(fedcell, world, tmp_path):
    words = ["run", world, "--out", tmp_path / "o", "--policy", "even"]
    assert fedcell(*words).code == 0
    (tmp_path / "holiday.png").write_text("sun")
    (tmp_path / "o" / "loss.png").unlink()
    (tmp_path / "o" / "loss.png").symlink_to(tmp_path / "holiday.png")
    assert fedcell(*words, "--resume").code == 0
    assert (tmp_path / "holiday.png").read_text() == "sun"
    assert (tmp_path / "o" / "loss.png").stat().st_size > 10_000


def test_what_a_listener_raises_is_not_taken_for_the_folder_s_fault(world, tmp_path):
    def broken(*_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        run(load_scenario(world), ["even"], folder=tmp_path / "o", progress=Progress(round=broken))


def test_policies_with_names_that_cannot_be_shown_are_refused_before_training(world):
    with pytest.raises(BadInput, match="is not a name that can be shown"):
        run(load_scenario(world), {"a\udcff": "even"})


def test_a_run_that_another_kind_of_processor_began_says_so(fedcell, tmp_path):
    words = ["run", write(tmp_path / "d.json", DIGITS), "--policy", "even", "--rounds", 2]
    words += ["--target-loss", 1e-9, "--out", tmp_path / "o"]
    assert fedcell(*words).code == 0
    file = tmp_path / "o" / "run.json"
    known = json.loads(file.read_text())
    assert known["vector_width"] in (4, 8, 16)
    rewrite(file, vector_width=2 * known["vector_width"])
    said = fedcell(*words, "--resume")
    assert said.code == 2
    assert f"takes {2 * known['vector_width']} numbers at a time, and this one takes" in said.err
    assert f"set FEDCELL_LANES={2 * known['vector_width']} to go on to the same bits" in said.err
