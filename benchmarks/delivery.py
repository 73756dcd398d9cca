"""Compare delivered models: the last one, or an average of the last ones.

    python benchmarks/delivery.py                     # the worlds of digits, then a few of mnist
    python benchmarks/delivery.py digits:0-3          # some
    python benchmarks/delivery.py --page              # prints the table of what is stored

Each world (benchmarks/worlds.py) is trained at several K and E_l, on three seeds. Every candidate
average is evaluated after every round of the same trajectory, so that all candidates meet the same
random numbers. An average reaches the target when its own loss does (hold 1); the last
model when the mean of five losses does (hold 5). Ratios are rounds to the target over rounds of the
last model; a run that does not reach the target counts with the most rounds. One file a world in
benchmarks/results/delivery; existing results are reused.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from fedcell.experiments.jobs import quiet
from fedcell.learning import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.planning.costs.rounds import price_round_grid
from fedcell.planning.setting import Setting
from fedcell.scenario.target import rounds_to
from fedcell.simulation.train import train_rounds
from worlds import draw_world

RESULTS = Path(__file__).parent / "results" / "delivery"
WORLDS = {"digits": range(12), "mnist": range(4)}
SEEDS = {"digits": 3, "mnist": 2}
ROUNDS = {"digits": 400, "mnist": 150}  # at most
SAMPLES = {"digits": 2000, "mnist": 1000}  # that evaluate
HOLD = 5  # rounds whose mean counts, of the last model
GROUPS = {"K = 1, 2": (1, 2), "K = 3 to 9": (3, 9), "K >= 10": (10, 10**9)}


class Poly:
    """Polynomial decay (Shamir and Zhang, 2013): the window grows with the rounds."""

    def __init__(self, eta):
        self.eta, self.value = eta, 0.0

    def add(self, t, model):
        """With the model of round t, counted from 1."""
        part = (self.eta + 1) / (t + self.eta)
        self.value = (1 - part) * self.value + part * model
        return self.value


class Exponential(Poly):
    """A fixed part of the way in each round: what fedcell 0.2 kept beside the last model."""

    def add(self, t, model):
        part = 1 / min(t, self.eta)
        self.value = (1 - part) * self.value + part * model
        return self.value


class Window(Poly):
    """The mean of the last models."""

    def __init__(self, eta):
        super().__init__(eta)
        self.kept = []

    def add(self, t, model):  # noqa: ARG002
        self.kept = [*self.kept, model][-self.eta :]
        return np.mean(self.kept, axis=0, dtype=np.float32)


CANDIDATES = {
    "poly 2": lambda: Poly(2),
    "poly 4": lambda: Poly(4),
    "poly 8": lambda: Poly(8),
    "poly 16": lambda: Poly(16),
    "window 5": lambda: Window(5),
    "exponential 5": lambda: Exponential(5),
}


def settings_of(count):
    """Return K and E_l to try in a world with `count` clients."""
    middle, many = max(3, count // 8), max(10, count // 3)
    return [(1, 10), (1, 40), (2, 20), (middle, 5), (middle, 40), (many, 20)]


def follow(scenario, target, seed, most, data_dir):
    """Rounds to the target and the loss there, of the last model and of every candidate."""
    with quiet():
        setup = prepare_training(scenario, seed, data_dir)
        learner = setup.learner(1, test=False)
        scenario, averages = setup.scenario, {name: make() for name, make in CANDIDATES.items()}
        fleet = draw_fleet(scenario, seed)
        trace = draw_trace(scenario, fleet, most, seed)
        found, losses = {}, []
        states = train_rounds(scenario, learner, fleet, trace)
        next(states)
        for t, state in enumerate(states, 1):
            losses.append(state.last_loss)
            reached = rounds_to(losses[-HOLD:], target, HOLD) is not None
            if reached and "last" not in found:
                found["last"] = [t, losses[-1]]
            for name, average in averages.items():
                value = np.asarray(average.add(t, state.model), np.float32)
                if name not in found and (loss := learner.evaluate(value).train_loss) <= target:
                    found[name] = [t, loss]
            if len(found) > len(averages) or not np.isfinite(losses[-1]):
                break
    return found


def measure(dataset, number, data_dir):
    """A world at its settings and seeds."""
    world = draw_world(dataset, number, data_dir).scenario
    world = world.using(learning={"deliver": "last", "evaluate_samples": SAMPLES[dataset]})
    target, most = world.learning.target, ROUNDS[dataset]
    sized = prepare_training(world, number, data_dir).scenario
    priced = price_round_grid(sized, "optimal-staged", 500, number)
    rows = []
    for k, e in settings_of(world.clients.table.count):
        at = np.array(k), np.array(e)
        seconds, joules = float(priced.duration(*at)), float(priced.energy(*at))
        for seed in range(1000 * number + 900, 1000 * number + 900 + SEEDS[dataset]):
            scenario = Setting(k, e, world.cell.loss_rate).apply_to(world)
            found = follow(scenario, target, seed, most, data_dir)
            price = {"seconds": seconds, "joules": joules}
            rows.append({"cohort": k, "local_steps": e, "seed": seed, **price, "found": found})
    return {"world": f"{dataset}-{number}", "target": target, "most": most, "runs": rows}


def judged(worlds, dataset):
    """Return ratios by candidate and group of K, of runs that reached the target."""
    lines = [
        f"### {dataset}",
        "",
        "| delivered | K | runs | rounds / rounds of last: median (quartiles) | above 1.05 "
        "| never there: this, last | loss handed over / target: median, highest |",
        "|---|---|---|---|---|---|---|",
    ]
    runs = [
        (world["target"], world["most"], run)
        for world in worlds
        if world["world"].startswith(dataset)
        for run in world["runs"]
        if run["found"]
    ]
    for name in ("last", *CANDIDATES):
        for group, (low, high) in {**GROUPS, "all": (1, 10**9)}.items():
            chosen = [row for row in runs if low <= row[2]["cohort"] <= high]
            if not chosen:
                continue
            ratio, over, missing = [], [], [0, 0]
            for target, most, run in chosen:
                mine, last = (run["found"].get(n) for n in (name, "last"))
                missing = [missing[0] + (mine is None), missing[1] + (last is None)]
                ratio.append((mine or [most])[0] / (last or [most])[0])
                if mine:
                    over.append(mine[1] / target)
            low25, half, high75 = np.quantile(ratio, [0.25, 0.5, 0.75])
            worse = np.mean(np.array(ratio) > 1.05)
            lines.append(
                f"| {name} | {group} | {len(chosen)} | {half:.2f} ({low25:.2f} to {high75:.2f}) "
                f"| {worse:.0%} | {missing[0]}, {missing[1]} "
                f"| {np.median(over):.2f}, {max(over):.2f} |"
            )
    lines += ["", *totals(runs)]
    return lines


def totals(runs):
    """Rounds, seconds and joules of all runs together, by those of the last model."""
    lines = ["| delivered | rounds | seconds | joules |", "|---|---|---|---|"]
    for name in CANDIDATES:
        sums = np.zeros((2, 3))
        for _, most, run in runs:
            price = np.array([1.0, run["seconds"], run["joules"]])
            for i, which in enumerate((name, "last")):
                sums[i] += run["found"].get(which, [most])[0] * price
        saved = [f"{part - 1:+.0%}" for part in sums[0] / sums[1]]
        lines.append(f"| {name} | {' | '.join(saved)} |")
    return lines


def chosen_worlds(asked):
    """Datasets and numbers from words as digits:0-3."""
    if not asked:
        return [(dataset, number) for dataset, numbers in WORLDS.items() for number in numbers]
    found = []
    for word in asked:
        dataset, _, numbers = word.partition(":")
        first, _, last = numbers.partition("-")
        chosen = range(int(first), int(last or first) + 1) if numbers else WORLDS[dataset]
        found += [(dataset, number) for number in chosen]
    return found


def main():
    """Measure missing worlds, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", help="as digits:0-3; all where left out")
    parser.add_argument("--page", action="store_true", help="print the table of what is stored")
    options = parser.parse_args()
    data_dir = Path(os.environ["FEDCELL_DATA"]) if "FEDCELL_DATA" in os.environ else None
    RESULTS.mkdir(parents=True, exist_ok=True)
    for dataset, number in () if options.page else chosen_worlds(options.worlds):
        path = RESULTS / f"{dataset}-{number}.json"
        if path.exists():
            continue
        begin = time.time()
        found = measure(dataset, number, data_dir)
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(f"{path.stem}: {time.time() - begin:.0f} s", flush=True)
    worlds = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    for dataset in WORLDS:
        if any(world["world"].startswith(dataset) for world in worlds):
            print(*judged(worlds, dataset), "", sep="\n")


if __name__ == "__main__":
    main()
