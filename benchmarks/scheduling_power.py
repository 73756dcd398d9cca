"""How fast, exact and useful is `OptimalPower`: a part of benchmarks/scheduling.py.

Two peers solve the same rounds in one run: CVXPY's DCP form in the natural variables
(H, t, s, x), the faster of the two, and its geometric program, the more exact one. In both
phi(x) = (e^x - 1) / x, the integral of e^(u x) over u from 0 to 1, is a sum over Gauss-Legendre
nodes with positive weights.
"""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from fedcell import Scenario, load_scenario
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.physics.power.problem import FreePower
from fedcell.network.policies.base import Broadcast
from fedcell.policies import Even, Optimal, OptimalPower, Problem, make_problem, price

try:
    import cvxpy as cp
except ImportError:
    cp = None

NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2
HEAVY = {"task": {"model_bits": 3e7}, "clients": {"spread": 0.5}}  # upload and training both matter
LIMITS = {
    "radio": {"power_max": 0.5, "spectral_cap": 5.55, "circuit_power": 0.5},
    "device": {"busy_power": 1.0, "idle_power": 0.3, "when_done": "sleep"},
}
WORLDS = ("phones-5g", "factory", "meters", "pis-wifi")
LARGEST_X = 30.0  # of the peers' variables, where nothing limits x


def rounds_of(cohort: int, rounds: int, seed: int = 0) -> Problem:
    """Return rounds with limits of power and efficiency, and devices that sleep when done."""
    clients = HEAVY["clients"] | {"count": max(100, 2 * cohort)}
    tables = HEAVY | LIMITS | {"clients": clients, "plan": {"cohort": cohort}}
    scenario = Scenario().using(**tables)
    fleet = draw_fleet(scenario, seed)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds, seed))


def numbers(problem: Problem) -> tuple[FreePower, float]:
    """Return the numbers of a round and a time scale for solvers."""
    power = FreePower.of(problem)
    return power, float((power.terms.m + power.terms.shortest).max() + power.y.sum())


def dcp(problem: Problem) -> float:
    """Build and solve one round in (H, t, s, x); return its value."""
    power, T = numbers(problem)
    terms, K = power.terms, problem.clients
    H = cp.Variable()
    t, s, x, root = (cp.Variable(K) for _ in range(4))  # root^2 <= s x
    nodes = cp.exp(cp.reshape(x, (K, 1), order="C") @ NODES[None])
    phi = nodes @ WEIGHTS
    training = sum_of_powers(terms.w / T**terms.alpha, t, terms.alpha)
    energy = training + (terms.b @ t) + (terms.q @ s) + (power.radiated / T) @ phi
    limits = [
        terms.m / T + t + s <= H,
        cp.SOC(s + x, cp.vstack([2 * root, s - x]), axis=0),
        cp.sum(cp.multiply(power.y / T, cp.power(root, -2))) <= 1,
        cp.multiply(power.sending / T, phi) <= s,
        x >= power.least,
        x <= np.minimum(power.most, LARGEST_X),
        t >= terms.shortest / T,
        t <= terms.longest / T,
    ]
    objective = cp.Minimize(float(terms.second) * H + energy)
    return T * float(cp.Problem(objective, limits).solve(solver=cp.CLARABEL))


def sum_of_powers(w: np.ndarray, t: Any, alpha: np.ndarray) -> Any:
    """Return sum w / t^(alpha - 1); all clients have the same alpha."""
    return cp.sum(cp.multiply(w, cp.power(t, 1 - float(alpha.flat[0]))))


def geometric(problem: Problem) -> float:
    """Build and solve one round as a geometric program; return its value."""
    power, T = numbers(problem)
    terms, K = power.terms, problem.clients
    H = cp.Variable(pos=True)
    t, s, x = (cp.Variable(K, pos=True) for _ in range(3))
    cost: Any = float(terms.second) * H
    limits, shares = [], []
    for j in range(K):
        phi = cp.sum(
            cp.hstack([w * cp.exp(float(u) * x[j]) for u, w in zip(NODES, WEIGHTS, strict=True)])
        )
        alpha = float(terms.alpha[j])
        cost = cost + float(terms.w[j] / T**alpha) * t[j] ** (1 - alpha)
        cost = cost + float(power.radiated[j] / T) * phi
        cost = cost + float(terms.b[j]) * t[j] if terms.b[j] else cost
        cost = cost + float(terms.q[j]) * s[j] if terms.q[j] else cost
        length = t[j] + s[j] + float(terms.m[j] / T) if terms.m[j] else t[j] + s[j]
        limits += [
            length <= H,
            float(power.sending[j] / T) * phi <= s[j],
            x[j] <= min(float(power.most[j]), LARGEST_X),
            t[j] >= float(terms.shortest[j] / T),
            t[j] <= float(terms.longest[j] / T),
        ]
        if power.least[j] > 0:
            limits.append(x[j] >= float(power.least[j]))
        shares.append(float(power.y[j] / T) * x[j] ** -1 * s[j] ** -1)
    limits.append(cp.sum(cp.hstack(shares)) <= 1)
    program = cp.Problem(cp.Minimize(cost), limits)
    tight = {f"tol_{name}": 1e-12 for name in ("gap_abs", "gap_rel", "feas")}
    return T * float(program.solve(gp=True, solver=cp.CLARABEL, **tight))


