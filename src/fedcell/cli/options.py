"""Options that several commands share, each with one text, and what they mean together."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.learning.engines.engine import available_threads
from fedcell.network.policies.names import NAMED
from fedcell.planning.adaptive.controller import EVERY
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

from .progress import progress_bars

TargetLoss = Annotated[
    float | None, typer.Option(help="Training loss to reach. Default: learning.target.")
]
LossOrNone = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|none",
        help="Training loss to reach; none: run on. Default: learning.target.",
    ),
]
TargetAccuracy = Annotated[
    float | None, typer.Option(help="Accuracy on test data to reach, instead of a loss.")
]
AccuracyOrNone = Annotated[
    str | None,
    typer.Option(metavar="NUMBER|none", help="Accuracy on test data to reach, instead of a loss."),
]
Hold = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10**6,
        help="Rounds whose mean is to be at the target; 1: first passage. Default: learning.hold.",
    ),
]


def target_of(
    scenario: Scenario,
    loss: float | None,
    accuracy: float | None,
    hold: int | None,
    own: Target | None = None,
) -> Target | None:
    """What is to be reached: what the options say, else one's own, else the scenario's."""
    if loss is not None and accuracy is not None:
        raise BadInput("--target-loss and --target-accuracy: give one of them")
    own = scenario.goal() if own is None else own
    usual = own.hold if own else scenario.hold
    if loss is not None or accuracy is not None:
        return Target(loss=loss, accuracy=accuracy, hold=hold or usual)
    if own is None and hold is not None:
        raise BadInput("--hold: there is nothing to hold: give a `target`")
    return own if own is None or hold is None else replace(own, hold=hold)


def goal_of(
    world: Scenario,
    loss: str | None,
    accuracy: str | None,
    hold: int | None,
    own: Target | None = None,
) -> tuple[Scenario, Target | None]:
    """What is to be reached, and the scenario, without a target of its own where that is none."""
    if "none" in (loss, accuracy):
        own = None
        if world.learning is not None:
            world = world.using(learning=goal_keys(None))
    numbers = _number(loss, "--target-loss"), _number(accuracy, "--target-accuracy")
    return world, target_of(world, numbers[0], numbers[1], hold, own)


def _number(text: str | None, option: str) -> float | None:
    if text is None or text == "none":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(f"{option} = {text}: expected a number, or none") from error


LearnerName = Annotated[
    str | None,
    typer.Option(
        "--learner",
        help="A learner of your own, module:callable: a function of a scenario and a seed. "
        "Default: ours, as [learning] says.",
    ),
]


def check_own_code(planned: TrainingPlan | None, file: Path | None, learner: str | None) -> None:
    """Asks for the learner of a plan again, if it is not one of ours: a file never names code."""
    if planned and planned.server:
        raise BadInput(
            f"{file}: was planned with a server of your own, {planned.server}: run it from Python"
        )
    if planned and planned.learner and learner is None:
        raise BadInput(
            f"{file}: was planned for the learner {planned.learner}: give --learner "
            f"{planned.learner} if you trust it"
        )


PlannedScenario = Annotated[
    str | None,
    typer.Argument(
        help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}. With --plan it may be "
        "left out: the plan's own."
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(help="Run what fedcell plan --out wrote: its clients, steps and target."),
]


def planned_world(
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


def note_differences(
    planned: TrainingPlan | None,
    world: Scenario,
    target: Target | None,
    learner: str | None,
    seed: int,
    data_dir: Path | None,
    quiet: bool = False,
) -> list[str]:
    """In what a run is not the one that was planned; a note says it before the run begins."""
    if planned is None:
        return []
    with progress_bars() as progress:
        changed = planned.differences(
            world, target, learner, seed=seed, data_dir=data_dir, report=progress.download
        )
    if changed and not quiet:
        note = f"this is not what was planned ({', '.join(changed)}): predictions are not compared"
        warnings.warn(note, FedcellWarning, stacklevel=2)
    return changed


def own_policy(planned: TrainingPlan, file: Path | None) -> str:
    """The policy of a plan, if it is one of ours: a file never names code to run."""
    if planned.policy not in NAMED:
        raise BadInput(
            f"{file}: was planned for the policy {planned.policy}, which is not one of ours: give "
            f"--policy {planned.policy} if you trust it"
        )
    return planned.policy


Adaptive = Annotated[
    bool,
    typer.Option(
        "--adaptive",
        help="Plan anew on the way: the losses so far say which clients and steps make the rest of "
        "the cost least. Begins with --plan, with the plan of a --pilot, or with the scenario's "
        "own clients and steps.",
    ),
]
PilotFile = Annotated[
    Path | None,
    typer.Option(help="With --adaptive: what fedcell pilot found out about the rounds."),
]
Every = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10**6,
        help=f"With --adaptive: rounds from one look to the next. Default: {EVERY}.",
    ),
]
Minimise = Annotated[
    Literal["cost", "duration", "energy"] | None,
    typer.Option(
        help="With --adaptive: what is to be least, time and energy together (the cost), time, or "
        "energy. Default: what the plan has, else the cost."
    ),
]


def adaptive_options(
    asked: bool,
    seeds: int | None,
    plan: TrainingPlan | None,
    target: Target | None,
    pilot: Path | None,
    every: int | None,
    minimise: Literal["cost", "duration", "energy"] | None,
    clients: str | None,
    steps: str | None,
) -> dict[str, Any] | None:
    """What `run_adaptive` is asked for; None where a plan is to stay as it is."""
    given = {
        "--pilot": pilot,
        "--every": every,
        "--minimise": minimise,
        "--clients": clients,
        "--steps": steps,
    }
    if not asked:
        if named := [name for name, value in given.items() if value is not None]:
            raise BadInput(f"{', '.join(named)}: for a plan that adapts: give --adaptive as well")
        return None
    if seeds is not None:
        raise BadInput("--adaptive and --seeds: a run that adapts has one seed: give --seed")
    if plan is not None and pilot is not None:
        raise BadInput("--plan and --pilot: give one of them, or none")
    if target is None:
        raise BadInput(
            "--adaptive: a plan is one to a target: give --target-loss, --target-accuracy or "
            "learning.target"
        )
    return {
        "pilot": pilot,
        "plan": plan,
        "every": every or EVERY,
        "minimise": minimise,
        "clients": parse_range(clients, "--clients"),
        "steps": parse_range(steps, "--steps"),
    }


PAYS = 10.0  # [s] of budget from which processes are started


def worker_count(workers: int | None, threads: int | None, budget: float) -> int | None:
    """A process for each processor; one run at a time where threads are given, or where processes
    would take a good part of the budget to start."""
    if workers is None and threads is None and budget >= PAYS:
        return available_threads()
    return workers


ScenarioName = Annotated[
    str, typer.Argument(help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}.")
]
PolicyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"{', '.join(NAMED)}; or module:callable for your own. Repeat it to compare; "
        "the first is what the others are compared with. Default: all of ours.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Details = Annotated[
    bool,
    typer.Option(
        "--details", help="Say more, in the paper's words: law of rounds, theorems, unit costs."
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        min=1, max=10**7, help="Rounds to draw. Default: plan.rounds, or all that are measured."
    ),
]
Fleets = Annotated[
    int,
    typer.Option(
        min=1,
        max=10**4,
        help="Fleets to draw: with several, intervals are over fleets instead of rounds.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The dice: same seed, same rounds.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where MNIST, Fashion-MNIST and CIFAR-10 lie or go to. "
        "Default: FEDCELL_DATA, else your cache directory."
    ),
]
MostRounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", min=1, max=10**6, help="Rounds after which a run ends. Default: plan.rounds."
    ),
]
Clients = Annotated[
    str | None,
    typer.Option(
        metavar="N..N", help="Clients a round that may be planned, as 3..20. Default: any."
    ),
]
Steps = Annotated[
    str | None,
    typer.Option(metavar="N..N", help="Local steps that may be planned, as 5..80. Default: any."),
]
StoreFolder = Annotated[
    Path, typer.Option("--store", help="Where trainings are kept, for all experiments.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Processes. Default: all processors.")
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Default: all processors.")]


def parse_range(text: str | None, option: str) -> tuple[int, int] | None:
    """Two whole numbers, as 3..20; one is both ends."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,9})\s*(?:\.\.\s*(\d{1,9})\s*)?", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2] or found[1]):
        raise BadInput(f"{option} = {text}: expected a range of whole numbers from 1, as 3..20")
    return int(found[1]), int(found[2] or found[1])
