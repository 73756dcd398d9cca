"""Does the pilot predict, and does the plan pay? On runs that the pilot has not seen.

    python benchmarks/planning.py            # all of it, as tables
    python benchmarks/planning.py --json     # for programs

A pilot of each scenario; then K and E_l in {5, 10, 20, 40}, gamma in {0, 0.3}, five seeds
each, against what the pilot predicts. On digits also the plan's own cost (12) against the best
of that grid, and how rounds depend on D. One file in benchmarks/results/planning for each
part; runs that are there are not run again. MNIST is read as `fedcell run` reads it.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from fedcell import load_scenario, simulate_network
from fedcell.learning.setup import prepare_training
from fedcell.planning.choose import choose_plan
from fedcell.planning.design import Setting, pilot_settings, trial_seeds
from fedcell.planning.fit import fit_law, leave_one_setting_out_error
from fedcell.planning.fitted import FORMS
from fedcell.planning.grid import evaluate_plans
from fedcell.planning.pilot import Pilot
from fedcell.planning.pilotfile import load_pilot, save_pilot
from fedcell.planning.trials import PilotRunner, observe, run_trials
from fedcell.planning.validate import Validation, check_law, target_exponent
from fedcell.scenario.identity import pilot_identity
from fedcell.show.figures.plans import checks_figure
from fedcell.show.figures.style import save_figure

RESULTS = Path(__file__).parent / "results" / "planning"
DOCS = Path(__file__).parents[1] / "docs"
GRID = [Setting(k, e, g) for g in (0.0, 0.3) for e in (5, 10, 20, 40) for k in (5, 10, 20, 40)]
SEEDS = {  # of runs that are to be predicted: five that validation draws, and five by hand
    "drawn": trial_seeds(0, validation=True)[:5],
    "101 to 105": [101, 102, 103, 104, 105],
}
EVERY = [seed for seeds in SEEDS.values() for seed in seeds]
BUDGETS = {"digits": 60.0, "mnist": 180.0}  # seconds of pilot
FIELDS = ("cohort", "local_steps", "loss_rate")
ROUNDS = 400  # after which a run that is to be predicted ends


def runs(name, world, settings, seeds, budget, rounds=ROUNDS, measured=None):
    """The runs of a file, those that are missing made now."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{name}.json"
    runner = PilotRunner(scenario=world, target=world.learning.target, rounds=rounds)
    planned = Setting(world.plan.cohort, world.plan.local_steps, world.cell.loss_rate)
    setup = runner.setup(planned, 0)
    found = Pilot(
        identity=pilot_identity(setup.scenario, setup.fingerprint),
        target=world.learning.target,
        seed=0,
        kind=world.cell.loss_kind,
        name=name.split("-")[-1],
        trials=load_pilot(file).trials if file.exists() else (),
    )
    for trial in run_trials(runner, settings, seeds, budget, found.trials, measured):
        found = found.with_trial(trial)
        save_pilot(file, found)
        print(name, trial.setting, trial.seed, len(trial.losses), file=sys.stderr, flush=True)
    return found


def piloted(name):
    """The pilot of a scenario, as `fedcell pilot` makes it; once made it is not gone on with,
    for its budget is of a machine that does nothing else."""
    file, world = RESULTS / f"pilot-{name}.json", load_scenario(name)
    if file.exists() and load_pilot(file).laws:
        return load_pilot(file)
    settled = prepare_training(world, 0).scenario
    settings = pilot_settings(settled)
    budget = BUDGETS[name]
    found = runs(
        f"pilot-{name}", world, settings, trial_seeds(0), budget, world.rounds, settings[0]
    )
    found = found.fitted()
    found.save(file)
    return found


