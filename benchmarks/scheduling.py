"""How fast and how exact are `Optimal` and `OptimalPower`, against CVXPY with Clarabel on the same
rounds.

    python benchmarks/scheduling.py [--json] [--repeats 5]
    python benchmarks/scheduling.py --power      # `OptimalPower` alone
    python benchmarks/scheduling.py --worlds     # what it is worth in the shipped worlds

Ours and the peer are timed in turns within one run; the machine may be noisy, so minimum
and median over the repeats are printed, and ratios of minimums and of medians. The peer comes
with `pip install fedcell[bench]`; without it its part is skipped and says so. The last
line of --json is one JSON object.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import scheduling_power
from fedcell import Scenario
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.policies.base import Broadcast
from fedcell.policies import EqualFinish, Optimal, Problem, make_problem, price

try:
    import cvxpy as cp
except ImportError:
    cp = None

BATCH = 10_000
RSS_UNIT = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss, in a MiB
HEAVY = {"task": {"model_bits": 3e7}, "clients": {"spread": 0.5}}  # upload and training both matter


def rounds_of(cohort: int, rounds: int, seed: int = 0) -> Problem:
    count = {"clients": HEAVY["clients"] | {"count": max(100, 2 * cohort)}}
    scenario = Scenario().using(**HEAVY | count, plan={"cohort": cohort})
    fleet = draw_fleet(scenario, seed)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds, seed))


# (22) for CVXPY, in the times t_j = c_j / f_j, in which it is convex: energy is w_j / t_j^2.


def numbers(problem: Problem) -> tuple[np.ndarray, ...]:
    u, c = problem.band_time, problem.cycles
    w = problem.energy_weight / u.shape[-1] * problem.kappa * c**3
    return u, w, c / problem.freq_max, c / problem.freq_min


def model(u: Any, w: Any, low: Any, high: Any, clients: int) -> Any:
    a, t, H = cp.Variable(clients), cp.Variable(clients), cp.Variable()
    limits = [cp.multiply(u, cp.inv_pos(a)) + t <= H, cp.sum(a) <= 1, t >= low, t <= high]
    return cp.Problem(cp.Minimize(H + cp.sum(cp.multiply(w, cp.power(t, -2)))), limits)


def rebuilt(problem: Problem) -> float:
    """Solves one round from scratch; returns the objective of (22)."""
    value = model(*numbers(problem), problem.kappa.size).solve(solver=cp.CLARABEL)
    return float(value + problem.energy_weight * problem.upload_energy.sum())


def compiled(clients: int) -> Callable[[Problem], float]:
    """The same problem compiled once, with parameters (DPP)."""
    parameters = [cp.Parameter(clients, pos=True) for _ in range(4)]
    problem_of = model(*parameters, clients)
    assert problem_of.is_dpp()

    def solve(problem: Problem) -> float:
        for parameter, value in zip(parameters, numbers(problem), strict=True):
            parameter.value = value
        value = problem_of.solve(solver=cp.CLARABEL)
        return float(value + problem.energy_weight * problem.upload_energy.sum())

    return solve


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Each run once to warm up, then all of them in turns."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return times


def accuracy(say: Callable[[str], None]) -> dict[str, float]:
    """How far our objective is above the peer's, at the worst of the rounds."""
    found = {}
    for cohort in (10, 50):
        problem = rounds_of(cohort, 100, seed=1)
        ours = price(problem, Optimal()(problem)).objective
        peer = np.array([rebuilt(problem[t]) for t in range(100)])
        found[f"excess_k{cohort}"] = float((ours / peer - 1).max())
        say(f"K = {cohort}: objective above the peer's by at most {found[f'excess_k{cohort}']:.1e}")
    return found


