"""Measure the overhead of sweeps, and the time of the paper's panels.

    python benchmarks/sweep.py [--json FILE] [--repeats 3] [--only efficiency dask tiny panel]

efficiency: trainings of Fig. 3(a) on MNIST, by one process and by two, in turns: how much of
two processors is used, and how much of the time is not training. dask: the same by two Dask
workers, in turns with two processes. tiny: 10,000 runs of a quadratic through the store, the
first thousand against the last, and all of them found again. panel: the client steps of
Fig. 3(a) on MNIST as the committed runs took them, and the time of a plain PyTorch loop
for as many: measured on rounds, in turns with fedcell, and scaled.
"""

import argparse
import csv
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from fedcell import Scenario
from fedcell.experiments.executors import DaskCluster, Inline, LocalProcesses
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.learning.data.sources import PUBLISHED
from fedcell.paper.load import load_panel

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "experiments" / "results" / "fig3a" / "runs.csv"
ROUNDS, SEEDS = 12, 32  # of a slice: 32 trainings, K = 10


def slice_of_panel():
    """Trainings of Fig. 3(a), MNIST, N = 100, K = 10, cut after some rounds."""
    assert "mnist" in PUBLISHED
    point = next(
        p
        for p in load_panel("fig3a").points
        if p.labels == {"variant": "MNIST", "clients.count": 100, "plan.cohort": 10}
    )
    scenario = point.scenario.using(learning={"target": None})
    return Experiment.sweep(scenario, {}, seeds=SEEDS, rounds=ROUNDS)


def timed(engine):
    """Wall seconds of the slice, and the seconds of its trainings, in a new store."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        result = run_sweep(slice_of_panel(), Store(Path(folder)), engine)
        wall = time.perf_counter() - begin
        assert result.made == SEEDS, result.failures
        lines = (Path(folder) / "times.csv").read_text().splitlines()
    return {"wall": wall, "training": sum(float(line.split(",")[2]) for line in lines)}


def efficiency(repeats):
    """Compare one process with two; time outside training is overhead."""
    found = {1: [], 2: []}
    for _ in range(repeats):
        for workers, taken in found.items():
            taken.append(timed(LocalProcesses(workers)))
    least = {w: min(t["wall"] for t in taken) for w, taken in found.items()}
    middle = {w: median(t["wall"] for t in taken) for w, taken in found.items()}
    here = [timed(Inline()) for _ in range(repeats)]
    return {
        "trainings": SEEDS,
        "one": least[1],
        "two": least[2],
        "efficiency": least[1] / 2 / least[2],
        "efficiency_of_medians": middle[1] / 2 / middle[2],
        "overhead_here": min(1 - t["training"] / t["wall"] for t in here),
        "start_of_two": min(t["wall"] - t["training"] / 2 for t in found[2]),
    }


def dask(repeats):
    """Compare two Dask workers with two local processes."""
    from distributed import LocalCluster

    found = {"processes": [], "dask": []}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        engine = DaskCluster(cluster)
        timed(engine)  # warm: a cluster runs for days, and so do its workers
        for _ in range(repeats):
            found["processes"].append(timed(LocalProcesses(2)))
            found["dask"].append(timed(engine))
        engine.client.close()
    least = {name: min(t["wall"] for t in taken) for name, taken in found.items()}
    middle = {name: median(t["wall"] for t in taken) for name, taken in found.items()}
    return {
        **least,
        "ratio": least["dask"] / least["processes"],
        "ratio_of_medians": middle["dask"] / middle["processes"],
    }


def tiny(count=10_000):
    """Milliseconds a run, first and last thousand, and to find all again."""
    world = Scenario().using(
        clients={"count": 4, "samples": 20, "spread": 0.0},
        plan={"cohort": 2, "local_steps": 1, "rounds": 1},
        learning={"model": "quadratic-apart", "rate": 0.02},
    )
    experiment = Experiment.sweep(world, {}, seeds=count, rounds=1)
    with tempfile.TemporaryDirectory() as folder:
        marks = [time.perf_counter()]

        def report(progress):
            if progress.made % 1000 == 0:
                marks.append(time.perf_counter())

        run_sweep(experiment, Store(Path(folder)), Inline(), report=report)
        begin = time.perf_counter()
        again = run_sweep(experiment, Store(Path(folder)), Inline())
        found_again = time.perf_counter() - begin
        assert again.made == 0
    # The first mark stands before keys are computed; the second thousand is the first clean one.
    each = [end - begin for begin, end in itertools.pairwise(marks[1:])]
    return {"count": count, "first_ms": each[0], "last_ms": each[-1], "again_s": found_again}


def panel(repeats):
    """Client steps of the panel, and seconds for as many by ours and by a PyTorch loop."""
    sys.path.insert(0, str(Path(__file__).parent))
    from training import COHORT, PEERS, STEPS, Worker

    with RUNS.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["variant"] == "MNIST"]
    steps = sum(int(row["rounds"]) * int(row["plan.cohort"]) * STEPS for row in rows)
    python = PEERS if PEERS.exists() else sys.executable
    words = {"fedcell": (sys.executable, "ours.py"), "PyTorch loop": (python, "torch_loop.py")}
    workers = {n: Worker(*w, model="cnn-small", batch=10) for n, w in words.items()}
    taken = {name: [] for name in workers}
    for _ in range(3 * repeats + 1):  # the first warms up
        for name, worker in workers.items():
            taken[name].append(worker.round()["seconds"] / COHORT / STEPS)
    for worker in workers.values():
        worker.stop()
    hours = {name: min(times[1:]) * steps / 3600 for name, times in taken.items()}
    return {
        "runs": len(rows),
        "client_steps": steps,
        **{f"hours, {name}": value for name, value in hours.items()},
        "ratio": hours["PyTorch loop"] / hours["fedcell"],
    }


PARTS = {"efficiency": efficiency, "dask": dask, "tiny": lambda _: tiny(), "panel": panel}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    asked = parser.parse_args()
    found = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else {}
    for name in asked.only:
        found[name] = PARTS[name](asked.repeats)
        print(f"\n{name}")
        for what, value in found[name].items():
            shown = f"{value:.4g}" if isinstance(value, float) else value
            print(f"  {what:24s} {shown}")
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
