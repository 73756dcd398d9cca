"""Measure learners of PyTorch modules against a plain PyTorch loop, in turns in one process.

    python benchmarks/training.py --torch [--repeats 9] [--json FILE]

The job is that of benchmarks/training.py: K = 10 clients, E = 20 SGD steps each, then the average.
The loop indexes tensors in memory, without a DataLoader, and uses the threads of the learner. The
ratio above 1 is in favour of fedcell.
"""

import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from fedcell import Learning, Scenario
from fedcell.learning import TorchData, learner_from_torch

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from common import RATE, torch_batches, torch_data, torch_model

JOBS = [("mlp", 10), ("cnn-small", 10), ("cnn-small", 32), ("cnn-mcmahan", 32)]
COHORT, STEPS = 10, 20


def module_of(name):
    if name != "mlp":
        return torch_model(name)
    layers = [torch.nn.Flatten(), torch.nn.Linear(784, 200), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(200, 10))


def samples():
    """Return images and labels, client after client: the same tensors for both."""
    images, labels = torch_data(COHORT)
    return images.flatten(0, 1), labels.flatten()


def plain(name, batch, threads):
    """Return a round of the plain loop, as a function without arguments."""
    images, labels = samples()
    model = module_of(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    weights = [p.detach().clone() for p in model.parameters()]
    each = len(labels) // COHORT
    batches = [torch_batches(each, STEPS, batch, j) for j in range(COHORT)]

    def run():
        torch.set_num_threads(threads)
        total = [torch.zeros_like(w) for w in weights]
        for j in range(COHORT):
            with torch.no_grad():
                for own, shared in zip(model.parameters(), weights, strict=True):
                    own.copy_(shared)
            for index in j * each + next(batches[j]):
                optimizer.zero_grad()
                outputs = model(images[index])
                torch.nn.functional.cross_entropy(outputs, labels[index]).backward()
                optimizer.step()
            with torch.no_grad():
                for own, part in zip(model.parameters(), total, strict=True):
                    part.add_(own)
        for shared, part in zip(weights, total, strict=True):
            shared.copy_(part / COHORT)

    return run


def ours(name, batch):
    """Return a round of the learner, as a function without arguments, and its threads."""
    images, labels = samples()
    owners = np.repeat(np.arange(COHORT), len(labels) // COHORT)
    scenario = Scenario(learning=Learning(rate=RATE)).using(
        clients={"count": COHORT},
        plan={"cohort": COHORT, "local_steps": STEPS},
        task={"batch_size": batch},
    )
    data = TorchData((images, labels), owners=owners)
    learner = learner_from_torch(module_of(name), data, scenario)
    model, turn = learner.start(), 0

    def run():
        nonlocal model, turn
        total = np.zeros_like(model)
        for upload in learner.train(model, range(COHORT), turn):
            total += upload
        model, turn = total / np.float32(COHORT), turn + 1

    return run, learner._threads()


def measure(repeats):
    """Return milliseconds of a round and their ratios, by job."""
    found, available = {}, torch.get_num_threads()
    print("| job | threads | fedcell [ms] | loop [ms] | ratio of minima | ratio of medians |")
    print("|---|---|---|---|---|---|")
    for name, batch in JOBS:
        mine, threads = ours(name, batch)
        loop = plain(name, batch, threads)
        taken = {"fedcell": [], "loop": []}
        for _ in range(repeats + 1):  # the first warms up
            for key, run in (("fedcell", mine), ("loop", loop)):
                torch.set_num_threads(available if key == "fedcell" else threads)
                begin = time.perf_counter()
                run()
                taken[key].append(1e3 * (time.perf_counter() - begin))
        least, middle = (
            {key: of(values[1:]) for key, values in taken.items()} for of in (min, median)
        )
        row = {"threads": threads, "min": least, "median": middle}
        row["ratio"] = [each["loop"] / each["fedcell"] for each in (least, middle)]
        found[f"{name}-{batch}"] = row
        numbers = " | ".join(f"{least[key]:.1f} ({middle[key]:.1f})" for key in taken)
        ratios = " | ".join(f"{ratio:.2f}" for ratio in row["ratio"])
        print(f"| {name}, batch {batch} | {threads} | {numbers} | {ratios} |", flush=True)
    torch.set_num_threads(available)
    return found
