"""The network side of a run: every round scheduled and priced, and their sums over rounds."""

from dataclasses import dataclass, fields

import numpy as np

from .draw import candidates, chunks, draw_fleet, draw_trace
from .errors import BadInput
from .policies import named
from .policy import Broadcast, Policy, broadcast
from .round import check_schedule, pose, price, training_energy
from .scenario import Array, Scenario
from .trace import Fleet, Ints


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What each round took: arrays of length `rounds`."""

    duration: Array  # broadcast and round, T_d + H [s]
    energy: Array  # really spent, by all clients [J]
    upload: Array  # C_u,t (20a) [s]
    compute: Array  # C_n,t (20b) [s]
    staged: Array  # (20): C_u,t + C_n,t [s]
    objective: Array  # (22) [s]
    called: Ints  # clients that trained and uploaded
    received: Ints  # of which arrived: K_gamma
    weak: Ints  # clients that sat out because of their channel
    poor: Ints  # clients that sat out because of too little data


def simulate_network(
    scenario: Scenario, policy: str | Policy, rounds: int | None = None, seed: int = 0
) -> Ledger:
    """The rounds of a scenario under a policy; nothing is trained.

    The dice are the same for every policy. Memory is that of one chunk of rounds.
    """
    rounds = scenario.plan.rounds if rounds is None else rounds
    if rounds < 1:
        raise BadInput(f"rounds = {rounds}: expected a whole number, 1 or more")
    fleet = draw_fleet(scenario, seed)
    told = broadcast(scenario, fleet)
    policy = named(policy, told) if isinstance(policy, str) else policy
    parts = [
        _chunk(scenario, fleet, told, policy, part, seed)
        for part in chunks(range(rounds), fleet.count)
    ]
    ledger = Ledger(
        **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Ledger)}
    )
    if not np.isfinite(ledger.objective).all():
        raise BadInput("the costs are too large to be computed with: check the units (SI)")
    if not ledger.called.any():
        raise BadInput(
            "no client was ever called: all sat out, too weak or too poor in data; "
            "lower cell.gain_threshold or clients.min_samples"
        )
    return ledger


def _chunk(
    scenario: Scenario, fleet: Fleet, told: Broadcast, policy: Policy, rounds: range, seed: int
) -> Ledger:
    trace = draw_trace(scenario, fleet, rounds, seed)
    sums = {
        name: np.zeros(len(rounds))
        for name in ("duration", "energy", "upload", "compute", "objective")
    }
    for where, part in trace.by_size():
        if part.cohort.shape[1] > 0:
            problem = pose(scenario, fleet, part)
            schedule = policy(problem)
            check_schedule(problem, schedule)
            cost = price(problem, schedule)
            for name, values in sums.items():
                values[where] = getattr(cost, name)
    if scenario.plan.drawn == "after":
        sums["energy"] += _bystanders(scenario, fleet, told, trace.cohort, rounds, seed)
    return Ledger(
        **sums | {"duration": scenario.cell.broadcast_time + sums["duration"]},
        staged=sums["upload"] + sums["compute"],
        called=trace.called,
        received=trace.received,
        weak=trace.weak,
        poor=trace.poor,
    )


def _bystanders(
    scenario: Scenario, fleet: Fleet, told: Broadcast, cohort: Ints, rounds: range, seed: int
) -> Array:
    """Joules of those that trained by (26) and were then not drawn (DECISIONS.md, 15)."""
    s = scenario.task.step_samples(fleet.samples)
    c = scenario.plan.local_steps * scenario.task.cycles_per_sample * s
    f = told.own_freq(s, fleet.freq_min, fleet.freq_max)
    each = np.append(training_energy(c, f, fleet.kappa), 0.0)  # the last: for empty places, -1
    everyone = [may @ each[:-1] for may in candidates(scenario, fleet, rounds, seed)]
    return np.asarray(np.concatenate(everyone) - each[cohort].sum(-1))


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; low and high are NaN for a single value."""

    mean: float
    low: float
    high: float


def interval(values: Array, level: float = 0.95) -> Interval:
    """Mean of independent values with Student's interval."""
    from scipy.special import stdtrit

    n, mean = values.size, float(values.mean())
    if n < 2:
        return Interval(mean, float("nan"), float("nan"))
    half = float(stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)
