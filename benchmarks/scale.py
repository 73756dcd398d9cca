"""Measure scaling: a million clients, many rounds, many fleets, and a hundred thousand rounds.

    python benchmarks/scale.py            # as a table
    python benchmarks/scale.py --json     # for programs

Each case runs in its own process, with its peak memory from the system; cases are
interleaved and repeated, and minimum and median are reported. docs/reference/benchmarks.md shows
benchmarks/results/scale.json.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fedcell import Compute, Observer, Scenario, compare, load_scenario, run
from fedcell.network import simulate_network

RESULTS = Path(__file__).parent / "results" / "scale.json"
FIRST = 1000  # rounds at either end of a long run that are compared


def network(clients, cohort, rounds):
    """Rounds of a fleet, drawn, scheduled by the optimum and priced."""
    world = Scenario().using(clients={"count": clients}, plan={"cohort": cohort})
    begin = time.perf_counter()
    simulate_network(world, "optimal", rounds)
    return time.perf_counter() - begin


def fleets(clients, count):
    """Fleets that are compared under two policies, two rounds of each."""
    world = Scenario().using(clients={"count": clients}, plan={"cohort": 100})
    begin = time.perf_counter()
    compare(world, ["even", "optimal"], rounds=2, fleets=count)
    return time.perf_counter() - begin


def long_run(rounds):
    """Seconds of each round of a run in a folder: the logistic model on digits, one thread."""
    world = load_scenario("digits").using(
        learning={"model": "logistic"}, plan={"rounds": rounds, "cohort": 5, "local_steps": 5}
    )
    moments = []
    with tempfile.TemporaryDirectory() as folder:
        run(
            world,
            ["optimal"],
            target=1e-50,
            folder=Path(folder) / "run",
            compute=Compute(threads=1),
            observer=Observer(round=lambda *_: moments.append(time.perf_counter())),
        )
    return [after - before for before, after in itertools.pairwise(moments)]


CASES = {
    "million-10": lambda: network(10**6, 1000, 10),
    "million-1000": lambda: network(10**6, 1000, 1000),
    "ten-million-100": lambda: network(10**7, 1000, 100),
    "fleets-2": lambda: fleets(10**5, 2),
    "fleets-12": lambda: fleets(10**5, 12),
}


def measure(case):
    """Seconds and megabytes of a case, in this process."""
    import resource

    seconds = CASES[case]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": peak / (1e6 if sys.platform == "darwin" else 1e3)}


def apart(*words):
    """The same, in a process of its own."""
    ran = subprocess.run([sys.executable, __file__, *words], capture_output=True, check=True)
    return json.loads(ran.stdout)


def summary(values):
    return {"min": min(values), "median": statistics.median(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--case", choices=CASES, help="one case, in this process")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100_000, help="of the long run")
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(measure(asked.case)))
        return
    seen = {case: [] for case in CASES}
    for _ in range(asked.repeats):
        for case, found in seen.items():
            found.append(apart("--case", case))
    result = {
        case: {key: summary([run[key] for run in found]) for key in ("seconds", "megabytes")}
        for case, found in seen.items()
    }
    each = [
        (many["seconds"] - few["seconds"]) / 990
        for few, many in zip(seen["million-10"], seen["million-1000"], strict=True)
    ]
    more = [
        many["megabytes"] - few["megabytes"]
        for few, many in zip(seen["million-10"], seen["million-1000"], strict=True)
    ]
    result["million"] = {
        "milliseconds_a_round": {k: 1e3 * v for k, v in summary(each).items()},
        "megabytes_more_at_1000_rounds": {"max": max(more), "median": statistics.median(more)},
    }
    seconds = long_run(asked.rounds)
    first, last = seconds[:FIRST], seconds[-FIRST:]
    result["long_run"] = {
        "rounds": asked.rounds,
        "first": {"mean": statistics.mean(first), "median": statistics.median(first)},
        "last": {"mean": statistics.mean(last), "median": statistics.median(last)},
        "last_over_first": statistics.median(last) / statistics.median(first),
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    if asked.json:
        print(json.dumps(result, indent=1))
        return
    for case in CASES:
        time_, memory = result[case]["seconds"], result[case]["megabytes"]
        print(f"{case:16} {time_['min']:8.3f} s {memory['min']:8.0f} MB")
    print(json.dumps(result["million"]), json.dumps(result["long_run"]), sep="\n")


if __name__ == "__main__":
    main()
