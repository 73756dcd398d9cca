"""Measure the regret of plans in random worlds against the best of a measured grid.

    python benchmarks/planning.py                # the 40 held-out worlds; hours, resumable
    python benchmarks/planning.py 0-11 --folder build/worlds   # worlds for development
    python benchmarks/planning.py --page         # updates the pages

Every world (benchmarks/worlds.py, `draw_hard_world`) gets a pilot within its budget and a plan. A
world whose pilot ends without a plan counts as a failure. Then a grid of K and E_l is measured on
seeds that the pilot has not seen, refined around its own best and around the plan; its best is
chosen on some seeds and evaluated, like the plan, on others, so a regret may be below 0. Every
world has its own seeds. A cost is measured rounds times the modelled cost of a round. Each world
has a file in benchmarks/results/planning; existing results are reused. Also measured: how often the
pilot's 90 % intervals contain the mean rounds of settings, tried or not.
"""

import argparse
import json
import os
import sys
import tempfile
import textwrap
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np

from fedcell import Compute, plan_training, run_pilot
from fedcell.core.errors import FedcellError, FedcellWarning
from fedcell.experiments.executors import LocalProcesses
from fedcell.experiments.jobs import TrainingJob, train
from fedcell.experiments.training import Training, Until
from fedcell.learning import prepare_training
from fedcell.planning.costs.rounds import price_round_grid
from fedcell.planning.setting import Setting
from worlds import draw_hard_world, kind_of

RESULTS = Path(__file__).parent / "results" / "planning"
ROOT = Path(__file__).parents[1]
WORLDS = range(200, 240)
CNN = ("mnist", "cifar10")
BUDGETS = {True: 120.0, False: 30.0}  # seconds of pilot, with and without a CNN
STEPS = (2, 5, 12, 30, 75, 190)
COHORTS = (1, 3, 8, 20, 50)
NEXT = 1.5  # times K and E_l, between neighbours where the grid is refined
FIRST, CHOOSE, JUDGE = 1, 2, {True: 5, False: 10}  # seeds: of all settings; of the better; fresh
NEAR = 5  # settings that the best is chosen among
CHECKED = 5  # settings that the pilot tried and 2 others, for its intervals
WORSE, FAR_WORSE = 1.5, 10.0  # times the best cost, at which a run of the grid, or a judge, ends
ROUNDS = 1000


class Grid:
    """Settings of a world, measured on demand."""

    def __init__(self, scenario, engine, data_dir, number):
        self.scenario, self.engine, self.data_dir = scenario, engine, data_dir
        self.sized = prepare_training(scenario, number, data_dir).scenario
        self.target = scenario.learning.goal
        self.gamma = scenario.cell.loss_rate
        self.priced = price_round_grid(self.sized, "optimal-staged", 800, number)
        self.rounds = {}  # (K, E_l): {seed: rounds, or minus those it is given up after}

    def cost(self, k, e):
        """Return the cost of a round [s]."""
        return float(self.priced.cost(np.array(k), np.array(e)))

    def measure(self, places, seeds, worse=WORSE):
        """Run all missing settings and seeds; stop each run that costs too much against the best
        so far."""
        asked = [(p, s) for s in seeds for p in places if s not in self.rounds.get(p, {})]
        known = {}

        def jobs():
            for (k, e), seed in asked:
                most = int(min(ROUNDS, worse * self.best() / self.cost(k, e)))
                if most < self.target.hold:  # not even the fewest rounds would do
                    self.rounds.setdefault((k, e), {})[seed] = -most
                    continue
                world = Setting(k, e, self.gamma).apply_to(self.scenario)
                until = Until(most, self.target, stop_if_unreachable=worse == WORSE, sampled=True)
                job = TrainingJob(Training.of(world, seed), until, self.data_dir)
                known[job] = (k, e), seed
                yield job

        for job, done in self.engine.run(train, jobs()):
            if isinstance(done, Exception):
                raise done
            place, seed = known.pop(job)
            reached = done.curve.reached(self.target)
            rounds = -job.until.rounds if reached is None else reached
            self.rounds.setdefault(place, {})[seed] = rounds

    def mean_cost(self, place, seeds):
        """Return the mean cost of a run; infinite where one was stopped."""
        found = [self.rounds.get(place, {}).get(seed, -1) for seed in seeds]
        return np.inf if min(found) <= 0 else float(np.mean(found)) * self.cost(*place)

    def best(self):
        """Return the lowest mean cost measured so far."""
        costs = [np.inf]
        for place, found in self.rounds.items():
            rounds = list(found.values())
            if rounds and min(rounds) > 0:
                costs.append(float(np.mean(rounds)) * self.cost(*place))
        return min(costs)


def fresh_seeds(number):
    """Yield seeds that no other world has: a seed also sets the first model, so sharing seeds would
    repeat its luck in many worlds."""
    return iter(range(1000 * number + 1, 1000 * (number + 1)))


