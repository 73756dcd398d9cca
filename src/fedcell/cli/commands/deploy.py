"""Try a real federation out on this machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.cli.app import command, draw, file_stem
from fedcell.cli.app import out as screen
from fedcell.cli.federation import check_policy, run_here, with_devices
from fedcell.cli.options import (
    MAX_ROUNDS,
    AccuracyText,
    AsJson,
    DataDir,
    DeployedPolicy,
    Hold,
    LossText,
    NamedText,
    PlanFile,
    PlannedScenario,
    Resume,
    RoundDeadline,
    Seed,
    Select,
    TrainingRounds,
    check_choice,
    duration,
    file,
    folder_of,
    number,
    one_of,
    out_folder,
)
from fedcell.cli.plans import note_differences, own_policy, planned_world
from fedcell.cli.signals import print_interrupted
from fedcell.cli.targets import TargetOptions, goal_of
from fedcell.core.errors import BadInput, Diverged, printable
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration
from fedcell.deploy.exchanges import collapse_of, load_exchanges
from fedcell.deploy.options import RunConfig, write_app
from fedcell.deploy.scores import SCORES
from fedcell.learning.setup import prepare_training
from fedcell.network.selectors.base import kind_of
from fedcell.network.selectors.names import selecting, selector_of
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.scenario.save import save_scenario
from fedcell.scenario.scenario import Scenario, with_goal
from fedcell.scenario.target import Target
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.folder.load import load_run
from fedcell.simulation.folder.run_folder import IDENTITY, resumable

MAX_DEPLOYED_DEVICES = 10_000
EVALUATORS = ("server", "devices")
SCREENS = ("none", "clip", "exclude")

Devices = Annotated[
    int | None,
    number(
        "Number of devices, instead of clients.count: each is a SuperNode process of about 300 MB "
        "here, or a virtual one with --simulation.",
        most=MAX_DEPLOYED_DEVICES,
    ),
]
Simulation = Annotated[
    bool,
    typer.Option("--simulation", help="Hundreds of virtual devices in Flower's simulation (Ray)."),
]
JoinTimeout = Annotated[
    str, duration("How long devices may take to join before round 1, as 90s or 5min.")
]
StartWith = Annotated[
    int | None,
    number(
        "Start with the devices that joined within --join-timeout, if at least N; the others count "
        "as absent until they join. Default: all must join.",
        most=MAX_DEPLOYED_DEVICES,
    ),
]
JudgedBy = Annotated[
    str,
    one_of(EVALUATORS, "Evaluate models on this machine's copy of the data, or on the devices."),
]
Screen = Annotated[
    str,
    one_of(SCREENS, "Treatment of updates three times as long as the median one.", "--screen"),
]
Adaptive = Annotated[
    bool,
    typer.Option(
        "--adaptive",
        help="Correct the assumptions about devices by measurements, and re-plan clients and steps "
        "during the run.",
    ),
]
Every = Annotated[int, number("With --adaptive: rounds between two decisions.", most=MAX_ROUNDS)]
PilotOut = Annotated[
    Path | None,
    file("Run a pilot on the devices into this file instead, for fedcell plan --pilot.", "--pilot"),
]
Budget = Annotated[str, duration("With --pilot: time of the pilot by the clock.")]
OutFolder = Annotated[
    Path | None, out_folder("Folder of the run. Default: deploy-SCENARIO-seedSEED.")
]
AppFolder = Annotated[
    Path | None,
    folder_of(
        "Only write the Flower app to this folder, for `flwr run` on your own machines.", "--app"
    ),
]


@command(
    "fedcell deploy digits --devices 4 --rounds 5",
    "fedcell deploy --plan plan.json --simulation --out federation",
)
def deploy(
    scenario: PlannedScenario = None,
    plan: PlanFile = None,
    devices: Devices = None,
    simulation: Simulation = False,
    policy: DeployedPolicy = None,
    select: Select = None,
    rounds: TrainingRounds = None,
    named_target: NamedText = None,
    target_loss: LossText = None,
    target_accuracy: AccuracyText = None,
    hold: Hold = None,
    seed: Seed = 0,
    deadline: RoundDeadline = "5min",
    join_timeout: JoinTimeout = "2min",
    start_with: StartWith = None,
    judged_by: JudgedBy = "server",
    screen_updates: Screen = "none",
    adaptive: Adaptive = False,
    every: Every = 5,
    pilot_out: PilotOut = None,
    budget: Budget = "10min",
    folder: OutFolder = None,
    resume: Resume = False,
    write: AppFolder = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run a scenario or a plan on a real Flower federation on this machine.

    Starts a SuperLink and a SuperNode for each device on 127.0.0.1, or a simulation, and stops all
    of it at the end. The folder is that of a run, with exchanges.csv: a line for each device and
    round, with modelled seconds and joules and measured seconds and bytes. For your own machines
    see docs/how-to/deploy.md.
    """
    if pilot_out is not None:
        check_target(pilot_out, ("json",))
    planned = TrainingPlan.load(plan) if plan else None
    name, world = planned_world(scenario, planned, plan)
    world = _selecting(world, select)
    folder = (folder or Path(f"deploy-{file_stem(name)}-seed{seed}")).absolute()
    world = resumable(world, folder) if resume else world
    own_target = planned.target if planned and world.learning is None else None
    world, target = goal_of(
        world, TargetOptions(named_target, target_loss, target_accuracy, hold), own_target
    )
    world = with_devices(with_goal(world, target), devices, simulation or write is not None)
    used = policy or (own_policy(planned, plan) if planned else "distributed")
    check_policy(used)
    config = RunConfig(policy=used, seed=seed, rounds=rounds or 0, resume=resume)
    config = config.using(**_evaluation(judged_by, screen_updates))
    config = config.using(**_waiting(deadline, join_timeout, start_with, world.clients.count))
    config = config.using(**_adapting(adaptive, every, plan, target))
    config = config.using(**_places(folder, data_dir, pilot_out, budget))
    note = partial(note_differences, planned, world, target, None, seed, data_dir)
    if write is not None:
        _write_app(write, config, world, note)
        return
    _run_federation(config, world, simulation, as_json, note)
    if pilot_out is not None:
        _show_pilot(pilot_out, as_json)
    else:
        _show_run(folder, name, as_json)


