"""Simulate the network side of a run: draw, schedule and price every round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL
from fedcell.core.streams import as_range, chunks
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.hardware.levels import penalty
from fedcell.scenario.scenario import Scenario, check_scenario

from .draw import candidates, draw_all, draw_fleet, draw_trace
from .ledger import Ledger, check_usable, require_usable
from .participation import chance_heard
from .physics.extras import memory_time
from .physics.pricing import client_energy
from .physics.timeline import PARTS, Timeline
from .policies.base import Broadcast, Policy
from .policies.names import PolicyLike, resolve_policy
from .round import Problem, make_problem, price, training_energy
from .selectors.charge import Trainings, in_vain
from .spending import Idle, RunningTotals, Spending
from .trace import MANY, Fleet, Trace

COLUMNS = ("duration", "energy", "upload_cost", "compute_cost")  # of `simulate_each`
PLACES = 2**17  # (round, place) numbers of a run that are priced together: a megabyte an array


def simulate_network(
    scenario: Scenario, policy: PolicyLike, rounds: int | None = None, seed: int = 0
) -> Ledger:
    """Simulate the rounds of a scenario under a policy; nothing is trained.

    Random numbers are the same for every policy. Memory holds some rounds at a time, and a dozen
    numbers for each round.

    Parameters
    ----------
    scenario : Scenario
        The scenario; one that trains a model must come from `prepare_training`.
    policy : str, Policy or class
        Name of a policy, a callable, or a class of one.
    rounds : int, optional
        Number of rounds; default: those of the scenario.
    seed : int
        Random seed.

    Returns
    -------
    Ledger
        Durations [s], energies [J] and costs [s] of each round.

    Raises
    ------
    BadInput
        If no client is ever called, or if costs overflow.

    Examples
    --------
    >>> simulate_network(Scenario(), "optimal", rounds=50)
    <Ledger: 50 rounds, 546.6 s, 2746 J>
    """
    check_scenario(scenario).require_sizes()
    every = as_range(scenario.rounds if rounds is None else rounds)
    fleet = draw_fleet(scenario, seed)
    policy = resolve_policy(policy, Broadcast.to(scenario, fleet))
    totals, parts = RunningTotals(fleet.count), []
    for part in chunks(every, _widest(scenario), PLACES):
        trace = draw_trace(scenario, fleet, part, seed)
        ledger = _price(
            scenario, fleet, trace, policy, _trained(scenario, fleet, part, seed), totals
        )
        parts.append({name: getattr(ledger, name) for name in ledger.column_names()})
    columns: dict[str, Any] = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
    return require_usable(Ledger(**columns, totals=totals.so_far))


def _widest(scenario: Scenario) -> int:
    """Return the number of clients of a round that are priced together."""
    every = scenario.plan.cohort_drawn == "after-training"
    return scenario.clients.count if every else scenario.plan.cohort


def price_trace(
    scenario: Scenario,
    fleet: Fleet,
    trace: Trace,
    policy: PolicyLike,
    seed: int | None = None,
) -> Ledger:
    """Return the ledger of a trace under a policy; it can be cut.

    `seed` is that of the trace, if it was drawn: with plan.cohort_drawn "after-training" it
    determines which other clients trained.
    """
    if scenario.plan.cohort_drawn == "after-training" and seed is None:
        raise BadInput(
            "a trace does not hold which other clients trained: give its `seed`, or set "
            'plan.cohort_drawn to "before-training"'
        )
    policy = resolve_policy(policy, Broadcast.to(scenario, fleet))
    every = range(trace.first_round, trace.first_round + trace.rounds)
    return _price(scenario, fleet, trace, policy, _trained(scenario, fleet, every, seed or 0))


def simulate_each(
    worlds: Sequence[Scenario],
    fleet: Fleet,
    policies: Sequence[Policy],
    rounds: int,
    seed: int = 0,
    together: int | None = None,
) -> dict[str, Array]:
    """Return columns of `simulate_network`, (world, round), for worlds that differ in E_l only.

    Each world has its policy. `together` rounds are priced at a time. Totals of clients are left
    out.
    """
    first = worlds[0]
    many = fleet.count > MANY
    everyone = many and first.plan.cohort == fleet.count and first.plan.selection == "uniform"
    width = first.plan.cohort if many else _widest(first)
    parts = []
    for part in chunks(as_range(rounds), 1, together or max(1, PLACES // width)):
        trace = (draw_all if everyone else draw_trace)(first, fleet, part, seed)
        called = np.broadcast_to(trace.called, (len(worlds), trace.rounds))
        parts.append(_price_each(worlds, fleet, trace, policies, seed) | {"called": called})
    return {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}


def simulate_columns(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, rounds: int, seed: int = 0
) -> dict[str, Array]:
    """Return the columns of `simulate_network` in seconds, joules and clients for a given fleet,
    (round,); totals of clients are left out."""
    answer = resolve_policy(policy, Broadcast.to(scenario, fleet))
    each = simulate_each([scenario], fleet, [answer], rounds, seed)
    columns = {name: values[0] for name, values in each.items()}
    check_usable(columns["cost"], columns["called"])
    return columns


def _price_each(
    worlds: Sequence[Scenario],
    fleet: Fleet,
    trace: Trace,
    policies: Sequence[Policy],
    seed: int,
) -> dict[str, Array]:
    """Return the columns of a trace in each of several worlds.

    If the cohort is drawn after training, idle energy of more than `MANY` clients is an expected
    value, and not computed for every round.
    """
    columns = {name: np.zeros((len(worlds), trace.rounds)) for name in COLUMNS}
    for where, part in trace.by_size():
        if part.cohort.shape[1] > 0:
            for i, problem in enumerate(pose_each(worlds, fleet, part)):
                cost = price(problem, policies[i](problem))
                for name, values in columns.items():
                    values[i, where] = getattr(cost, name)
    first = worlds[0]
    if first.plan.cohort_drawn == "after-training":
        every = range(trace.first_round, trace.first_round + trace.rounds)
        heard = chance_heard(first, fleet) if fleet.count > MANY else None
        trained = _trained(first, fleet, every, seed) if heard is None else None
        for energy, world in zip(columns["energy"], worlds, strict=True):
            if trained is not None:
                energy += _idle(world, fleet, trace.cohort, trained).energy_of_rounds()
            else:
                energy += _expected_idle_energy(world, fleet, trace.cohort, heard)
    columns["duration"] += first.cell.broadcast_time
    columns["cost"] = columns["upload_cost"] + columns["compute_cost"] + first.cell.broadcast_time
    return columns


def pose_each(worlds: Sequence[Scenario], fleet: Fleet, trace: Trace) -> Iterator[Problem]:
    """Yield the problems of rounds with cohorts of one size, for worlds that differ in E_l only;
    what does not depend on E_l is computed once."""
    problem = pose(worlds[0], fleet, trace)
    yield problem
    for world in worlds[1:]:
        if world.plan.cohort_drawn == "after-training":
            yield pose(world, fleet, trace)
            continue
        other = doing(problem, world.work, fleet.step_samples(world, trace.cohort))
        if (extras := problem.extras) is not None:
            longer = replace(extras, memory_time=memory_time(world, fleet)[trace.cohort])
            vars(other)["extras"] = longer
        yield other


def doing(problem: Problem, work: float, samples: Array) -> Problem:
    """Return a problem with other `work` [cycle/sample] and `samples` of a local step; the rest is
    not checked again."""
    sound = samples.shape == problem.samples.shape and all(
        SMALL <= values.min() <= values.max() <= LARGE
        for values in (samples, work * samples, np.array(work))
    )
    if not sound:
        return replace(problem, work=work, samples=samples)  # raises what is wrong
    other = copy(problem)
    vars(other).update(work=work, samples=samples)
    return other


def _expected_idle_energy(scenario: Scenario, fleet: Fleet, cohort: Ints, heard: Any) -> Array:
    """Return the expected energy of clients outside the cohort by round [J]; each may be called in
    the share `heard` of rounds."""
    energy = idle_costs(scenario, fleet)[1]
    of_cohort = np.where(cohort >= 0, energy[np.maximum(cohort, 0)], 0.0).sum(1)
    return np.asarray(float(heard @ energy) - of_cohort)


def _trained(scenario: Scenario, fleet: Fleet, rounds: range, seed: int) -> Bools | None:
    """Return which clients train, (round, client), if the cohort is drawn after training."""
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
    totals: RunningTotals | None = None,
) -> Ledger:
    """Return the ledger of a trace; add the costs of its clients to `totals`, if given."""
    names = ("duration", "energy", "upload_cost", "compute_cost", "objective")
    sums: dict[str, Any] = {name: np.zeros(trace.rounds) for name in names}
    parts: dict[str, Any] = {f"{part}_energy": np.zeros(trace.rounds) for part in PARTS}
    duration, energy = np.zeros(trace.cohort.shape), np.zeros(trace.cohort.shape)
    computing = np.zeros(trace.rounds)
    for where, part in trace.by_size():
        if (size := part.cohort.shape[1]) > 0:
            problem = pose(scenario, fleet, part)
            cost = price(problem, policy(problem))
            for name, values in sums.items():
                values[where] = getattr(cost, name)
            duration[where, :size] = cost.compute_time + cost.upload_time
            computing[where] = cost.compute_time.max(-1)
            energy[where, :size] = client_energy(cost)
            if fleet.hardware is not None:
                for name, joules in Timeline.of(cost).by_part.items():
                    parts[f"{name}_energy"][where] = joules
    idle = None if trained is None else _idle(scenario, fleet, trace.cohort, trained)
    selecting = in_vain(trace, fleet, _trainings(scenario, fleet, trace), computing)
    vain: dict[str, Any] = {}
    if selecting is not None:
        idle, longer = selecting
        sums["duration"] += longer
        vain = {"vain_duration": longer, "vain_energy": idle.energy_of_rounds()}
    if idle is not None:
        more = idle.energy_of_rounds()
        sums["energy"] += more
        parts["train_energy"] += more
    spending = Spending(
        client=trace.cohort, arrived=trace.arrived, duration=duration, energy=energy, idle=idle
    )
    sums["duration"] += scenario.cell.broadcast_time
    staged = sums["upload_cost"] + sums["compute_cost"]
    return Ledger(
        **sums,
        **vain,
        **({} if fleet.hardware is None else parts),
        staged_cost=staged,
        cost=staged + scenario.cell.broadcast_time + _vain_cost(scenario, trace, vain),
        totals=(totals or RunningTotals(fleet.count)).add(spending),
        spending=spending,
        called=trace.called,
        draws=trace.draws,
        received=trace.received,
        excluded_by_channel=trace.excluded_by_channel,
        excluded_by_data=trace.excluded_by_data,
    )


def _trainings(scenario: Scenario, fleet: Fleet, trace: Trace) -> Trainings | None:
    """Return what trainings cost, where clients of a trace work for its selector."""
    if trace.evaluated is None and trace.trained is None:
        return None
    samples = fleet.step_samples(scenario)
    return Trainings(*idle_costs(scenario, fleet), samples, scenario.local_work)


def pose(scenario: Scenario, fleet: Fleet, trace: Trace) -> Problem:
    """Return the problems of rounds with cohorts of one size, as a policy gets them."""
    problem = make_problem(scenario, fleet, trace)
    if scenario.plan.cohort_drawn == "before-training":
        return problem
    f = _own_freq(scenario, fleet)[trace.cohort]  # trained already: frequencies are fixed
    return replace(problem, freq_min=f, freq_max=f)


def _vain_cost(scenario: Scenario, trace: Trace, vain: dict[str, Any]) -> Any:
    """Return the part of (12) of work for a selector [s]: its seconds, and its joules, averaged
    over the called clients as those of training are."""
    if not vain:
        return 0.0
    joules = vain["vain_energy"] / np.maximum(trace.called, 1)
    return vain["vain_duration"] + scenario.task.energy_weight * joules


def _own_freq(scenario: Scenario, fleet: Fleet) -> Array:
    samples = fleet.step_samples(scenario)
    return Broadcast.to(scenario, fleet).own_freq(samples, fleet.freq_min, fleet.freq_max)


def _idle(scenario: Scenario, fleet: Fleet, cohort: Ints, trained: Bools) -> Idle:
    """Return the costs of clients that train and are not drawn."""
    idle = trained.copy()
    rounds, places = np.nonzero(cohort >= 0)
    idle[rounds, cohort[rounds, places]] = False
    duration, energy = idle_costs(scenario, fleet)
    return Idle(trained=idle, duration=duration, energy=energy)


def idle_costs(scenario: Scenario, fleet: Fleet) -> tuple[Array, Array]:
    """Return seconds and joules of a training at each client's own frequency, with the joules of a
    constant download before it, (client,)."""
    c, f = scenario.work * fleet.step_samples(scenario), _own_freq(scenario, fleet)
    if (own := fleet.hardware) is not None:
        duration = memory_time(scenario, fleet) + c / f
        dynamic = fleet.kappa * f ** (own.power_exponent - 1) * c
        dynamic = dynamic * penalty(own.levels, f, own.power_exponent)
        received = own.idle_power * scenario.cell.broadcast_time
        return duration, dynamic + own.busy_power * duration + received
    return c / f, training_energy(c, f, fleet.kappa)
