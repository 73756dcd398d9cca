"""The network side of a run: every round scheduled and priced, and their sums over rounds."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from fedcell.core.dice import as_range, chunks
from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable, rows_from
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.scenario import Scenario, check_scenario

from .draw import candidates, draw_fleet, draw_trace
from .policies.base import Broadcast, Policy
from .policies.names import PolicyLike, resolve_policy
from .round import make_problem, price, training_energy
from .spending import Idle, Spending, Totals
from .trace import Fleet, Trace


def _none() -> Any:
    return np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger(Showable):
    """What each round took and gave: arrays of length `rounds`.

    duration [s] and energy [J] really spent; upload_cost, compute_cost, their sum staged_cost,
    cost (with the broadcast) and objective (22) [s]; how many were called, drawn, received and
    excluded; totals for each client. A round that nobody could join costs its broadcast and
    nothing else. The last four are empty unless a model was trained.

    >>> from fedcell import simulate_network
    >>> ledger = simulate_network(Scenario(), "optimal", rounds=50)
    >>> round(float(ledger.total_duration[-1]), 1), ledger.totals.energy.shape
    (545.5, (100,))
    """

    duration: Array  # broadcast and round, T_d + H [s]
    energy: Array  # really spent, by all clients [J]
    upload_cost: Array  # C_u,t (20a) [s]
    compute_cost: Array  # C_n,t (20b) [s]
    staged_cost: Array  # (20): C_u,t + C_n,t [s]
    cost: Array  # a round's part of (12): T_d + C_u,t + C_n,t [s]
    objective: Array  # (22) [s]
    called: Ints  # clients that uploaded
    draws: Ints  # draws that found a client; more than called where one was drawn twice
    received: Ints  # clients whose upload arrived
    excluded_by_channel: Ints  # clients that sat out because of a weak channel
    excluded_by_data: Ints  # clients that sat out because of too little data
    totals: Totals
    spending: Spending | None = None  # by round, where the ledger may be cut
    discarded_uploads: Ints = field(default_factory=_none)  # that arrived and were not finite
    train_loss: Array = field(default_factory=_none)  # (2) after the round; NaN: not evaluated
    test_loss: Array = field(default_factory=_none)
    accuracy: Array = field(default_factory=_none)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.duration.size

    @property
    def trained(self) -> bool:
        """Whether a model was trained: there are losses."""
        return self.train_loss.size > 0

    @property
    def total_duration(self) -> Array:
        """Simulated time at the end of each round [s]."""
        return np.asarray(self.duration.cumsum())

    @property
    def total_energy(self) -> Array:
        """Energy spent by the end of each round [J]."""
        return np.asarray(self.energy.cumsum())

    def rounds_to(self, target: float) -> int | None:
        """G_epsilon as observed: rounds until the training loss is at or below the target;
        None if it never was."""
        if not self.trained:
            raise BadInput("no model was trained: there is no loss to reach")
        reached = np.flatnonzero(self.train_loss <= target)
        return int(reached[0]) + 1 if reached.size else None

    def first(self, rounds: int) -> "Ledger":
        """The ledger of the first rounds, as if no more had been run."""
        if not 0 <= rounds <= self.rounds:
            raise BadInput(f"`rounds` = {rounds}: the ledger has {self.rounds}")
        if self.spending is None:
            raise BadInput("this ledger has sums over all rounds only: price a trace to cut it")
        spending = self.spending.first(rounds)
        names = self.column_names()
        columns: dict[str, Any] = {name: getattr(self, name)[:rounds] for name in names}
        totals = spending.totals(self.totals.called.size)
        return replace(self, **columns, totals=totals, spending=spending)

    def column_names(self) -> list[str]:
        """The columns that are there, in order."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return [n for n, v in values.items() if isinstance(v, np.ndarray) and v.size]

    def columns(self) -> dict[str, Any]:
        """All columns by name, with the running totals."""
        names = [*self.column_names(), "total_duration", "total_energy"]
        return {name: getattr(self, name) for name in names}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each round."""
        return rows_from({n: c.tolist() for n, c in self.columns().items()}, "round", first=1)

    def __repr__(self) -> str:
        words = f"{self.rounds} rounds, {self.duration.sum():.4g} s, {self.energy.sum():.4g} J"
        if np.isfinite(self.train_loss).any():
            last = self.train_loss[np.isfinite(self.train_loss)][-1]
            words += f", training loss {last:.4g}"
        return f"<Ledger: {words}>"


def simulate_network(
    scenario: Scenario, policy: PolicyLike, rounds: int | None = None, seed: int = 0
) -> Ledger:
    """The rounds of a scenario under a policy; nothing is trained.

    `policy` is a name of ours, or a callable of yours. The dice are the same for every policy.
    Memory is that of one chunk of rounds. Rounds in which no client is ever called are refused.

    >>> simulate_network(Scenario(), "optimal", rounds=50)
    <Ledger: 50 rounds, 545.5 s, 2739 J>
    """
    check_scenario(scenario).require_sizes()
    every = as_range(scenario.rounds if rounds is None else rounds)
    fleet = draw_fleet(scenario, seed)
    policy = resolve_policy(policy, Broadcast.to(scenario, fleet))
    parts: list[Ledger] = []
    totals: Totals | None = None
    for part in chunks(every, fleet.count):
        trace = draw_trace(scenario, fleet, part, seed)
        ledger = _price(scenario, fleet, trace, policy, _who_trains(scenario, fleet, part, seed))
        totals = ledger.totals if totals is None else totals + ledger.totals
        parts.append(replace(ledger, totals=totals, spending=None))
    names = parts[0].column_names()
    columns: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
    return require_usable(replace(parts[-1], **columns))


def price_trace(
    scenario: Scenario,
    fleet: Fleet,
    trace: Trace,
    policy: PolicyLike,
    seed: int | None = None,
) -> Ledger:
    """The rounds of a trace under a policy, as a ledger that can be cut.

    `seed` is that of the trace, where it was drawn: with plan.cohort_drawn "after-training"
    it says who else trained.
    """
    if scenario.plan.cohort_drawn == "after-training" and seed is None:
        raise BadInput(
            "a trace does not say who else trained: give the `seed` that it was drawn with, or set "
            'plan.cohort_drawn to "before-training"'
        )
    policy = resolve_policy(policy, Broadcast.to(scenario, fleet))
    every = range(trace.first_round, trace.first_round + trace.rounds)
    return _price(scenario, fleet, trace, policy, _who_trains(scenario, fleet, every, seed or 0))


def require_usable(ledger: Ledger) -> Ledger:
    """A ledger that says something: costs that are numbers, and clients that were called."""
    if not np.isfinite(ledger.objective).all():
        raise BadInput("the costs are too large to be computed with: check the units (SI)")
    if not ledger.called.any():
        raise BadInput(
            "no client was ever called: all sat out, with too weak a channel or too little data; "
            "lower cell.gain_threshold or clients.min_samples"
        )
    return ledger


def _who_trains(scenario: Scenario, fleet: Fleet, rounds: range, seed: int) -> Bools | None:
    """Who trains whether drawn or not, (round, client), where the cohort is drawn after."""
    if scenario.plan.cohort_drawn == "before-training":
        return None
    return np.concatenate(list(candidates(scenario, fleet, rounds, seed)))


def _price(
    scenario: Scenario, fleet: Fleet, trace: Trace, policy: Policy, trained: Bools | None
) -> Ledger:
    names = ("duration", "energy", "upload_cost", "compute_cost", "objective")
    sums: dict[str, Any] = {name: np.zeros(trace.rounds) for name in names}
    duration, energy = np.zeros(trace.cohort.shape), np.zeros(trace.cohort.shape)
    for where, part in trace.by_size():
        if (size := part.cohort.shape[1]) > 0:
            problem = make_problem(scenario, fleet, part)
            if scenario.plan.cohort_drawn == "after-training":  # their frequencies are past
                f = _own_freq(scenario, fleet)[part.cohort]
                problem = replace(problem, freq_min=f, freq_max=f)
            cost = price(problem, policy(problem))
            for name, values in sums.items():
                values[where] = getattr(cost, name)
            duration[where, :size] = cost.compute_time + cost.upload_time
            energy[where, :size] = cost.compute_energy + cost.upload_energy
    idle = None if trained is None else _idle(scenario, fleet, trace.cohort, trained)
    if idle is not None:
        sums["energy"] += idle.trained @ idle.energy
    spending = Spending(
        client=trace.cohort, arrived=trace.arrived, duration=duration, energy=energy, idle=idle
    )
    sums["duration"] += scenario.cell.broadcast_time
    staged = sums["upload_cost"] + sums["compute_cost"]
    return Ledger(
        **sums,
        staged_cost=staged,
        cost=staged + scenario.cell.broadcast_time,
        totals=spending.totals(fleet.count),
        spending=spending,
        called=trace.called,
        draws=trace.draws,
        received=trace.received,
        excluded_by_channel=trace.excluded_by_channel,
        excluded_by_data=trace.excluded_by_data,
    )


def _own_freq(scenario: Scenario, fleet: Fleet) -> Array:
    samples = scenario.step_samples(fleet.samples)
    return Broadcast.to(scenario, fleet).own_freq(samples, fleet.freq_min, fleet.freq_max)


def _idle(scenario: Scenario, fleet: Fleet, cohort: Ints, trained: Bools) -> Idle:
    """Those that train and are not drawn."""
    c, f = scenario.work * scenario.step_samples(fleet.samples), _own_freq(scenario, fleet)
    idle = trained.copy()
    rounds, places = np.nonzero(cohort >= 0)
    idle[rounds, cohort[rounds, places]] = False
    return Idle(trained=idle, duration=c / f, energy=training_energy(c, f, fleet.kappa))