def around(place, count):
    """Return the neighbours of a setting."""
    k, e = place
    found = [(round(k * a), round(e * b)) for a in (1 / NEXT, 1, NEXT) for b in (1 / NEXT, 1, NEXT)]
    found += [(k - 1, e), (k + 1, e)]
    return [(a, b) for a, b in dict.fromkeys(found) if 1 <= a <= count and 1 <= b <= 800]


def reference(grid, chosen, count, seeds):
    """Return the best setting of a grid that is refined around its best and around the plan."""
    first, choose = seeds[:FIRST], seeds
    by = lambda seeds: lambda place: grid.mean_cost(place, seeds)
    places = [(k, e) for k in COHORTS if k <= count for e in STEPS]
    start = min(places, key=lambda p: abs(np.log(p[0] / chosen[0])) + abs(np.log(p[1] / chosen[1])))
    away = lambda p: abs(np.log(p[0] / start[0])) + abs(np.log(p[1] / start[1]))
    grid.measure([chosen] if chosen else [], first)
    grid.measure(sorted(places, key=away), first)
    for centre in (min(grid.rounds, key=by(first)), chosen, None):
        centre = centre or min(grid.rounds, key=by(first))
        grid.measure(around(centre, count), first)
    near = sorted(grid.rounds, key=by(first))[:NEAR]
    grid.measure(near, choose)
    return min(near, key=by(choose))


def judge(number, data_dir, workers, pilots=None):
    """Measure a world: its pilot and plan, the grid, and the regret."""
    world = draw_hard_world(number, data_dir)
    scenario, count = world.scenario, world.scenario.clients.count
    cnn = kind_of(number) in CNN
    seeds = fresh_seeds(number)
    choose, fresh = (list(islice(seeds, n)) for n in (FIRST + CHOOSE, JUDGE[cnn]))
    budget = BUDGETS[cnn]
    file = (pilots or Path(tempfile.mkdtemp())) / f"{world.name}.json"
    row = {
        "world": world.name,
        "clients": count,
        "target": str(scenario.learning.goal),
        "budget": budget,
    }
    begin = time.monotonic()
    try:
        pilot = run_pilot(
            scenario, budget, file, seed=number, compute=Compute(data_dir=data_dir, workers=workers)
        )
        plan = plan_training(scenario, pilot, seed=number, compute=Compute(data_dir=data_dir))
    except FedcellError as error:
        return row | {"seconds": time.monotonic() - begin, "failed": str(error)}
    row |= {"seconds": pilot.seconds, "runs": len(pilot.trials), "settings": len(pilot.tried)}
    chosen, law = (plan.cohort, plan.local_steps), pilot.fit()
    grid = Grid(scenario, LocalProcesses(workers, ahead=1), data_dir, number)
    best = reference(grid, chosen, count, choose)
    judged = list(dict.fromkeys([chosen, best]))
    grid.measure(judged, fresh, FAR_WORSE)
    # An evaluation run that was stopped counts with its cost so far.
    costs = {
        p: float(np.mean([abs(grid.rounds[p][s]) for s in fresh])) * grid.cost(*p) for p in judged
    }
    rng = np.random.default_rng(number)
    tried = [(s.cohort, s.local_steps) for s in pilot.reached(pilot.target)]
    sound = [p for p in grid.rounds if np.isfinite(grid.mean_cost(p, choose[:FIRST]))]
    some = [tried[i] for i in rng.permutation(len(tried))[:CHECKED]]
    some += [sound[i] for i in rng.permutation(len(sound))[:2]]
    checked = list(dict.fromkeys([*judged, *some]))
    few = fresh[:5]
    grid.measure(checked, few, FAR_WORSE)
    return row | {
        "plan": chosen,
        "best": best,
        "regret": costs[chosen] / costs[best] - 1,
        "predicted": [plan.cost.value, plan.cost.low, plan.cost.high],
        "measured": costs[chosen],
        "held": [
            {
                "cohort": p[0],
                "local_steps": p[1],
                "tried": p in tried,
                "rounds": [grid.rounds[p][s] for s in few],
            }
            | dict(zip(("mean", "low", "high"), _interval(law, *p, grid.gamma, few), strict=True))
            for p in checked
        ],
    }


def _interval(law, k, e, gamma, seeds):
    return [float(x) for x in law.predict(np.array(k), np.array(e), gamma, runs=len(seeds))]


def holds(row):
    """Return whether mean rounds are within a pilot's interval; one with an infinite end contains
    stopped runs."""
    rounds = row["rounds"]
    mean = np.inf if min(rounds) <= 0 else np.mean(rounds)
    return row["low"] <= mean <= row["high"]


