"""Measure time and memory of a plan for a thousand to a million clients.

    python benchmarks/planning_scale.py               # seconds and megabytes of whole commands
    python benchmarks/planning_scale.py --accuracy    # fewer rounds of many clients against all

Each command is a new process, so its time includes imports and reading. The minimum of the repeats
is reported. `--accuracy` plans for 100,000 clients twice: like the command, with fewer rounds where
they have many clients, and with 50 to 200 rounds of every K; it takes minutes.
docs/reference/benchmarks.md shows benchmarks/results/planning_scale.json.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fedcell import GivenLaw, Region, Scenario, plan_training
from fedcell.network import simulate
from fedcell.network.policies import exact
from fedcell.planning.costs import units as unit_costs
from fedcell.planning.costs.rounds import MEASURES

RESULTS = Path(__file__).parent / "results" / "planning_scale.json"
LAW = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
WORDS = ["--mixing", "50", "--drift", "0.02", "--start", "250", "--floor", "12"]
CASES = {  # clients, and further options
    "1,000": (10**3, []),
    "10,000": (10**4, []),
    "100,000": (10**5, []),
    "1,000,000": (10**6, []),
    "1,000,000, 5J/client": (10**6, ["--energy-budget", "5J/client"]),
    "1,000,000, sensitivity": (10**6, ["--sensitivity"]),
    "1,000,000 of a table": (10**6, []),
}
WORLDS = {  # of 100,000 clients
    "the paper's": {},
    "a ring, spread 0.5": {"clients": {"spread": 0.5}, "cell": {"distance": (50.0, 300.0)}},
    "weighted, losses": {"plan": {"selection": "weighted"}, "cell": {"loss_rate": 0.2}},
    "drawn after training": {"plan": {"cohort_drawn": "after-training"}},
    "batches": {"task": {"samples_per_step": "batch"}, "clients": {"spread": 0.8}},
    "no threshold, even": {"cell": {"gain_threshold": 0.0}},
    "K from 50,000": {},
}


def scenario_file(folder, case, count):
    """Write a scenario with drawn clients, or a table of them with names and batteries."""
    path = Path(folder) / "scenario.toml"
    if "table" not in case:
        path.write_text(f"[clients]\ncount = {count}\n")
        return path
    rng = np.random.default_rng(1)
    samples, far = rng.integers(50, 900, count), rng.uniform(30, 250, count).round(1)
    battery = rng.uniform(2000, 9000, count).round(1)
    with (Path(folder) / "fleet.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "samples", "distance", "battery_j"])
        columns = samples.tolist(), far.tolist(), battery.tolist()
        writer.writerows((f"d{j}", *row) for j, row in enumerate(zip(*columns, strict=True)))
    path.write_text('[clients]\ntable = "fleet.csv"\n')
    return path


def command(case):
    """Return seconds and megabytes of one command in its own process."""
    count, more = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        words = ["plan", str(scenario_file(folder, case, count)), *WORDS, *more]
        begin = time.perf_counter()
        started = subprocess.Popen(
            [sys.executable, "-m", "fedcell", *words], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(started.pid, 0)
        seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"fedcell {' '.join(words)} failed")
    return {
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3),
    }


def measure(cases, repeats):
    """Return the minimum of each case, run in turns."""
    seen = {case: [] for case in cases}
    for _ in range(repeats):
        for case, found in seen.items():
            found.append(command(case))
    return {
        case: {key: min(run[key] for run in found) for key in found[0]}
        for case, found in seen.items()
    }


def in_all_rounds(ask):
    """Plan as if no fleet were large."""
    with (
        patch.object(simulate, "MANY", 10**9),
        patch.object(exact, "MANY", 10**9),
        patch.object(unit_costs, "MANY", 10**9),
    ):
        return ask()


def compare(name):
    """Return the largest relative deviation of the prices and of the totals of a plan."""
    world = Scenario().using(clients={"count": 10**5}).using(**WORLDS[name])
    policy = "even" if "even" in name else "optimal-staged"
    clients = (50_000, 10**5) if "K from" in name else None

    def plan():
        return plan_training(world, LAW, region=Region(policy=policy, clients=clients))

    short, long = plan(), in_all_rounds(plan)
    nearly, exactly = (each.grid.round_costs for each in (short, long))
    k, e = exactly.cohorts[:, None], exactly.steps[None, :]
    few = nearly.rounds < exactly.rounds
    payers = [each.devices[0] for each in (short, long)]
    return {
        "prices_off": {
            m: float(np.abs(getattr(nearly, m)(k, e) / getattr(exactly, m)(k, e) - 1)[few].max())
            for m in MEASURES
        },
        "their_standard_error": {
            m: float(nearly.relative_se(m, k, e)[few].max()) for m in MEASURES
        },
        "same_plan": (short.cohort, short.local_steps) == (long.cohort, long.local_steps),
        "totals_off": {
            m: abs(getattr(short, m).value / getattr(long, m).value - 1) for m in MEASURES
        },
        "same_client_pays_most": payers[0].client == payers[1].client,
        "its_energy_off": abs(payers[0].energy / payers[1].energy - 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--only", help="one case, or one world: those that are known are kept")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if asked.accuracy:
        found = {name: compare(name) for name in WORLDS if asked.only in (None, name)}
        known["accuracy"] = known.get("accuracy", {}) | found
        for name, deviations in found.items():
            print(name, json.dumps(deviations))
    else:
        cases = [case for case in CASES if asked.only in (None, case)]
        known["commands"] = known.get("commands", {}) | measure(cases, asked.repeats)
        for case in cases:
            found = known["commands"][case]
            print(f"{case:24} {found['seconds']:7.2f} s {found['megabytes']:6.0f} MB")
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
