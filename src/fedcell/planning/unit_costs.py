"""C_u,0 and C_n,0, by each of the paper's ways and by Monte Carlo (Sec. IV-A, IV-D)."""

from dataclasses import dataclass, replace

import numpy as np

from fedcell.network.draw import draw_fleet
from fedcell.network.policies.base import mean_freq
from fedcell.network.policies.names import PolicyLike
from fedcell.network.round import training_energy
from fedcell.network.simulate import simulate_network
from fedcell.scenario.scenario import Scenario

from .law import UnitCosts

ROUNDS = 200  # priced for a mean, or all that are measured


@dataclass(frozen=True, kw_only=True)
class UnitCostEstimate:
    """Unit costs by one way, and by how much the cost of a round that follows from them is off."""

    way: str
    costs: UnitCosts
    error: float  # relative, at the scenario's K and E_l


def unit_costs(
    scenario: Scenario, policy: PolicyLike, seed: int = 0
) -> tuple[UnitCostEstimate, ...]:
    """The unit costs at the scenario's K and E_l, by each of the ways."""
    steps = scenario.local_work
    ledger = simulate_network(scenario, policy, priced_rounds(scenario), seed)
    k, measured = float(ledger.called.mean()), float(ledger.cost.mean())
    real = UnitCosts(
        upload=float(ledger.upload_cost.mean()) / k,
        compute=float(ledger.compute_cost.mean()) / steps,  # (17)
        broadcast=scenario.cell.broadcast_time,
    )
    ways = {
        "Section IV-D": section_4d(scenario, seed),
        "(17) and (18)": replace(real, upload=full_participation(scenario, policy, seed)),
        "Monte Carlo": real,
    }
    return tuple(
        UnitCostEstimate(way=way, costs=unit, error=float(unit.of(k, steps)) / measured - 1)
        for way, unit in ways.items()
    )


def section_4d(scenario: Scenario, seed: int = 0) -> UnitCosts:
    """Unit costs as Section IV-D has them: a mean client computes, and (18) under Theorem 3."""
    fleet = draw_fleet(scenario, seed)
    kappa, weight = float(fleet.kappa.mean()), scenario.task.energy_weight
    samples = float(fleet.step_samples(scenario)[fleet.samples > 0].mean())
    cycles = samples * scenario.cycles_per_sample
    f = float(np.clip(mean_freq(kappa, weight), fleet.freq_min.mean(), fleet.freq_max.mean()))
    return UnitCosts(
        upload=full_participation(scenario, "distributed", seed),
        compute=cycles / f + weight * float(training_energy(cycles, f, kappa)),
        broadcast=scenario.cell.broadcast_time,
    )


def full_participation(scenario: Scenario, policy: PolicyLike, seed: int = 0) -> float:
    """C_u,0 (18): all clients upload, over their number; the mean over rounds of fading."""
    everyone = scenario.using(plan={"cohort": scenario.clients.count, "selection": "uniform"})
    ledger = simulate_network(everyone, policy, min(50, priced_rounds(scenario)), seed)
    joined = ledger.called > 0
    return float((ledger.upload_cost[joined] / ledger.called[joined]).mean())  # (18)


def priced_rounds(scenario: Scenario) -> int:
    """Rounds over which a mean is taken: enough, or all that are measured."""
    return ROUNDS if scenario.cell.gains is None else min(ROUNDS, scenario.rounds)
