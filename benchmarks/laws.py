"""Which law of rounds predicts best what it has not seen, and do the pilots' intervals hold?

    tar -C experiments -xf experiments/results/store.tar.xz
    python benchmarks/laws.py [--json benchmarks/results/laws.json]

The trainings of the paper's panels, 20 seeds a setting on MNIST and CIFAR-10, are taken apart: some
settings, each on a few of some seeds, are a pilot; the laws predict the mean rounds of all
settings over six other seeds. Several targets a world, many pilots a target, all drawn by number.
Nothing is trained here. Laws: the paper's, ours with a floor, Luo et al.'s, each by itself; ours
with residuals, which pilots use; the same from crossings of a power of the round that is fitted to
the second half of each run's curve, instead of from the curve itself.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from fedcell.experiments.experiment import load_experiment
from fedcell.experiments.store import Store
from fedcell.paper.laws import LAWS, LUO
from fedcell.planning.law.fit import fit_form, fit_law, fit_terms
from fedcell.planning.law.observations import Observations
from fedcell.scenario.target import Target
from fedcell.simulation.extrapolation import MIN_ROUNDS, least_rounds

HOME = Path(__file__).parents[1] / "experiments"
SHARES = (0.0, 0.15, 0.4)  # of the way back to the first loss: targets that are easier
PILOTS = 12  # a target
ASIDE = 8  # seeds of a pilot; the others judge
FRESH = 6  # of these that a mean is of
HOLD = 5
LEAST = 7  # settings of a world
WATCHED = 5  # runs of a setting whose forecasts are checked
NAMES = {
    "paper": "the paper's, three terms",
    "floor": "with a floor",
    "luo": "Luo et al.'s, two terms",
    "curve": "with residuals, from fitted curves",
    "ours": "with residuals (what pilots use)",
}


def worlds(store):
    """Curves by setting and seed, of each world that has settings enough: (name, N, target, it)."""
    found = {}
    for file in sorted((HOME / "paper").glob("*.toml")):
        experiment = load_experiment(file)
        for point in experiment.points:
            world = point.scenario
            if world.learning is None or point.target is None or world.cell.loss_rate:
                continue
            what = world.learning
            key = what.dataset, what.partition, what.rate, world.clients.count, what.target
            setting = world.plan.cohort, world.plan.local_steps
            for seed in experiment.seeds:
                curve = store.get(point.training(seed).key, seed)
                if curve is not None:
                    at = found.setdefault(key, {}).setdefault(setting, {})
                    at[seed] = np.array(curve.train_loss)
    for (dataset, _, _, count, target), settings in found.items():
        whole = {s: runs for s, runs in settings.items() if len(runs) >= 20}
        if len(whole) >= LEAST:
            first = np.median([c[0] for runs in whole.values() for c in runs.values()])
            for share in SHARES:
                yield dataset, count, float(target + (first - target) * share), whole


def crossings(settings, target):
    """Rounds of each run, of settings that all runs got through; and as a fitted curve has them."""
    goal = Target(loss=target, hold=HOLD)
    rounds, fitted = {}, {}
    for setting, runs in settings.items():
        taken = {seed: goal.reached(curve) for seed, curve in runs.items()}
        if None not in taken.values():
            for seed, curve in runs.items():
                rounds[setting, seed] = taken[seed]
                fitted[setting, seed] = fitted_crossing(curve[: taken[seed]], target)
    return rounds, fitted


def fitted_crossing(curve, target):
    """Where a power of the round, through the second half of a curve, gets to a target."""
    taken = len(curve)
    late = np.arange(taken // 2, taken)
    if late.size < 4:
        return taken
    slope, level = np.polyfit(np.log(late + 1), np.log(np.maximum(curve[late], 1e-9)), 1)
    if slope >= -1e-3:
        return taken
    crossed = np.exp((np.log(target) - level) / slope) + (HOLD - 1) / 2
    return float(np.clip(crossed, taken / 1.6, taken * 1.6))


def draw_pilot(rng, settings, seeds):
    """The runs of a pilot, and the seeds that it is judged by."""
    count = min(int(rng.integers(6, 13)), len(settings) - 2)
    tried = [settings[i] for i in rng.permutation(len(settings))[:count]]
    order = rng.permutation(seeds).tolist()
    runs = [(s, seed) for s in tried for seed in order[: min(rng.geometric(0.35), ASIDE)]]
    return runs, rng.permutation(order[ASIDE:])[:FRESH].tolist()


def observed(runs, rounds):
    """Return the runs of a pilot as observations of a law."""
    settings = np.array([setting for setting, _ in runs])
    return Observations(
        cohort=settings[:, 0],
        steps=settings[:, 1],
        loss_rate=np.zeros(len(runs)),
        rounds=np.array([rounds[run] for run in runs], float),
        censored=np.zeros(len(runs), bool),
        seed=np.array([seed for _, seed in runs]),
    )


def predictions(runs, rounds, fitted, count, k, e):
    """Predict mean rounds at some settings by each law, with the interval of the residual law."""
    seen, smooth = observed(runs, rounds), observed(runs, fitted)
    ours = fit_law(seen)
    mean, low, high = ours.predict(k, e, 0.0, runs=FRESH)
    # Fitted crossings may all be late or early: by how much is known from the runs themselves.
    late = np.mean(np.log(smooth.rounds / seen.rounds))
    terms = LAWS[LUO](seen.cohort.astype(float), seen.steps.astype(float), float(count))
    luo = fit_terms(terms, seen.rounds, seen.settings)
    found = {
        "paper": fit_form(seen, "paper").rounds(k, e, 0.0),
        "floor": fit_form(seen, "floor").rounds(k, e, 0.0),
        "luo": LAWS[LUO](k.astype(float), e.astype(float), float(count)) @ luo,
        "curve": fit_law(smooth).predict(k, e, 0.0)[0] / np.exp(late),
        "ours": mean,
    }
    return found, low, high


def forecasts(store):
    """Return how many runs reached the target, and the shares of them whose rounds a forecast
    overestimated at some moment by more than 5 %, and by more than 50 %."""
    late = []
    for _, _, target, curves in worlds(store):
        goal = Target(loss=target, hold=HOLD)
        for runs in curves.values():
            for curve in list(runs.values())[:WATCHED]:
                taken = goal.reached(curve)
                if taken is not None and taken > MIN_ROUNDS:
                    said = [least_rounds(curve[:n], goal) for n in range(MIN_ROUNDS, taken, 2)]
                    late.append(max(said) / taken)
    late = np.array(late)
    return {
        "runs": late.size,
        "late": float((late > 1.05).mean()),
        "far": float((late > 1.5).mean()),
    }


def judge(store):
    """Return errors by dataset, tried or new setting, and law, and the coverage of intervals."""
    errors, held = {}, {}
    for dataset, count, target, curves in worlds(store):
        rounds, fitted = crossings(curves, target)
        settings = list(dict.fromkeys(setting for setting, _ in rounds))
        if len(settings) < LEAST - 1:
            continue
        seeds = sorted(next(iter(curves.values())))
        k, e = np.array(settings).T
        for number in range(PILOTS):
            runs, fresh = draw_pilot(np.random.default_rng([number, 7]), settings, seeds)
            mean = np.array([np.mean([rounds[s, seed] for seed in fresh]) for s in settings])
            tried = {setting for setting, _ in runs}
            found, low, high = predictions(runs, rounds, fitted, count, k, e)
            for i, setting in enumerate(settings):
                kind = dataset, "tried" if setting in tried else "new"
                held.setdefault(kind, []).append(bool(low[i] <= mean[i] <= high[i]))
                for name, law in found.items():
                    error = abs(float(law[i]) / mean[i] - 1)
                    errors.setdefault((*kind, name), []).append(error)
    return [
        {
            "dataset": dataset,
            "settings": tried,
            "predictions": len(held[dataset, tried]),
            "held": float(np.mean(held[dataset, tried])),
            "median": {n: float(np.median(errors[dataset, tried, n])) for n in NAMES},
            "high": {n: float(np.quantile(errors[dataset, tried, n], 0.9)) for n in NAMES},
        }
        for dataset, tried in sorted(held)
    ]


def table(found):
    """Return lines of Markdown: the median error and its 90th percentile."""
    kinds = [f"{row['dataset']}, {row['settings']}" for row in found]
    lines = [f"| law | {' | '.join(kinds)} |", "|---|" + "---|" * len(found)]
    for name, words in NAMES.items():
        cells = [f"{row['median'][name]:.1%}, {row['high'][name]:.0%}" for row in found]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    cells = [f"{row['held']:.0%} of {row['predictions']}" for row in found]
    return [*lines, f"| 90 % intervals hold | {' | '.join(cells)} |"]


def sentence(found):
    """Return a sentence about the error of forecasts."""
    return (
        f"For {found['late']:.1%} of {found['runs']} runs that reached the target, a forecast at "
        f"some round exceeded the rounds that they took by over 5 %, and for {found['far']:.1%} by "
        f"over 50 %."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to a file")
    options = parser.parse_args()
    kept = Store(HOME / "store")
    found = {"laws": judge(kept), "forecasts": forecasts(kept)}
    print(*table(found["laws"]), "", sentence(found["forecasts"]), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
