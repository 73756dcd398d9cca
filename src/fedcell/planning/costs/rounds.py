"""What a round costs over K and E_l under a real policy, by Monte Carlo with common random numbers.

Priced at some K and E_l; between them C_u / K and C_n / E_l, which change slowly, are
interpolated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Ints
from fedcell.network.draw import draw_fleet, has_enough_data
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import NAMED, PolicyLike, resolve_policy
from fedcell.network.simulate import simulate_each
from fedcell.network.trace import MANY, Fleet
from fedcell.planning.law.base import Number
from fedcell.planning.setting import OBJECTIVES, Objective
from fedcell.scenario.scenario import Scenario

from .memory import SURFACE, Nodes, keep_going, nodes_at_hand, remembered
from .units import ROUNDS, price_columns, priced_rounds

MEASURES: tuple[str, ...] = OBJECTIVES  # columns of a ledger
TOGETHER = 50 * MANY  # clients priced at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundCosts:
    """Means of a round over nodes: (K, E_l)."""

    cohorts: Ints
    steps: Ints
    broadcast: float  # T_d [s]
    upload_per_client: Array  # C_u / K [s]
    compute_per_step: Array  # C_n / E_l [s]
    duration_per_cost: Array
    energy_per_client: Array  # over K [J]
    spread: Mapping[str, Array]  # of each of MEASURES over rounds, relative
    rounds: Ints  # that each K was priced in

    def cost(self, cohort: Number, steps: Number) -> Array:
        """C_u + C_n + T_d [s], what (12) multiplies with G."""
        upload = np.asarray(cohort) * self.between(self.upload_per_client, cohort, steps)
        compute = steps * self.between(self.compute_per_step, cohort, steps)
        return np.asarray(upload + compute + self.broadcast)

    def duration(self, cohort: Number, steps: Number) -> Array:
        """Length of a round, broadcast included [s]."""
        ratio = self.between(self.duration_per_cost, cohort, steps)
        return np.asarray(self.cost(cohort, steps) * ratio)

    def energy(self, cohort: Number, steps: Number) -> Array:
        """Energy of all clients in a round [J]."""
        return np.asarray(cohort * self.between(self.energy_per_client, cohort, steps))

    def relative_sd(self, measure: str, cohort: Number, steps: Number) -> Array:
        """Standard deviation of a round's cost, duration or energy, relative to the mean."""
        return self.between(self.spread[measure], cohort, steps)

    def relative_se(self, measure: str, cohort: Number, steps: Number) -> Array:
        """Standard error of that mean, relative."""
        rounds = np.interp(np.log(cohort), np.log(self.cohorts), self.rounds)
        return np.asarray(self.relative_sd(measure, cohort, steps) / np.sqrt(rounds))

    def between(self, values: Array, cohort: Number, steps: Number) -> Array:
        """Linear over log K and over E_l, of which most are linear functions."""
        i, after_i, p = _place(np.log(self.cohorts), np.log(cohort))
        j, after_j, q = _place(self.steps.astype(float), steps)
        near = values[i, j] * (1 - q) + values[i, after_j] * q
        far = values[after_i, j] * (1 - q) + values[after_i, after_j] * q
        return np.asarray(near * (1 - p) + far * p)


def _place(nodes: Array, wanted: Number) -> tuple[Any, Any, Any]:
    """The node before, the next, and how far it is from the one to the other, from 0 to 1."""
    i = np.clip(np.searchsorted(nodes, wanted, side="right") - 1, 0, nodes.size - 1)
    after = np.minimum(i + 1, nodes.size - 1)
    return i, after, (wanted - nodes[i]) / np.maximum(nodes[after] - nodes[i], 1e-9)


def grid_nodes(most: int, wanted: int) -> Ints:
    """Whole numbers from 1 to `most`, evenly over the logarithm."""
    if most <= wanted:
        return np.arange(1, most + 1)
    return np.unique(np.rint(np.geomspace(1, most, wanted)).astype(np.int64))


