"""Train a scenario and price it under each policy."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, draw, file_stem, out
from fedcell.cli.options import (
    MAX_ROUNDS,
    MAX_SEEDS,
    AccuracyText,
    AsJson,
    Clients,
    Cluster,
    DataDir,
    Hold,
    LearnerName,
    LossText,
    NamedText,
    PlanFile,
    PlannedScenario,
    Resume,
    Seed,
    Select,
    Steps,
    Threads,
    TrainingRounds,
    file,
    number,
    out_folder,
    parse_range,
    policies_of,
)
from fedcell.cli.plans import (
    AdaptiveOptions,
    check_adaptive,
    check_own_code,
    note_differences,
    own_policy,
    planned_world,
)
from fedcell.cli.seeds import RunJob, run_on_seeds, watched
from fedcell.cli.signals import exit_code, print_interrupted
from fedcell.cli.targets import TargetOptions, goal_of
from fedcell.core.errors import BadInput, printable
from fedcell.network.policies.names import NAMED
from fedcell.network.selectors.names import selecting
from fedcell.planning.adaptive.controller import EVERY
from fedcell.planning.adaptive.run import Adaptation, run_adaptive
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.setting import Objective, Region
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.compute import Compute
from fedcell.simulation.folder.run_folder import resumable
from fedcell.simulation.run import run
from fedcell.simulation.summary import RunResult

Policies = Annotated[list[str] | None, policies_of("the plan's, and all built-in ones")]
Adaptive = Annotated[
    bool,
    typer.Option(
        "--adaptive",
        help="Re-plan during the run from the losses so far, to minimise the remaining cost. "
        "Starts with --plan, with the plan of a --pilot, or with the scenario's own clients and "
        "steps.",
    ),
]
PilotFile = Annotated[Path | None, file("With --adaptive: pilot that fedcell pilot --out wrote.")]
Every = Annotated[
    int | None,
    number(f"With --adaptive: rounds between two decisions. Default: {EVERY}.", most=MAX_ROUNDS),
]
Minimise = Annotated[
    Objective | None,
    typer.Option(
        help="With --adaptive: the objective, cost (time and energy together), duration, or "
        "energy. Default: the plan's, else cost."
    ),
]
Seeds = Annotated[
    int | None,
    number("Run on N seeds, starting at --seed: means with intervals.", most=MAX_SEEDS),
]
OutFolder = Annotated[
    Path | None,
    out_folder(
        "Folder of the run. Default: run-SCENARIO-seedSEED; with --seeds, run-SCENARIO-seeds, with "
        "one folder inside for each."
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER[:WHERE]",
        help="Log each round to tensorboard[:FOLDER], mlflow[:FOLDER or URI] or wandb[:PROJECT]. "
        "Repeat it for several.",
    ),
]
Workers = Annotated[
    int | None, number("With --seeds: processes that train. Default: one run at a time.", most=4096)
]


@command(
    "fedcell run digits --policy even --policy optimal",
    "fedcell run --plan plan.json --seeds 10 --out planned",
)
def run_command(
    scenario: PlannedScenario = None,
    plan: PlanFile = None,
    policy: Policies = None,
    select: Select = None,
    rounds: TrainingRounds = None,
    named_target: NamedText = None,
    target_loss: LossText = None,
    target_accuracy: AccuracyText = None,
    hold: Hold = None,
    adaptive: Adaptive = False,
    pilot: PilotFile = None,
    every: Every = None,
    minimise: Minimise = None,
    clients: Clients = None,
    steps: Steps = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    seeds: Seeds = None,
    folder: OutFolder = None,
    resume: Resume = False,
    track: Track = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Workers = None,
    cluster: Cluster = None,
) -> None:
    """Train a scenario's model over its cell: loss against rounds, seconds and joules.

    All policies are priced on one training, which does not depend on them (with a selector that
    reads durations or energies: give one policy). The folder gets
    ledger.csv (a line for each policy and round), clients.csv (costs of each client), summary.json,
    scenario.json and loss.png; with --adaptive, changes.csv. After Ctrl-C or kill -9 the same
    command with --resume continues from the last finished round, to the same bits.
    """
    planned = TrainingPlan.load(plan) if plan else None
    name, world = planned_world(scenario, planned, plan)
    world = selecting(world, select)
    folder = folder or Path(f"run-{file_stem(name)}-{'seeds' if seeds else f'seed{seed}'}")
    if resume and seeds is None:
        world = resumable(world, folder)
    own_target = planned.target if planned and world.learning is None else None
    world, target = goal_of(
        world, TargetOptions(named_target, target_loss, target_accuracy, hold), own_target
    )
    check_own_code(planned, plan, learner)
    policies = policy or _policies(planned, plan)
    changed = note_differences(planned, world, target, learner, seed, data_dir, adaptive)
    ranges = parse_range(clients, "--clients"), parse_range(steps, "--steps")
    adapting = AdaptiveOptions(pilot, every, minimise, *ranges)
    check_adaptive(adaptive, adapting, seeds, planned, target)
    compute = Compute(data_dir=data_dir, threads=threads, learner=learner)
    job = RunJob(name, world, policies, rounds, target, folder, resume, track, compute)
    if seeds is not None:
        elsewhere = replace(compute, workers=workers, cluster=cluster)
        run_on_seeds(replace(job, compute=elsewhere), range(seed, seed + seeds), as_json)
        return
    if workers is not None or cluster is not None:
        what = "--workers" if cluster is None else "--cluster"
        raise BadInput(f"{what}: one run is made by --threads: give --seeds for several")
    result = _run_adaptive(job, seed, planned, adapting) if adaptive else _run(job, seed)
    _show(job, result, planned, None if changed else planned, as_json)


def _policies(planned: TrainingPlan | None, file: Path | None) -> list[str]:
    """Return all built-in policies, that of the plan first."""
    return list(dict.fromkeys([*([own_policy(planned, file)] if planned else []), *NAMED]))


def _run(job: RunJob, seed: int) -> RunResult:
    """Run a job on one seed."""
    with watched("", job.trackers(job.folder.name, seed)) as observer:
        return run(
            job.world,
            job.policies,
            rounds=job.rounds,
            target=job.target,
            seed=seed,
            folder=job.folder,
            resume=job.resume,
            compute=job.compute,
            observer=observer,
        )


def _run_adaptive(
    job: RunJob, seed: int, plan: TrainingPlan | None, options: AdaptiveOptions
) -> RunResult:
    """Run a job on one seed, with a plan that adapts."""
    region = Region(
        clients=options.clients,
        steps=options.steps,
        rounds=job.rounds,
        minimise=options.minimise or (plan.minimised if plan else "cost"),
    )
    start = options.pilot if plan is None else plan
    with watched("", job.trackers(job.folder.name, seed)) as observer:
        return run_adaptive(
            job.world,
            job.policies,
            Adaptation(start=start, every=options.every or EVERY, region=region),
            target=job.target,
            seed=seed,
            folder=job.folder,
            resume=job.resume,
            compute=job.compute,
            observer=observer,
        )


def _show(
    job: RunJob,
    result: RunResult,
    plan: TrainingPlan | None,
    compared: TrainingPlan | None,
    as_json: bool,
) -> None:
    """Print a run and how it compares with its plan, draw it, and exit if it was interrupted."""
    outcome = compared.compare(result) if compared else None
    if as_json:
        beside = {"plan": outcome.to_dict() if outcome else []} if plan else {}
        print_json(result.to_dict() | beside)
    elif result.ledgers:
        print_result(out, result, name=printable(job.name))
        if result.stopwatch is not None and result.stopwatch.training > 0:
            out.print(f"this machine took {result.stopwatch}")
        if outcome:
            print_result(out, outcome)
    if not result.complete:
        print_interrupted(job.folder)
    if result.ledgers:
        picture = job.folder / "loss.png"
        if picture.is_symlink():  # never write through a link
            picture.unlink()
        names = ["ledger.csv", "clients.csv", "summary.json"]
        names += ["changes.csv"] if result.outcome.changes else []
        names += ["loss.png"] if draw(result, picture) else []
        if not as_json:
            out.print(f"written to {job.folder}: {', '.join(names)}", soft_wrap=True)
    if not result.complete:
        sys.exit(exit_code())
