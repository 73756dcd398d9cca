"""Questions around a plan: how much band a deadline takes, and what a change would do to it."""

from collections.abc import Callable
from math import exp, inf, log, sqrt
from typing import Any

from fedcell.core.errors import NoPlan
from fedcell.network.participation import mean_loss_rate
from fedcell.scenario.scenario import Scenario

from .grid import PlanGrid
from .plan import TrainingPlan, WhatIf

WIDEST = 1e5  # band that is tried, over the scenario's own; 1 over it is the narrowest
FINE = 1.005  # how near the band that is found is to the least

Evaluate = Callable[[Scenario], PlanGrid]  # what every plan takes in a world
Choose = Callable[[PlanGrid], TrainingPlan]  # the best of them


def least_bandwidth(scenario: Scenario, evaluate: Evaluate, choose: Choose) -> Scenario:
    """The scenario with the least band that leaves a plan within the limits, to half a percent.

    Band shortens uploads and changes nothing else: their energy does not depend on it (7).
    """

    def there(factor: float) -> Scenario:
        return scenario.using(cell={"bandwidth": scenario.cell.bandwidth * factor})

    def enough(factor: float) -> bool:
        try:
            choose(evaluate(there(factor)))
        except NoPlan:
            return False
        return True

    try:
        choose(evaluate(there(WIDEST)))
    except NoPlan as none:
        raise NoPlan(*(f"however wide the band, {fault}" for fault in none.faults)) from none
    return there(_least_factor(enough))


def _least_factor(enough: Callable[[float], bool]) -> float:
    """The least factor that is enough, by bisection of its logarithm; the widest is."""
    low, high = -log(WIDEST), log(WIDEST)
    if enough(exp(low)):
        return exp(low)
    while high - low > log(FINE):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(exp(middle)) else (middle, high)
    return exp(high)


def nearby_worlds(scenario: Scenario) -> dict[str, Scenario]:
    """Worlds near this one that engineers ask about."""
    lossy = _lossier(scenario)
    gamma, more = mean_loss_rate(scenario), mean_loss_rate(lossy)
    return {
        "as it is": scenario,
        f"uploads lost: {more:.3g}, not {gamma:.4g}": lossy,
        "half the band": scenario.using(cell={"bandwidth": scenario.cell.bandwidth / 2}),
        "model compressed 4 times": scenario.using(task={"model_bits": scenario.model_bits / 4}),
    }


def _lossier(scenario: Scenario) -> Scenario:
    """With twice the losses, of every client where they have rates of their own."""

    some = mean_loss_rate(scenario) > 0

    def more(rate: float) -> float:
        return min(2 * rate, sqrt(rate)) if some else 0.1

    table, own = scenario.clients.table, scenario.cell.loss_rate
    changes: dict[str, Any] = {"cell": {"loss_rate": more(own)}}
    if table is not None and table.loss_rate is not None:
        rates = [more(rate) for rate in table.filled("loss_rate", own).tolist()]
        changes["clients"] = {"table": table.having(loss_rate=rates)}
    return scenario.using(**changes)


def sensitivity(
    scenario: Scenario, plan: TrainingPlan, evaluate: Evaluate, choose: Choose
) -> tuple[WhatIf, ...]:
    """How the best plan moves in nearby worlds, and what keeping the old one costs."""
    worlds = []
    for change, world in nearby_worlds(scenario).items():
        kept = inf
        try:
            grid = evaluate(world)
            kept = float(grid.cost[grid.at(int(plan.cohort.value), int(plan.local_steps.value))])
            best = choose(grid)
        except NoPlan as none:
            worlds.append(WhatIf(change=change, kept_cost=kept, why_no_plan=str(none)))
            continue
        worlds.append(
            WhatIf(
                change=change,
                kept_cost=kept,
                cohort=int(best.cohort.value),
                local_steps=int(best.local_steps.value),
                rounds=best.rounds.value,
                duration=best.duration.value,
                energy=best.energy.value,
                cost=best.cost.value,
            )
        )
    return tuple(worlds)
