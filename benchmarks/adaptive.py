"""Does it pay to plan anew on the way? Runs whose plan adapts beside runs whose plan stays.

    python benchmarks/adaptive.py                  # all worlds; half an hour, resumable
    python benchmarks/adaptive.py digits:100-101   # some
    python benchmarks/adaptive.py --page           # brings the page up to date
    python benchmarks/adaptive.py hard:200-239     # hard worlds; --tighten 0.7: nearer the floor

In every world (the shipped digits, and those of benchmarks/worlds.py from 100 on: none was tuned
on) four plans are run to the target on ten seeds, as they are and adapting: the scenario's own K
and E_l, of which nothing is known; that of a poor pilot, which ended after three runs; that of a
law whose coefficients somebody has guessed, each within three powers of ten; and a good one, that
of a pilot of a minute (benchmarks/results/planning), from which it adapts without that pilot. A
cost is (12) as the run took it; a run that does not get there in ROUNDS rounds counts as what it
took. One file a world in benchmarks/results/adaptive; runs that are there are not made again.

Hard worlds (worlds.draw_hard_world; numbers below 100 are to be tuned on) have eight paired seeds
and three starts: the scenario's own K and E_l, a random setting, and the plan of a short pilot (a
world whose pilot has no plan lacks that case, and the summary says so). A world counts as worse
where the mean cost of its adapting runs is above 1.1 times that of the runs that stay. `--tighten`
multiplies the drawn target loss, or the share of errors that a target accuracy leaves.
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
from worlds import draw_hard_world, draw_world, kind_of

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
HARD_SEEDS = range(20_000, 20_008)
HARD_CASES = {"own": "no pilot", "random": "a random setting", "good": "a short pilot's plan"}
HARD_BUDGETS = {"mnist": 60.0, "cifar10": 60.0}  # seconds of a pilot; BUDGET in other worlds
HARD_ROUNDS = 400


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


def measure(scenario, setting, law, seed, adapts, rounds=ROUNDS):
    """A run from a setting: what it took to the target, and what it changed."""
    world = scenario.with_plan(*setting)
    prepared = prepare_run(world, [POLICY], rounds=rounds, seed=seed)
    result = carry_out(adaptive(prepared, law) if adapts else prepared)
    found = result.outcome.policies[0]
    taken = found.to_target or found.total
    return {
        "reached": found.to_target is not None,
        "rounds": taken.rounds,
        "cost": taken.cost,
        "changes": [[c.round, c.cohort, c.local_steps] for c in result.outcome.changes],
        "failed": sum(" failed: " in change.why for change in result.outcome.changes),
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


def hard_world_of(number, tighten):
    """The name and the scenario of a hard world, its target as near the floor as asked for."""
    scenario = draw_hard_world(number).scenario
    if tighten == 1:
        return f"hard-{number}", scenario
    loss, accuracy = scenario.learning.target, scenario.learning.target_accuracy
    if accuracy is None:
        goal = {"target": float(f"{tighten * loss:.3g}")}
    else:
        goal = {"target_accuracy": round(1 - tighten * (1 - accuracy), 3)}
    return f"hard-{number}-{tighten:g}", scenario.using(learning=goal)


def hard_starts(scenario, number):
    """The settings that runs of a hard world begin with; without a plan there is no good one."""
    rng = np.random.default_rng([number, 99])
    cohort, steps = 2 ** rng.uniform(0, 5.5), 2 ** rng.uniform(1, 7.5)
    starts = {
        "own": [scenario.plan.cohort, scenario.plan.local_steps],
        "random": [min(scenario.clients.count, round(cohort)), round(steps)],
    }
    file = Path(tempfile.mkdtemp()) / "pilot.json"
    try:
        run_pilot(scenario, HARD_BUDGETS.get(kind_of(number), BUDGET), file, seed=number)
        starts["good"] = _setting(plan_training(scenario, load_pilot(file)))
    except FedcellError as error:
        print(f"hard-{number}: no plan: {error}", flush=True)
    return starts


def judge_hard(number, tighten):
    """All runs of a hard world that are not there yet; its file after each run."""
    name = f"hard-{number}" if tighten == 1 else f"hard-{number}-{tighten:g}"
    file = RESULTS / f"{name}.json"
    row = json.loads(file.read_text()) if file.exists() else {"world": name, "runs": {}}
    if "starts" in row and len(row["runs"]) == 2 * len(row["starts"]) * len(HARD_SEEDS):
        return row
    _, scenario = hard_world_of(number, tighten)
    if "starts" not in row:
        row |= {"kind": kind_of(number), "clients": scenario.clients.count, "tighten": tighten}
        row |= {"target": scenario.learning.target, "accuracy": scenario.learning.target_accuracy}
        row["starts"] = hard_starts(scenario, number)
    for case, start in row["starts"].items():
        for seed in HARD_SEEDS:
            for how in "fa":  # fixed, adapting
                if (key := f"{case} {how} {seed}") in row["runs"]:
                    continue
                row["runs"][key] = measure(scenario, start, None, seed, how == "a", HARD_ROUNDS)
                file.write_text(json.dumps(row) + "\n")
    return row


def hard_costs(row, case, how):
    """Of the runs of a hard world, by seed."""
    return np.array([row["runs"][f"{case} {how} {seed}"]["cost"] for seed in HARD_SEEDS])


def mean_ratio(row, case):
    """The mean cost of adapting runs over that of runs that stay."""
    return hard_costs(row, case, "a").mean() / hard_costs(row, case, "f").mean()


def hard_summary(rows):
    """What hard worlds come to, a line for each case."""
    for case, words in HARD_CASES.items():
        have = [row for row in rows if case in row["starts"]]
        if not have:
            continue
        means = np.array([mean_ratio(row, case) for row in have])
        runs = np.concatenate([hard_costs(r, case, "a") / hard_costs(r, case, "f") for r in have])
        failed = [
            row["runs"][f"{case} a {seed}"]["failed"] > 0 for row in have for seed in HARD_SEEDS
        ]
        yield (
            f"- From {words}: mean cost above {WORSE} times that of the plan it left in "
            f"{(means > WORSE).sum()} of {means.size} worlds ({len(rows) - means.size} have no "
            f"such plan), median {np.median(means):.2f}, most {means.max():.2f}; "
            f"{(runs > WORSE).mean():.0%} of {runs.size} single runs are above {WORSE}; a forecast "
            f"failed in {np.mean(failed):.0%} of them."
        )


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
    files = [file for file in sorted(RESULTS.glob("*.json")) if not file.name.startswith("hard-")]
    rows = [json.loads(file.read_text()) for file in files]
    return [row for row in rows if len(row["runs"]) == 2 * len(CASES) * len(SEEDS)]


def page():
    """The page that tells of them, as it should be."""
    before, rest = (ROOT / "docs" / "planning.md").read_text().split("<!-- adaptive -->", 1)
    after = rest.split("<!-- end adaptive -->", 1)[1]
    text = "\n".join(table(measured()))
    return f"{before}<!-- adaptive -->\n\n{text}\n\n<!-- end adaptive -->{after}"


def judge_all_hard(numbers, tighten, kinds):
    """Hard worlds one after the other, and what they come to."""
    rows = []
    for number in numbers:
        if kinds and kind_of(number) not in kinds:
            continue
        rows.append(row := judge_hard(number, tighten))
        said = ", ".join(f"{case} {mean_ratio(row, case):.2f}" for case in row["starts"])
        print(f"{row['world']} ({row['kind']}): {said}", flush=True)
    print(*hard_summary(rows), sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "worlds", nargs="*", help="as digits, digits:100-104, hard:200-239; all where left out"
    )
    parser.add_argument("--page", action="store_true", help="bring the page up to date")
    parser.add_argument(
        "--tighten", type=float, default=1.0, help="of hard worlds: multiply the target loss"
    )
    parser.add_argument("--kinds", nargs="*", help="of hard worlds: digits, logistic, mnist, ...")
    options = parser.parse_args()
    if options.page:
        (ROOT / "docs" / "planning.md").write_text(page())
        sys.exit()
    warnings.simplefilter("ignore", FedcellWarning)
    RESULTS.mkdir(parents=True, exist_ok=True)
    names = [(w, None) for w in options.worlds if ":" not in w]
    names += asked([w for w in options.worlds if ":" in w])
    if hard := [number for dataset, number in names if dataset == "hard"]:
        judge_all_hard(hard, options.tighten, options.kinds)
        names = [name for name in names if name[0] != "hard"]
    elif not names:
        names = WORLDS
    for dataset, number in names:
        row = judge(dataset, number)
        said = ", ".join(f"{case} {np.median(ratios(row, case)):.2f}" for case in CASES)
        print(f"{row['world']}: {said}", flush=True)
    if not options.worlds:
        print(*table(measured()), sep="\n")
