"""Questions around a plan: how much band a deadline takes, and what a change would do to it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, log, sqrt

from fedcell.network.compare import Row
from fedcell.network.policies.base import Policy
from fedcell.scenario.tables import Scenario

from .fit import Fit
from .grid import Chart, chart
from .limits import Limits, NoPlan
from .plan import Aim, Proposal, propose
from .theory import Bound

WIDEST = 1e5  # band that is tried, over the scenario's own; 1 over it is the narrowest
FINE = 1.005  # how near the band that is found is to the least


@dataclass(frozen=True, kw_only=True)
class Question:
    """A plan as it is asked for, so that it can be asked again of another world."""

    law: Bound | Fit
    policy: str | Policy = "optimal"
    most_steps: int = 200
    limits: Limits = field(default_factory=Limits)
    aim: Aim = "cost"
    paper_law: Bound | None = None
    seed: int = 0

    def chart(self, scenario: Scenario) -> Chart:
        return chart(scenario, self.law, self.policy, self.most_steps, self.seed)

    def answer(self, over: Chart) -> Proposal:
        return propose(over, self.limits, self.aim, self.paper_law, self.seed)


def least_bandwidth(scenario: Scenario, question: Question) -> Scenario:
    """The scenario with the least band that leaves a plan within the limits, to half a percent.

    Band shortens uploads and changes nothing else: their energy does not depend on it (7).
    """

    def there(factor: float) -> Scenario:
        return scenario.using(cell={"bandwidth": scenario.cell.bandwidth * factor})

    def enough(factor: float) -> bool:
        try:
            question.answer(question.chart(there(factor)))
        except NoPlan:
            return False
        return True

    try:
        question.answer(question.chart(there(WIDEST)))
    except NoPlan as none:
        raise NoPlan(*(f"however wide the band, {fault}" for fault in none.faults)) from none
    factor = _least(enough)
    return there(factor)


def _least(enough: Callable[[float], bool]) -> float:
    """The least factor that is enough, by bisection of its logarithm; the widest is."""
    low, high = -log(WIDEST), log(WIDEST)
    if enough(exp(low)):
        return exp(low)
    while high - low > log(FINE):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(exp(middle)) else (middle, high)
    return exp(high)


def changes(scenario: Scenario) -> dict[str, Scenario]:
    """Worlds near this one that engineers ask about."""
    gamma, bits = scenario.cell.loss_rate, float(scenario.of_task("model_bits"))
    more = min(2 * gamma, sqrt(gamma)) if gamma > 0 else 0.1
    lossy = f"gamma from {gamma:g} to {more:.3g}"
    return {
        "as it is": scenario,
        lossy: scenario.using(cell={"loss_rate": more}),
        "half the band": scenario.using(cell={"bandwidth": scenario.cell.bandwidth / 2}),
        "model compressed 4 times": scenario.using(task={"model_bits": bits / 4}),
    }


def sensitivity(scenario: Scenario, question: Question, plan: Proposal) -> list[Row]:
    """How the best plan moves in each of these worlds, and what keeping the old one costs."""
    rows = []
    for name, world in changes(scenario).items():
        over = question.chart(world)
        i, j = over.at(int(plan.cohort.value), int(plan.local_steps.value))
        row: Row = {"change": name, "kept_cost": float(over.cost[i, j])}
        try:
            best = question.answer(over)
            row |= {"cohort": int(best.cohort.value), "local_steps": int(best.local_steps.value)}
            for measure in ("rounds", "seconds", "joules", "cost"):
                row[measure] = getattr(best, measure).value
        except NoPlan as none:
            row["none"] = str(none)
        rows.append(row)
    return rows
