"""Check the training engine on real data: two long runs on MNIST.

    python benchmarks/correctness.py engines   # the engine against PyTorch, 5 seeds, 200 rounds
    python benchmarks/correctness.py mcmahan   # rounds to 99 % as in McMahan et al. (2017)
    python benchmarks/correctness.py table     # the results as Markdown

Each run has a small file in benchmarks/results; existing results are reused. MNIST is
found as by `fedcell run` (FEDCELL_DATA, or downloaded).
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from fedcell import Clients, RoundPlan, Scenario, Task
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.scenario.learning import Learning
from fedcell.simulation.train import simulate, train_rounds

RESULTS = Path(__file__).parent / "results"
SEEDS = range(5)
RATES = (0.03, 0.05, 0.1, 0.15)
BEST = 0.1
GOAL = 0.99


def world(clients, plan, learning, batch):
    return Scenario(
        clients=Clients(count=clients),
        plan=RoundPlan(**plan),
        task=Task(batch_size=batch),
        learning=Learning(dataset="mnist", **learning),
    )


def keep(name, make):
    """Return the result of a run, and make it if its file is missing."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        began = time.perf_counter()
        result = make() | {"wall_seconds": round(time.perf_counter() - began, 1)}
        aside = path.with_suffix(".part")
        aside.write_text(json.dumps(result, indent=1) + "\n")
        aside.rename(path)
        print(name, result, flush=True)
    return json.loads(path.read_text())


def engine_run(kind, seed):
    """Two shards a client, K = 10, E_l = 20, batch 10: the loss after 200 rounds."""
    scenario = world(
        100,
        {"cohort": 10, "local_steps": 20, "rounds": 200},
        {"model": "cnn-small", "rate": 0.01, "partition": {"kind": "shards"}, "evaluate_every": 50},
        batch=10,
    )
    setup = prepare_training(scenario, seed)
    learner = setup.learner()
    if kind == "torch":
        import torch

        from fedcell.learning.engines.torch import TorchLearner, tensors
        from fedcell.learning.engines.torch_modules import Module

        torch.set_num_threads(1)  # faster on small batches than two that wait for each other

        data = setup.data
        learner = TorchLearner(
            Module(setup.network, learner.start()),
            tensors(data.x_train, data.y_train, data),
            tensors(data.x_test, data.y_test, data),
            setup.partition,
            setup.local_training,
        )
    ledger = simulate(setup.scenario, "even", learner, seed=seed)
    return {"train_loss": float(ledger.train_loss[-1]), "accuracy": float(ledger.accuracy[-1])}


def mcmahan_run(rate, seed):
    """IID, 100 clients, C = 0.1, B = 10, E = 5 epochs: rounds to 99 % of the test set."""
    scenario = world(
        100,
        {"cohort": 10, "local_epochs": 5, "rounds": 40},
        {"model": "cnn-mcmahan", "rate": rate, "evaluate_samples": 10_000},
        batch=10,
    )
    setup = prepare_training(scenario, seed)
    learner, best = setup.learner(), 0.0
    fleet = draw_fleet(setup.scenario, seed)
    trace = draw_trace(setup.scenario, fleet, 40, seed)
    for state in train_rounds(setup.scenario, learner, fleet, trace):
        best = max([best, *state.history.accuracy[-1:].tolist()])
        if best >= GOAL:
            break
    reached = state.rounds if best >= GOAL else None
    return {"rate": rate, "seed": seed, "rounds_to_99": reached, "best": best}


def table():
    losses = {
        kind: [keep(f"engines-{kind}-{s}", dict)["train_loss"] for s in SEEDS]
        for kind in ("engine", "torch")
        if all((RESULTS / f"engines-{kind}-{s}.json").exists() for s in SEEDS)
    }
    for kind, values in losses.items():
        print(f"{kind}: mean {np.mean(values):.4f}, sd {np.std(values, ddof=1):.4f}", values)
    if len(losses) == 2:
        a, b = (np.mean(values) for values in losses.values())
        print(f"difference of the means: {100 * abs(a - b) / b:.2f} %")
    for path in sorted(RESULTS.glob("mcmahan-*.json")):
        print(path.stem, json.loads(path.read_text()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["engines", "mcmahan", "table"])
    what = parser.parse_args().what
    RESULTS.mkdir(exist_ok=True)
    if what == "engines":
        for seed in SEEDS:
            for kind in ("engine", "torch"):
                keep(f"engines-{kind}-{seed}", lambda kind=kind, seed=seed: engine_run(kind, seed))
    if what == "mcmahan":
        for rate, seed in [*((rate, 0) for rate in RATES), *((BEST, seed) for seed in (1, 2))]:
            keep(f"mcmahan-{rate}-{seed}", lambda r=rate, s=seed: mcmahan_run(r, s))
    table()
