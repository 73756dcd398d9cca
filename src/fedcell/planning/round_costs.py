"""What a round costs over K and E_l under a real policy, by Monte Carlo on the same dice.

Priced at some K and E_l; between them C_u / K and C_n / E_l, which change slowly, are
interpolated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.network.draw import draw_fleet, draw_trace, rich
from fedcell.network.ledger import Ledger, price_trace, simulate_network
from fedcell.network.policies.base import Policy, broadcast
from fedcell.network.policies.names import chosen
from fedcell.network.trace import Ints
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario

from .unit_costs import priced_rounds

Number = Any  # or an array of them
COHORTS, LENGTHS = 12, 6  # values of K and of E_l that are priced; all where there are no more
COLUMNS = {"cost": "cost", "seconds": "duration", "joules": "energy"}  # of a ledger
PLACES = 10_000  # clients priced at a node, in 50 rounds at least, and 200 at most


@dataclass(frozen=True, kw_only=True, eq=False)
class Surface:
    """Means of a round over nodes: (K, E_l)."""

    cohorts: Ints
    steps: Ints
    broadcast: float  # T_d [s]
    upload: Array  # C_u / K [s]
    compute: Array  # C_n / E_l [s]
    pace: Array  # duration over cost
    energy: Array  # joules, over K
    spread: Mapping[str, Array]  # of a round's cost, seconds and joules, relative
    rounds: Ints  # that each K was priced in

    def cost(self, cohort: Number, steps: Number) -> Array:
        """C_u + C_n + T_d [s], what (12) multiplies with G."""
        upload = np.asarray(cohort) * self._between(self.upload, cohort, steps)
        return np.asarray(
            upload + steps * self._between(self.compute, cohort, steps) + self.broadcast
        )

    def seconds(self, cohort: Number, steps: Number) -> Array:
        """Length of a round, broadcast included [s]."""
        return np.asarray(self.cost(cohort, steps) * self._between(self.pace, cohort, steps))

    def joules(self, cohort: Number, steps: Number) -> Array:
        """Energy of all clients in a round [J]."""
        return np.asarray(cohort * self._between(self.energy, cohort, steps))

    def varies(self, measure: str, cohort: Number, steps: Number) -> Array:
        """Standard deviation of a round's cost, seconds or joules, relative to the mean."""
        return self._between(self.spread[measure], cohort, steps)

    def error(self, measure: str, cohort: Number, steps: Number) -> Array:
        """Standard error of that mean, relative."""
        rounds = np.interp(np.log(cohort), np.log(self.cohorts), self.rounds)
        return np.asarray(self.varies(measure, cohort, steps) / np.sqrt(rounds))

    def _between(self, values: Array, cohort: Number, steps: Number) -> Array:
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


def nodes(most: int, wanted: int) -> Ints:
    """Whole numbers from 1 to `most`, evenly over the logarithm."""
    if most <= wanted:
        return np.arange(1, most + 1)
    return np.unique(np.rint(np.geomspace(1, most, wanted)).astype(np.int64))


def survey_costs(
    scenario: Scenario, policy: str | Policy, most_steps: int, seed: int = 0
) -> Surface:
    """Prices rounds at the nodes: K up to all that may be called, E_l up to `most_steps`."""
    count = int(rich(scenario, draw_fleet(scenario, seed)).sum())  # those that may be called
    if count == 0:
        raise BadInput("no client has clients.min_samples: lower it")
    cohorts, steps = nodes(count, COHORTS), nodes(most_steps, LENGTHS)
    if count > COHORTS:  # where cohorts begin to lack those that sit out
        cohorts = np.unique(np.append(cohorts, round(0.9 * count)))
    held = priced_rounds(scenario)
    if held < 2:
        raise BadInput("cell.gains holds one round: a plan needs two or more to see them differ")
    shape = cohorts.size, steps.size
    found = {name: np.empty(shape) for name in ("upload", "compute", "pace", "energy")}
    spread = {measure: np.empty(shape) for measure in COLUMNS}
    rounds = np.minimum(held, np.maximum(PLACES // cohorts, 50))
    for i, k in enumerate(cohorts.tolist()):
        priced = _price(scenario, policy, k, steps.tolist(), int(rounds[i]), seed)
        for j, (e, ledger) in enumerate(zip(steps.tolist(), priced, strict=True)):
            cost = ledger.cost.mean()
            found["upload"][i, j] = ledger.upload.mean() / k
            found["compute"][i, j] = ledger.compute.mean() / e
            found["pace"][i, j] = ledger.duration.mean() / cost
            found["energy"][i, j] = ledger.energy.mean() / k
            for measure, column in COLUMNS.items():
                each = getattr(ledger, column)
                spread[measure][i, j] = each.std(ddof=1) / each.mean()
    return Surface(
        cohorts=cohorts,
        steps=steps,
        broadcast=scenario.cell.broadcast_time,
        rounds=rounds,
        spread=spread,
        **found,
    )


def _price(
    scenario: Scenario, policy: str | Policy, cohort: int, steps: list[int], rounds: int, seed: int
) -> list[Ledger]:
    """The ledgers of one K at several E_l; the rounds are drawn once."""
    worlds = [scenario.planned(cohort, e) for e in steps]
    if scenario.plan.drawn == "after":  # others pay too, which a trace does not show
        return [simulate_network(world, policy, rounds, seed) for world in worlds]
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(worlds[0], fleet, rounds, seed)
    ledgers = []
    for world in worlds:
        asked = chosen(policy, broadcast(world, fleet))
        ledgers.append(price_trace(world, fleet, trace, asked))
    return ledgers
