"""Every reader gets thousands of nearly valid files: it reads them, or reports the fault in one
sentence per file; it never fails otherwise, and does not change existing files. Files with a
checksum are read as written, or not at all."""

import gzip
import json
import lzma
import random
import shutil
import tarfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import (
    FedcellError,
    Region,
    TrainingPlan,
    load_pilot,
    load_run,
    load_scenario,
    plan_training,
    run,
    run_pilot,
    run_seeds,
)
from fedcell.core.errors import UNPRINTABLE, FedcellWarning
from fedcell.core.files.formats import as_json
from fedcell.deploy.exchanges import EXCHANGES, Exchange, ExchangeFile, read_exchanges
from fedcell.deploy.wire.profile import Profile
from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.seeds import load_seeds
from fedcell.experiments.store import Store
from fedcell.experiments.training import Curve
from fedcell.learning.data.dataset import load_data
from fedcell.learning.data.sources import PUBLISHED
from fedcell.learning.engines.engine import vector_width
from fedcell.learning.setup import prepare_training
from fedcell.network import load_round, simulate_network
from fedcell.scenario.save import to_tables
from support.examples import examples
from support.mutations import changed_bytes, changed_csv, changed_json, changed_toml, changed_tree
from support.published import publish_tiny

seeds = st.integers(0, 2**32 - 1)

WORLD: dict[str, Any] = {
    "clients": {"count": 8, "samples": 30, "spread": 0.0},
    "cell": {"loss_rate": 0.1},
    "plan": {"cohort": 3, "local_steps": 4, "rounds": 60},
    "learning": {"model": "quadratic-apart", "target": 0.8, "rate": 0.02},
}
EXPERIMENT = """
title = "mine"
scenario = "digits"
seeds = 3
rounds = 40
hold = 5
policy = ["even", "optimal"]
precision = 0.1

[plan]
cohort = [2, 4]

[learning]
rate = [0.01, 0.02]
target = 0.5

[[variant]]
name = "far"
cell.distance = 200
"""
KEY = "ab" * 16
ROUND = json.loads((Path(__file__).parents[1] / "docs" / "round.json").read_text())
TABLE = "samples,kappa,distance\n100,1e-27,50\n200,2e-27,80\n150,1e-27,120\n"


def survives(read: Callable[[], Any]) -> Any:
    """Return what is read, or None if it is refused with printable sentences."""
    try:
        return read()
    except FedcellError as error:
        faults = error.faults
    assert faults
    assert all(fault and not UNPRINTABLE.search(fault) for fault in faults), faults
    return None


def faithful(read: Callable[[], str], sound: str) -> None:
    """Check that a file with a checksum is read as written, unless a note reports a missing
    checksum."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", FedcellWarning)
        found = survives(read)
    if found is not None and not any("checksum" in str(note.message) for note in notes):
        assert found == sound


def changed_file(path: Path, rng: random.Random) -> None:
    """Damage a file according to its kind."""
    raw = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_bytes(changed_json(json.loads(raw), rng))
    elif path.suffix == ".csv" and rng.random() < 0.7:
        path.write_bytes(changed_csv(raw.decode(), rng))
    else:
        path.write_bytes(changed_bytes(raw, rng))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Valid files of every kind."""
    home = tmp_path_factory.mktemp("sound")
    (home / "world.json").write_text(json.dumps(WORLD))
    world = load_scenario(home / "world.json")
    pilot = run_pilot(world, 2.0, home / "pilot.json", region=Region(steps=(1, 16)))
    plan_training(world, pilot, region=Region(policy="even")).save(home / "plan.json")
    run(world, ["even"], rounds=4, target=1e-9, folder=home / "run")
    run_seeds(world, ["even"], seeds=2, rounds=4, target=1e-9, folder=home / "seeds")
    losses = tuple(np.random.default_rng(0).uniform(0.1, 2.3, 12).tolist())
    ends = {3: (1.5, 0.25), 5: (None, None)}
    curve = Curve(key=KEY, seed=3, train_loss=losses, ends=ends, vector_width=vector_width())
    Store(home / "store").put(curve)
    return home