def predicted(name):
    """Errors and coverage on the grid, for the law that was chosen and for the paper's."""
    pilot = piloted(name)
    seen = {trial.setting for trial in pilot.trials}
    held = runs(f"heldout-{name}", load_scenario(name), GRID, EVERY, math.inf)
    law = pilot.fit()
    sets = {}
    for which, seeds in SEEDS.items():
        trials = [t for t in held.trials if t.setting in set(GRID) - seen and t.seed in seeds]
        found = Validation(name=name, checks=check_law(law, trials, pilot.target))
        own = check_law(pilot.fit(form="paper"), trials, pilot.target)
        paper = Validation(name=name, checks=own).to_dict()
        light = replace(law, t_factor=float(stdtrit(law.seeds - 1, 0.95)))  # tails not capped
        lighter = Validation(name=name, checks=check_law(light, trials, pilot.target))
        sets[which] = found.to_dict() | {
            "paper_law": {key: paper[key] for key in paper if key not in ("rows", "failures")},
            "slowest_seed": slowest(law, trials, pilot.target),
            "light_coverage": lighter.coverage,
        }
        if which == "drawn":
            title = f"{name}: settings that the pilot has not seen, means of 5 runs"
            save_figure(checks_figure(found.checks, title), DOCS / f"validation-{name}.png")
    every = observe(held.trials, pilot.target, pilot.kind)
    return {
        "pilot_seconds": sum(t.wall_seconds for t in pilot.trials),
        "pilot_runs": len(pilot.trials),
        "seeds": law.seeds,
        "slowest_of_the_pilot": slowest(law, pilot.trials, pilot.target),
        "form": law.form,
        "coefficients": law.rows(),
        "seed_sd": law.seed_sd,
        "run_sd": law.run_sd,
        "lack_of_fit_sd": law.lack_of_fit_sd,
        "sets": sets,
        "fits_to_the_grid": {  # how far each form is from settings of the grid left out of its fit
            form: {
                "left_out_error": leave_one_setting_out_error(every, form),
                "coefficients": fit_law(every, form).rows(),
            }
            for form in FORMS
        },
        "target_exponent": target_exponent(held.trials, pilot.target),
    }


def slowest(law, trials, target):
    """The seed that takes most, and how many times what the law says it takes on average."""
    ratios = {}
    for trial in trials:
        s, g = trial.setting, trial.rounds_to(target)
        expected = float(law.predict(s.cohort, s.local_steps, s.loss_rate)[0])
        ratios.setdefault(trial.seed, []).append((g or len(trial.losses)) / expected)
    means = {seed: float(np.mean(ratio)) for seed, ratio in ratios.items()}
    seed = max(means, key=means.get)
    return {"seed": seed, "times": means[seed]}


def far(name="digits"):
    """Beyond what the pilot tried: one and two clients, hundreds of steps, most uploads lost."""
    pilot, world = piloted(name), load_scenario(name)
    k, e, g = (max(getattr(t.setting, x) for t in pilot.trials) for x in FIELDS)
    settings = [Setting(1, 20, 0.1), Setting(2, 20, 0.1), Setting(10, 4 * e, 0.1)]
    settings += [Setting(10, 16 * e, 0.1), Setting(5, 20, 0.7)]
    held = runs(f"far-{name}", world, settings, SEEDS["drawn"], math.inf)
    checks = check_law(pilot.fit(), [t for t in held.trials if t.setting in settings], pilot.target)
    rows = [check.to_dict() for check in checks]
    return {"tried": {"cohort": k, "local_steps": e, "loss_rate": g}, "rows": rows}


def cost_of(world, trial):
    """Cost (12) of a run, on its own dice and fleet, under the optimal policy."""
    settled = prepare_training(trial.setting.apply_to(world), trial.seed).scenario
    rounds = trial.rounds_to(world.learning.target) or len(trial.losses)
    return float(simulate_network(settled, "optimal", rounds, trial.seed).cost.sum())


