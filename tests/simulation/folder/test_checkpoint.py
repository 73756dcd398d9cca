"""Runs are stopped at any moment and resumed to the same bits."""

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcell import Observer, load_scenario
from fedcell.planning.pilot.runner import PilotRunner
from fedcell.simulation.run import run
from fedcell.simulation.summary import RoundReport
from support.runs import (
    DIGITS,
    FILES,
    KEPT,
    QUADRATIC,
    changed,
    column,
    held,
    results,
    rounds_done,
    strict_json,
    write,
)
from support.signalled import CHECKPOINT, signalled

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
        words = [*LONG, folder, *["--resume"] * (folder / "run.json").exists()]
        calls, delay = moments.randint(1, 20), moments.uniform(0, 0.005)
        with signalled(
            *words, place=CHECKPOINT, calls=calls, sent=signal.SIGKILL, delay=delay
        ) as started:
            started.communicate(timeout=300)
        stops.append(rounds_done(folder))
    assert stops == sorted(stops)
    assert any(0 < done < 120 for done in stops), "no kill hit the run: give it more rounds"
    assert not {"clients.csv", "loss.png"} & set(held(folder)) or stops[-1] == 120
    assert fedcell(*LONG, folder, "--resume").code == 0
    assert results(folder) == results(uninterrupted)
    assert set(held(folder)) == FILES | KEPT  # nothing aside is left


def test_ctrl_c_leaves_results_and_prints_how_to_resume(fedcell, tmp_path, uninterrupted):
    folder = tmp_path / "a run"
    words = [*LONG, folder, "--json"]
    with signalled(*words, place=CHECKPOINT, calls=5, sent=signal.SIGINT) as started:
        out, err = started.communicate(timeout=300)
    assert started.returncode == 130
    assert f"give the same command with --resume --out '{folder}'" in err
    assert len(err.splitlines()) == 1
    answer, done = strict_json(out), rounds_done(folder)
    assert done == 5
    assert answer["complete"] is False
    assert set(held(folder)) == FILES | KEPT
    loss = column(folder, "train_loss")
    assert answer["policies"][0]["rounds"] == len(loss) == done
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


def interrupt_after(rounds: int) -> Observer:
    def each(report: RoundReport) -> None:
        if report.round == rounds:
            raise KeyboardInterrupt

    return Observer(round=each)


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
        load_scenario(world), {"even": "even"}, folder=tmp_path / "a", observer=interrupt_after(4)
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
            "fedcell: interrupted; to resume, give the same command with --resume "
            f"--out {tmp_path / 'o'}\n"
        )
        patch.setattr(PilotRunner, "run_all", stop)
        assert fedcell("demo", "--out", tmp_path / "demo").code == 130
    assert set(held(tmp_path / "o")) == {"run.json", "scenario.json"}
    assert fedcell("run", world, "--out", tmp_path / "o", "--resume").code == 0
    assert set(held(tmp_path / "o")) == FILES | KEPT
