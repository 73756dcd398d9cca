"""What training to the target would take, for every K and E_l: the law of rounds times what a
round costs. (12)"""

from dataclasses import dataclass

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.network.policies.base import Policy
from fedcell.network.trace import Ints
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario

from .fit import Fit
from .observations import features
from .round_costs import Surface, survey_costs
from .theory import Bound, LossKind

MOST_ROUNDS = 1e9
EVERY = 1000  # K, or E_l, up to which all whole numbers are tried; above, steps of 1 %


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart:
    """Expected totals to the target over all (K, E_l) that are tried."""

    scenario: Scenario
    surface: Surface
    law: Bound | Fit
    cohorts: Ints
    steps: Ints
    rounds: Array  # (K, E_l)
    cost: Array  # (12) [s]
    seconds: Array
    joules: Array

    @property
    def kind(self) -> LossKind:
        return self.scenario.cell.loss_kind

    def at(self, cohort: int, steps: int) -> tuple[int, int]:
        """The place of a K and an E_l, or of the nearest that are tried."""
        return int(np.abs(self.cohorts - cohort).argmin()), int(np.abs(self.steps - steps).argmin())


def bound_of(law: Bound | Fit) -> Bound:
    return law.bound if isinstance(law, Fit) else law


def chart(
    scenario: Scenario,
    law: Bound | Fit,
    policy: str | Policy = "optimal",
    most_steps: int = 200,
    seed: int = 0,
) -> Chart:
    """Rounds, seconds, joules and cost of every plan."""
    if most_steps < 1:
        raise BadInput(f"most_steps = {most_steps}: expected a whole number above 0")
    if scenario.learning is not None and scenario.clients.sizes is None:
        raise BadInput("D_j are not known: take the scenario of gather_material")
    surface = survey_costs(scenario, policy, most_steps, seed)
    cohorts, steps = _whole(int(surface.cohorts[-1])), _whole(most_steps)
    k, e = np.meshgrid(cohorts, steps, indexing="ij")
    cell = scenario.cell
    x = features(k, e, cell.loss_rate, cell.loss_kind)
    g: Array = np.maximum(x @ bound_of(law).coefficients, 1.0)
    if g.min() > MOST_ROUNDS:
        raise BadInput(f"the law says {g.min():.3g} rounds at least: check its coefficients")
    return Chart(
        scenario=scenario,
        surface=surface,
        law=law,
        cohorts=cohorts,
        steps=steps,
        rounds=g,
        cost=np.asarray(g * surface.cost(k, e)),  # (12)
        seconds=np.asarray(g * surface.seconds(k, e)),
        joules=np.asarray(g * surface.joules(k, e)),
    )


def _whole(most: int) -> Ints:
    if most <= EVERY:
        return np.arange(1, most + 1)
    beyond = np.geomspace(EVERY, most, int(np.log(most / EVERY) / 0.01) + 2)
    return np.unique(np.concatenate([np.arange(1, EVERY), np.rint(beyond).astype(np.int64)]))