def accuracy(rounds: int, say: Callable[[str], None]) -> dict[str, float]:
    """Return how far our values are from those of both peers, and from our own bound."""
    found = {}
    for cohort in (10, 50):
        problem = rounds_of(cohort, rounds, seed=1)
        best, power = OptimalPower()(problem), FreePower.of(problem)
        ours = power.value(*power.chosen(problem, best))
        for peer in (geometric, dcp) if cp is not None else ():
            theirs = np.array([peer(problem[t]) for t in range(rounds)])
            found[f"power_{peer.__name__}_k{cohort}"] = float(np.abs(ours / theirs - 1).max())
        found[f"power_gap_k{cohort}"] = float(best.certificate.gap.max())
        values = ", ".join(
            f"{name} {value:.1e}" for name, value in found.items() if str(cohort) in name
        )
        say(f"optimal-power, K = {cohort}, {rounds} rounds, relative: {values}")
    return found


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of a call [s]: all of it is single-threaded."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Each once to warm up, then all of them in turns."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return times


def speed(batch: int, repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the time per round of K = 50, ours in a batch and both peers rebuilt, in turns."""
    problem, optimal = rounds_of(50, batch), OptimalPower()
    ones = [problem[t] for t in range(20)]
    runs: dict[str, Callable[[], object]] = {
        "batch": lambda: optimal(problem),
        "single": lambda: [optimal(one) for one in ones],
    }
    per = {"batch": batch, "single": len(ones)}
    if cp is not None:
        runs |= {
            "dcp": lambda: [dcp(one) for one in ones[:5]],
            "geometric": lambda: geometric(ones[0]),
        }
        per |= {"dcp": 5, "geometric": 1}
    times = in_turns(runs, repeats)
    result: dict[str, Any] = {}
    for name, values in times.items():
        least, middle = (1e3 * of(values) / per[name] for of in (min, median))
        result[f"power_{name}_ms"] = {"min": least, "median": middle}
        say(f"optimal-power, K = 50, {name}: {least:.3f} ms a round (median {middle:.3f})")
    for name in ("dcp", "geometric") if cp is not None else ():
        ratio = {
            of: result[f"power_{name}_ms"][of] / result["power_batch_ms"][of]
            for of in ("min", "median")
        }
        result[f"power_batch_vs_{name}"] = ratio
        say(f"batch against {name}: {ratio['min']:.0f} times (medians: {ratio['median']:.0f})")
    return result


def scaling(repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return time and certificate of one round of ever more clients."""
    found = []
    for clients in (10**3, 10**4, 10**5):
        problem = rounds_of(clients, 1)[0]
        gap = float(OptimalPower()(problem).certificate.gap)
        least = min(seconds(partial(OptimalPower(), problem)) for _ in range(repeats))
        found.append({"clients": clients, "seconds": least, "gap": gap})
        say(f"optimal-power, {clients} clients: {least:.3f} s, gap {gap:.1e}")
    gap = float(OptimalPower()(rounds_of(1000, 20)).certificate.gap.max())
    say(f"optimal-power, K = 1000, 20 rounds: certified gap at most {gap:.1e}")
    return {"power_scaling": found, "power_gap_k1000": gap}


def worth(say: Callable[[str], None], rounds: int = 200, cohort: int = 10) -> list[dict[str, Any]]:
    """Return what the choice of power is worth in the shipped worlds: (22) against `even` at full
    power, and against `optimal` under the power law of the world."""
    say("| world | even, full power | optimal | optimal-power | against even | against optimal |")
    say("|---|---|---|---|---|---|")
    rows = []
    for name in WORLDS:
        world = load_scenario(name).using(
            learning=None, clients={"samples": 200}, plan={"cohort": cohort}
        )
        full = world.using(radio={"power_law": "full", "p0_dbm": None, "alpha": 1.0})
        costs = {
            "even, full power": mean_cost(full, Even, rounds),
            "optimal": mean_cost(world, lambda _: Optimal(), rounds),
            "optimal-power": mean_cost(world, lambda _: OptimalPower(), rounds),
        }
        best = costs["optimal-power"]
        cells = [f"{cost:.4g} s" for cost in costs.values()]
        cells += [
            f"{round(100 * (best / costs[n] - 1), 2) + 0.0:.2f} %"
            for n in ("even, full power", "optimal")
        ]
        say(f"| {name} | {' | '.join(cells)} |")
        rows.append({"world": name} | costs)
    return rows


def mean_cost(world: Scenario, policy: Callable[[Broadcast], Any], rounds: int) -> float:
    """Return the mean of (22) over rounds."""
    fleet, values = draw_fleet(world), []
    for _, part in draw_trace(world, fleet, rounds).by_size():
        if part.cohort.shape[1]:
            problem = make_problem(world, fleet, part)
            schedule = policy(Broadcast.to(world, fleet))(problem)
            values += price(problem, schedule).objective.tolist()
    return float(np.mean(values))
