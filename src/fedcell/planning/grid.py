"""What training to the target would take, for every K and E_l: the law of rounds times what a
round costs. (12)"""

from dataclasses import dataclass

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Ints
from fedcell.network.policies.names import PolicyLike
from fedcell.scenario.scenario import Scenario

from .law import RoundsLaw, features
from .lost_uploads import LossKind
from .round_costs import RoundCosts, price_round_grid

MOST_ROUNDS = 1e9
EVERY = 1000  # K, or E_l, up to which all whole numbers are tried; above, steps of 1 %
MOST_STEPS = 200  # local steps that are tried where no pilot says how far it went


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanGrid:
    """Expected totals to the target over all (K, E_l) that are tried."""

    scenario: Scenario
    policy: PolicyLike
    seed: int
    law: RoundsLaw
    round_costs: RoundCosts
    cohorts: Ints
    steps: Ints
    rounds: Array  # (K, E_l)
    cost: Array  # (12) [s]
    duration: Array  # [s]
    energy: Array  # of all clients [J]

    @property
    def loss_rate(self) -> float:
        """gamma."""
        return self.scenario.cell.loss_rate

    @property
    def kind(self) -> LossKind:
        """How uploads are lost."""
        return self.scenario.cell.loss_kind

    def at(self, cohort: int, steps: int) -> tuple[int, int]:
        """The place of a K and an E_l, or of the nearest that are tried."""
        return int(np.abs(self.cohorts - cohort).argmin()), int(np.abs(self.steps - steps).argmin())


def evaluate_plans(
    scenario: Scenario,
    law: RoundsLaw,
    policy: PolicyLike = "optimal",
    most_steps: int = MOST_STEPS,
    seed: int = 0,
) -> PlanGrid:
    """Rounds, duration, energy and cost of every plan."""
    if most_steps < 1:
        raise BadInput(f"`most_steps` = {most_steps}: expected a whole number above 0")
    scenario.require_sizes()
    round_costs = price_round_grid(scenario, policy, most_steps, seed)
    cohorts, steps = _whole(int(round_costs.cohorts[-1])), _whole(most_steps)
    k, e = np.meshgrid(cohorts, steps, indexing="ij")
    cell = scenario.cell
    x = features(k, e, cell.loss_rate, cell.loss_kind)
    g: Array = np.maximum(x @ law.coefficients, 1.0)
    if g.min() > MOST_ROUNDS:
        raise BadInput(f"the law says {g.min():.3g} rounds at least: check its coefficients")
    return PlanGrid(
        scenario=scenario,
        policy=policy,
        seed=seed,
        law=law,
        round_costs=round_costs,
        cohorts=cohorts,
        steps=steps,
        rounds=g,
        cost=np.asarray(g * round_costs.cost(k, e)),  # (12)
        duration=np.asarray(g * round_costs.duration(k, e)),
        energy=np.asarray(g * round_costs.energy(k, e)),
    )


def _whole(most: int) -> Ints:
    if most <= EVERY:
        return np.arange(1, most + 1)
    beyond = np.geomspace(EVERY, most, int(np.log(most / EVERY) / 0.01) + 2)
    return np.unique(np.concatenate([np.arange(1, EVERY), np.rint(beyond).astype(np.int64)]))