def pays(name="digits"):
    """The plan's measured cost against the best of the grid, at each gamma of the grid."""
    pilot, world, found = piloted(name), load_scenario(name), []
    held = runs(f"heldout-{name}", world, GRID, EVERY, math.inf)
    for gamma in (0.0, 0.3):
        settled = prepare_training(world, 0).scenario.using(cell={"loss_rate": gamma})
        over = evaluate_plans(settled, pilot.fit(), "optimal", pilot.most_steps)
        plan = choose_plan(over, paper_law=pilot.fit(form="paper").law)
        points = {
            "plan": Setting(int(plan.cohort.value), int(plan.local_steps.value), gamma),
            "paper": Setting(plan.paper.cohort, plan.paper.local_steps, gamma),
        }
        extra = runs(f"planned-{name}", world, list(points.values()), EVERY, math.inf)
        costs = {}
        for trial in (*held.trials, *extra.trials):
            if trial.setting.loss_rate == gamma and trial.seed in EVERY:
                costs.setdefault(trial.setting, []).append(cost_of(world, trial))
        grid = {s: float(np.mean(costs[s])) for s in GRID if s.loss_rate == gamma}
        best = min(grid, key=grid.get)
        row = {"gamma": gamma, "best_of_grid": [best.cohort, best.local_steps], "cost": grid[best]}
        for who, setting in points.items():
            cost = float(np.mean(costs[setting]))
            row[who] = {
                "cohort": setting.cohort,
                "local_steps": setting.local_steps,
                "cost": cost,
                "against_best": cost / grid[best] - 1,
            }
        row["plan"]["predicted"] = plan.cost.value
        found.append(row)
    return found


def data_size(name="digits"):
    """Rounds over D at the same skew: the same parts dealt on to more clients. Theorem 1 says
    that mixing, what K divides, falls as 1/D, and nothing else depends on D."""
    found = []
    for count in (25, 50, 100):
        world = load_scenario(name).using(clients={"count": count})
        skew = {"partition": {**_partition(world), "same_skew_as": 25}}
        world = world.using(learning=skew)
        settings = [Setting(3, 20, 0.1), Setting(20, 20, 0.1)]
        held = runs(f"size-{name}-{count}", world, settings, EVERY, math.inf)
        few, many = (
            np.array([t.rounds_to(held.target) for t in held.trials if t.setting == s], float)
            for s in settings
        )
        factor = 1 / (1 / 3 - 1 / 20)
        row = {"clients": count, "D": 1501 / count, "K=3": few.mean(), "K=20": many.mean()}
        row["mixing"] = factor * float((few - many).mean())
        row["mixing_error"] = factor * float((few - many).std(ddof=1)) / math.sqrt(few.size)
        found.append(row)
    return found


def _partition(world):
    return {k: getattr(world.learning.partition, k) for k in ("kind", "num_classes_per_partition")}


def answers(repeats=7):
    """Seconds that `fedcell plan` takes with a given pilot of 1000 clients, interpreter start
    included."""
    folder = RESULTS / "thousand"
    folder.mkdir(parents=True, exist_ok=True)
    text = subprocess.run(
        [sys.executable, "-m", "fedcell", "scenario", "mnist"], capture_output=True, text=True
    ).stdout
    (folder / "thousand.toml").write_text(text.replace("count = 100", "count = 1000"))
    base = [sys.executable, "-m", "fedcell"]
    if not (folder / "pilot.json").exists():
        words = ["pilot", "thousand.toml", "--budget", "1s", "--out", "pilot.json"]
        subprocess.run([*base, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        words = ["plan", "thousand.toml", "--pilot", "pilot.json", "--json"]
        subprocess.run([*base, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return {"clients": 1000, "min": min(times), "median": float(np.median(times))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["digits", "mnist", "pays", "size", "far", "answers"])
    asked = parser.parse_args()
    parts = {
        "digits": lambda: predicted("digits"),
        "mnist": lambda: predicted("mnist"),
        "pays": pays,
        "size": data_size,
        "far": far,
        "answers": answers,
    }
    result = {name: make() for name, make in parts.items() if asked.only in (None, name)}
    if asked.only is None:
        path = RESULTS.parent / "planning.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
    if asked.json:
        print(json.dumps(result, indent=1))
        return
    for name, value in result.items():
        print(f"## {name}")
        for which, part in value.get("sets", {}).items() if isinstance(value, dict) else ():
            rows = part.pop("rows")
            print(f"\nseeds {which}\n")
            print("| K | E_l | gamma | measured | predicted | low | high | off |")
            print("|---|---|---|---|---|---|---|---|")
            for r in rows:
                numbers = [r[x] for x in ("measured", "predicted", "low", "high")]
                cells = " | ".join(f"{x:.1f}" for x in numbers)
                where = f"{r['cohort']} | {r['local_steps']} | {r['loss_rate']:g}"
                print(f"| {where} | {cells} | {r['error']:+.0%} |")
        print(json.dumps(value, indent=1))


if __name__ == "__main__":
    main()