@given(seed=seeds)
@examples(300)
def test_scenarios(tmp_path, seed):
    rng = random.Random(seed)
    name = rng.choice(["digits", "paper", "cnn", "mnist"])
    tables = to_tables(load_scenario(name))
    file = tmp_path / "world.json"
    file.write_bytes(changed_json(tables, rng))
    world = survives(lambda: load_scenario(file))
    if world is not None and world.clients.count <= 2000 and world.plan.cohort <= 200:
        with np.errstate(all="ignore"):
            survives(lambda: simulate_network(world, "optimal", 2))


@given(seed=seeds)
@examples(300)
def test_scenarios_in_toml(tmp_path, seed):
    rng = random.Random(seed)
    text = (Path(load_scenario.__code__.co_filename).parent / "shipped" / "digits.toml").read_text()
    file = tmp_path / "world.toml"
    file.write_bytes(changed_toml(text, rng))
    survives(lambda: load_scenario(file))


@given(seed=seeds)
@examples(250)
def test_tables_of_clients_and_gains(tmp_path, seed):
    rng = random.Random(seed)
    (tmp_path / "clients.csv").write_bytes(changed_csv(TABLE, rng))
    gains = np.random.default_rng(0).uniform(1e-14, 1e-12, (4, 3))
    if rng.random() < 0.5:
        name = "gains.csv"
        text = "\n".join(",".join(map(str, row)) for row in gains.tolist())
        (tmp_path / name).write_bytes(changed_csv(text, rng))
    else:
        name = "gains.npy"
        np.save(tmp_path / name, gains)
        (tmp_path / name).write_bytes(changed_bytes((tmp_path / name).read_bytes(), rng))
    world = {"clients": {"table": "clients.csv"}, "cell": {"gains": name}, "plan": {"cohort": 1}}
    (tmp_path / "world.json").write_text(json.dumps(world))
    found = survives(lambda: load_scenario(tmp_path / "world.json"))
    if found is not None:
        survives(lambda: simulate_network(found, "even", 2))


@given(seed=seeds)
@examples(250)
def test_single_rounds(tmp_path, seed):
    file = tmp_path / "round.json"
    file.write_bytes(changed_json(ROUND, random.Random(seed)))
    survives(lambda: load_round(file))


@given(seed=seeds)
@examples(150)
def test_pilots(home, tmp_path, seed):
    rng = random.Random(seed)
    file = tmp_path / "pilot.json"
    shutil.copy(home / "pilot.json", file)
    changed_file(file, rng)
    faithful(lambda: pilot_in(file), written(pilot_in, home / "pilot.json"))


@given(seed=seeds)
@examples(100)
def test_pilots_without_a_checksum(home, tmp_path, seed):
    rng = random.Random(seed)
    file = tmp_path / "pilot.json"
    content = json.loads((home / "pilot.json").read_text())
    del content["checksum"]
    file.write_bytes(changed_json(content, rng))
    with warnings.catch_warnings(action="ignore", category=FedcellWarning):
        pilot = survives(lambda: load_pilot(file))
    if pilot is not None and rng.random() < 0.2:
        survives(pilot.fit)


@given(seed=seeds)
@examples(150)
def test_plans(home, tmp_path, seed):
    rng = random.Random(seed)
    file = tmp_path / "plan.json"
    shutil.copy(home / "plan.json", file)
    changed_file(file, rng)
    faithful(lambda: plan_in(file), written(plan_in, home / "plan.json"))


@given(seed=seeds)
@examples(100)
def test_plans_without_a_checksum(home, tmp_path, seed):
    file = tmp_path / "plan.json"
    content = json.loads((home / "plan.json").read_text())
    del content["checksum"]
    file.write_bytes(changed_json(content, random.Random(seed)))
    with warnings.catch_warnings(action="ignore", category=FedcellWarning):
        plan = survives(lambda: TrainingPlan.load(file))
    if plan is not None:
        assert plan.summary()


@given(seed=seeds)
@examples(150)
def test_experiments(tmp_path, seed):
    file = tmp_path / "mine.toml"
    file.write_bytes(changed_toml(EXPERIMENT, random.Random(seed)))
    survives(lambda: load_experiment(file))