def callable_clients(scenario: Scenario, seed: int = 0, fleet: Fleet | None = None) -> int:
    """How many clients may be called: those with enough data. `fleet` is the scenario's, where it
    is drawn already."""
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    count = int(has_enough_data(scenario, fleet).sum())
    if count == 0:
        least = scenario.clients.min_samples
        raise BadInput(
            f"every client holds fewer than clients.min_samples = {least:g} samples: lower it"
        )
    return count


def price_round_grid(
    scenario: Scenario,
    policy: PolicyLike,
    most_steps: int,
    seed: int = 0,
    fleet: Fleet | None = None,
) -> RoundCosts:
    """Prices rounds at the nodes: K up to all that may be called, E_l up to `most_steps`."""
    nodes = nodes_at_hand()
    return remembered(
        *(SURFACE, scenario.with_plan(1, 1), policy, (most_steps, seed, nodes)),
        lambda: _price_nodes(scenario, policy, most_steps, seed, fleet, nodes),
    )


def _price_nodes(
    scenario: Scenario,
    policy: PolicyLike,
    most_steps: int,
    seed: int,
    fleet: Fleet | None,
    nodes: Nodes,
) -> RoundCosts:
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    count = callable_clients(scenario, seed, fleet)
    cohorts, steps = grid_nodes(count, nodes.cohorts), grid_nodes(most_steps, nodes.lengths)
    if count > nodes.cohorts:  # where cohorts begin to lack those that sit out
        cohorts = np.unique(np.append(cohorts, round(0.9 * count)))
    if priced_rounds(scenario) < 2:
        key = "gains holds" if scenario.cell.gains is not None else "channel.measured holds"
        raise BadInput(f"cell.{key} one round: a plan needs two or more to see them differ")
    shape = cohorts.size, steps.size
    names = ("upload_per_client", "compute_per_step", "duration_per_cost", "energy_per_client")
    means = {name: np.empty(shape) for name in names}
    spread = {measure: np.empty(shape) for measure in MEASURES}
    rounds = np.empty(cohorts.size, np.int64)
    policies = [
        resolve_policy(policy, Broadcast.to(scenario.with_plan(1, e), fleet))
        for e in steps.tolist()
    ]
    for i, k in enumerate(cohorts.tolist()):
        keep_going()
        worlds = [scenario.with_plan(k, e) for e in steps.tolist()]
        rounds[i] = priced_rounds(worlds[0], min(ROUNDS, max(nodes.places // k, nodes.least)))
        together = max(1, TOGETHER // k)
        taken = simulate_each(worlds, fleet, policies, int(rounds[i]), seed, together)
        mean = {name: values.mean(1) for name, values in taken.items()}
        means["upload_per_client"][i] = mean["upload_cost"] / k
        means["compute_per_step"][i] = mean["compute_cost"] / steps
        means["energy_per_client"][i] = mean["energy"] / k
        with np.errstate(invalid="ignore"):  # 0 / 0 where no client is called, which is refused
            means["duration_per_cost"][i] = mean["duration"] / mean["cost"]
            for measure in MEASURES:
                spread[measure][i] = taken[measure].std(1, ddof=1) / mean[measure]
    return RoundCosts(
        cohorts=cohorts,
        steps=steps,
        broadcast=scenario.cell.broadcast_time,
        rounds=rounds,
        spread=spread,
        **means,
    )


SAME = 5e-3  # policies that differ by less are equally good: costs are known so well
STAGED = "optimal-staged"  # minimises C_u + C_n of every round, which is what (12) adds up


def best_policy(
    scenario: Scenario, minimise: Objective, seed: int = 0, fleet: Fleet | None = None
) -> str:
    """The policy that takes least at the scenario's K and E_l.

    The cost (12) is that of uploading and computing one after the other, so the policy that
    minimises it is the staged optimum and not the joint one; for time and energy both are priced.
    """
    if minimise == "cost":
        return STAGED
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    rounds = priced_rounds(scenario, 50)
    taken = {
        name: float(price_columns(scenario, fleet, name, rounds, seed)[minimise].mean())
        for name in NAMED
    }
    return min(taken, key=lambda name: taken[name])
