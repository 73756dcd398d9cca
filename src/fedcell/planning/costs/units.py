"""C_u,0 and C_n,0, by each of the paper's ways and by Monte Carlo (Sec. IV-A, IV-D)."""

from dataclasses import dataclass, replace

import numpy as np

from fedcell.core.schema import Text
from fedcell.core.types import Array
from fedcell.network.draw import draw_fleet
from fedcell.network.physics.extras import memory_time
from fedcell.network.physics.hardware import counted_weight
from fedcell.network.policies.base import Broadcast, mean_freq
from fedcell.network.policies.names import PolicyLike
from fedcell.network.round import training_energy
from fedcell.network.simulate import simulate_columns
from fedcell.network.trace import MANY, Fleet
from fedcell.planning.law.given import UnitCosts
from fedcell.scenario.hardware.levels import penalty
from fedcell.scenario.scenario import Scenario

from .memory import remembered

ROUNDS = 200  # priced for a mean, or all that are measured
LEAST_ROUNDS = 3  # that are priced, to see how they differ


@dataclass(frozen=True, kw_only=True)
class UnitCostEstimate:
    """Unit costs by one way, and by how much the cost of a round that follows from them is off."""

    way: Text
    costs: UnitCosts
    error: float  # relative, at the scenario's K and E_l


def unit_costs(
    scenario: Scenario, policy: PolicyLike, seed: int = 0, fleet: Fleet | None = None
) -> tuple[UnitCostEstimate, ...]:
    """The unit costs at the scenario's K and E_l, by each of the ways; with the scenario's `fleet`,
    where it is drawn already."""
    steps, fleet = scenario.local_work, draw_fleet(scenario, seed) if fleet is None else fleet
    taken = price_columns(scenario, fleet, policy, priced_rounds(scenario), seed)
    means = {name: float(values.mean()) for name, values in taken.items()}
    k, measured = means["called"], means["cost"]
    real = UnitCosts(
        upload=means["upload_cost"] / k,
        compute=means["compute_cost"] / steps,  # (17)
        broadcast=scenario.cell.broadcast_time,
    )
    ways = {
        "Section IV-D": section_4d(scenario, seed, fleet),
        "(17) and (18)": replace(real, upload=full_participation(scenario, policy, seed, fleet)),
        "Monte Carlo": real,
    }
    return tuple(
        UnitCostEstimate(way=way, costs=unit, error=float(unit.of(k, steps)) / measured - 1)
        for way, unit in ways.items()
    )


def section_4d(scenario: Scenario, seed: int = 0, fleet: Fleet | None = None) -> UnitCosts:
    """Unit costs as Section IV-D has them: a mean client computes, and (18) under Theorem 3."""
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    kappa, weight = float(fleet.kappa.mean()), scenario.task.energy_weight
    samples = float(fleet.step_samples(scenario)[fleet.samples > 0].mean())
    cycles = samples * scenario.cycles_per_sample
    best = mean_freq(kappa, weight)
    if fleet.hardware is not None:
        best = Broadcast.to(scenario, fleet).freq
    f = float(np.clip(best, fleet.freq_min.mean(), fleet.freq_max.mean()))
    return UnitCosts(
        upload=full_participation(scenario, "distributed", seed, fleet),
        compute=_training_cost(scenario, fleet, cycles, f, kappa),
        broadcast=scenario.cell.broadcast_time,
    )


def _training_cost(
    scenario: Scenario, fleet: Fleet, cycles: float, freq: float, kappa: float
) -> float:
    """What a step of a mean client costs: its time and, weighed, its joules [s]."""
    time, weight = cycles / freq, counted_weight(scenario)
    if (own := fleet.hardware) is None:
        return time + weight * float(training_energy(cycles, freq, kappa))
    some = fleet.samples > 0
    time += float(memory_time(scenario, fleet)[some].mean()) / scenario.local_work
    dynamic = fleet.kappa * freq ** (own.power_exponent - 1)
    every = np.full(fleet.count, freq)
    dynamic = dynamic * penalty(own.levels, every, own.power_exponent)
    energy = float(dynamic[some].mean()) * cycles + float(own.busy_power[some].mean()) * time
    return time + weight * energy


def full_participation(
    scenario: Scenario, policy: PolicyLike, seed: int = 0, fleet: Fleet | None = None
) -> float:
    """C_u,0 (18): all clients upload, over their number; the mean over rounds of fading."""
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    everyone = scenario.using(plan={"cohort": scenario.clients.count, "selection": "uniform"})
    taken = price_columns(everyone, fleet, policy, priced_rounds(everyone, 50), seed)
    upload, called = taken["upload_cost"], taken["called"]
    return float((upload[called > 0] / called[called > 0]).mean())  # (18)


def price_columns(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike, rounds: int, seed: int
) -> dict[str, Array]:
    """Return the columns of some rounds, (round,), from the memory where they are known."""
    return remembered(
        *("columns", scenario, policy, (rounds, seed)),
        lambda: simulate_columns(scenario, fleet, policy, rounds, seed),
    )


def priced_rounds(scenario: Scenario, wanted: int = ROUNDS) -> int:
    """Rounds with the scenario's K over which a mean is taken: enough, or all that are measured.

    Rounds of many clients are means by themselves, and fewer of them are enough (DECISIONS.md, 73).
    """
    enough = max(wanted * MANY // max(scenario.plan.cohort, MANY), LEAST_ROUNDS)
    return min(wanted, enough, scenario.rounds if scenario.cell.recorded is not None else wanted)
