"""The network side of a run: every round drawn, scheduled and priced."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedcell.core.dice import as_range, chunks
from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.scenario import Scenario, check_scenario

from .draw import candidates, draw_fleet, draw_trace
from .ledger import Ledger, require_usable
from .policies.base import Broadcast, Policy
from .policies.names import PolicyLike, resolve_policy
from .round import Problem, make_problem, price, training_energy
from .spending import Idle, Spending, Totals
from .trace import Fleet, Trace

PLACES = 2**17  # (round, place) numbers of a run that are priced together: a megabyte an array


def simulate_network(
    scenario: Scenario, policy: PolicyLike, rounds: int | None = None, seed: int = 0
) -> Ledger:
    """The rounds of a scenario under a policy; nothing is trained.

    `policy` is a name of ours, or a callable of yours. The dice are the same for every policy.
    Memory is that of some rounds, and a dozen numbers for each. Rounds in which no client is ever
    called are refused.

    >>> simulate_network(Scenario(), "optimal", rounds=50)
    <Ledger: 50 rounds, 546.6 s, 2746 J>
    """
    check_scenario(scenario).require_sizes()
    every = as_range(scenario.rounds if rounds is None else rounds)
    fleet = draw_fleet(scenario, seed)
    policy = resolve_policy(policy, Broadcast.to(scenario, fleet))
    totals, parts = Totals.none(fleet.count), []
    for part in chunks(every, _widest(scenario), PLACES):
        trace = draw_trace(scenario, fleet, part, seed)
        ledger = _price(
            scenario, fleet, trace, policy, _who_trains(scenario, fleet, part, seed), totals
        )
        parts.append({name: getattr(ledger, name) for name in ledger.column_names()})
    columns: dict[str, Any] = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
    return require_usable(Ledger(**columns, totals=totals))


def _widest(scenario: Scenario) -> int:
    """How many clients of a round are looked at together."""
    every = scenario.plan.cohort_drawn == "after-training"
    return scenario.clients.count if every else scenario.plan.cohort


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


def _who_trains(scenario: Scenario, fleet: Fleet, rounds: range, seed: int) -> Bools | None:
    """Who trains whether drawn or not, (round, client), where the cohort is drawn after."""
    if scenario.plan.cohort_drawn == "before-training":
        return None
    parts = chunks(rounds, fleet.count)
    return np.concatenate([candidates(scenario, fleet, part, seed) for part in parts])


def _price(
    scenario: Scenario,
    fleet: Fleet,
    trace: Trace,
    policy: Policy,
    trained: Bools | None,
    totals: Totals | None = None,
) -> Ledger:
    """The ledger of a trace; what its clients spend is added to `totals`, where given."""
    names = ("duration", "energy", "upload_cost", "compute_cost", "objective")
    sums: dict[str, Any] = {name: np.zeros(trace.rounds) for name in names}
    duration, energy = np.zeros(trace.cohort.shape), np.zeros(trace.cohort.shape)
    for where, part in trace.by_size():
        if (size := part.cohort.shape[1]) > 0:
            problem = pose(scenario, fleet, part)
            cost = price(problem, policy(problem))
            for name, values in sums.items():
                values[where] = getattr(cost, name)
            duration[where, :size] = cost.compute_time + cost.upload_time
            energy[where, :size] = cost.compute_energy + cost.upload_energy
    idle = None if trained is None else _idle(scenario, fleet, trace.cohort, trained)
    if idle is not None:
        # Summed row by row: a round costs the same to the bit, whatever rounds stand beside it.
        sums["energy"] += np.array([idle.energy[trained].sum() for trained in idle.trained])
    spending = Spending(
        client=trace.cohort, arrived=trace.arrived, duration=duration, energy=energy, idle=idle
    )
    sums["duration"] += scenario.cell.broadcast_time
    staged = sums["upload_cost"] + sums["compute_cost"]
    return Ledger(
        **sums,
        staged_cost=staged,
        cost=staged + scenario.cell.broadcast_time,
        totals=spending.add_to(Totals.none(fleet.count) if totals is None else totals),
        spending=spending,
        called=trace.called,
        draws=trace.draws,
        received=trace.received,
        excluded_by_channel=trace.excluded_by_channel,
        excluded_by_data=trace.excluded_by_data,
    )


def pose(scenario: Scenario, fleet: Fleet, trace: Trace) -> Problem:
    """The problems of rounds with cohorts of one size, as the scenario's policy meets them."""
    problem = make_problem(scenario, fleet, trace)
    if scenario.plan.cohort_drawn == "before-training":
        return problem
    f = _own_freq(scenario, fleet)[trace.cohort]  # they have trained: their frequencies are past
    return replace(problem, freq_min=f, freq_max=f)


def _own_freq(scenario: Scenario, fleet: Fleet) -> Array:
    samples = fleet.step_samples(scenario)
    return Broadcast.to(scenario, fleet).own_freq(samples, fleet.freq_min, fleet.freq_max)


def _idle(scenario: Scenario, fleet: Fleet, cohort: Ints, trained: Bools) -> Idle:
    """Those that train and are not drawn."""
    idle = trained.copy()
    rounds, places = np.nonzero(cohort >= 0)
    idle[rounds, cohort[rounds, places]] = False
    duration, energy = idle_costs(scenario, fleet)
    return Idle(trained=idle, duration=duration, energy=energy)


def idle_costs(scenario: Scenario, fleet: Fleet) -> tuple[Array, Array]:
    """Seconds and joules of a training at each client's own frequency, (client,)."""
    c, f = scenario.work * fleet.step_samples(scenario), _own_freq(scenario, fleet)
    return c / f, training_energy(c, f, fleet.kappa)
