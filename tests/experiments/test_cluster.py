"""Sweeps on a Dask cluster: the same bytes as here, and a worker that is killed loses nothing."""

import json
import os
import signal
from pathlib import Path

import pytest

from fedcell import BadInput
from fedcell.experiments.engines import DaskCluster, Inline
from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep

pytestmark = pytest.mark.extras
WORLD = {
    "clients": {"count": 8, "samples": 30, "spread": 0.0},
    "plan": {"cohort": 3, "local_steps": 4, "rounds": 40},
    "learning": {"model": "quadratic-apart", "target": 0.8, "rate": 0.02},
}


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as running:
        yield running


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "world.json").write_text(json.dumps(WORLD))
    content = {"scenario": "world.json", "seeds": 4, "plan": {"cohort": [2, 4]}}
    (tmp_path / "tiny.json").write_text(json.dumps(content))
    return load_experiment(tmp_path / "tiny.json")


def held(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.rglob("[0-9a-f]*.json")}


def test_the_cluster_makes_the_same_bytes(cluster, tiny, tmp_path):
    here = run_sweep(tiny, Store(tmp_path / "here"), Inline())
    there = run_sweep(tiny, Store(tmp_path / "there"), DaskCluster(cluster.scheduler_address))
    assert here.made == there.made == 8
    assert held(tmp_path / "here") == held(tmp_path / "there")


def killing(job: tuple[int, str]) -> int:
    """Kills its worker the first time."""
    number, mark = job
    if number == 2 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def test_a_worker_that_is_killed_loses_nothing(cluster, tmp_path):
    jobs = [(i, str(tmp_path / "mark")) for i in range(10)]
    found = dict(DaskCluster(cluster.scheduler_address).run(killing, jobs))
    assert found == {job: job[0] ** 2 for job in jobs}
    assert (tmp_path / "mark").exists()


def test_the_command_goes_to_the_cluster(cluster, tiny, fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(tiny.points) == 2
    said = fedcell("sweep", "tiny.json", "--cluster", cluster.scheduler_address)
    assert said.code == 0, said.err
    assert "8 trainings made" in said.out


def test_a_cluster_that_is_not_there_is_said_so(monkeypatch):
    with pytest.raises(BadInput, match="`cluster` = nonsense: cannot be reached"):
        DaskCluster("nonsense")
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(BadInput, match=r"`cluster` needs Dask: pip install 'fedcell\[cluster\]'"):
        DaskCluster("tcp://127.0.0.1:1")
