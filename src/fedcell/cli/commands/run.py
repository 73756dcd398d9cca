"""Train a scenario and price it under each policy."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, draw, file_stem, out
from fedcell.cli.options import (
    AccuracyOrNone,
    Adaptive,
    AsJson,
    Clients,
    DataDir,
    Every,
    Hold,
    LearnerName,
    LossOrNone,
    Minimise,
    PilotFile,
    PlanFile,
    PlannedScenario,
    PolicyNames,
    Rounds,
    Seed,
    Steps,
    Threads,
    adaptive_options,
    check_own_code,
    goal_of,
    note_differences,
    own_policy,
    planned_world,
)
from fedcell.cli.seeds import run_on_seeds, trackers_of, watched
from fedcell.cli.signals import exit_code
from fedcell.cli.words import has_option
from fedcell.core.errors import BadInput, printable
from fedcell.network.policies.names import NAMED
from fedcell.planning.adaptive.run import run_adaptive
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.folder.run_folder import resumable
from fedcell.simulation.run import run


@app.command("run")
def run_command(
    scenario: PlannedScenario = None,
    plan: PlanFile = None,
    policy: PolicyNames = None,
    rounds: Rounds = None,
    target_loss: LossOrNone = None,
    target_accuracy: AccuracyOrNone = None,
    hold: Hold = None,
    adaptive: Adaptive = False,
    pilot: PilotFile = None,
    every: Every = None,
    minimise: Minimise = None,
    clients: Clients = None,
    steps: Steps = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Run on so many seeds, from --seed on: means with intervals."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder of the run. Default: run-SCENARIO-seedSEED; of several seeds, "
            "run-SCENARIO-seeds, with one inside for each.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER[:WHERE]",
            help="Tell tensorboard[:FOLDER], mlflow[:FOLDER or URI] or wandb[:PROJECT] of each "
            "round. Repeat it for several.",
        ),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="With --seeds: processes. Default: one run at a time."),
    ] = None,
) -> None:
    """Train a scenario's model over its cell: loss against rounds, seconds and joules.

    Training does not depend on the policy, so all policies are priced on one training. The
    folder gets ledger.csv (a line for each policy as each round is done), clients.csv (who pays),
    summary.json, scenario.json and loss.png; with --adaptive, changes.csv. Ctrl-C, or even
    kill -9, loses at most the round under way: the same command with --resume goes on, to the same
    bits.
    """
    planned = TrainingPlan.load(plan) if plan else None
    name, world = planned_world(scenario, planned, plan)
    if resume and seeds is None:
        world = resumable(world, folder or Path(f"run-{file_stem(name)}-seed{seed}"))
    own_target = planned.target if planned and world.learning is None else None
    world, target = goal_of(world, target_loss, target_accuracy, hold, own_target)
    check_own_code(planned, plan, learner)
    policies = policy or list(NAMED)
    if planned and not policy:  # the plan's own first
        policies = list(dict.fromkeys([own_policy(planned, plan), *NAMED]))
    changed = note_differences(planned, world, target, learner, seed, data_dir, adaptive)
    adapting = adaptive_options(
        adaptive, seeds, planned, target, pilot, every, minimise, clients, steps
    )
    if seeds is not None:
        run_on_seeds(
            world,
            name,
            folder or Path(f"run-{file_stem(name)}-seeds"),
            range(seed, seed + seeds),
            workers=workers,
            track=track or [],
            as_json=as_json,
            policies=policies,
            rounds=rounds,
            target=target,
            resume=resume,
            data_dir=data_dir,
            threads=threads,
            learner=learner,
        )
        return
    if workers is not None:
        raise BadInput("--workers: one run is made by --threads: give --seeds for several")
    folder = folder or Path(f"run-{file_stem(name)}-seed{seed}")
    trackers = trackers_of(track or [], world, name, folder.name, seed)
    with watched("", trackers) as progress:
        result = (run if adapting is None else run_adaptive)(
            world,
            policies,
            **adapting or {},
            rounds=rounds,
            target=target,
            seed=seed,
            folder=folder,
            resume=resume,
            data_dir=data_dir,
            threads=threads,
            learner=learner,
            progress=progress,
        )
    outcome = planned.compare(result) if planned and not changed else None
    if as_json:
        beside = {"plan": outcome.to_dict() if outcome else []} if planned else {}
        print_json(result.to_dict() | beside)
    elif result.ledgers:
        print_result(out, result, name=printable(name))
        if result.stopwatch is not None and result.stopwatch.training > 0:
            out.print(f"this machine took {result.stopwatch}")
        if outcome:
            print_result(out, outcome)
    if not result.complete:
        how = "give the same command again"
        if has_option("resume"):  # a demo resumes by itself
            how = f"give the same command with --resume --out {shlex.quote(str(folder))}"
        print(f"fedcell: interrupted; to go on, {how}", file=sys.stderr)
    if result.ledgers:
        picture = folder / "loss.png"
        if picture.is_symlink():  # what it names is not ours
            picture.unlink()
        names = ["ledger.csv", "clients.csv", "summary.json"]
        names += ["changes.csv"] if result.outcome.changes else []
        names += ["loss.png"] if draw(result, picture) else []
        if not as_json:
            out.print(f"written to {folder}: {', '.join(names)}", soft_wrap=True)
    if not result.complete:
        sys.exit(exit_code())
