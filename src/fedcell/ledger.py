"""The network side of a run: every round scheduled and priced, and their sums over rounds."""

from dataclasses import dataclass, fields, replace

import numpy as np

from .certificate import check_schedule
from .draw import as_range, candidates, chunks, draw_fleet, draw_trace
from .errors import BadInput
from .measured import Array
from .policies import as_policy, named
from .policy import Policy, broadcast
from .round import pose, price, training_energy
from .scenario import Scenario
from .trace import Fleet, Ints, Trace


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger:
    """What each round took: arrays of length `rounds`. A round that nobody could join costs
    its broadcast and nothing else."""

    duration: Array  # broadcast and round, T_d + H [s]
    energy: Array  # really spent, by all clients [J]
    upload: Array  # C_u,t (20a) [s]
    compute: Array  # C_n,t (20b) [s]
    staged: Array  # (20): C_u,t + C_n,t [s]
    objective: Array  # (22) [s]
    called: Ints  # clients that uploaded
    draws: Ints  # draws that found a client; more than called where one was drawn twice
    received: Ints  # clients whose upload arrived
    weak: Ints  # clients that sat out because of their channel
    poor: Ints  # clients that sat out because of too little data


def simulate_network(
    scenario: Scenario, policy: str | Policy, rounds: int | None = None, seed: int = 0
) -> Ledger:
    """The rounds of a scenario under a policy; nothing is trained.

    The dice are the same for every policy. Memory is that of one chunk of rounds.
    """
    every = as_range(scenario.rounds if rounds is None else rounds)
    fleet = draw_fleet(scenario, seed)
    told = broadcast(scenario, fleet)
    policy = named(policy, told) if isinstance(policy, str) else as_policy(policy, told)
    parts = []
    for part in chunks(every, fleet.count):
        trace = draw_trace(scenario, fleet, part, seed)
        ledger = _price(scenario, fleet, trace, policy)
        if scenario.plan.drawn == "after":
            idle = _bystanders(scenario, fleet, trace.cohort, part, seed)
            ledger = replace(ledger, energy=ledger.energy + idle)
        parts.append(ledger)
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


def price_trace(scenario: Scenario, fleet: Fleet, trace: Trace, policy: Policy) -> Ledger:
    """The rounds of a trace that you bring, under a policy."""
    if scenario.plan.drawn == "after":
        raise BadInput('a trace does not say who else trained: set plan.drawn to "before"')
    return _price(scenario, fleet, trace, policy)


def _price(scenario: Scenario, fleet: Fleet, trace: Trace, policy: Policy) -> Ledger:
    names = ("duration", "energy", "upload", "compute", "objective")
    sums = {name: np.zeros(len(trace.cohort)) for name in names}
    for where, part in trace.by_size():
        if part.cohort.shape[1] > 0:
            problem = pose(scenario, fleet, part)
            if scenario.plan.drawn == "after":  # all have trained: their frequencies are past
                f = _own_freq(scenario, fleet)[part.cohort]
                problem = replace(problem, freq_min=f, freq_max=f)
            schedule = policy(problem)
            check_schedule(problem, schedule)
            cost = price(problem, schedule)
            for name, values in sums.items():
                values[where] = getattr(cost, name)
    sums["duration"] += scenario.cell.broadcast_time
    return Ledger(
        **sums,
        staged=sums["upload"] + sums["compute"],
        called=trace.called,
        draws=trace.draws,
        received=trace.received,
        weak=trace.weak,
        poor=trace.poor,
    )


def _own_freq(scenario: Scenario, fleet: Fleet) -> Array:
    samples = scenario.task.step_samples(fleet.samples)
    return broadcast(scenario, fleet).own_freq(samples, fleet.freq_min, fleet.freq_max)


def _bystanders(scenario: Scenario, fleet: Fleet, cohort: Ints, rounds: range, seed: int) -> Array:
    """Joules of those that trained and were then not drawn (DECISIONS.md, 15)."""
    c = scenario.work * scenario.task.step_samples(fleet.samples)
    each = training_energy(c, _own_freq(scenario, fleet), fleet.kappa)
    everyone = [may @ each for may in candidates(scenario, fleet, rounds, seed)]
    drawn = np.append(each, 0.0)[cohort].sum(-1)  # the 0 is for empty places, -1
    return np.asarray(np.concatenate(everyone) - drawn)


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
