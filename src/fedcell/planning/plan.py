"""Before training: the K and E_l that make (12) least, and what they will take.

What every K and E_l would take stands on a chart; the best place within the limits is found
by looking at all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.network.ledger import simulate_network
from fedcell.network.policies.base import Policy
from fedcell.network.trace import Ints
from fedcell.scenario.tables import Scenario

from .fit import LEAST, LEVEL, Fit
from .grid import Chart, bound_of
from .limits import Limits, least, upper, within_limits
from .observations import features
from .round_costs import COLUMNS
from .theory import Bound, within
from .unit_costs import priced_rounds, section_4d

Aim = Literal["cost", "seconds", "joules"]
RESAMPLED = 50  # replicates of the law whose best K and E_l are found
TOLERANCE = 0.05  # plans that cost so little more are as good


@dataclass(frozen=True)
class Range:
    """A number, and where it lies with probability 0.9 as far as is known."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Proposal:
    """A plan, with what it will take; `paper` is what the closed forms would have chosen."""

    cohort: Range
    local_steps: Range
    rounds: Range
    seconds: Range
    joules: Range
    cost: Range
    paper: Mapping[str, Any]
    notes: Sequence[str]


def propose(
    over: Chart,
    limits: Limits | None = None,
    aim: Aim = "cost",
    paper_law: Bound | None = None,
    seed: int = 0,
) -> Proposal:
    """The best of a chart within the limits, or NoPlan with what is in the way.

    `paper_law` has the three coefficients that the closed forms are evaluated with: those of
    a fit of the paper's own form, where the chart's law has another.
    """
    if aim not in get_args(Aim):
        raise BadInput(f"aim = {aim}: expected one of {', '.join(get_args(Aim))}")
    allowed = within_limits(over, limits or Limits())
    i, j = least(np.where(allowed, getattr(over, aim), np.inf))
    k, e = int(over.cohorts[i]), int(over.steps[j])
    rounds = _rounds(over, k, e)

    def total(measure: str) -> Range:
        surface, value = over.surface, float(getattr(over, measure)[i, j])
        varies, error = (float(f(measure, k, e)) for f in (surface.varies, surface.error))
        return _total(rounds, value, varies, error)

    cohort, steps = _moves(over, allowed, aim, k, e)
    return Proposal(
        cohort=cohort,
        local_steps=steps,
        rounds=rounds,
        seconds=total("seconds"),
        joules=total("joules"),
        cost=total("cost"),
        paper=_paper(over, allowed, paper_law or bound_of(over.law), seed),
        notes=_notes(over, e),
    )


def _total(rounds: Range, value: float, varies: float, error: float) -> Range:
    """A sum over G rounds, around its value."""
    more = float(upper(rounds.value, rounds.high, varies, error))
    less = float(upper(rounds.value, rounds.value**2 / rounds.low, varies, error))
    return Range(value, value / less, value * more)


def under_policy(
    scenario: Scenario, policy: str | Policy, plan: Proposal, seed: int = 0
) -> dict[str, Range]:
    """What the planned K and E_l take under another policy."""
    world = scenario.planned(int(plan.cohort.value), int(plan.local_steps.value))
    ledger = simulate_network(world, policy, priced_rounds(scenario), seed)
    found = {"rounds": plan.rounds}
    for measure, column in COLUMNS.items():
        each = getattr(ledger, column)
        varies = float(each.std(ddof=1) / each.mean())
        value, error = plan.rounds.value * float(each.mean()), varies / np.sqrt(ledger.rounds)
        found[measure] = _total(plan.rounds, value, varies, float(error))
    return found


def _rounds(over: Chart, cohort: int, steps: int) -> Range:
    """The rounds of one run."""
    gamma = over.scenario.cell.loss_rate
    if isinstance(over.law, Fit):
        found = over.law.predict(cohort, steps, gamma, kind=over.kind)
        return Range(*(max(1.0, float(x)) for x in found))
    value = max(1.0, float(over.law.rounds(cohort, steps, gamma, over.kind)))
    return Range(value, value, value)


def _moves(over: Chart, allowed: Any, aim: Aim, k: int, e: int) -> tuple[Range, Range]:
    """Where the best K and E_l would be, had the pilot's luck been another."""
    if not isinstance(over.law, Fit):
        return Range(k, k, k), Range(e, e, e)
    values = np.where(allowed, getattr(over, aim), np.inf)
    near = np.nonzero(values <= 3 * values.min())  # replicates have their best not far off
    per_round = (values / over.rounds)[near]
    i, j = near
    x = features(over.cohorts[i], over.steps[j], over.scenario.cell.loss_rate, over.kind)
    rounds = np.maximum(x @ over.law.widened[:RESAMPLED].T, LEAST)
    best = (rounds * per_round[:, None]).argmin(0)
    i, j = i[best], j[best]
    edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]

    def around(value: int, others: Ints) -> Range:
        low, high = np.quantile(others, edges, method="nearest")
        return Range(value, min(value, int(low)), max(value, int(high)))

    return around(k, over.cohorts[i]), around(e, over.steps[j])


def _paper(over: Chart, allowed: Any, law: Bound, seed: int) -> dict[str, Any]:
    """What the closed forms say: E_l*, K* (21) with the unit costs of Section IV-D, clipped to
    what there is; and what that would cost."""
    gamma = over.scenario.cell.loss_rate
    steps = within(law.best_steps(), int(over.steps[-1]))
    there = over.scenario.using(plan={"local_steps": steps, "local_epochs": None})
    costs = section_4d(there, seed)
    cohort = within(law.printed_cohort(steps, gamma, costs), int(over.cohorts[-1]))
    exact = within(law.best_cohort(steps, gamma, costs), int(over.cohorts[-1]))
    i, j = over.at(cohort, steps)
    totals = {name: float(getattr(over, name)[i, j]) for name in ("rounds", "seconds", "joules")}
    return {
        "cohort": cohort,
        "local_steps": steps,
        "cost": float(over.cost[i, j]),
        **totals,
        "allowed": bool(allowed[i, j]),
        "exact_cohort": exact,  # the K that minimises (19) at this E_l
        "unclipped": {  # K* at the E_l that is clipped
            "cohort": law.printed_cohort(steps, gamma, costs),
            "local_steps": law.best_steps(),
        },
        "unit_costs": {"upload": costs.upload, "compute": costs.compute},
    }


def _notes(over: Chart, e: int) -> list[str]:
    notes: list[str] = []
    if e == over.steps[-1]:
        more = "pilot again with a larger plan.local_steps to see further"
        way = more if isinstance(over.law, Fit) else "--max-steps allows more"
        notes.append(f"E_l = {e} is the most that was tried: {way}")
    return notes + (over.law.notes if isinstance(over.law, Fit) else [])
