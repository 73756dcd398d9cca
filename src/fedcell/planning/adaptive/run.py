"""Run a scenario whose K and E_l adapt: from a pilot, a plan, a law, or the scenario alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.streams import check_count
from fedcell.learning.learner import evaluated
from fedcell.network.draw import draw_fleet
from fedcell.network.policies.names import BUILT_IN, NAMED, Policies, policy_name
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.pilot.candidates import search_space
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.prior import RoundsPrior
from fedcell.planning.planner import plan_training
from fedcell.planning.setting import Region
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.compute import Compute, Observer
from fedcell.simulation.execution import execute
from fedcell.simulation.prepared import PreparedRun
from fedcell.simulation.run import prepare_run, scenario_to_run
from fedcell.simulation.summary import RunResult

from .controller import EVERY, AdaptivePlan


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """How a run adapts its K and E_l.

    Parameters
    ----------
    start : Pilot, TrainingPlan, RoundsLaw, str or Path, optional
        What is known of the rounds at other settings: a pilot (or its file), a plan, or a law. The
        run begins with the K and E_l of a pilot's plan or of the plan, else with the scenario's.
        Default: a generic prior.
    every : int, optional
        Rounds from one decision to the next.
    region : Region, optional
        Clients and steps that it may choose, the rounds after which the run ends, the objective,
        and the policy that prices rounds. Default: those of the plan.

    Examples
    --------
    >>> from fedcell import Adaptation, Region
    >>> Adaptation(every=10, region=Region(clients=(3, 20))).every
    10
    """

    start: Pilot | TrainingPlan | RoundsLaw | str | Path | None = None
    every: int = EVERY
    region: Region | None = None


def run_adaptive(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    adaptation: Adaptation = Adaptation(),  # noqa: B008
    *,
    target: Target | float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    compute: Compute = Compute(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> RunResult:
    """Run to a target, and re-plan K and E_l during the run from the losses so far.

    Limits and batteries are not considered. The other parameters are those of `run`.

    Parameters
    ----------
    scenario, policies, target, seed, folder, resume, compute, observer
        As in `run`.
    adaptation : Adaptation, optional
        Prior knowledge, interval of decisions, region and objective.

    Returns
    -------
    RunResult
        `result.outcome.changes`, and changes.csv of the folder, say what changed and why.

    Examples
    --------
    >>> from fedcell import load_scenario, run_adaptive
    >>> result = run_adaptive(load_scenario("digits"), ["optimal-staged"], seed=1)
    >>> [(change.round, change.cohort, change.local_steps) for change in result.outcome.changes]
    [(6, 4, 32)]
    """
    scenario = scenario_to_run(scenario, folder, resume)
    plan, law = _starting_point(scenario, adaptation, target, seed, compute)
    region = Region() if adaptation.region is None else adaptation.region
    if plan is not None:
        scenario, law = plan.apply_to(scenario), plan.law
        target = plan.target if target is None else target
        if adaptation.region is None:
            region = replace(region, minimise=plan.minimised)
        if region.policy is None and plan.policy in BUILT_IN:
            region = replace(region, policy=plan.policy)
    prepared = prepare_run(
        *(scenario, policies),
        rounds=region.rounds,
        target=target,
        seed=seed,
        compute=compute,
        observer=observer,
    )
    if plan is not None and (changed := plan.differences_from(prepared.identity, prepared.goal)):
        warnings.warn(
            f"this is not what was planned ({', '.join(changed)}): the plan's rounds may not hold",
            FedcellWarning,
            stacklevel=2,
        )
    steered = adaptive(prepared, law, every=adaptation.every, region=region)
    return execute(steered, folder, resume, observer)


def _starting_point(
    scenario: Scenario,
    adaptation: Adaptation,
    target: Target | float | None,
    seed: int,
    compute: Compute,
) -> tuple[TrainingPlan | None, RoundsLaw | None]:
    """Return the plan that a run begins with, or the law that it expects rounds by."""
    start = adaptation.start
    if start is None or isinstance(start, TrainingPlan):
        return start, None
    if isinstance(start, Pilot | str | Path):
        region = Region() if adaptation.region is None else adaptation.region
        return plan_training(
            scenario, start, target=target, region=region, seed=seed, compute=compute
        ), None
    if not isinstance(start, RoundsLaw):
        raise BadInput(f"`start` = {start!r}: expected a pilot, a plan or a law of rounds")
    return None, start


def adaptive(
    run: PreparedRun,
    law: RoundsLaw | None = None,
    *,
    every: int = EVERY,
    region: Region = Region(),  # noqa: B008
) -> PreparedRun:
    """Return a prepared run with a controller that adapts the K and E_l that it begins with."""
    first, plan = run.first, run.first.scenario.plan
    every = check_count(every, "`every`")
    if run.goal is None:
        raise BadInput("an adaptive plan needs a target: give a `target`, or learning.target")
    if not run.goal.gap(run.goal.value) > 0:
        raise BadInput(
            f"an adaptive plan forecasts metrics that fall towards 0 or rise towards 1, and not to "
            f"{run.goal}: give another target"
        )
    if plan.local_epochs is not None:
        raise BadInput("plan.local_epochs: an adaptive plan chooses plan.local_steps: give these")
    if law is not None and not isinstance(law, RoundsLaw):
        raise BadInput(f"`law` = {law!r}: expected a law of rounds, as GivenLaw")
    settings = search_space(
        *(first.scenario, region, run.seed),
        also=(plan.cohort, plan.local_steps),
    )
    learning = first.scenario.learning
    steering = AdaptivePlan(
        first=first,
        settings=settings,
        prior=RoundsPrior.from_law(settings, law),
        goal=run.goal,
        initial=evaluated(first.learner, run.start.model),
        rounds=run.rounds,
        learner_of=run.learner_of,
        fleet_of=lambda scenario: draw_fleet(scenario, run.seed),
        minimise=region.minimise,
        every=every,
        evaluate_every=learning.evaluate_every if learning else 1,
    )
    known_by = {  # what its changes follow from, beside the run itself
        "every": every,
        "minimise": region.minimise,
        "policy": None if region.policy is None else policy_name(region.policy),
        "clients": None if region.clients is None else list(region.clients),
        "steps": None if region.steps is None else list(region.steps),
        "target": run.goal.to_dict(),
        "law": None if law is None else law.to_dict(),
    }
    return replace(run, controller=steering, identity={**run.identity, "adaptive": known_by})
