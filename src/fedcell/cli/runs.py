"""Commands that touch data: show a partition, run a scenario."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput, printable
from fedcell.learning.report import describe_partition
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import NAMED
from fedcell.planning.adapting import run_adaptive
from fedcell.planning.plan import TrainingPlan
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.folder import resumable
from fedcell.simulation.run import run

from .adaptive import Adaptive, Every, Minimise, PilotFile, adaptive_options
from .app import (
    AsJson,
    Clients,
    DataDir,
    PolicyNames,
    Rounds,
    ScenarioName,
    Seed,
    Steps,
    Threads,
    app,
    draw,
    draw_if_asked,
    figure_target,
    file_stem,
    out,
)
from .goals import AccuracyOrNone, Hold, LossOrNone, goal_of
from .own import LearnerName, check_own_code
from .planned import PlanFile, PlannedScenario, note_differences, own_policy, planned_world
from .progress import progress_bars
from .seeds import run_on_seeds, trackers_of, watched
from .signals import exit_code
from .words import has_option


@app.command()
def partition(
    scenario: ScenarioName,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw labels and sizes of all clients to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show how a scenario deals its training data to the clients."""
    target = figure_target(figure)
    with progress_bars() as progress:
        setup = prepare_training(load_scenario(scenario), seed, data_dir, progress.download)
    report = describe_partition(setup, scenario)
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(out, report)
    draw_if_asked(report, target, figure, quiet=as_json)


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
