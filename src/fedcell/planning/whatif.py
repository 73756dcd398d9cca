"""Questions around a plan: the least bandwidth for a deadline, and the effect of changes."""

from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from math import inf, log10, sqrt
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput, NoPlan
from fedcell.network.ledger import NoClientCalled
from fedcell.network.participation import mean_loss_rate
from fedcell.network.physics.discrete.losses import joint_loss
from fedcell.network.physics.discrete.steps import loses_uploads
from fedcell.planning.choice.grid import PlanGrid
from fedcell.planning.choice.limits import at_confidence, bounds_of
from fedcell.planning.choice.plan import TrainingPlan, WhatIf
from fedcell.scenario.hardware.radio import FIXED_BANDS
from fedcell.scenario.scenario import Scenario

from .question import Question

MAX_BAND_FACTOR = 1e5  # of bands tried, over the scenario's own; the narrowest is 1 over it
STRIDE = 2.0  # between bands that are tried one after the other
TOLERANCE = 1.005  # of the least band, as a ratio
BAND_DIGITS = 4  # of a band that is tried: a table shows exactly the band that was tried

POWER_COLUMNS = ("power", "power_w", "power_max")  # of a table of clients

COMPRESSED = "model compressed 4 times"
NOTES = {COMPRESSED: "the rounds are those of the uncompressed model"}


def least_bandwidth(scenario: Scenario, question: Question) -> Scenario:
    """Return the scenario with the least band that has a plan within the limits, to 0.5 %."""
    own = scenario.cell.bandwidth
    table = scenario.radio and scenario.radio.rate_table
    if table in FIXED_BANDS:
        raise BadInput(
            f'radio.rate_table = "{table}" is for cell.bandwidth = {FIXED_BANDS[table]:g} (Hz) '
            "alone, so no other band can be found: ask for the least power instead"
        )
    return _least(
        lambda factor: scenario.using(cell={"bandwidth": _rounded_up(own * factor)}),
        question,
        "however wide the band",
    )


def least_power(scenario: Scenario, question: Question) -> float:
    """Return the least factor on all transmit powers with a plan within the limits, to 0.5 %."""
    found = [1.0]

    def there(factor: float) -> Scenario:
        found[0] = _rounded_up(factor)
        return with_power(scenario, found[0])

    _least(there, question, "however much power clients send with")
    return found[0]