@given(seed=seeds)
@examples(200)
def test_stores(home, tmp_path, seed):
    rng = random.Random(seed)
    folder = shutil.copytree(home / "store", tmp_path / "store", dirs_exist_ok=True)
    (file,) = folder.glob("*/*.json")
    changed_file(file, rng)
    faithful(lambda: curve_in(folder), written(curve_in, home / "store"))
    content = json.loads((home / "store" / "ab" / file.name).read_text())
    del content["checksum"]
    file.write_bytes(changed_json(content, rng))
    with warnings.catch_warnings(action="ignore", category=FedcellWarning):
        survives(lambda: Store(folder).get(KEY, 3))


@cache
def written(read: Callable[[Path], str], path: Path) -> str:
    """Return the contents of a valid file."""
    return read(path)


def pilot_in(file: Path) -> str:
    return repr(replace(load_pilot(file), path=None))


def plan_in(file: Path) -> str:
    return as_json(TrainingPlan.load(file).to_dict())


def curve_in(folder: Path) -> str:
    return repr(Store(folder).get(KEY, 3))


def seeds_in(folder: Path) -> str:
    return as_json(load_seeds(folder).to_dict())


def told_by(folder: Path) -> str:
    """Return the contents of a run folder, to the bit."""
    found = load_run(folder)
    told = [found.to_dict(), found.rows(), found.identity]
    return as_json({"told": told}) + found.state.model.tobytes().hex()


@given(seed=seeds)
@examples(120)
def test_run_folders_are_loaded_as_they_were_written(home, tmp_path, seed):
    rng = random.Random(seed)
    folder = shutil.copytree(home / "run", tmp_path / "run", dirs_exist_ok=True)
    names = ("run.json", "history.csv", "ledger.csv", "checkpoint.npz", "summary.json")
    changed_file(folder / rng.choice([*names, "clients.csv"]), rng)
    faithful(lambda: told_by(folder), written(told_by, home / "run"))


@given(seed=seeds)
@examples(60)
def test_seeds_folders_are_loaded_as_they_were_written(home, tmp_path, seed):
    rng = random.Random(seed)
    folder = shutil.copytree(home / "seeds", tmp_path / "seeds", dirs_exist_ok=True)
    names = ["run.json", "ledger.csv", "summary.json", "scenario.json"]
    changed_file(folder / f"seed{rng.randrange(2)}" / rng.choice(names), rng)
    faithful(lambda: seeds_in(folder), written(seeds_in, home / "seeds"))


@given(seed=seeds)
@examples(150)
def test_exchanges_and_profiles(tmp_path, seed):
    rng = random.Random(seed)
    (tmp_path / EXCHANGES).unlink(missing_ok=True)
    lines = [
        Exchange(round=t, client=j, name=f"pump-{j}", outcome="arrived", share=0.5, freq=1e9)
        for t in (1, 2)
        for j in (0, 1)
    ]
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add(lines)
    changed_file(tmp_path / EXCHANGES, rng)
    survives(lambda: read_exchanges(tmp_path))
    said = {"name": "pump-1", "client": 1, "samples": 9, "kappa": 5e-27, "rate": 1e6, "clock": 2.0}
    survives(lambda: Profile.of(changed_tree(said, rng)))


@given(seed=seeds)
@examples(200)
def test_run_folders(home, tmp_path, seed):
    rng = random.Random(seed)
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    for file in (home / "run").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    name = rng.choice(["run.json", "checkpoint.npz", "history.csv"])
    raw = (folder / name).read_bytes()
    if name == "run.json":
        (folder / name).write_bytes(changed_json(json.loads(raw), rng))
    elif name == "history.csv":
        (folder / name).write_bytes(changed_csv(raw.decode(), rng))
    elif rng.random() < 0.5:
        (folder / name).write_bytes(changed_bytes(raw, rng))
    else:
        with np.load(folder / name) as saved:
            arrays = dict(saved)
        changed = rng.choice(list(arrays))
        arrays[changed] = rng.choice(
            [np.full_like(arrays[changed], rng.choice([-1, 3, 2**31])), np.zeros(3), np.array("x")]
        )
        np.savez(folder / name, **arrays)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    world = load_scenario(home / "world.json")
    result = survives(
        lambda: run(world, ["even"], rounds=5, target=1e-9, folder=folder, resume=True)
    )
    if result is None:
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    else:
        assert np.isfinite(result.state.model).all()


