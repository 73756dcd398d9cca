"""Count rounds with images divided by 255, against the standardised ones of the panels.

    python experiments/inputs.py        # writes results/inputs.csv; minutes

MNIST with one class per client and CIFAR-10 with two shards, K = 10, E_l = 20, as in fig3a.
"""

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedcell.experiments.jobs import train_curve
from fedcell.learning.data.dataset import load_data
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import prepare_training
from fedcell.paper.load import load_panel

FILE = Path(__file__).parent / "results" / "inputs.csv"
COHORT, CLIENTS, SEEDS, MAX_ROUNDS = 10, 100, 4, 300


def points():
    """Yield the points of fig3a at K = 10 and N = 100."""
    for point in load_panel("fig3a").points:
        if (point.labels["plan.cohort"], point.labels["clients.count"]) == (COHORT, CLIENTS):
            yield point


def rounds_of(point, seed, divided):
    """Return the rounds to the target of one training; None if it is not reached."""
    learning = point.scenario.learning
    data = load_data(learning.dataset)
    if divided:
        channels = data.scale.shape
        data = replace(
            data,
            scale=np.full(channels, 1 / 255, np.float32),
            shift=np.zeros(channels, np.float32),
        )
    training = point.training(seed)
    setup = prepare_training(training.scenario, seed, data=data)
    learner = setup.learner(1, test=False)
    warm_up(learner)
    curve = train_curve(setup.scenario, learner, seed, point.until(MAX_ROUNDS))
    below = np.flatnonzero(np.array(curve.train_loss) <= point.target.value)
    return int(below[0]) + 1 if below.size else None


def main():
    """Run what the file lacks, and write each training when it is done."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    done = {}
    if FILE.exists():
        with FILE.open(newline="") as lines:
            done = {tuple(row)[:3]: row for row in list(csv.reader(lines))[1:]}
    for point in points():
        for seed in range(SEEDS):
            for inputs in ("standardised", "divided by 255"):
                place = (point.labels["variant"], inputs, str(seed))
                if place not in done:
                    rounds = rounds_of(point, seed, inputs != "standardised")
                    done[place] = [*place, "" if rounds is None else rounds]
                    with FILE.open("w", newline="") as file:
                        rows = csv.writer(file, lineterminator="\n")
                        rows.writerow(["variant", "inputs", "seed", "rounds_to_target"])
                        rows.writerows(done.values())


if __name__ == "__main__":
    main()
