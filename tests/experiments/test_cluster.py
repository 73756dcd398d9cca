"""Sweeps on a Dask cluster: the same bytes as here, and a worker that is killed loses nothing."""

import argparse
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedcell.errors import BadInput
from fedcell.experiments.executors import DaskCluster, Inline
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


def test_runs_of_seeds_go_to_the_cluster(cluster, tiny, fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(tiny.points) == 2
    words = ("run", "world.json", "--policy", "even", "--rounds", 4, "--seeds", 3)
    there = fedcell(*words, "--cluster", cluster.scheduler_address, "--out", "there")
    assert there.code == 0, there.err
    here = fedcell(*words, "--out", "here")
    assert here.code == 0, here.err
    for seed in range(3):
        one, other = (tmp_path / name / f"seed{seed}" / "ledger.csv" for name in ("here", "there"))
        assert one.read_bytes() == other.read_bytes()
    alone = fedcell("run", "world.json", "--cluster", cluster.scheduler_address)
    assert "--cluster: one run is made by --threads" in alone.err


def test_a_league_goes_to_the_cluster(cluster, tiny, fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(tiny.points) == 2
    words = ("--select", "uniform", "--select", "power-of-choice", "--policy", "even", "--seeds", 2)
    said = fedcell("compare", "world.json", *words, "--cluster", cluster.scheduler_address)
    assert said.code == 0, said.err
    assert "power-of-choice" in said.out


def test_a_cluster_that_cannot_be_reached_is_refused(monkeypatch):
    with pytest.raises(BadInput, match="`cluster` = nonsense: cannot be reached"):
        DaskCluster("nonsense")
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(BadInput, match=r"`cluster` needs Dask: pip install 'fedcell\[cluster\]'"):
        DaskCluster("tcp://127.0.0.1:1")


@pytest.mark.usefixtures("tiny")
@pytest.mark.filterwarnings("ignore")  # what the queue of this machine leaves open
def test_the_file_for_slurm_works(tmp_path, monkeypatch, capsys):
    """With the queue system that runs jobs here; and what SLURM would be asked for."""
    pytest.importorskip("dask_jobqueue")
    monkeypatch.chdir(tmp_path)
    file = Path(__file__).parents[2] / "examples" / "8_slurm.py"
    found = runpy.run_path(str(file))
    words = ["8_slurm.py", "tiny.json", "--jobs", "2", "--queue-system", "local"]
    monkeypatch.setattr(sys, "argv", words)
    found["main"]()
    assert "<SweepResult: 8 runs at 2 points, 0 failed>" in capsys.readouterr().out
    assert (tmp_path / "sweep" / "runs.csv").exists()
    asked = {"queue_system": "slurm", "memory": "2GB", "queue": "short", "walltime": "02:00:00"}
    with found["workers_of"](argparse.Namespace(**asked)) as cluster:
        script = cluster.job_script()
    for line in ("#SBATCH -p short", "#SBATCH --cpus-per-task=1", "#SBATCH -t 02:00:00"):
        assert line in script
    assert "--nthreads 1" in script


@pytest.mark.usefixtures("tiny")
def test_a_cluster_behind_tls_is_reached_with_a_certificate_only(tmp_path):
    """As docs/how-to/cluster.md has it: certificates by settings of Dask, the address as tls://."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=fedcell", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    dask = [sys.executable, "-m", "dask"]
    files = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    place = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [
            *(*dask, "scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0"),
            *("--no-dashboard", "--scheduler-file", place, *files),
        ],
        stderr=subprocess.DEVNULL,
    )
    worker = subprocess.Popen(
        [*dask, "worker", "--scheduler-file", place, "--nthreads", "1", "--no-dashboard", *files],
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        for _ in range(200):
            if place.exists() and place.read_text():
                break
            time.sleep(0.1)
        address = json.loads(place.read_text())["address"]
        assert address.startswith("tls://")
        with pytest.raises(BadInput, match="cannot be reached"):
            DaskCluster(address)
        comm = "DASK_DISTRIBUTED__COMM__TLS__"
        settings = {"CA_FILE": cert, "CLIENT__CERT": cert, "CLIENT__KEY": key}
        own = os.environ | {f"{comm}{name}": str(value) for name, value in settings.items()}
        words = ["sweep", "tiny.json", "--cluster", address]
        said = subprocess.run(
            [sys.executable, "-m", "fedcell", *words],
            cwd=tmp_path,
            env=own,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert said.returncode == 0, said.stderr
        assert "8 trainings made" in said.stdout
    finally:
        for process in (worker, scheduler):
            process.terminate()
            process.wait(20)