@given(seed=seeds)
@examples(200)
def test_own_data(tmp_path, seed):
    rng = random.Random(seed)
    file, numbers = tmp_path / "mine.npz", np.random.default_rng(seed)
    given = {
        "x_train": numbers.integers(0, 256, (20, 3, 3), np.uint8),
        "y_train": np.arange(20) % 3,
        "x_test": numbers.integers(0, 256, (6, 3, 3), np.uint8),
        "y_test": np.arange(6) % 3,
    }
    if rng.random() < 0.5:
        name = rng.choice(list(given))
        bad: list[Any] = [-1, 10**4, 2**40, np.nan, np.inf, -np.inf, 1e300]
        values = given[name].astype(rng.choice([float, np.int64, np.float16, np.uint8]))
        with suppress(OverflowError, ValueError), np.errstate(all="ignore"):
            values.flat[rng.randrange(values.size)] = rng.choice(bad)
        shapes = [values, values[:1], values[..., None], values.T, values.ravel(), values[:0]]
        given[name] = rng.choice(shapes)
    save = rng.choice([np.savez, np.savez_compressed])
    save(file, **given)
    if rng.random() < 0.5:
        file.write_bytes(changed_bytes(file.read_bytes(), rng))
    data = survives(lambda: load_data(file))
    if data is not None and rng.random() < 0.1:  # accepted data can be trained on
        tables = {
            "clients": {"count": 2},
            "plan": {"cohort": 2, "local_steps": 1},
            "learning": {"dataset": str(file), "model": "logistic", "target": 0.1, "rate": 0.01},
        }
        (tmp_path / "world.json").write_text(json.dumps(tables))
        setup = survives(lambda: prepare_training(load_scenario(tmp_path / "world.json")))
        if setup is not None:
            learner = setup.learner(threads=1)
            list(learner.train(learner.start(), [0, 1], 0))


@pytest.fixture
def tiny(monkeypatch):
    """Published datasets of a few samples, with an empty cache."""
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = {name: publish_tiny(monkeypatch, name) for name in ("mnist", "cifar10")}
    return lambda name: files[name]  # whose repr is short, should an example fail


@given(seed=seeds)
@examples(50)
def test_published_files_and_their_cache(tiny, tmp_path, seed):
    rng = random.Random(seed)
    name = rng.choice(["mnist", "cifar10"])
    folder = tmp_path / f"{seed}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        pack = rng.choice([lambda raw: raw, gzip.compress, lzma.compress])
        ending = "" if pack(b"") == b"" else ".gz" if pack is gzip.compress else ".xz"
        for file, raw in tiny(name).items():
            path = folder / "data" / f"{file}{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pack(raw))
        if name == "cifar10" and not ending:
            with tarfile.open(folder / "data" / "cifar-10-python.tar.gz", "w:gz") as archive:
                archive.add(folder / "data" / "cifar-10-batches-py", "cifar-10-batches-py")
            for path in (folder / "data" / "cifar-10-batches-py").iterdir():
                path.unlink()
        victims = [path for path in (folder / "data").rglob("*") if path.is_file()]
        if rng.random() < 0.5:
            found = load_data(name, folder / "data")
            good = [np.array(array) for array in (found.x_train, found.y_train)]
            victims = [path for path in (folder / "cache").rglob("*") if path.is_file()]
        victim = rng.choice(victims)
        victim.write_bytes(changed_bytes(victim.read_bytes(), rng))
        found = survives(lambda: load_data(name, folder / "data"))
        if "cache" in str(victim.relative_to(folder)):
            assert found is not None, "a damaged cache is rebuilt"
            assert np.array_equal(found.x_train, good[0])
            assert np.array_equal(found.y_train, good[1])
        if found is not None:
            assert found.fingerprint == PUBLISHED[name].fingerprint


def test_valid_files_are_read(home):
    """Otherwise the tests above would be vacuous."""
    assert load_scenario(home / "world.json").clients.count == 8
    assert load_pilot(home / "pilot.json").trials
    assert TrainingPlan.load(home / "plan.json").cohort >= 1
    world = load_scenario(home / "world.json")
    assert run(world, ["even"], rounds=4, target=1e-9, folder=home / "run", resume=True).complete
