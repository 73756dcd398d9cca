"""Compare the cost of adaptive runs with that of fixed runs.

    python benchmarks/adaptive.py                  # the held-out worlds; an hour, resumable
    python benchmarks/adaptive.py 240-249          # some
    python benchmarks/adaptive.py --tighten 0.7    # targets nearer to the floor
    python benchmarks/adaptive.py --page           # updates the page

In every world (worlds.draw_hard_world; numbers below 240 are for development) runs start from three
settings, as they are and adapting, on eight paired seeds: the scenario's own K and E_l, a random
setting, and the plan of the world's pilot of 30 s (results/adaptive/plans), which the adaptive run
does not get: it cannot know how good that plan is. A cost is (12) of the run; a run that does not
reach its target in ROUNDS rounds counts with its whole cost. A world counts as worse where the mean
cost of its adapting runs is above 1.1 times that of the others. `--tighten` multiplies the drawn
target loss, or the share of errors that a target accuracy leaves. Each world has a file in
benchmarks/results/adaptive; existing runs are reused.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np

from fedcell.core.errors import FedcellWarning
from fedcell.planning.adaptive.run import adaptive
from fedcell.simulation.execution import execute
from fedcell.simulation.run import prepare_run
from planning import CNN, numbers
from worlds import draw_hard_world, kind_of

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "adaptive"
PLANS = RESULTS / "plans"
WORLDS = [number for number in range(240, 280) if kind_of(number) not in CNN]
SEEDS = range(20_000, 20_008)
ROUNDS = 400
POLICY = "optimal-staged"
CASES = {"own": "the scenario's own setting", "random": "a random setting", "good": "a good plan"}
WORSE = 1.1
NEAR_FLOOR = 0.7  # of the drawn loss or share of errors: a target that is harder to reach


def world_of(number, tighten):
    """Return a world with its target tightened."""
    scenario = draw_hard_world(number).scenario
    if tighten == 1:
        return scenario
    loss, accuracy = scenario.learning.target, scenario.learning.target_accuracy
    if accuracy is None:
        return scenario.using(learning={"target": float(f"{tighten * loss:.3g}")})
    return scenario.using(learning={"target_accuracy": round(1 - tighten * (1 - accuracy), 3)})


def starts_of(scenario, number, plans):
    """Return the first settings of runs; a world without a plan has no good one."""
    rng = np.random.default_rng([number, 99])
    cohort, steps = 2 ** rng.uniform(0, 5.5), 2 ** rng.uniform(1, 7.5)
    starts = {
        "own": [scenario.plan.cohort, scenario.plan.local_steps],
        "random": [min(scenario.clients.count, round(cohort)), round(steps)],
    }
    row = json.loads((plans / f"{kind_of(number)}-{number}.json").read_text())
    return starts | ({} if "failed" in row else {"good": row["plan"]})


def measure(scenario, setting, seed, adapts):
    """Run from a setting; return its costs to the target and its changes."""
    prepared = prepare_run(scenario.with_plan(*setting), [POLICY], rounds=ROUNDS, seed=seed)
    result = execute(adaptive(prepared) if adapts else prepared)
    found = result.outcome.policies[0]
    taken = found.to_target or found.total
    return {
        "reached": found.to_target is not None,
        "rounds": taken.rounds,
        "cost": taken.cost,
        "changes": [[c.round, c.cohort, c.local_steps] for c in result.outcome.changes],
        "failed": sum(" failed: " in change.why for change in result.outcome.changes),
    }


def judge(number, tighten, folder, plans):
    """Make the missing runs of a world, and write its file after each."""
    name = f"{kind_of(number)}-{number}" + ("" if tighten == 1 else f"-{tighten:g}")
    file = folder / f"{name}.json"
    row = json.loads(file.read_text()) if file.exists() else {"world": name, "runs": {}}
    if is_whole(row):
        return row
    scenario = world_of(number, tighten)
    row |= {"clients": scenario.clients.count, "tighten": tighten}
    row |= {"target": str(scenario.learning.goal), "starts": starts_of(scenario, number, plans)}
    for case, start in row["starts"].items():
        for seed in SEEDS:
            for how in "fa":  # fixed, adapting
                if (key := f"{case} {how} {seed}") not in row["runs"]:
                    row["runs"][key] = measure(scenario, start, seed, how == "a")
                    file.write_text(json.dumps(row) + "\n")
    return row


def is_whole(row):
    """Return whether all runs of a world exist."""
    return len(row["runs"]) == 2 * len(row.get("starts", ["none"])) * len(SEEDS)


def costs(row, case, how):
    """Return the costs of the runs of a world, by seed."""
    return np.array([row["runs"][f"{case} {how} {seed}"]["cost"] for seed in SEEDS])


def mean_ratio(row, case):
    """Return the mean cost of adaptive runs over that of fixed runs."""
    return costs(row, case, "a").mean() / costs(row, case, "f").mean()


def table(rows):
    """Return the worlds and their summary as lines of Markdown."""
    heads = [f"{words}: K, E_l | adapts / stays" for words in CASES.values()]
    lines = [f"| world | N | target | {' | '.join(heads)} |", "|" + "---|" * (3 + 2 * len(CASES))]
    for row in rows:
        cells = [row["world"], str(row["clients"]), row["target"]]
        for case in CASES:
            there = case in row["starts"]
            cells += ["{}, {}".format(*row["starts"][case]) if there else ""]
            cells += [f"{mean_ratio(row, case):.2f}" if there else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *summary(rows)]


def summary(rows):
    """Return the summary of worlds, a line for each case."""
    for case, words in CASES.items():
        have = [row for row in rows if case in row["starts"]]
        means = np.array([mean_ratio(row, case) for row in have])
        runs = np.concatenate([costs(row, case, "a") / costs(row, case, "f") for row in have])
        failed = [row["runs"][f"{case} a {seed}"]["failed"] > 0 for row in have for seed in SEEDS]
        yield (
            f"- From {words}: {np.median(means):.2f} of the mean cost in the median of "
            f"{means.size} worlds, {means.max():.2f} in the worst; above {WORSE} in "
            f"{(means > WORSE).sum()} of them, and in {(runs > WORSE).mean():.0%} of {runs.size} "
            f"single runs. A forecast failed in {np.mean(failed):.0%} of the runs."
        )


def measured(folder=RESULTS, tighten=1.0):
    """Return the complete worlds in order."""
    rows = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return [row for row in rows if is_whole(row) and row["tighten"] == tighten]


def page():
    """Return the updated page."""
    before, rest = (
        (ROOT / "docs" / "explanation" / "adaptive.md").read_text().split("<!-- adaptive -->", 1)
    )
    after = rest.split("<!-- end adaptive -->", 1)[1]
    lines = table(measured())
    if near := measured(tighten=NEAR_FLOOR):
        share = f"{1 - NEAR_FLOOR:.0%} nearer to 0 or 1 (`--tighten {NEAR_FLOOR}`)"
        lines += ["", f"With targets that are {share}, in {len(near)} of these worlds:", ""]
        lines += summary(near)
    text = "\n".join(lines)
    return f"{before}<!-- adaptive -->\n\n{text}\n\n<!-- end adaptive -->{after}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", help="as 200-219; all without CNNs where left out")
    parser.add_argument("--tighten", type=float, default=1.0, help="multiply the target loss")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--plans", type=Path, default=PLANS, help="where plans of worlds are")
    parser.add_argument("--page", action="store_true", help="update the page")
    options = parser.parse_args()
    if options.page:
        (ROOT / "docs" / "explanation" / "adaptive.md").write_text(page())
        sys.exit()
    warnings.simplefilter("ignore", FedcellWarning)
    options.folder.mkdir(parents=True, exist_ok=True)
    for number in list(numbers(options.worlds)) or WORLDS:
        row = judge(number, options.tighten, options.folder, options.plans)
        ratios = ", ".join(f"{case} {mean_ratio(row, case):.2f}" for case in row["starts"])
        print(f"{row['world']}: {ratios}", flush=True)
    print(*table(measured(options.folder, options.tighten)), sep="\n")
