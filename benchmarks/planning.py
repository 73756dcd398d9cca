"""Does a plan pay in worlds that nobody designed? Regret against the best of a measured grid.

    python benchmarks/planning.py                     # all worlds; hours, resumable
    python benchmarks/planning.py --quick             # three of digits, in ten minutes
    python benchmarks/planning.py digits:100-119      # some
    python benchmarks/planning.py --page              # brings the pages up to date

Every world (benchmarks/worlds.py) gets a pilot within its budget, a plan, and a rival's choice in
the same time: successive halving over settings by their measured cost, without any law. Then a grid
of K and E_l is measured on seeds that neither has seen. The best of the grid is chosen on some
seeds (one each, three of the better ones, eight of the best three) and judged, as the plan is, on
others: so a regret may be below 0. Every world has seeds of its own. A cost is measured rounds
times what a round costs in the model that the plan has, too. One file a world in
benchmarks/results/planning; what is there is not done again. Also: how often the pilot's 90 %
intervals hold the grid's rounds.
"""

import argparse
import json
import os
import sys
import tempfile
import textwrap
import time
from itertools import islice
from pathlib import Path

import numpy as np

from fedcell import plan_training, prepare_training, run_pilot
from fedcell.experiments.engines import LocalProcesses
from fedcell.experiments.training import Training, Until
from fedcell.experiments.work import Job, train
from fedcell.planning.design import Setting, trial_seeds
from fedcell.planning.looking import SHARE
from fedcell.planning.round_costs import price_round_grid
from worlds import draw_world

RESULTS = Path(__file__).parent / "results" / "planning"
ROOT = Path(__file__).parents[1]
WORLDS = {"digits": range(100, 114), "mnist": range(100, 106), "cifar10": range(100, 104)}
BUDGETS = {"digits": 60.0, "mnist": 120.0, "cifar10": 120.0}  # seconds of pilot
STEPS = (2, 5, 10, 20, 40, 80, 160)
COHORTS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80)
FIRST, CHOOSE, AGAIN = 1, 3, 5  # seeds that the grid's best is chosen by: of all, some, the best
JUDGE = {"digits": 12, "mnist": 8, "cifar10": 6}  # and further ones, that judge
MOST = 8  # runs of a setting by the rival
FEW = 6  # of the seeds that judge, whose mean rounds a pilot's intervals should hold
KEPT = 3  # settings of the grid that its best is looked for among
OTHERS = 5  # and some of the rest, for the intervals of the pilot
WORSE, FAR_WORSE = 1.6, 4.0  # times the best cost, at which a run of the grid, of these is given up
ROUNDS = 1000


class Grid:
    """Settings of a world, measured as they are needed."""

    def __init__(self, scenario, engine, data_dir, number):
        self.scenario, self.engine, self.data_dir = scenario, engine, data_dir
        self.sized = prepare_training(scenario, number, data_dir).scenario
        self.target = scenario.learning.goal
        self.gamma = scenario.cell.loss_rate
        self.priced = price_round_grid(self.sized, "optimal-staged", max(500, *STEPS), number)
        self.rounds = {}  # (K, E_l): {seed: rounds, or minus those it is given up after}

    def cost(self, k, e):
        """Of a round [s]."""
        return float(self.priced.cost(np.array(k), np.array(e)))

    def measure(self, places, seeds, worse=WORSE):
        """Runs of all places on all seeds, but for those that there are."""
        self.run([(p, s) for s in seeds for p in places if s not in self.rounds.get(p, {})], worse)

    def run(self, asked, worse=WORSE, end=np.inf, share=np.inf):
        """Runs as they are asked for, each given up where it costs too much; the best cost so far
        is kept to. None goes on after an end on the clock, nor for longer than its share [s]."""
        known = {}

        def jobs():
            for (k, e), seed in asked:
                if time.time() > end:
                    return
                most = int(min(ROUNDS, worse * self.best() / self.cost(k, e)))
                if most < self.target.hold:  # not even the fewest rounds would do
                    self.rounds.setdefault((k, e), {})[seed] = -most
                    continue
                world = Setting(k, e, self.gamma).apply_to(self.scenario)
                until = Until(most, self.target, min(end, time.time() + share), hopeful=True)
                job = Job(Training.of(world, seed), until, self.data_dir)
                known[job] = (k, e), seed
                yield job

        for job, done in self.engine.run(train, jobs()):
            if isinstance(done, Exception):
                raise done
            place, seed = known.pop(job)
            reached = done.curve.reached(self.target)
            if reached is None and time.time() >= end:
                continue  # nobody knows what it would have taken
            rounds = -job.until.rounds if reached is None else reached
            self.rounds.setdefault(place, {})[seed] = rounds

    def mean_cost(self, place, seeds):
        """Of a run; infinite where one was given up."""
        found = [self.rounds.get(place, {}).get(seed, -1) for seed in seeds]
        return np.inf if min(found) <= 0 else float(np.mean(found)) * self.cost(*place)

    def best(self):
        """The least mean cost of what was measured so far."""
        costs = [np.inf]
        for place, found in self.rounds.items():
            rounds = list(found.values())
            if rounds and min(rounds) > 0:
                costs.append(float(np.mean(rounds)) * self.cost(*place))
        return min(costs)


