"""The request behind a plan, which can be answered in any world: the scenario, or one near it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from fedcell.core.errors import NoPlan
from fedcell.network.draw import draw_fleet
from fedcell.network.policies.names import NAMED, PolicyLike
from fedcell.network.trace import Fleet
from fedcell.planning.choice.choose import choose_plan, totals_under
from fedcell.planning.choice.grid import PlanGrid, evaluate_plans
from fedcell.planning.choice.limits import Limits
from fedcell.planning.choice.plan import PlanTotals, TrainingPlan
from fedcell.planning.costs.rounds import SAME, best_policy
from fedcell.scenario.scenario import Scenario

from .law_source import LawSource
from .setting import Objective, Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """All that a plan depends on beside the world."""

    source: LawSource
    clients: tuple[int, int]  # K that may be planned, the least and the most
    steps: tuple[int, int]  # E_l
    tried: tuple[Setting, ...] | None = None  # settings of a pilot within these; None: a law
    policy: PolicyLike | None = None  # None: the built-in one with the lowest objective
    minimise: Objective = "cost"
    limits: Limits
    seed: int = 0
    name: str = "scenario"

    def evaluate(
        self, world: Scenario, policy: PolicyLike | None = None, fleet: Fleet | None = None
    ) -> PlanGrid:
        """What every plan takes in a world; where no policy is given, under that which is asked
        for, or best at the world's own K and E_l. The `fleet` is the world's, drawn here if left
        out."""
        fleet = draw_fleet(world, self.seed) if fleet is None else fleet
        used = self.policy if policy is None else policy
        if used is None:
            used = best_policy(world, self.minimise, self.seed, fleet)
        grid = evaluate_plans(
            *(world, self.source.law, used, self.steps[1], self.seed, self.tried, self.clients),
            fleet,
        )
        if self.tried is not None:
            return grid
        inside = (grid.cohorts >= self.clients[0]) & (grid.cohorts <= self.clients[1])
        return replace(grid, candidates=inside[:, None] & (grid.steps >= self.steps[0]))

    def choose(self, grid: PlanGrid) -> TrainingPlan:
        """The best plan of a grid, or NoPlan."""
        source = self.source
        return choose_plan(grid, self.limits, self.minimise, source.paper, source.target, self.name)

    def best_plan(self, world: Scenario, fleet: Fleet | None = None) -> TrainingPlan:
        """The best plan in a world, or NoPlan, with what it takes under each of our policies."""
        fleet = draw_fleet(world, self.seed) if fleet is None else fleet
        best = self.choose(self.evaluate(world, fleet=fleet))
        priced = self._priced(world, best, fleet)
        least = min(priced, key=lambda name: priced[name][self.minimise].value)
        own = priced.get(best.policy, best.policies[best.policy])[self.minimise].value
        if self.policy is None and priced[least][self.minimise].value < (1 - SAME) * own:
            # At this K and E_l another policy is better than at the scenario's own.
            with suppress(NoPlan):  # it would not keep the limits
                best = self.choose(self.evaluate(world, least, fleet))
                priced = self._priced(world, best, fleet)
        return replace(best, policies=dict(best.policies) | _beside(best, priced))

    def _priced(self, world: Scenario, best: TrainingPlan, fleet: Fleet) -> dict[str, PlanTotals]:
        return {name: totals_under(world, name, best, self.seed, fleet) for name in NAMED}


def _beside(best: TrainingPlan, priced: Mapping[str, PlanTotals]) -> dict[str, PlanTotals]:
    """What other policies take at the plan's K and E_l, relative to its own as the plan has it:
    that comes from means over more rounds."""
    mine, own = best.policies[best.policy], priced.get(best.policy)
    found: dict[str, PlanTotals] = {}
    for name, totals in priced.items():
        if name != best.policy:
            factors = {m: mine[m].value / own[m].value if own else 1.0 for m in totals}
            found[name] = {m: total.times(factors[m]) for m, total in totals.items()}
    return found
