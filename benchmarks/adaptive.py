"""Does it pay to plan anew on the way? Runs whose plan adapts beside runs whose plan stays.

    python benchmarks/adaptive.py                  # all worlds; half an hour, resumable
    python benchmarks/adaptive.py digits:100-101   # some
    python benchmarks/adaptive.py --page           # brings the page up to date

In every world (the shipped digits, and those of benchmarks/worlds.py from 100 on: none was tuned
on) four plans are run to the target on ten seeds, as they are and adapting: the scenario's own K
and E_l, of which nothing is known; that of a poor pilot, which ended after three runs; that of a
law whose coefficients somebody has guessed, each within three powers of ten; and a good one, that
of a pilot of a minute (benchmarks/results/planning), from which it adapts without that pilot. A
cost is (12) as the run took it; a run that does not get there in ROUNDS rounds counts as what it
took. One file a world in benchmarks/results/adaptive; runs that are there are not made again.
"""

import argparse
import json
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedcell import GivenLaw, load_pilot, load_scenario, plan_training, run_pilot
from fedcell.core.errors import FedcellError, FedcellWarning
from fedcell.planning.adapting import adaptive
from fedcell.planning.pilot import Pilot
from fedcell.simulation.drive import carry_out
from fedcell.simulation.run import prepare_run
from planning import asked
from worlds import draw_world

ROOT = Path(__file__).parents[1]
RESULTS, PLANS = (Path(__file__).parent / "results" / name for name in ("adaptive", "planning"))
WORLDS = [("digits", None), *(("digits", number) for number in range(100, 110))]
SEEDS = range(20_000, 20_010)
ROUNDS = 500
POOR = 3  # runs of a poor pilot
BUDGET = 10.0  # seconds of a pilot of which so many are kept
POLICY = "optimal-staged"
CASES = {
    "own": "no pilot",
    "poor": "a poor pilot",
    "guess": "a guessed law",
    "good": "a good plan",
}
LOW, HIGH = (0.0, -3.0, 0.5, -1.0), (3.0, 0.0, 3.5, 2.0)  # of the logarithms of a guess
WORSE = 1.1


def world_of(dataset, number):
    """The name and the scenario of a world, and the K and E_l of its good plan."""
    if number is None:
        plan = plan_training(load_scenario(dataset), PLANS / f"pilot-{dataset}.json")
        return (
            dataset,
            load_scenario(dataset),
            [int(plan.cohort.value), int(plan.local_steps.value)],
        )
    world = draw_world(dataset, number)
    row = json.loads((PLANS / f"{world.name}.json").read_text())
    return world.name, world.scenario, row["plan"]


def poor_pilot(scenario, seed) -> Pilot:
    """The first runs of a pilot: three, or as many as a plan takes."""
    file = Path(tempfile.mkdtemp()) / "pilot.json"
    run_pilot(scenario, BUDGET, file, seed=seed)
    whole = load_pilot(file)
    for count in range(POOR, len(whole.trials) + 1):
        pilot = replace(whole, trials=whole.trials[:count], _laws={})
        try:
            plan_training(scenario, pilot)
        except FedcellError:
            continue
        return pilot
    raise RuntimeError("no run of the pilot got there")


def measure(scenario, setting, law, seed, adapts):
    """A run from a setting: what it took to the target, and what it changed."""
    world = scenario.with_plan(*setting)
    prepared = prepare_run(world, [POLICY], rounds=ROUNDS, seed=seed)
    result = carry_out(adaptive(prepared, law) if adapts else prepared)
    found = result.outcome.policies[0]
    taken = found.to_target or found.total
    return {
        "reached": found.to_target is not None,
        "rounds": taken.rounds,
        "cost": taken.cost,
        "changes": [[c.round, c.cohort, c.local_steps] for c in result.outcome.changes],
    }


def guessed(scenario, number):
    """A law of which nobody knows anything, and its plan."""
    powers = np.random.default_rng([number, 63]).uniform(LOW, HIGH)
    names = ("mixing", "drift", "start", "floor")
    law = GivenLaw(**dict(zip(names, (10**powers).round(3).tolist(), strict=True)))
    return law, plan_training(scenario, law=law, steps=(1, 500))


