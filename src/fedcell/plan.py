"""Before training: the K and E_l that make (12) least, and what they will take.

What every K and E_l would take stands on a chart; the best place within the limits is found
by looking at all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from .bound import Bound, within
from .chart import Chart, bound_of
from .errors import BadInput
from .fit import LEAST, LEVEL, NORMAL, Fit
from .ledger import simulate_network
from .measured import Array
from .observed import features
from .policy import Policy
from .scenario import Scenario
from .trace import Ints
from .unitcost import priced_rounds, section_4d

Aim = Literal["cost", "seconds", "joules"]
RESAMPLED = 50  # replicates of the law whose best K and E_l are found
TOLERANCE = 0.05  # plans that cost so little more are as good


class NoPlan(BadInput):
    """No K and E_l keep within the limits."""


@dataclass(frozen=True)
class Range:
    """A number, and where it lies with probability 0.9 as far as is known."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a plan must not exceed; infinite where it may."""

    deadline: float = float("inf")  # [s]
    energy: float = float("inf")  # of all clients [J]
    energy_per_client: float = float("inf")  # mean over clients [J]
    sure: bool = False  # keep within them at the upper end of what is predicted

    def __post_init__(self) -> None:
        for name in ("deadline", "energy", "energy_per_client"):
            if not getattr(self, name) > 0:
                raise BadInput(f"{name} = {getattr(self, name)}: expected a number above 0")


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
    allowed = within_limits(over, limits or Limits())
    i, j = _least(np.where(allowed, getattr(over, aim), np.inf))
    k, e = int(over.cohorts[i]), int(over.steps[j])
    rounds = _rounds(over, k, e)
    varies, error = float(over.surface.varies(k, e)), float(over.surface.error(k, e))

    def total(values: Array) -> Range:
        return _total(rounds, float(values[i, j]), varies, error)

    cohort, steps = _moves(over, allowed, aim, k, e)
    return Proposal(
        cohort=cohort,
        local_steps=steps,
        rounds=rounds,
        seconds=total(over.seconds),
        joules=total(over.joules),
        cost=total(over.cost),
        paper=_paper(over, allowed, paper_law or bound_of(over.law), seed),
        notes=_notes(over, e),
    )


def _total(rounds: Range, value: float, varies: float, error: float) -> Range:
    """A sum over G rounds, around its value."""
    more = float(_more(rounds.value, rounds.high, varies, error))
    less = float(_more(rounds.value, rounds.value**2 / rounds.low, varies, error))
    return Range(value, value / less, value * more)


def _more(rounds: Any, high: Any, varies: Any, error: Any) -> Any:
    """How many times larger than its value a sum over G rounds may be: G is unsure, every round
    varies, and the mean of a round is known to an error (both relative)."""
    unsure = NORMAL * np.hypot(varies / np.sqrt(np.maximum(rounds, 1.0)), error)
    return np.exp(np.hypot(np.log(high / rounds), unsure))


def under_policy(
    scenario: Scenario, policy: str | Policy, plan: Proposal, seed: int = 0
) -> dict[str, Range]:
    """What the planned K and E_l take under another policy."""
    chosen = {"cohort": int(plan.cohort.value), "local_steps": int(plan.local_steps.value)}
    world = scenario.using(plan=chosen | {"local_epochs": None})
    ledger = simulate_network(world, policy, priced_rounds(scenario), seed)
    varies = float(ledger.cost.std(ddof=1) / ledger.cost.mean())
    error = varies / np.sqrt(ledger.rounds)
    means = {"seconds": ledger.duration, "joules": ledger.energy, "cost": ledger.cost}
    return {"rounds": plan.rounds} | {
        name: _total(plan.rounds, plan.rounds.value * float(each.mean()), varies, error)
        for name, each in means.items()
    }


def _least(values: Array) -> tuple[int, int]:
    i, j = np.unravel_index(int(values.argmin()), values.shape)
    return int(i), int(j)


def _rounds(over: Chart, cohort: int, steps: int) -> Range:
    """The rounds of one run."""
    gamma = over.scenario.cell.loss_rate
    if isinstance(over.law, Fit):
        found = over.law.predict(cohort, steps, gamma, kind=over.kind)
        return Range(*(float(x) for x in found))
    value = float(over.law.rounds(cohort, steps, gamma, over.kind))
    return Range(value, value, value)


def within_limits(over: Chart, limits: Limits) -> Any:
    """Plans within the limits; if there are none, NoPlan says which limit is in the way."""
    more: Any = 1.0
    if limits.sure:
        k, e = np.meshgrid(over.cohorts, over.steps, indexing="ij")
        mean = high = over.rounds
        if isinstance(over.law, Fit):
            gamma = over.scenario.cell.loss_rate
            mean, _, high = over.law.predict(k, e, gamma, kind=over.kind)
        more = _more(mean, high, over.surface.varies(k, e), over.surface.error(k, e))
    seconds, joules = over.seconds * more, over.joules * more
    count = over.scenario.clients.count
    asked = {
        "deadline": (seconds, limits.deadline, "s"),
        "energy budget": (joules, limits.energy, "J"),
        "energy budget per client": (joules / count, limits.energy_per_client, "J"),
    }
    allowed = np.ones(seconds.shape, bool)
    alone = []
    for name, (values, limit, unit) in asked.items():
        if (values > limit).all():
            i, j = _least(values)
            alone.append(
                f"no plan keeps the {name} of {limit:.4g} {unit}: the least is "
                f"{values[i, j]:.4g} {unit}, with K = {over.cohorts[i]}, E_l = {over.steps[j]}"
            )
        allowed &= values <= limit
    if alone:
        raise NoPlan(*alone)
    if not allowed.any():
        named = " and the ".join(name for name, (_, limit, _) in asked.items() if isfinite(limit))
        raise NoPlan(f"no plan keeps the {named} together, though each alone can be kept")
    return allowed


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
    notes = []
    if e == over.steps[-1]:
        notes.append(f"E_l = {e} is the most that was tried: --max-steps allows more")
    if isinstance(over.law, Fit) and over.law.misfit > 0.2:
        notes.append(
            f"the law fits badly: settings of the pilot are {over.law.misfit:.0%} off it, typically"
        )
    return notes
