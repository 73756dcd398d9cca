"""Measure the speed of local training against other frameworks on the same processor.

    python benchmarks/training.py [--repeats 9] [--json FILE] [--quick]
    python benchmarks/training.py --torch    # learners of PyTorch modules (torch_modules.py)

The job is a round: K = 10 clients, E = 20 SGD steps each from the same weights on images of
28 x 28, then the average. All frameworks are set up first; then rounds are run in turns, so that
a disturbance of the machine affects all. Minimum and median are printed, and ratios of both. Peers
have their own environment:

    python3 -m venv .venv-peers
    .venv-peers/bin/pip install torch==2.13.0
    .venv-peers/bin/pip install -r benchmarks/peers/requirements.txt

A peer that cannot run is skipped with a message. Flower runs its own whole simulation.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
JOBS = [("cnn-small", 10), ("cnn-small", 32), ("cnn-mcmahan", 10), ("cnn-mcmahan", 32)]
COHORT, STEPS = 10, 20
WORKERS = {
    "fedcell": (sys.executable, "ours.py"),
    "fedcell, 1 thread": (sys.executable, "ours.py", "--threads", "1"),
    "PyTorch loop, 2 processes": (PEERS, "torch_loop.py"),
    "torch.compile + vmap, 2 processes": (PEERS, "torch_vmap.py"),
    "pfl-research 0.6.0, 2 processes": (PEERS, "pfl_research.py"),
    "FedJAX 0.0.17, 2 processes": (PEERS, "fedjax_round.py"),
    "FedJAX 0.0.17, 1 process": (PEERS, "fedjax_round.py", "--processes", "1"),
}


class Worker:
    """A process that runs a round for each line that it receives."""

    def __init__(self, python, script, *options, model, batch):
        words = [python, HERE / "peers" / script, *options]
        words += ["--model", model, "--batch", batch, "--cohort", COHORT, "--steps", STEPS]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*map(str, words)], stderr=subprocess.DEVNULL, **pipes)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{script} did not start: run it by hand to see why")

    def round(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def race(model, batch, repeats):
    """Return microseconds per client step of each framework, wall and processor time."""
    workers, rows = {}, {}
    for name, words in WORKERS.items():
        try:
            workers[name] = Worker(*words, model=model, batch=batch)
        except (RuntimeError, OSError) as error:
            print(f"  {name}: left out ({error})", file=sys.stderr)
    taken = {name: [] for name in workers}
    for _ in range(repeats + 1):  # the first warms up
        for name, worker in workers.items():
            taken[name].append(worker.round())
    for worker in workers.values():
        worker.stop()
    for name, rounds in taken.items():
        wall, cpu = ([1e6 * r[k] / COHORT / STEPS for r in rounds[1:]] for k in ("seconds", "cpu"))
        rows[name] = {"min": min(wall), "median": median(wall), "cpu": min(cpu)}
    return rows


def show(model, batch, rows):
    ours = rows["fedcell"]
    print(f"\n{model}, batch {batch}: microseconds per client step")
    print("| | minimum | median | processor | fedcell is faster by |")
    print("|---|---|---|---|---|")
    for name, row in rows.items():
        ratio = f"{row['min'] / ours['min']:.1f} ({row['median'] / ours['median']:.1f})"
        numbers = " | ".join(f"{row[key]:.0f}" for key in ("min", "median", "cpu"))
        print(f"| {name} | {numbers} | {ratio if name != 'fedcell' else ''} |")
    alone = rows["fedcell, 1 thread"]
    print(f"thread efficiency on 2 threads: {alone['min'] / ours['min'] / 2:.2f}")


def flower():
    """The same work in Flower's own simulation, 100 clients, 20 rounds."""
    words = [PEERS, HERE / "peers" / "flower_sim.py"]
    try:
        ran = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=600)
        return json.loads(ran.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        print(f"  Flower: left out ({error})", file=sys.stderr)
        return None


MEMORY = """
import resource, sys, numpy as np
from fedcell import Clients, PartitionSpec, RoundPlan, Scenario
from fedcell.learning import Dataset
from fedcell.simulation import simulate
from fedcell.learning.engines.engine import Engine
from fedcell.learning.learner import LocalTraining
from fedcell.learning.neural import NeuralNetwork
from fedcell.learning.partition.make import make_partition
from fedcell.scenario.learning import MODELS
n, rng = int(sys.argv[1]), np.random.default_rng(0)
x = rng.integers(0, 255, (60_000, 28, 28), np.uint8)
y = rng.integers(0, 10, 60_000)
data = Dataset.of(x_train=x, y_train=y, x_test=x[:1000], y_test=y[:1000])
parts = make_partition(data.y_train, n, PartitionSpec(), rng)
network = NeuralNetwork.of(MODELS["cnn-small"], data.image, 10)
learner = Engine(network, data, parts, LocalTraining(10, 20, None, 0.01), 10_000)
learner.warm_up()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
simulate(Scenario(clients=Clients(count=n), plan=RoundPlan(cohort=100)), "even", learner, rounds=3)
print(before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def memory():
    """MiB before and at most during a run of K = 100, with 200 and with 10,000 clients."""
    found = {}
    for clients in (200, 10_000):
        words = [sys.executable, "-c", MEMORY, str(clients)]
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
        found[clients] = [round(float(word)) for word in ran.stdout.split()]
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--torch", action="store_true", help="PyTorch modules against a plain loop")
    parser.add_argument("--quick", action="store_true", help="cnn-small, batch 10, and no more")
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors")
    if args.torch:
        from torch_modules import measure

        found = measure(args.repeats)
        if args.json:
            args.json.write_text(json.dumps(found, indent=1) + "\n")
        return
    found = {"jobs": {}}
    for model, batch in JOBS[:1] if args.quick else JOBS:
        rows = race(
            model, batch, args.repeats if model == "cnn-small" else max(3, args.repeats // 2)
        )
        found["jobs"][f"{model}-{batch}"] = rows
        show(model, batch, rows)
    if not args.quick:
        found["memory"] = memory()
        print("\nMiB of the process before and during K = 100 rounds:", found["memory"])
        found["flower"] = flower()
        if found["flower"]:
            each = found["flower"]["rounds_seconds"] / found["flower"]["timed_rounds"]
            ours = found["jobs"]["cnn-small-10"]["fedcell"]["median"] * COHORT * STEPS / 1e6
            print(
                f"Flower: {each:.2f} s a round, ours {ours:.3f} s: {each / ours:.0f} times;",
                end=" ",
            )
            print(f"the whole job of 20 rounds {found['flower']['seconds']:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
