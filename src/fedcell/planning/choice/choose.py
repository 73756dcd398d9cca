"""The best plan of a grid, by exhaustive search over K and E_l, with intervals."""

from collections.abc import Mapping

import numpy as np

from fedcell.core.errors import NoPlan, printable
from fedcell.core.estimates import Estimate
from fedcell.core.types import Bools, Ints
from fedcell.network.draw import draw_fleet
from fedcell.network.participation import mean_loss_rate
from fedcell.network.policies.names import PolicyLike, policy_name
from fedcell.network.trace import Fleet
from fedcell.planning.costs.devices import DeviceShare, most_spent
from fedcell.planning.costs.rounds import MEASURES
from fedcell.planning.costs.units import price_columns, priced_rounds, section_4d
from fedcell.planning.law.base import LEVEL, RoundsLaw
from fedcell.planning.law.given import GivenLaw, nearest_whole
from fedcell.planning.setting import Objective, check_objective
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

from .grid import PlanGrid
from .limits import (
    BATTERIES,
    PER_CLIENT,
    Bound,
    Limits,
    allowed_plans,
    at_confidence,
    bounds_of,
    chances,
    devices_at,
    energy_at,
    least_place,
)
from .plan import PaperChoice, PlanTotals, TrainingPlan

MAX_SETTINGS_DRAWN = 500  # settings that draws of a law are joint over
DRAWS = 200  # of laws that fit as well


def choose_plan(
    grid: PlanGrid,
    limits: Limits | None = None,
    minimise: Objective = "cost",
    paper_law: GivenLaw | None = None,
    target: Target | None = None,
    name: str = "plan",
) -> TrainingPlan:
    """Return the best plan of a grid within the limits, or raise NoPlan with the obstacle.

    `paper_law` has the three coefficients that the closed forms are evaluated with: those of
    a fit of the paper's own form, where the grid's law has another.
    """
    check_objective(minimise)
    limits = limits or Limits()
    expected = bounds_of(grid, limits)
    asked = at_confidence(grid.law, expected, limits.confidence)
    allowed = allowed_plans(grid, asked, limits.confidence)
    i, j, devices = _best_place(grid, expected, asked, minimise, allowed)
    k, e = int(grid.cohorts[i]), int(grid.steps[j])
    predicted = grid.law.predict(np.array(k), np.array(e), grid.loss_rate, kind=grid.kind)
    mean, low, high = (max(1.0, float(x)) for x in predicted)
    rounds = Estimate(mean, min(low, mean), max(high, mean), LEVEL)

    def total(measure: str) -> Estimate:
        value = float(getattr(grid, measure)[i, j])
        return _around(grid.law, value, float(grid.spread(measure, k, e)))

    totals = {"rounds": rounds, **{measure: total(measure) for measure in MEASURES}}
    duration, energy, cost = (totals[name] for name in ("duration", "energy", "cost"))
    policy = policy_name(grid.policy)
    cohort, steps = _choice_intervals(grid, allowed, minimise, k, e)
    paper = _paper_choice(grid, paper_law or GivenLaw.of(grid.law.coefficients))
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
        cohort=k,
        cohort_interval=cohort,
        local_steps=e,
        local_steps_interval=steps,
        rounds=rounds,
        duration=duration,
        energy=energy,
        cost=cost,
        paper=paper,
        policies={policy: totals},
        notes=tuple(grid.law.notes),
        chances={name: float(each[i, j]) for name, each in chances(grid.law, expected).items()},
        grid=grid,
        allowed=allowed,
        devices=devices,
    )


def _best_place(
    grid: PlanGrid,
    expected: Mapping[str, Bound],
    bounds: Mapping[str, Bound],
    minimise: Objective,
    allowed: Bools,
) -> tuple[int, int, tuple[DeviceShare, ...]]:
    """Return the best of the allowed plans, and what its clients spend. The grid interpolates the
    limits of a client, so they are priced exactly at the plan; `allowed` loses plans that miss
    them."""
    while allowed.any():
        i, j = least_place(np.where(allowed, getattr(grid, minimise), np.inf))
        energy = energy_at(grid, i, j)
        most = most_spent(energy, grid.fleet, float(grid.rounds[i, j]))
        spent = dict(zip((PER_CLIENT, BATTERIES), most, strict=True))
        # With a confidence, a plan takes as much more than expected as the grid says.
        kept = [
            spent[n] * bounds[n].values[i, j] <= bounds[n].limit * expected[n].values[i, j]
            for n in spent
            if n in bounds
        ]
        if all(kept):
            return i, j, devices_at(grid, i, j, energy)
        allowed[i, j] = False
    asked = " and the ".join(n for n in spent if n in bounds)
    raise NoPlan(f"no plan keeps the {asked} when priced exactly; relax it by a few percent")


