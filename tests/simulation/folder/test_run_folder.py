"""Folders of other runs, of other things and with damage are refused, and left as they are."""

import os
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from fedcell import load_scenario
from fedcell.simulation.run import run
from support.runs import FILES, KEPT, QUADRATIC, changed, held, with_own_data, write


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
        write(tmp_path / name / "world.json", with_own_data(tmp_path / name))
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
