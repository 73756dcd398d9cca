"""The command that tries a real federation out on this machine."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, draw, file_stem
from fedcell.cli.app import out as screen
from fedcell.cli.federation import check_choice, run_here, with_devices
from fedcell.cli.options import (
    AccuracyOrNone,
    AsJson,
    DataDir,
    Hold,
    LossOrNone,
    PlanFile,
    PlannedScenario,
    Rounds,
    Seed,
    goal_of,
    note_differences,
    own_policy,
    planned_world,
)
from fedcell.core.errors import BadInput, Diverged, printable
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration
from fedcell.deploy.exchanges import collapse_of, load_exchanges
from fedcell.deploy.options import RunConfig, write_app
from fedcell.deploy.scores import SCORES
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import NAMED
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.scenario.save import save_scenario
from fedcell.scenario.scenario import with_goal
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.folder.load import load_run
from fedcell.simulation.folder.run_folder import IDENTITY, resumable


def _checked(start_with: int | None, count: int) -> int:
    if start_with is not None and start_with > count:
        raise BadInput(f"--start-with {start_with}: the scenario has {count} clients")
    return start_with or 0


@app.command()
def deploy(
    scenario: PlannedScenario = None,
    plan: PlanFile = None,
    devices: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="How many devices there are, instead of clients.count: each is a SuperNode of its "
            "own here, some 300 MB, or a virtual one with --simulation.",
        ),
    ] = None,
    simulation: Annotated[
        bool,
        typer.Option(
            "--simulation", help="Virtual devices in Flower's simulation (Ray), hundreds of them."
        ),
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(NAMED)}. Default: the plan's own, else distributed, in which each "
            "device sets its own frequency."
        ),
    ] = None,
    rounds: Rounds = None,
    target_loss: LossOrNone = None,
    target_accuracy: AccuracyOrNone = None,
    hold: Hold = None,
    seed: Seed = 0,
    deadline: Annotated[
        str, typer.Option(help="How long a round waits for its devices, as 90s or 5min.")
    ] = "5min",
    join_timeout: Annotated[
        str, typer.Option(help="How long devices have to introduce themselves before round 1.")
    ] = "2min",
    start_with: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="Start with the devices that are there after --join-timeout, if at least N; the "
            "others count as absent until they join. Default: all must be there.",
        ),
    ] = None,
    judged_by: Annotated[
        str,
        typer.Option(
            metavar="server|devices",
            help="Who evaluates models: this machine on its own copy of the data, or all devices, "
            "each on its own.",
        ),
    ] = "server",
    screen_updates: Annotated[
        str,
        typer.Option(
            "--screen",
            metavar="none|clip|exclude",
            help="What is done with updates three times as long as the median one.",
        ),
    ] = "none",
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive",
            help="Correct what is assumed of the devices by what is measured, and plan clients and "
            "steps anew under way.",
        ),
    ] = False,
    every: Annotated[
        int, typer.Option(min=1, max=10**6, help="With --adaptive: rounds between two looks.")
    ] = 5,
    pilot: Annotated[
        Path | None,
        typer.Option(
            help="Run a pilot on the devices instead, into this file, for fedcell plan --pilot."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(help="With --pilot: how long it may take, by the clock.")
    ] = "10min",
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the run. Default: deploy-SCENARIO-seedSEED."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    write: Annotated[
        Path | None,
        typer.Option(
            "--app",
            help="Only write the Flower app to this folder, for `flwr run` on machines of yours.",
        ),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run a scenario or a plan on a real Flower federation on this machine, to try it out.

    Starts a SuperLink and a SuperNode for each device on 127.0.0.1, or a simulation of them, says
    what it started, and stops all of it at the end. The folder is that of a run, with
    exchanges.csv beside: a line for each device and round, with seconds and joules by the model
    and seconds and bytes by the clock. For machines of your own see docs/deployment.md.
    """
    if pilot is not None:
        check_target(pilot, ("json",))
    planned = TrainingPlan.load(plan) if plan else None
    name, world = planned_world(scenario, planned, plan)
    folder = (folder or Path(f"deploy-{file_stem(name)}-seed{seed}")).absolute()
    if resume:
        world = resumable(world, folder)
    own_target = planned.target if planned and world.learning is None else None
    world, target = goal_of(world, target_loss, target_accuracy, hold, own_target)
    world = with_goal(world, target)
    world = with_devices(world, devices, simulation or write is not None)
    used = policy or (own_policy(planned, plan) if planned else "distributed")
    if used not in NAMED:
        raise BadInput(f"--policy {used}: a federation runs one of: {', '.join(NAMED)}")
    check_choice("--judged-by", judged_by, ("server", "devices"))
    check_choice("--screen", screen_updates, ("none", "clip", "exclude"))
    work = folder.with_name(f"{folder.name}-federation") if write is None else write.absolute()
    again = target if plan and adaptive else None  # the app reads the plan, which has a target
    config = RunConfig(
        policy=used,
        seed=seed,
        rounds=rounds or 0,
        target_loss=(again and again.loss) or 0.0,
        target_accuracy=(again and again.accuracy) or 0.0,
        hold=again.hold if again else 0,
        folder=str(folder) if write is None else "run-flower",
        resume=resume,
        deadline=parse_duration(deadline, "--deadline"),
        join_timeout=parse_duration(join_timeout, "--join-timeout"),
        start_with=_checked(start_with, world.clients.count),
        judged_by=judged_by,  # type: ignore[arg-type]
        screen=screen_updates,  # type: ignore[arg-type]
        data_dir=str(data_dir.absolute()) if data_dir else "",
        adaptive=adaptive,
        every=every,
        plan=str(plan.absolute()) if plan and adaptive else "",
        pilot_file=str(pilot.absolute()) if pilot else "",
        pilot_budget=budget,
    )
    parse_duration(budget, "--budget")

    def note() -> None:
        note_differences(planned, world, target, None, seed, data_dir)

    if write is not None:
        prepare_training(world, seed, data_dir)  # refuses what cannot be dealt
        note()
        write_app(work, config.using(scenario=str(work / "scenario.json")))
        save_scenario(world, work / "scenario.json")
        screen.print(f"written to {write}: pyproject.toml, scenario.json", soft_wrap=True)
        return
    config = config.using(scenario=str(work / "scenario.json"))
    try:
        run_here(config, world, work, simulation, quiet=as_json, note=note)
    except KeyboardInterrupt:
        how = "give the same command again"
        if pilot is None and (folder / IDENTITY).exists():
            how = f"give the same command with --resume --out {shlex.quote(str(folder))}"
        print(f"fedcell: interrupted; to go on, {how}", file=sys.stderr)
        raise
    if pilot is not None:
        found = load_pilot(pilot)
        if as_json:
            print_json(found.report.to_dict())
        else:
            print_result(screen, found)
            screen.print(f"written to {pilot}; fedcell plan --pilot takes it", soft_wrap=True)
        return
    result, report = load_run(folder), load_exchanges(folder)
    if as_json:
        print_json(result.to_dict() | {"exchanges": report.to_dict()})
    else:
        print_result(screen, result, name=printable(name))
        print_result(screen, report)
    names = ["ledger.csv", "exchanges.csv", "clients.csv", "summary.json"]
    names += ["changes.csv"] if result.outcome.changes else []
    names += ["loss.png"] if draw(result, folder / "loss.png") else []
    names += ["exchanges.png"] if draw(report, folder / "exchanges.png") else []
    names += ["scores.csv"] if (folder / SCORES).exists() else []
    if not as_json:
        screen.print(f"written to {folder}: {', '.join(names)}", soft_wrap=True)
    if (collapse := collapse_of(result)) is not None:
        raise Diverged(collapse)