def fresh_seeds(number):
    """Seeds of a world that nobody else has: a seed is good or bad luck in many worlds alike, for
    it has the first model too, and shared ones would count that luck again and again."""
    return iter(range(1000 * number + 1, 1000 * (number + 1)))


def halving(scenario, engine, budget, data_dir, count, number):
    """Successive halving on measured costs, the choice of a rival without any law: settings in
    random order, of which the better half of those with n runs gets a run more. It goes on without
    waiting for others (Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020),
    in one pool of processes, as the pilot does."""
    end = time.time() + budget
    grid = Grid(scenario, engine, data_dir, number)
    fresh = [(k, e) for k in COHORTS if k <= count for e in STEPS]
    np.random.default_rng(count).shuffle(fresh)
    seeds = trial_seeds(number, validation=True)[:MOST]
    runs = {}  # that a setting has had, or has under way

    def own(place):
        return grid.mean_cost(place, list(grid.rounds[place]))

    def asked():
        while True:
            place = None
            for level in range(MOST - 1, 0, -1):
                done = [p for p, found in grid.rounds.items() if len(found) >= level]
                better = sorted(done, key=own)[: len(done) // 2]
                sound = (p for p in better if runs[p] == level and np.isfinite(own(p)))
                place = next(sound, None)
                if place is not None:
                    break
            if place is None and fresh:
                place = tuple(fresh.pop())
            if place is None:  # all were tried: the best that may have more
                more = [p for p in sorted(grid.rounds, key=own) if runs[p] < MOST]
                if not more:
                    return
                place = more[0]
            runs[place] = runs.get(place, 0) + 1
            yield place, seeds[runs[place] - 1]

    grid.run(asked(), end=end, share=budget * engine.workers / SHARE)
    most = max(len(found) for found in grid.rounds.values())
    sure = [p for p, found in grid.rounds.items() if len(found) >= min(2, most)]
    return min(sure, key=own)


def judge(dataset, number, budget, data_dir, workers, pilots=None):
    """A world: its pilot and plan, the rival, the grid, and regrets."""
    world = draw_world(dataset, number, data_dir)
    scenario, count = world.scenario, world.scenario.clients.count
    seeds = fresh_seeds(number)
    choose, again, fresh = (list(islice(seeds, n)) for n in (CHOOSE, AGAIN, JUDGE[dataset]))
    engine = LocalProcesses(workers, ahead=1)
    file = (pilots or Path(tempfile.mkdtemp())) / f"{world.name}.json"
    begin = time.monotonic()
    pilot = run_pilot(scenario, budget, file, seed=number, data_dir=data_dir, workers=workers)
    seconds = max(time.monotonic() - begin, pilot.seconds)
    plan = plan_training(scenario, pilot, seed=number, data_dir=data_dir)
    chosen = int(plan.cohort.value), int(plan.local_steps.value)
    rival = halving(scenario, engine, budget, data_dir, count, number)
    grid = Grid(scenario, engine, data_dir, number)
    places = [(k, e) for k in COHORTS if k <= count for e in STEPS]
    law = pilot.fit()
    order = sorted(places, key=lambda p: float(law.law.rounds(*p, grid.gamma)) * grid.cost(*p))
    grid.measure([chosen], choose)
    grid.measure(order, choose[:FIRST])
    found = [p for p in places if np.isfinite(grid.mean_cost(p, choose[:FIRST]))]
    near = sorted(found, key=lambda p: grid.mean_cost(p, choose[:FIRST]))[: 3 * KEPT]
    grid.measure(near, choose)
    best = sorted(near, key=lambda p: grid.mean_cost(p, choose))[:KEPT]
    grid.measure(best, again, FAR_WORSE)
    reference = min(best, key=lambda p: grid.mean_cost(p, [*choose, *again]))
    judged = list(dict.fromkeys([chosen, rival, reference]))
    grid.measure(judged, fresh, FAR_WORSE)
    costs = {p: grid.mean_cost(p, fresh) for p in judged}
    rest = [p for p in found if p not in judged]
    others = [rest[i] for i in np.random.default_rng(number).permutation(len(rest))[:OTHERS]]
    grid.measure(others, fresh[:FEW], FAR_WORSE)
    held = [
        {"cohort": p[0], "local_steps": p[1], "rounds": [grid.rounds[p][s] for s in fresh[:FEW]]}
        | dict(zip(("mean", "low", "high"), _interval(law, *p, grid.gamma), strict=True))
        for p in [*judged, *others]
    ]
    return {
        "world": world.name,
        "clients": count,
        "target": scenario.learning.target,
        "budget": budget,
        "seconds": seconds,
        "runs": len(pilot.trials),
        "settings": len(pilot.tried),
        "plan": chosen,
        "tried": chosen in {(s.cohort, s.local_steps) for s in pilot.tried},
        "best": reference,
        "regret": costs[chosen] / costs[reference] - 1,
        "rival": rival,
        "rival_regret": costs[rival] / costs[reference] - 1,  # infinite where a run was given up
        "predicted": [plan.cost.value, plan.cost.low, plan.cost.high],
        "measured": costs[chosen],
        "held": held,
    }


def _interval(law, k, e, gamma):
    return [float(x) for x in law.predict(np.array(k), np.array(e), gamma, runs=FEW)]


def holds(row):
    """Whether mean rounds are within a pilot's interval: one of an infinite end holds runs that
    were given up."""
    rounds = row["rounds"]
    mean = np.inf if min(rounds) <= 0 else np.mean(rounds)
    return row["low"] <= mean <= row["high"]


def table(rows):
    """The worlds, worst last, and what they come to, as lines of Markdown."""
    lines = [
        "| world | N | plan: K, E_l | best of the grid | regret | rival's | runs | pilot [s] |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: row["regret"]):
        plan, best = ("{}, {}".format(*row[name]) for name in ("plan", "best"))
        regrets = " | ".join(_percent(row[name]) for name in ("regret", "rival_regret"))
        taken = f"{row['runs']} | {row['seconds']:.0f}"
        lines.append(
            f"| {row['world']} | {row['clients']} | {plan} | {best} | {regrets} | {taken} |"
        )
    lines.append("")
    for name, words in (("regret", "Regret"), ("rival_regret", "The rival's")):
        values = np.array([row[name] for row in rows])
        middle, high = (
            _percent(np.quantile(values, share, method="higher")) for share in (0.5, 0.9)
        )
        lines.append(f"{words}: median {middle}, 90th percentile {high}.")
    held = [holds(each) for row in rows for each in row["held"]]
    longest = max(row["seconds"] / row["budget"] for row in rows)
    lines.append(f"90 % intervals of mean rounds hold {np.mean(held):.0%} of {len(held)} settings.")
    lines.append(f"The longest pilot took {longest:.2f} of its budget.")
    return lines


def _percent(value):
    return "given up" if np.isinf(value) else f"{value:+.1%}"


def measured():
    """The worlds that were measured, in order."""
    files = sorted(RESULTS.glob("*-[0-9]*.json"))
    return [json.loads(file.read_text()) for file in files]


def sentence(rows):
    """What the worlds come to, for those who read no table."""
    values = [row["regret"] for row in rows]
    middle, high = (np.quantile(values, share, method="higher") for share in (0.5, 0.9))
    beside = f"{abs(middle):.1%} {'more' if middle >= 0 else 'less'}"
    return (
        f"In {len(rows)} worlds drawn at random (fleets, bands, losses, data, skews, rates, "
        f"targets), none of which was tuned on, a plan cost {beside} than the best of a "
        f"measured grid in the median and {high:.1%} more at the 90th percentile, after pilots of "
        "one or two minutes."
    )


def pages():
    """The pages that tell of the worlds, as they should be."""
    rows = measured()
    lines = table(rows)
    told = {
        "docs/planning.md": "\n".join(lines),
        "docs/benchmarks.md": "\n".join(lines[-4:]),
        "README.md": textwrap.fill(sentence(rows), 100),
    }
    found = {}
    for name, text in told.items():
        before, rest = (ROOT / name).read_text().split("<!-- worlds -->", 1)
        after = rest.split("<!-- end -->", 1)[1]
        found[name] = f"{before}<!-- worlds -->\n\n{text}\n\n<!-- end -->{after}"
    return found


def asked(words):
    """Worlds from words such as digits:100-119."""
    for word in words:
        name, _, numbers = word.partition(":")
        low, _, high = numbers.partition("-")
        for number in range(int(low), int(high or low) + 1):
            yield name, number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", help="as digits:100-119; all where left out")
    parser.add_argument("--quick", action="store_true", help="three worlds of digits")
    parser.add_argument("--json", type=Path, help="write what was found to a file")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--pilots", type=Path, help="a folder to keep the pilots in")
    parser.add_argument("--page", action="store_true", help="bring the pages up to date")
    options = parser.parse_args()
    if options.page:
        for name, text in pages().items():
            (ROOT / name).write_text(text)
        sys.exit()
    names = list(asked(options.worlds)) or [(d, n) for d, each in WORLDS.items() for n in each]
    if options.quick:
        names = [("digits", n) for n in (200, 201, 202)]
    place = os.environ.get("FEDCELL_DATA")
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows = []
    for dataset, number in names:
        file = RESULTS / f"{dataset}-{number}.json"
        if not file.exists() or options.quick:
            budget = 30.0 if options.quick else BUDGETS[dataset]
            data_dir = Path(place) if place else None
            row = judge(dataset, number, budget, data_dir, options.workers, options.pilots)
            if not options.quick:
                file.write_text(json.dumps(row, indent=1) + "\n")
        else:
            row = json.loads(file.read_text())
        rows.append(row)
        print(f"{row['world']}: regret {row['regret']:+.1%}", flush=True)
    print(*table(rows), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
