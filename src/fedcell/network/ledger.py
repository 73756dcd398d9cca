"""The network side of a run: every round scheduled and priced, and their sums over rounds."""

from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.network.policies.base import Policy, broadcast
from fedcell.network.policies.names import chosen
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario

from .certificate import check_schedule
from .draw import as_range, candidates, chunks, draw_fleet, draw_trace
from .round import pose, price, training_energy
from .trace import Fleet, Ints, Trace


@dataclass(frozen=True, kw_only=True, eq=False)
class Totals:
    """Who pays: sums over the rounds of a run for each of the N clients."""

    called: Ints  # rounds in which it uploaded
    arrived: Ints  # rounds in which its upload arrived
    seconds: Array  # training and uploading
    joules: Array

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Totals)}
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger:
    """What each round took and gave: arrays of length `rounds`. A round that nobody could
    join costs its broadcast and nothing else. The last four are there if a model was trained."""

    duration: Array  # broadcast and round, T_d + H [s]
    energy: Array  # really spent, by all clients [J]
    upload: Array  # C_u,t (20a) [s]
    compute: Array  # C_n,t (20b) [s]
    staged: Array  # (20): C_u,t + C_n,t [s]
    cost: Array  # a round's part of (12): T_d + C_u,t + C_n,t [s]
    objective: Array  # (22) [s]
    called: Ints  # clients that uploaded
    draws: Ints  # draws that found a client; more than called where one was drawn twice
    received: Ints  # clients whose upload arrived
    weak: Ints  # clients that sat out because of their channel
    poor: Ints  # clients that sat out because of too little data
    totals: Totals
    excluded: Ints | None = None  # uploads that arrived and were not finite
    train_loss: Array | None = None  # (2) after the round; NaN where it was not evaluated
    test_loss: Array | None = None
    accuracy: Array | None = None

    @property
    def rounds(self) -> int:
        return self.duration.size

    @property
    def seconds(self) -> Array:
        """Simulated time at the end of each round [s]."""
        return np.asarray(self.duration.cumsum())

    @property
    def joules(self) -> Array:
        """Energy spent by the end of each round [J]."""
        return np.asarray(self.energy.cumsum())

    def rounds_to(self, target: float) -> int | None:
        """G_epsilon as observed: rounds until the training loss is at or below the target;
        None if it never was."""
        if self.train_loss is None:
            raise BadInput("no model was trained: there is no loss to reach")
        there = np.flatnonzero(self.train_loss <= target)
        return int(there[0]) + 1 if there.size else None


def _join(parts: list[Ledger]) -> Ledger:
    """Ledgers of consecutive rounds, of the network alone, as one."""
    names = [f.name for f in fields(Ledger) if isinstance(getattr(parts[0], f.name), np.ndarray)]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    totals = reduce(Totals.__add__, [part.totals for part in parts])
    return Ledger(**columns, totals=totals)


def simulate_network(
    scenario: Scenario,
    policy: str | Policy,
    rounds: int | None = None,
    seed: int = 0,
    may_be_idle: bool = False,
) -> Ledger:
    """The rounds of a scenario under a policy; nothing is trained.

    The dice are the same for every policy. Memory is that of one chunk of rounds. Rounds in
    which no client is ever called are refused, unless they may be idle.
    """
    every = as_range(scenario.rounds if rounds is None else rounds)
    fleet = draw_fleet(scenario, seed)
    told = broadcast(scenario, fleet)
    policy = chosen(policy, told)
    parts = []
    for part in chunks(every, fleet.count):
        trace = draw_trace(scenario, fleet, part, seed)
        ledger = _price(scenario, fleet, trace, policy)
        if scenario.plan.drawn == "after":
            idle, own = _bystanders(scenario, fleet, trace.cohort, part, seed)
            ledger = replace(ledger, energy=ledger.energy + idle, totals=ledger.totals + own)
        parts.append(ledger)
    ledger = _join(parts)
    if not np.isfinite(ledger.objective).all():
        raise BadInput("the costs are too large to be computed with: check the units (SI)")
    if not ledger.called.any() and not may_be_idle:
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
    sums: dict[str, Any] = {name: np.zeros(len(trace.cohort)) for name in names}
    busy, spent = np.zeros(fleet.count), np.zeros(fleet.count)
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
            np.add.at(busy, part.cohort, cost.compute_time + cost.upload_time)
            np.add.at(spent, part.cohort, cost.compute_energy + cost.upload_energy)
    sums["duration"] += scenario.cell.broadcast_time
    staged, there = sums["upload"] + sums["compute"], trace.cohort >= 0
    return Ledger(
        **sums,
        staged=staged,
        cost=staged + scenario.cell.broadcast_time,
        totals=Totals(
            called=np.bincount(trace.cohort[there], minlength=fleet.count),
            arrived=np.bincount(trace.cohort[there & ~trace.lost], minlength=fleet.count),
            seconds=busy,
            joules=spent,
        ),
        called=trace.called,
        draws=trace.draws,
        received=trace.received,
        weak=trace.weak,
        poor=trace.poor,
    )


def _own_freq(scenario: Scenario, fleet: Fleet) -> Array:
    samples = scenario.step_samples(fleet.samples)
    return broadcast(scenario, fleet).own_freq(samples, fleet.freq_min, fleet.freq_max)


def _bystanders(
    scenario: Scenario, fleet: Fleet, cohort: Ints, rounds: range, seed: int
) -> tuple[Array, Totals]:
    """What those paid that trained and were then not drawn (DECISIONS.md, 15): the joules of
    each round, and the totals of each client."""
    c, f = scenario.work * scenario.step_samples(fleet.samples), _own_freq(scenario, fleet)
    each = training_energy(c, f, fleet.kappa)
    trained = list(candidates(scenario, fleet, rounds, seed))
    drawn = np.append(each, 0.0)[cohort].sum(-1)  # the 0 is for empty places, -1
    times = sum(may.sum(0) for may in trained) - np.bincount(
        cohort[cohort >= 0], minlength=fleet.count
    )
    none = np.zeros(fleet.count, np.int64)
    totals = Totals(called=none, arrived=none, seconds=times * c / f, joules=times * each)
    return np.concatenate([may @ each for may in trained]) - drawn, totals


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