def _selecting(world: Scenario, select: str | None) -> Scenario:
    """Return the world of a federation with a selector; refuse code, and rules that learn."""
    world = selecting(world, select)
    if ":" in world.plan.selection:
        raise BadInput(
            "--select: the server of a federation reads its scenario from a file, which names no "
            "code: give a built-in selector, or one of an installed package"
        )
    rule = selector_of(world)
    if rule is not None and kind_of(rule) == "learning":
        raise BadInput(
            f"plan.selection = {world.plan.selection!r} reads losses or updates before a round is "
            "called, which devices are not asked for: choose another selector"
        )
    return world


def _evaluation(judged_by: str, screen: str) -> dict[str, Any]:
    """Return the keys of a run's configuration for evaluation and screening."""
    check_choice("--judged-by", judged_by, EVALUATORS)
    check_choice("--screen", screen, SCREENS)
    return {"judged_by": judged_by, "screen": screen}


def _waiting(
    deadline: str, join_timeout: str, start_with: int | None, clients: int
) -> dict[str, Any]:
    """Return the keys of a run's configuration for its waiting times and its start."""
    if start_with is not None and start_with > clients:
        raise BadInput(f"--start-with {start_with}: the scenario has {clients} clients")
    return {
        "deadline": parse_duration(deadline, "--deadline"),
        "join_timeout": parse_duration(join_timeout, "--join-timeout"),
        "start_with": start_with or 0,
    }


def _adapting(
    adaptive: bool, every: int, plan: Path | None, target: Target | None
) -> dict[str, Any]:
    """Return the keys of a run's configuration for adapting the plan."""
    keys: dict[str, Any] = {"adaptive": adaptive, "every": every}
    if plan is None or not adaptive:
        return keys
    keys["plan"] = str(plan.absolute())  # the app reads it; its target is replaced by this one
    if target is not None:
        keys |= {
            "target_metric": f"{target.metric}={target.level!r}",
            "target_loss": 0.0,
            "target_accuracy": 0.0,
            "hold": target.hold,
        }
    return keys


def _places(folder: Path, data_dir: Path | None, pilot: Path | None, budget: str) -> dict[str, Any]:
    """Return the keys of a run's configuration for its files and its pilot."""
    parse_duration(budget, "--budget")
    return {
        "folder": str(folder),
        "data_dir": str(data_dir.absolute()) if data_dir else "",
        "pilot_file": str(pilot.absolute()) if pilot else "",
        "pilot_budget": budget,
    }


def _write_app(
    folder: Path, config: RunConfig, world: Scenario, note: Callable[[], object]
) -> None:
    """Write a Flower app for other machines."""
    work = folder.absolute()
    data_dir = Path(config.data_dir) if config.data_dir else None
    prepare_training(world, config.seed, data_dir)  # refuses data that cannot be dealt
    note()
    write_app(work, config.using(folder="run-flower", scenario=str(work / "scenario.json")))
    save_scenario(world, work / "scenario.json")
    screen.print(f"written to {folder}: pyproject.toml, scenario.json", soft_wrap=True)


def _run_federation(
    config: RunConfig,
    world: Scenario,
    simulation: bool,
    quiet: bool,
    note: Callable[[], object],
) -> None:
    """Run a federation on this machine; if it is interrupted, print how to resume it."""
    folder = Path(config.folder)
    work = folder.with_name(f"{folder.name}-federation")
    config = config.using(scenario=str(work / "scenario.json"))
    try:
        run_here(config, world, work, simulation, quiet=quiet, note=note)
    except KeyboardInterrupt:
        begun = not config.pilot_file and (folder / IDENTITY).exists()
        print_interrupted(folder if begun else None)
        raise


def _show_pilot(file: Path, as_json: bool) -> None:
    """Print the pilot that the devices have run."""
    pilot = load_pilot(file)
    if as_json:
        print_json(pilot.report.to_dict())
    else:
        print_result(screen, pilot)
        screen.print(f"written to {file}; fedcell plan --pilot takes it", soft_wrap=True)


def _show_run(folder: Path, name: str, as_json: bool) -> None:
    """Print and draw the run of a federation, and fail if its training diverged."""
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