def totals_under(
    scenario: Scenario,
    policy: PolicyLike,
    plan: TrainingPlan,
    seed: int = 0,
    fleet: Fleet | None = None,
) -> PlanTotals:
    """Return what the planned K and E_l take under another policy; `fleet` is the scenario's, where
    it is drawn already."""
    k, e = plan.cohort, plan.local_steps
    planned = scenario.with_plan(k, e)
    fleet, priced = draw_fleet(scenario, seed) if fleet is None else fleet, priced_rounds(planned)
    taken = price_columns(planned, fleet, policy, priced, seed)
    rounds, law, gamma = plan.rounds, plan.law, mean_loss_rate(scenario)
    unsure = float(law.spread(np.array(k), np.array(e), gamma, scenario.cell.loss_kind))
    totals = {"rounds": rounds}
    for measure in MEASURES:
        each = taken[measure]
        sd, value = float(each.std(ddof=1) / each.mean()), rounds.value * float(each.mean())
        spread = np.sqrt(unsure**2 + sd**2 / max(1.0, rounds.value) + sd**2 / priced)
        totals[measure] = _around(law, value, float(spread))
    return totals


def _around(law: RoundsLaw, mean: float, spread: float) -> Estimate:
    """Return what one run takes: the mean, and an interval about the median."""
    half, median = np.exp(law.quantile((1 + LEVEL) / 2) * spread), mean * np.exp(-law.excess)
    low, high = min(mean, median / half), max(mean, median * half)
    return Estimate(mean, float(low), float(high), LEVEL)


def _choice_intervals(
    grid: PlanGrid, allowed: Bools, minimise: Objective, k: int, e: int
) -> tuple[Estimate, Estimate]:
    """Return intervals of the best K and E_l, over draws of laws that fit the runs as well."""
    values = np.where(allowed, getattr(grid, minimise), np.inf)
    near = np.argsort(values, axis=None)[:MAX_SETTINGS_DRAWN]  # the best of draws is not far off
    i, j = np.unravel_index(near[values.ravel()[near] <= 3 * values.min()], values.shape)
    per_round = values[i, j] / grid.rounds[i, j]
    places = grid.cohorts[i], grid.steps[j]
    drawn = grid.law.draws(*places, grid.loss_rate, DRAWS, grid.seed, grid.kind)
    best = (np.maximum(drawn, 1.0) * per_round).argmin(1)
    edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]

    def around(value: int, others: Ints) -> Estimate:
        low, high = np.quantile(others, edges, method="nearest")
        return Estimate(value, min(value, int(low)), max(value, int(high)), LEVEL)

    return around(k, grid.cohorts[i][best]), around(e, grid.steps[j][best])


def _paper_choice(grid: PlanGrid, law: GivenLaw) -> PaperChoice:
    """Return what the closed forms choose: E_l*, K* (21) with the unit costs of Section IV-D,
    clipped to the possible values; and what that would cost."""
    gamma = grid.loss_rate
    steps = nearest_whole(law.best_steps(), int(grid.round_costs.steps[-1]))
    with_its_steps = grid.scenario.using(plan={"local_steps": steps, "local_epochs": None})
    costs = section_4d(with_its_steps, grid.seed, grid.fleet)
    printed = law.printed_cohort(steps, gamma, costs)
    most = int(grid.round_costs.cohorts[-1])
    cohort = nearest_whole(printed, most)
    costs_there = grid.round_costs
    rounds = max(
        1.0, float(grid.law.predict(np.array(cohort), np.array(steps), gamma, kind=grid.kind)[0])
    )
    taken = {m: rounds * float(getattr(costs_there, m)(cohort, steps)) for m in MEASURES}
    return PaperChoice(
        cohort=cohort,
        local_steps=steps,
        rounds=rounds,
        **taken,
        exact_cohort=nearest_whole(law.best_cohort(steps, gamma, costs), most),
        unclipped_cohort=printed,
        unclipped_local_steps=law.best_steps(),
        unit_costs=costs,
    )