def speed(repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    problem, optimal = rounds_of(50, BATCH), Optimal()
    ones = [problem[t] for t in range(50)]
    runs: dict[str, Callable[[], object]] = {
        "batch": lambda: optimal(problem),
        "single": lambda: [optimal(one) for one in ones],
    }
    per = {"batch": BATCH, "single": len(ones)}
    if cp is not None:
        dpp = compiled(50)
        runs["rebuilt"] = lambda: [rebuilt(one) for one in ones[:5]]
        runs["compiled"] = lambda: [dpp(one) for one in ones[:5]]
        per |= {"rebuilt": 5, "compiled": 5}
    times = {
        name: [t / per[name] for t in values] for name, values in in_turns(runs, repeats).items()
    }
    result: dict[str, Any] = {}
    for name, values in times.items():
        result[f"{name}_us"] = {"min": 1e6 * min(values), "median": 1e6 * median(values)}
        least, middle = 1e6 * min(values), 1e6 * median(values)
        say(f"K = 50, {name}: {least:.1f} us a round (median {middle:.1f})")
    if cp is not None:
        for name, ours, theirs in [
            ("batch_vs_rebuilt", "batch", "rebuilt"),
            ("batch_vs_compiled", "batch", "compiled"),
            ("single_vs_rebuilt", "single", "rebuilt"),
        ]:
            ratio = {of.__name__: of(times[theirs]) / of(times[ours]) for of in (min, median)}
            result[name] = ratio
            say(f"{name}: {ratio['min']:.0f} times faster (medians: {ratio['median']:.0f})")
    return result


def scaling(repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """One round of ever more clients, each in a process of its own for its memory."""
    found = []
    for clients in (10**3, 10**4, 10**5, 10**6):
        command = [sys.executable, __file__, "--one-round", str(clients), "--repeats", str(repeats)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
        row = found[-1]
        say(
            f"{clients} clients: {1e3 * row['seconds']:.1f} ms, gap {row['gap']:.1e}, "
            f"peak memory of the process {row['peak_mib']:.0f} MiB"
        )
    each = [row["seconds"] / row["clients"] for row in found]
    growth = each[-1] / each[0]
    say(f"time per client at 1e6 against 1e3: {growth:.2f} (1 is linear)")
    return {"scaling": found, "time_per_client_1e6_over_1e3": growth}


def one_round(clients: int, repeats: int) -> dict[str, float]:
    problem, optimal = rounds_of(clients, 1)[0], Optimal()
    best = optimal(problem).certificate
    times = [seconds(lambda: optimal(problem)) for _ in range(repeats)]
    return {
        "clients": clients,
        "seconds": min(times),
        "gap": float(best.gap),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / RSS_UNIT,
    }


def chosen_powers(repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The same for `OptimalPower`, with both forms of the peer."""
    result: dict[str, Any] = scheduling_power.accuracy(10, say)
    result |= scheduling_power.speed(2000, repeats, say)
    return result | scheduling_power.scaling(min(repeats, 3), say)


def pipeline(repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """10,000 rounds of K = 10: drawn, posed, scheduled by EqualFinish and priced."""
    scenario = Scenario()

    def run() -> None:
        fleet = draw_fleet(scenario)
        problem = make_problem(scenario, fleet, draw_trace(scenario, fleet, BATCH))
        schedule = EqualFinish(Broadcast.to(scenario, fleet))(problem)
        _ = price(problem, schedule).objective

    times = in_turns({"run": run}, repeats)["run"]
    say(
        f"10,000 rounds of K = 10, drawn to priced: {min(times):.3f} s (median {median(times):.3f})"
    )
    return {"pipeline_s": {"min": min(times), "median": median(times)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--power", action="store_true", help="OptimalPower alone")
    parser.add_argument("--worlds", action="store_true", help="what it is worth, in a table")
    parser.add_argument("--one-round", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_round:
        print(json.dumps(one_round(options.one_round, options.repeats)))
        return

    def say(line: str) -> None:
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    if options.worlds:
        scheduling_power.worth(say)
        return
    result: dict[str, Any] = {"python": platform.python_version(), "numpy": np.__version__}
    if options.power:
        result |= chosen_powers(options.repeats, say)
        if options.json:
            print(json.dumps(result))
        return
    if cp is None:
        result["skipped"] = "cvxpy is not installed: pip install fedcell[bench]"
        say(f"the peer is skipped: {result['skipped']}")
    else:
        result |= {"cvxpy": cp.__version__} | accuracy(say)
    result |= speed(options.repeats, say)
    best = Optimal()(rounds_of(1000, 20)).certificate
    result["gap_k1000"] = float(best.gap.max())
    say(f"K = 1000, 20 rounds: certified gap at most {result['gap_k1000']:.1e}")
    result |= scaling(options.repeats, say) | pipeline(options.repeats, say)
    result |= chosen_powers(options.repeats, say)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
