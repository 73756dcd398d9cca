"""Runs whose plan adapts: from a pilot, a plan, a law, or nothing but the scenario."""

import warnings
from dataclasses import asdict, replace
from pathlib import Path

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.streams import check_count
from fedcell.learning.custom import LearnerLike
from fedcell.learning.learner import evaluated
from fedcell.learning.server_optimizer import OwnServer
from fedcell.network.draw import draw_fleet
from fedcell.network.policies.names import NAMED, Policies, PolicyLike, policy_name
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.pilot.candidates import search_space
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.prior import RoundsPrior
from fedcell.planning.planner import plan_training
from fedcell.planning.setting import Objective, Region
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.scenario.target import Target
from fedcell.simulation.execution import PreparedRun, carry_out
from fedcell.simulation.folder.run_folder import resumable
from fedcell.simulation.run import Progress, prepare_run
from fedcell.simulation.summary import Report, RunResult

from .controller import EVERY, AdaptivePlan


def run_adaptive(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    *,
    pilot: Pilot | str | Path | None = None,
    plan: TrainingPlan | None = None,
    law: RoundsLaw | None = None,
    every: int = EVERY,
    minimise: Objective | None = None,
    policy: PolicyLike | None = None,
    clients: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    threads: int | None = None,
    learner: LearnerLike | None = None,
    server: OwnServer | None = None,
    report: Report | None = None,
    progress: Progress = Progress(),  # noqa: B008
) -> RunResult:
    """A `run` to its target whose K and E_l are planned anew after `every` few rounds.

    It begins with the K and E_l that a `pilot` or a `plan` has, else with the scenario's own; a
    `law` says what is expected of others, and without all of them that is what is usual. Losses on
    the way correct it. The rest of the cost is made least (`minimise` has another), as it is under
    a `policy`: that of the plan, else ours that is best for it. `clients` and `steps` restrict
    where it may go: (3, 20). What it changed, and why, is in `result.outcome.changes`, and in
    changes.csv of the `folder`. Limits and batteries are not looked at. All else is as in `run`.

    >>> from fedcell import load_scenario, run_adaptive
    >>> result = run_adaptive(load_scenario("digits"), ["optimal-staged"], seed=1)
    >>> [(change.round, change.cohort, change.local_steps) for change in result.outcome.changes]
    [(6, 4, 48)]
    """
    check_scenario(scenario)
    if resume and folder is None:
        raise BadInput("`resume` needs the folder of the run: give `folder`")
    if resume and folder is not None:
        scenario = resumable(scenario, Path(folder))
    if sum(given is not None for given in (pilot, plan, law)) > 1:
        raise BadInput("`pilot`, `plan` and `law`: give one of them, or none")
    if pilot is not None:
        plan = plan_training(
            scenario,
            pilot,
            policy=policy,
            minimise=minimise or "cost",
            target=target,
            clients=clients,
            steps=steps,
            seed=seed,
            data_dir=data_dir,
        )
    if plan is not None:
        scenario, law, minimise = plan.apply_to(scenario), plan.law, minimise or plan.minimised
        target = plan.target if target is None else target
        policy = plan.policy if policy is None and plan.policy in NAMED else policy
    prepared = prepare_run(
        scenario,
        policies,
        rounds=rounds,
        target=target,
        seed=seed,
        data_dir=data_dir,
        threads=threads,
        learner=learner,
        server=server,
        download=progress.download,
    )
    if plan is not None and (changed := plan.differences_from(prepared.identity, prepared.goal)):
        warnings.warn(
            f"this is not what was planned ({', '.join(changed)}): the plan's rounds may not hold",
            FedcellWarning,
            stacklevel=2,
        )
    steered = adaptive(
        prepared,
        law,
        every=every,
        minimise=minimise or "cost",
        policy=policy,
        clients=clients,
        steps=steps,
    )
    listeners = progress.listeners(report)
    return carry_out(steered, folder, resume, listeners, progress.compile)


def adaptive(
    run: PreparedRun,
    law: RoundsLaw | None = None,
    *,
    every: int = EVERY,
    minimise: Objective = "cost",
    policy: PolicyLike | None = None,
    clients: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
) -> PreparedRun:
    """A run that is prepared, with a plan that adapts from the K and E_l that it has."""
    first, plan = run.first, run.first.scenario.plan
    every = check_count(every, "`every`")
    if run.goal is None:
        raise BadInput("a plan that adapts is one to a target: give a `target`, or learning.target")
    if plan.local_epochs is not None:
        raise BadInput("plan.local_epochs: a plan that adapts has plan.local_steps: give these")
    if law is not None and not isinstance(law, RoundsLaw):
        raise BadInput(f"`law` = {law!r}: expected a law of rounds, as GivenLaw")
    settings = search_space(
        first.scenario,
        Region(clients, steps, minimise=minimise, policy=policy),
        run.seed,
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
        minimise=minimise,
        every=every,
        evaluate_every=learning.evaluate_every if learning else 1,
    )
    known_by = {  # what its turns follow from, beside the run itself
        "every": every,
        "minimise": minimise,
        "policy": None if policy is None else policy_name(policy),
        "clients": None if clients is None else list(clients),
        "steps": None if steps is None else list(steps),
        "target": asdict(run.goal),
        "law": None if law is None else law.to_dict(),
    }
    return replace(run, steering=steering, identity={**run.identity, "adaptive": known_by})