def with_power(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario with all transmit powers of the clients times a factor, as they are
    declared: densities, powers over the whole band, power_max and p0_dbm.

    >>> with_power(Scenario().using(radio={"power_max": 0.2}), 0.5).radio.power_max
    0.1
    """
    clients: dict[str, Any] = {"power": scenario.clients.power * factor}
    if (table := scenario.clients.table) is not None:
        columns = table.columns()
        changed = {n: factor * columns[n] for n in POWER_COLUMNS if n in columns}
        blank = {n: [None if np.isnan(x) else x for x in v.tolist()] for n, v in changed.items()}
        clients["table"] = table.having(**blank)
    changes: dict[str, Any] = {"clients": clients}
    if (radio := scenario.radio) is not None:
        keys: dict[str, Any] = {}
        if radio.power_max is not None:
            keys["power_max"] = radio.power_max * factor
        if radio.p0_dbm is not None:
            keys["p0_dbm"] = radio.p0_dbm + 10 * log10(factor)
        changes["radio"] = keys
    return scenario.using(**changes)


def _least(there: Callable[[float], Scenario], question: Question, however: str) -> Scenario:
    """Return the world with the least factor that has a plan within the limits, to 0.5 %.

    A wider band shortens every run, so the least for the deadline alone is bisected. Energy may
    fall with the band, where powers over the whole of it were declared, or rise, as policies share
    it out again and choose other frequencies. So from there wider bands are tried one after another
    until one keeps the other limits as well. More power is tried as a wider band is.
    """

    def is_in_time(factor: float) -> bool:
        try:
            grid = question.evaluate(there(factor))
        except NoClientCalled:  # with so little power
            return False
        bounds = bounds_of(grid, question.limits)
        deadline = at_confidence(grid.law, bounds, question.limits.confidence)["deadline"]
        return bool((deadline.values <= deadline.limit)[grid.candidates].any())

    def obstacle(factor: float) -> NoPlan | None:
        try:
            question.choose(question.evaluate(there(factor)))
        except NoPlan as none:
            return none
        except NoClientCalled as none:
            return NoPlan(*none.faults)
        return None

    low = high = MAX_BAND_FACTOR
    if is_in_time(MAX_BAND_FACTOR):
        low = high = _least_factor(is_in_time, 1 / MAX_BAND_FACTOR, MAX_BAND_FACTOR)
    while (none := obstacle(high)) is not None:
        if high >= MAX_BAND_FACTOR:
            faults = (f"{however}, {fault}" for fault in none.faults)
            raise NoPlan(*faults) from none
        low, high = high, min(MAX_BAND_FACTOR, STRIDE * high)
    if low < high:
        high = _least_factor(lambda factor: obstacle(factor) is None, low, high)
    return there(high)


def _least_factor(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least factor that is enough, by bisection of its logarithm; `high` is enough."""
    if enough(low):
        return low
    while high > TOLERANCE * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _rounded_up(band: float) -> float:
    """Return a band with as many digits as tables show, and no narrower."""
    return float(Context(prec=BAND_DIGITS, rounding=ROUND_CEILING).create_decimal_from_float(band))


def nearby_worlds(scenario: Scenario) -> dict[str, Scenario]:
    """Return scenarios near this one, by the name of the change."""
    lossy = _lossier(scenario)
    gamma, more = mean_loss_rate(scenario), mean_loss_rate(lossy)
    worlds = {"as it is": scenario, f"uploads lost: {more:.3g}, not {gamma:.4g}": lossy}
    if scenario.radio is None or scenario.radio.rate_table not in FIXED_BANDS:
        half = scenario.cell.bandwidth / 2
        worlds["half the band"] = scenario.using(cell={"bandwidth": half})
    return worlds | {COMPRESSED: scenario.using(task={"model_bits": scenario.model_bits / 4})}


def _lossier(scenario: Scenario) -> Scenario:
    """Return the scenario with twice the loss rate, or those of all listed clients; where lost
    blocks spoil uploads, with as many more lost by the cell."""
    gamma = mean_loss_rate(scenario)
    some = gamma > 0

    by_blocks = some and loses_uploads(scenario)
    further = 1 - (1 - min(2 * gamma, sqrt(gamma))) / (1 - gamma)  # of those that are not lost yet

    def more(rate: float) -> float:
        if by_blocks:
            return float(joint_loss(rate, further))
        return min(2 * rate, sqrt(rate)) if some else 0.1

    table, own = scenario.clients.table, scenario.cell.loss_rate
    changes: dict[str, Any] = {"cell": {"loss_rate": more(own)}}
    if table is not None and table.loss_rate is not None:
        rates = [more(rate) for rate in table.filled("loss_rate", own).tolist()]
        changes["clients"] = {"table": table.having(loss_rate=rates)}
    return scenario.using(**changes)


def sensitivity(scenario: Scenario, plan: TrainingPlan, question: Question) -> tuple[WhatIf, ...]:
    """Return how the best plan moves in nearby scenarios, and what keeping the old one costs."""
    return tuple(
        _what_if(change, world, plan, question) for change, world in nearby_worlds(scenario).items()
    )


def _what_if(change: str, world: Scenario, plan: TrainingPlan, question: Question) -> WhatIf:
    """Return the best plan in a scenario, its policy chosen there as well."""
    note = NOTES.get(change, "")
    try:
        best = question.best_plan(world)
    except NoPlan as none:
        kept = _kept_cost(world, plan, question)
        return WhatIf(change=change, kept_cost=kept, why_no_plan=str(none), note=note)
    return WhatIf(
        change=change,
        kept_cost=_kept_cost(world, plan, question, best.grid),
        cohort=best.cohort,
        local_steps=best.local_steps,
        rounds=best.rounds.value,
        duration=best.duration.value,
        energy=best.energy.value,
        cost=best.cost.value,
        note=note,
    )


def _kept_cost(
    world: Scenario, plan: TrainingPlan, question: Question, grid: PlanGrid | None = None
) -> float:
    """Return what a plan for another scenario costs in this one, under its own policy; infinite
    where it never reaches the target. `grid` has the plans here, perhaps under another policy."""
    assert plan.grid is not None
    if grid is None or grid.policy != plan.grid.policy:
        try:
            grid = question.evaluate(world, plan.grid.policy)
        except NoPlan:
            return inf
    return float(grid.cost[grid.at(plan.cohort, plan.local_steps)])
