"""Share of the time of a run that goes into checkpoints of a large PyTorch model.

Run with: python benchmarks/saving.py [ROUNDS]
Models of three sizes train for two clients and two steps a round; the time in `Checkpoint.save` is
counted, and the whole run is timed.
"""

import sys
import tempfile
import time
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from fedcell import Compute, Learning, Scenario, run
from fedcell.learning import TorchData, learner_from_torch
from fedcell.simulation.folder.checkpoint import Checkpoint

WIDTHS = (400, 1000, 3000)  # of both hidden layers


def learner_of(width):
    """Return a learner of a network with two hidden layers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 64)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)

    def made(scenario, seed):
        torch.manual_seed(seed)
        sizes = [64, width, width, 2]
        layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        module = nn.Sequential(*layers[:-1])
        return learner_from_torch(
            module, TorchData((x[:300], y[:300]), (x[300:], y[300:])), scenario, seed
        )

    return made


def main(rounds):
    """Print a line for each size."""
    spent = []
    save = Checkpoint.save

    def timed(self, state):
        start = time.perf_counter()
        save(self, state)
        spent.append((time.perf_counter() - start, state.bytes))

    Checkpoint.save = timed
    scenario = Scenario(learning=Learning()).using(
        clients={"count": 4}, plan={"cohort": 2, "local_steps": 2, "rounds": rounds}
    )
    print("| state [MB] | rounds | saves | a round [s] | in saving |")
    print("|---|---|---|---|---|")
    for width in WIDTHS:
        spent.clear()
        with tempfile.TemporaryDirectory() as home:
            start = time.perf_counter()
            compute = Compute(learner=learner_of(width))
            run(scenario, ["even"], compute=compute, folder=f"{home}/run")
            whole = time.perf_counter() - start
        seconds = sum(each for each, _ in spent)
        print(
            f"| {spent[0][1] / 1e6:.3g} | {rounds} | {len(spent)} | {whole / rounds:.3g} "
            f"| {seconds / whole:.1%} |"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
