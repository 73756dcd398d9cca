"""Commands that touch data: show a partition, run a scenario."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput, FedcellWarning, printable
from fedcell.learning.setup import describe_partition, prepare_training
from fedcell.network.policies.names import NAMED
from fedcell.planning.plan import TrainingPlan
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.run import run

from .app import (
    AsJson,
    DataDir,
    Hold,
    PolicyNames,
    Rounds,
    ScenarioName,
    Seed,
    TargetAccuracy,
    TargetLoss,
    Threads,
    app,
    draw,
    draw_if_asked,
    figure_target,
    file_stem,
    out,
    target_of,
)
from .own import LearnerName, check_own_code
from .progress import progress_bars
from .signals import exit_code


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
    scenario: Annotated[
        str | None,
        typer.Argument(
            help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}. With --plan it may be "
            "left out: the plan's own."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Run with the K, E_l and target of what fedcell plan --out wrote."),
    ] = None,
    policy: PolicyNames = None,
    rounds: Rounds = None,
    target_loss: TargetLoss = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the run. Default: run-SCENARIO-seedSEED."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
) -> None:
    """Train a scenario's model over its cell: loss against rounds, seconds and joules.

    Training does not depend on the policy, so all policies are priced on one training. The
    folder gets ledger.csv (a line for each round), clients.csv (who pays), summary.json,
    scenario.json and loss.png. Ctrl-C, or even kill -9, loses at most the round under way:
    the same command with --resume goes on, to the same bits.
    """
    planned = TrainingPlan.load(plan) if plan else None
    name, world = _world(scenario, planned, plan)
    own_target = planned.target if planned and world.learning is None else None
    target = target_of(world, target_loss, target_accuracy, hold, own_target)
    check_own_code(planned, plan, learner)
    policies = policy or list(NAMED)
    if planned and not policy:  # the plan's own first
        policies = list(dict.fromkeys([_own_policy(planned, plan), *NAMED]))
    changed = [] if planned is None else planned.differences(world, target, learner)
    if changed:
        note = f"this is not what was planned ({', '.join(changed)}): predictions are not compared"
        warnings.warn(note, FedcellWarning, stacklevel=2)
    folder = folder or Path(f"run-{file_stem(name)}-seed{seed}")
    with progress_bars() as progress:
        result = run(
            world,
            policies,
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
        if outcome:
            print_result(out, outcome)
    if not result.complete:
        how = f"give the same command with --resume --out {shlex.quote(str(folder))}"
        print(f"fedcell: interrupted; to go on, {how}", file=sys.stderr)
    if result.ledgers:
        picture = folder / "loss.png"
        if picture.is_symlink():  # what it names is not ours
            picture.unlink()
        names = ["ledger.csv", "clients.csv", "summary.json"]
        names += ["loss.png"] if draw(result, picture) else []
        if not as_json:
            out.print(f"written to {folder}: {', '.join(names)}", soft_wrap=True)
    if not result.complete:
        sys.exit(exit_code())


def _world(
    name: str | None, planned: TrainingPlan | None, file: Path | None
) -> tuple[str, Scenario]:
    """The scenario that is named, or the plan's, with the K and E_l of the plan."""
    if name is None:
        if planned is None:
            raise BadInput(f"which scenario? name a file, or one of: {', '.join(SHIPPED)}")
        if planned.scenario is None:
            raise BadInput(f"{file}: its scenario has measured gains: name its file as well")
        return planned.name, planned.apply_to()
    world = load_scenario(name)
    return name, planned.apply_to(world) if planned else world


def _own_policy(planned: TrainingPlan, file: Path | None) -> str:
    """The policy of a plan, if it is one of ours: a file never names code to run."""
    if planned.policy not in NAMED:
        raise BadInput(
            f"{file}: was planned for the policy {planned.policy}, which is not one of ours: give "
            f"--policy {planned.policy} if you trust it"
        )
    return planned.policy