def judge(dataset, number):
    """All runs of a world that are not there yet; its file after each seed."""
    name, scenario, good = world_of(dataset, number)
    file = RESULTS / f"{name}.json"
    row = json.loads(file.read_text()) if file.exists() else {"world": name, "runs": {}}
    missing = [
        (seed, case, how)
        for seed in SEEDS
        for case in CASES
        for how in "fa"  # fixed, adapting
        if f"{case} {how} {seed}" not in row["runs"]
    ]
    row |= {"clients": scenario.clients.count, "target": scenario.learning.target}
    row |= {"own": [scenario.plan.cohort, scenario.plan.local_steps], "good": good}
    laws = {"own": None, "good": None}
    if any(case == "poor" for _, case, _ in missing):
        pilot = poor_pilot(scenario, number or 0)
        plan = plan_training(scenario, pilot)
        laws["poor"] = plan.law
        row |= {"poor": _setting(plan), "poor_runs": len(pilot.trials)}
    if any(case == "guess" for _, case, _ in missing):
        laws["guess"], plan = guessed(scenario, number or 0)
        row |= {"guess": _setting(plan), "guess_law": laws["guess"].to_dict()}
    for seed, case, how in missing:
        found = measure(scenario, row[case], laws[case], seed, how == "a")
        row["runs"][f"{case} {how} {seed}"] = found
        file.write_text(json.dumps(row, indent=1) + "\n")
    return row


def _setting(plan):
    return [int(plan.cohort.value), int(plan.local_steps.value)]


def costs(row, case, how):
    """Of the runs of a world, by seed."""
    return np.array([row["runs"][f"{case} {how} {seed}"]["cost"] for seed in SEEDS])


def ratios(row, case):
    """What adapting runs cost beside those that do not, on the same seeds."""
    return costs(row, case, "a") / costs(row, case, "f")


def table(rows):
    """The worlds, and what they come to, as lines of Markdown."""
    heads = ["world"]
    for case in CASES:
        heads += [
            f"{CASES[case]}: K, E_l",
            *(["stays"] if case != "good" else []),
            "adapts / stays",
        ]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        yardstick, cells = costs(row, "good", "f"), [row["world"]]
        for case in CASES:
            cells.append("{}, {}".format(*row[case]))
            if case != "good":
                cells.append(f"{np.median(costs(row, case, 'f') / yardstick):.2f}")
            found = ratios(row, case)
            cells.append(f"{np.median(found):.2f} ({found.min():.2f} to {found.max():.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for case, words in CASES.items():
        every = np.concatenate([ratios(row, case) for row in rows])
        low, middle, high = np.quantile(every, [0.05, 0.5, 0.95])
        mean, worse = np.exp(np.log(every).mean()), (every > WORSE).mean()
        lines.append(
            f"- From {words}: {middle:.2f} of the cost in the median of {every.size} runs, "
            f"{mean:.2f} in the geometric mean, {low:.2f} to {high:.2f} in 90 % of them; more than "
            f"{WORSE} in {worse:.0%}."
        )
    return lines


def measured():
    """The worlds of which all runs are made, in order."""
    rows = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    return [row for row in rows if len(row["runs"]) == 2 * len(CASES) * len(SEEDS)]


def page():
    """The page that tells of them, as it should be."""
    before, rest = (ROOT / "docs" / "planning.md").read_text().split("<!-- adaptive -->", 1)
    after = rest.split("<!-- end adaptive -->", 1)[1]
    text = "\n".join(table(measured()))
    return f"{before}<!-- adaptive -->\n\n{text}\n\n<!-- end adaptive -->{after}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", help="as digits, digits:100-104; all where left out")
    parser.add_argument("--page", action="store_true", help="bring the page up to date")
    options = parser.parse_args()
    if options.page:
        (ROOT / "docs" / "planning.md").write_text(page())
        sys.exit()
    warnings.simplefilter("ignore", FedcellWarning)
    RESULTS.mkdir(parents=True, exist_ok=True)
    names = [(w, None) for w in options.worlds if ":" not in w]
    names += asked([w for w in options.worlds if ":" in w])
    for dataset, number in names or WORLDS:
        row = judge(dataset, number)
        said = ", ".join(f"{case} {np.median(ratios(row, case)):.2f}" for case in CASES)
        print(f"{row['world']}: {said}", flush=True)
    if not options.worlds:
        print(*table(measured()), sep="\n")