def table(rows):
    """Return the worlds, worst last, and their summary as lines of Markdown."""
    lines = [
        "| world | N | target | plan: K, E_l | best of the grid | regret | runs | pilot [s] |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=_regret):
        what = f"| {row['world']} | {row['clients']} | {row['target']} |"
        if "failed" in row:
            lines.append(f"{what} none | | no plan | | {row['seconds']:.0f} |")
            continue
        plan, best = ("{}, {}".format(*row[name]) for name in ("plan", "best"))
        taken = f"{row['runs']} | {row['seconds']:.0f}"
        lines.append(f"{what} {plan} | {best} | {row['regret']:+.1%} | {taken} |")
    lines.append("")
    with_cnn = sum(row["world"].startswith(CNN) for row in rows)
    lines.append(
        f"Regret is measured in {len(rows)} of {len(WORLDS)} worlds, {with_cnn} with a CNN."
    )
    pilots = pilots_alone()
    found = sum("failed" not in row for row in [*rows, *pilots])
    low, high = _share_interval(found, len(rows) + len(pilots))
    beside = len(pilots) + sum(row.get("busy", False) for row in rows)
    busy = f"; {beside} of them, with CNNs, ran beside other work" if beside else ""
    lines.append(
        f"Pilots that end with a plan: {found} of {len(rows) + len(pilots)} (95 % interval "
        f"{low:.0%} to {high:.0%}){busy}."
    )
    middle, high = (_percent(q) for q in _quantiles(rows))
    lines.append(
        f"Regret: median {middle}, 90th percentile {high}; a world without a plan is worst."
    )
    for words, tried in (("that the pilot tried", True), ("that it did not try", False)):
        held = [holds(x) for row in rows for x in row.get("held", []) if x["tried"] == tried]
        lines.append(
            f"90 % intervals of mean rounds hold {np.mean(held):.0%} of {len(held)} settings "
            f"{words}."
        )
    longest = max(row["seconds"] / row["budget"] for row in rows)
    lines.append(f"The longest pilot took {longest:.2f} of its budget.")
    return lines


def _regret(row):
    return row.get("regret", np.inf)


def _quantiles(rows):
    values = [_regret(row) for row in rows]
    return [np.quantile(values, share, method="higher") for share in (0.5, 0.9)]


def _percent(value):
    return "no plan" if np.isinf(value) else f"{value:+.1%}"


def _share_interval(found, count):
    """Return Wilson's score interval of a share."""
    z, share = 1.96, found / count
    centre = (share + z**2 / 2 / count) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / 4 / count**2)
    return centre - half, centre + half


def measured(folder=RESULTS):
    """Return the measured worlds in order."""
    files = sorted(folder.glob("*-[0-9]*.json"))
    return [json.loads(file.read_text()) for file in files]


def pilots_alone():
    """Return the worlds of which only the pilot and its plan were made, without a regret."""
    return json.loads((RESULTS / "pilots.json").read_text())


def sentence(rows):
    """Return the summary of the worlds as a sentence."""
    every = [*rows, *pilots_alone()]
    found = sum("failed" not in row for row in every)
    middle, high = (
        "as much as" if abs(q) < 5e-4 else f"{abs(q):.1%} {'more' if q > 0 else 'less'} than"
        for q in _quantiles(rows)
    )
    seconds = " or ".join(f"{budget:.0f} s" for budget in sorted({r["budget"] for r in every}))
    return (
        f"{len(every)} worlds were drawn at random (fleets, bands, losses, data, skews, "
        f"optimisers, targets); fedcell was tuned on none of them. {found} of their pilots, of "
        f"{seconds} each, ended with a plan. In {len(rows)} of the worlds a whole grid of plans "
        f"was run: the plan of fedcell cost {middle} the best of the grid in the median, and "
        f"{high} it at the 90th percentile."
    )


def pages():
    """Return the updated pages."""
    rows = measured()
    lines = table(rows)
    told = {
        "docs/explanation/accuracy.md": "\n".join(lines),
        "docs/reference/benchmarks.md": "\n".join(lines[-6:]),
        "docs/index.md": textwrap.fill(sentence(rows), 100),
    }
    found = {}
    for name, text in told.items():
        before, rest = (ROOT / name).read_text().split("<!-- worlds -->", 1)
        after = rest.split("<!-- end -->", 1)[1]
        found[name] = f"{before}<!-- worlds -->\n\n{text}\n\n<!-- end -->{after}"
    return found


def numbers(words):
    """Parse ranges of worlds such as 200-219."""
    for word in words:
        low, _, high = word.partition("-")
        yield from range(int(low), int(high or low) + 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", help="as 200-219; all held-out ones where left out")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--pilots", type=Path, help="a folder to keep the pilots in")
    parser.add_argument("--page", action="store_true", help="update the pages")
    options = parser.parse_args()
    if options.page:
        for name, text in pages().items():
            (ROOT / name).write_text(text)
        sys.exit()
    warnings.simplefilter("ignore", FedcellWarning)
    data_dir = os.environ.get("FEDCELL_DATA")
    options.folder.mkdir(parents=True, exist_ok=True)
    for number in list(numbers(options.worlds)) or WORLDS:
        file = options.folder / f"{kind_of(number)}-{number}.json"
        if not file.exists():
            begin = time.monotonic()
            row = judge(number, data_dir and Path(data_dir), options.workers, options.pilots)
            row["all_seconds"] = round(time.monotonic() - begin)
            file.write_text(json.dumps(row, indent=1) + "\n")
        row = json.loads(file.read_text())
        print(row["world"], row.get("plan"), row.get("best"), _percent(_regret(row)), flush=True)
    print(*table(measured(options.folder)), sep="\n")
