"""Measure the savings of evaluating models on fewer samples, and its standard errors.

    FEDCELL_DATA=... python benchmarks/evaluation.py    # a few minutes; MNIST if present
    python benchmarks/evaluation.py --page              # updates the page

Three measurements, each of the same trainings in the same process, interleaved:
- trials of a pilot, evaluated on all samples and on as many as the target needs: seconds, and
  whether both reach the target in the same round;
- runs with default settings, evaluated on test data after every round and only where needed;
- z-scores of sampled losses against those of all samples, along these trainings.
Prints the ratios of the fastest and of the median seconds; writes results/evaluation.json.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from fedcell import load_scenario
from fedcell.experiments.jobs import TrainingJob, train
from fedcell.experiments.training import Training, Until
from fedcell.learning import prepare_training
from fedcell.learning.evaluation import Judgement
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.scenario.target import Target
from fedcell.simulation import evaluation as judging
from fedcell.simulation.train import simulate, train_rounds

FILE = Path(__file__).parent / "results" / "evaluation.json"
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "benchmarks.md"
TRIALS = {  # K, E_l and the target of a trial
    "digits": [(1, 10, 0.6), (4, 10, 0.4), (10, 20, 0.3)],
    "mnist": [(1, 9, 0.9), (3, 20, 0.9), (10, 20, 0.81)],
}
SEEDS = (3, 4, 5)
ROUNDS = {"digits": 60, "mnist": 25}  # of a run


def data_dir():
    """Return the folder of MNIST, or None if FEDCELL_DATA is not set."""
    return Path(os.environ["FEDCELL_DATA"]) if "FEDCELL_DATA" in os.environ else None


def trial(name, k, e, loss, seed, sampled):
    """Seconds and rounds of a trial."""
    training = Training.of(load_scenario(name).with_plan(k, e), seed)
    until = Until(400, Target(loss=loss, hold=1), sampled=sampled)
    done = train(TrainingJob(training, until, data_dir()))
    return done.seconds, done.curve.reached(until.target)


def run(name, seed, sparse):
    """Seconds of a run with default settings."""
    setup = prepare_training(load_scenario(name), seed, data_dir())
    learner = setup.learner()
    learner.warm_up()
    before = judging.MANY_SAMPLES
    judging.MANY_SAMPLES = before if sparse else 10**9
    begin = time.perf_counter()
    simulate(setup.scenario, "even", learner, ROUNDS[name], seed)
    judging.MANY_SAMPLES = before
    return time.perf_counter() - begin


def ratio(pairs):
    """Of the seconds of one way to those of the other: of the fastest, and of the medians."""
    slow, fast = np.array(pairs).T
    return {
        "fastest": round(float(slow.min() / fast.min()), 2),
        "median": round(float(np.median(slow) / np.median(fast)), 2),
    }


def z_scores(name):
    """How far sampled losses are from those of all samples, in their standard errors."""
    found = []
    for k, e, _ in TRIALS[name]:
        setup = prepare_training(load_scenario(name).with_plan(k, e), 1, data_dir())
        learner = setup.learner()
        fleet = draw_fleet(setup.scenario, 1)
        trace = draw_trace(setup.scenario, fleet, 20, 1)
        for state in train_rounds(setup.scenario, learner, fleet, trace):
            judged = Judgement(learner, state.delivered, "train")
            seen = []
            while not judged.complete:
                seen.append(judged.loss)
                judged.lengthen()
            found += [(value - judged.loss[0]) / error for value, error in seen]
    return found


def table():
    """Return the results as lines of Markdown."""
    lines = ["| data | what | times as fast |", "|---|---|---|"]
    for name, row in json.loads(FILE.read_text()).items():
        for what, found in row.items():
            if what != "z-scores":
                lines.append(f"| {name} | {what} | {found['fastest']} ({found['median']}) |")
    lines.append("")
    for name, row in json.loads(FILE.read_text()).items():
        z = row["z-scores"]
        lines.append(
            f"{name}: {z['count']} sampled losses, in standard errors off those of all samples: "
            f"standard deviation {z['sd']}, {z['beyond 4']} beyond 4."
        )
    return lines


def page():
    """Return the updated page."""
    before, rest = PAGE.read_text().split("<!-- evaluation -->", 1)
    after = rest.split("<!-- end evaluation -->", 1)[1]
    text = "\n".join(table())
    return f"{before}<!-- evaluation -->\n\n{text}\n\n<!-- end evaluation -->{after}"


if __name__ == "__main__":
    if "--page" in sys.argv:
        PAGE.write_text(page())
        sys.exit()
    result = {}
    for name in TRIALS if data_dir() else ["digits"]:
        row = result[name] = {}
        for k, e, loss in TRIALS[name]:
            pairs, same = [], True
            trial(name, k, e, loss, 9, True)  # compiled, and the data read
            for seed in SEEDS:
                (slow, one), (fast, other) = (
                    trial(name, k, e, loss, seed, sampled) for sampled in (False, True)
                )
                pairs.append((slow, fast))
                same &= one == other
            row[f"trial K = {k}, E_l = {e}"] = ratio(pairs) | {"same round": same}
        row["run"] = ratio(
            [[run(name, seed, sparse) for sparse in (False, True)] for seed in SEEDS]
        )
        z = np.array(z_scores(name))
        row["z-scores"] = {"count": z.size, "sd": round(float(z.std()), 3)}
        row["z-scores"] |= {"beyond 4": int((np.abs(z) > 4).sum())}
        print(name, json.dumps(row, indent=1), flush=True)
    FILE.write_text(json.dumps(result, indent=1) + "\n")
