"""The best plan of a grid: every K and E_l is looked at, and how sure it all is."""

from typing import get_args

import numpy as np

from fedcell.core.errors import BadInput, printable
from fedcell.core.estimates import Estimate
from fedcell.core.types import Bools, Ints
from fedcell.network.policies.names import PolicyLike, policy_name
from fedcell.network.simulate import simulate_network
from fedcell.scenario.scenario import Scenario

from .fitted import LEVEL
from .grid import PlanGrid
from .law import GivenLaw, features, nearest_whole
from .limits import Limits, allowed_plans, least_place, upper_factor
from .plan import Aim, PaperChoice, PlanTotals, TrainingPlan
from .round_costs import MEASURES
from .unit_costs import priced_rounds, section_4d

RESAMPLED = 50  # replicates of the law whose best K and E_l are found


def choose_plan(
    grid: PlanGrid,
    limits: Limits | None = None,
    minimise: Aim = "cost",
    paper_law: GivenLaw | None = None,
    target: float | None = None,
    name: str = "plan",
) -> TrainingPlan:
    """The best plan of a grid within the limits, or NoPlan with what is in the way.

    `paper_law` has the three coefficients that the closed forms are evaluated with: those of
    a fit of the paper's own form, where the grid's law has another.
    """
    if minimise not in get_args(Aim):
        raise BadInput(f"`minimise` = {minimise}: expected one of {', '.join(get_args(Aim))}")
    limits = limits or Limits()
    allowed = allowed_plans(grid, limits)
    i, j = least_place(np.where(allowed, getattr(grid, minimise), np.inf))
    k, e = int(grid.cohorts[i]), int(grid.steps[j])
    predicted = grid.law.predict(k, e, grid.loss_rate, kind=grid.kind)
    mean, low, high = (max(1.0, float(x)) for x in predicted)
    rounds = Estimate(mean, low, high, LEVEL)

    def total(measure: str) -> Estimate:
        costs, value = grid.round_costs, float(getattr(grid, measure)[i, j])
        sd, se = (float(f(measure, k, e)) for f in (costs.relative_sd, costs.relative_se))
        return total_estimate(rounds, value, sd, se)

    totals = {"rounds": rounds, **{measure: total(measure) for measure in MEASURES}}
    duration, energy, cost = (totals[name] for name in ("duration", "energy", "cost"))
    policy = policy_name(grid.policy)
    cohort, steps = _choice_intervals(grid, allowed, minimise, k, e)
    paper = _paper_choice(grid, allowed, paper_law or GivenLaw.of(grid.law.coefficients))
    return TrainingPlan(
        name=printable(name),
        scenario=grid.scenario,
        policy=policy,
        target=target,
        minimised=minimise,
        limits=limits,
        law=grid.law,
        law_form=grid.law.to_dict().get("form"),
        seed=grid.seed,
        cohort=cohort,
        local_steps=steps,
        rounds=rounds,
        duration=duration,
        energy=energy,
        cost=cost,
        paper=paper,
        policies={policy: totals},
        notes=tuple(grid.law.notes),
        grid=grid,
        allowed=allowed,
    )


def total_estimate(rounds: Estimate, value: float, sd: float, se: float) -> Estimate:
    """A sum over G rounds, around its value: each round varies by `sd`, and its mean is known to
    `se`, both relative."""
    more = float(upper_factor(rounds.value, rounds.high, sd, se))
    less = float(upper_factor(rounds.value, rounds.value**2 / rounds.low, sd, se))
    return Estimate(value, value / less, value * more, LEVEL)


def totals_under(
    scenario: Scenario, policy: PolicyLike, plan: TrainingPlan, seed: int = 0
) -> PlanTotals:
    """What the planned K and E_l take under another policy."""
    world = scenario.with_plan(int(plan.cohort.value), int(plan.local_steps.value))
    ledger = simulate_network(world, policy, priced_rounds(scenario), seed)
    totals = {"rounds": plan.rounds}
    for measure in MEASURES:
        each = getattr(ledger, measure)
        sd = float(each.std(ddof=1) / each.mean())
        value, se = plan.rounds.value * float(each.mean()), sd / np.sqrt(ledger.rounds)
        totals[measure] = total_estimate(plan.rounds, value, sd, float(se))
    return totals


def _choice_intervals(
    grid: PlanGrid, allowed: Bools, minimise: Aim, k: int, e: int
) -> tuple[Estimate, Estimate]:
    """Where the best K and E_l would be, had the pilot's luck been another."""
    values = np.where(allowed, getattr(grid, minimise), np.inf)
    near = np.nonzero(values <= 3 * values.min())  # replicates have their best not far off
    per_round = (values / grid.rounds)[near]
    i, j = near
    x = features(grid.cohorts[i], grid.steps[j], grid.loss_rate, grid.kind)
    rounds = np.maximum(x @ grid.law.replicates[:RESAMPLED].T, 1.0)
    best = (rounds * per_round[:, None]).argmin(0)
    i, j = i[best], j[best]
    edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]

    def around(value: int, others: Ints) -> Estimate:
        low, high = np.quantile(others, edges, method="nearest")
        return Estimate(value, min(value, int(low)), max(value, int(high)), LEVEL)

    return around(k, grid.cohorts[i]), around(e, grid.steps[j])


def _paper_choice(grid: PlanGrid, allowed: Bools, law: GivenLaw) -> PaperChoice:
    """What the closed forms say: E_l*, K* (21) with the unit costs of Section IV-D, clipped to
    what there is; and what that would cost."""
    gamma = grid.loss_rate
    steps = nearest_whole(law.best_steps(), int(grid.steps[-1]))
    with_its_steps = grid.scenario.using(plan={"local_steps": steps, "local_epochs": None})
    costs = section_4d(with_its_steps, grid.seed)
    printed = law.printed_cohort(steps, gamma, costs)
    cohort = nearest_whole(printed, int(grid.cohorts[-1]))
    i, j = grid.at(cohort, steps)
    return PaperChoice(
        cohort=cohort,
        local_steps=steps,
        rounds=float(grid.rounds[i, j]),
        duration=float(grid.duration[i, j]),
        energy=float(grid.energy[i, j]),
        cost=float(grid.cost[i, j]),
        allowed=bool(allowed[i, j]),
        exact_cohort=nearest_whole(law.best_cohort(steps, gamma, costs), int(grid.cohorts[-1])),
        unclipped_cohort=printed,
        unclipped_local_steps=law.best_steps(),
        unit_costs=costs,
    )
