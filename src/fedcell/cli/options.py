"""Options and arguments of commands as annotated types; each shared one has one text."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcell.core.errors import BadInput
from fedcell.network.policies import names
from fedcell.scenario.load import SHIPPED
from fedcell.scenario.selection import BUILT_IN as BUILT_IN_SELECTORS
from fedcell.show.figures.style import FORMATS

MAX_ROUNDS = 10**6  # of one training
MAX_DRAWN_ROUNDS = 10**7
MAX_SEEDS = 10_000
BUILT_IN = ", ".join(names.BUILT_IN)
OWN_POLICY = f"{BUILT_IN}; or module:callable for your own."
SCENARIOS = f"Scenario file, or a shipped one: {', '.join(SHIPPED)}."
BY_PLAN = "With --plan it may be left out: the plan's own is used."


# How options are declared: a word stands for the value, and a flag has none.


def number(help_: str, *names: str, least: int = 1, most: int | None = None) -> Any:
    """Declare an option that takes a whole number."""
    return typer.Option(*names, metavar="N", min=least, max=most, help=help_)


def real(help_: str) -> Any:
    """Declare an option that takes a number."""
    return typer.Option(metavar="X", help=help_)


def duration(help_: str) -> Any:
    """Declare an option that takes a duration, such as 90s, 15min or 2h."""
    return typer.Option(metavar="TIME", help=help_)


def name_of(help_: str, *names: str) -> Any:
    """Declare an option that takes a name."""
    return typer.Option(*names, metavar="NAME", help=help_)


def file(help_: str, *names: str) -> Any:
    """Declare an option that takes the path of a file."""
    return typer.Option(*names, metavar="FILE", help=help_)


def folder_of(help_: str, *names: str) -> Any:
    """Declare an option that takes the path of a folder."""
    return typer.Option(*names, metavar="FOLDER", help=help_)


def out_file(help_: str) -> Any:
    """Declare `--out` of a command that writes a file."""
    return file(help_, "--out")


def out_folder(help_: str) -> Any:
    """Declare `--out` of a command that writes a folder."""
    return folder_of(help_, "--out")


def figure_of(what: str) -> Any:
    """Declare `--figure` of a command that can draw `what`."""
    return file(f"Draw {what} to this file ({', '.join(FORMATS)}).", "--figure")


def one_of(choices: Iterable[str], help_: str, *names: str) -> Any:
    """Declare an option that takes one of some words, which the command itself checks."""
    return typer.Option(*names, metavar="|".join(choices), help=help_)


# What is run.

ScenarioName = Annotated[str, typer.Argument(help=SCENARIOS)]
PlannedScenario = Annotated[str | None, typer.Argument(help=f"{SCENARIOS} {BY_PLAN}")]
PlanFile = Annotated[
    Path | None,
    file("Run a plan that fedcell plan --out wrote: its clients, steps and target."),
]
LearnerName = Annotated[
    str | None,
    name_of(
        "Learner of your own, module:callable: a function of a scenario and a seed. "
        "Default: the built-in one, as [learning] says.",
        "--learner",
    ),
]
DataDir = Annotated[
    Path | None,
    folder_of(
        "Where MNIST, Fashion-MNIST and CIFAR-10 are, or are downloaded to. Default: FEDCELL_DATA, "
        "else the user's cache folder."
    ),
]
Seed = Annotated[int, number("Random seed.", least=0)]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]


# Targets.

LossText = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|none",
        help="Training loss to reach; none: run all rounds. Default: learning.target.",
    ),
]
TargetLoss = Annotated[float | None, real("Training loss to reach. Default: learning.target.")]
NAMED_TARGET = (
    "Metric to reach: loss=0.5, accuracy=0.9, or a metric of your own learner, as mae=0.2."
)
NamedText = Annotated[
    str | None,
    typer.Option("--target", metavar="METRIC=NUMBER|none", help=NAMED_TARGET),
]
NamedTarget = Annotated[
    str | None, typer.Option("--target", metavar="METRIC=NUMBER", help=NAMED_TARGET)
]
ACCURACY = "Accuracy on test data to reach, as 0.9, instead of a loss."
AccuracyText = Annotated[str | None, typer.Option(metavar="NUMBER|none", help=ACCURACY)]
TargetAccuracy = Annotated[float | None, real(ACCURACY)]
Hold = Annotated[
    int | None,
    number(
        "Moving average over N rounds that must reach the target (1: first time). "
        "Default: learning.hold.",
        most=MAX_ROUNDS,
    ),
]


# Rounds, clients and steps.

TrainingRounds = Annotated[
    int | None,
    number(
        "Rounds after which training stops. Default: plan.rounds, or all measured rounds.",
        most=MAX_DRAWN_ROUNDS,
    ),
]
TrialRounds = Annotated[
    int | None,
    number(
        "Rounds after which a trial stops. Default: plan.rounds, at least 1000.",
        "--rounds",
        most=MAX_ROUNDS,
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


# Policies.

DeployedPolicy = Annotated[
    str | None,
    name_of(
        f"{BUILT_IN}. Default: the plan's, else distributed: each device sets its own frequency.",
        "--policy",
    ),
]


def policies_of(default: str) -> Any:
    """Declare `--policy` of a command that compares several."""
    words = "Repeat it to compare; the others are compared with the first."
    return name_of(f"{OWN_POLICY} {words} Default: {default}.", "--policy")


def policy_of(default: str) -> Any:
    """Declare `--policy` of a command that takes one, your own as well."""
    return name_of(f"{OWN_POLICY} Default: {default}.", "--policy")


# Selectors.

SELECTOR = (
    f"Who is called: {', '.join(BUILT_IN_SELECTORS)}, with parameters as in "
    "power-of-choice(candidates=20); or module:callable for your own."
)
Select = Annotated[str | None, name_of(f"{SELECTOR} Default: plan.selection.", "--select")]


# How it is computed.

StoreFolder = Annotated[
    Path, folder_of("Where finished trainings are kept, for all experiments.", "--store")
]
Workers = Annotated[
    int | None, number("Processes that train. Default: one for each processor.", most=4096)
]
Threads = Annotated[
    int | None, number("Threads of one training. Default: one for each processor.", most=1024)
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler, as tcp://host:8786."),
]
Retry = Annotated[bool, typer.Option("--retry", help="Repeat trainings that failed before.")]
RoundDeadline = Annotated[str, duration("How long a round waits for its devices, as 90s or 5min.")]


# What is shown.

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and no progress lines.")]
Details = Annotated[
    bool,
    typer.Option(
        "--details", help="Print also the law of rounds, theorems and unit costs of the paper."
    ),
]


def parse_range(text: str | None, option: str) -> tuple[int, int] | None:
    """Return the two ends of a range of whole numbers, as 3..20; one number is both ends."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,9})\s*(?:\.\.\s*(\d{1,9})\s*)?", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2] or match[1]):
        raise BadInput(f"{option} = {text}: expected a range of whole numbers from 1, as 3..20")
    return int(match[1]), int(match[2] or match[1])


def check_choice(option: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that is not among an option's choices."""
    if value not in choices:
        raise BadInput(f"{option} {value}: expected {' or '.join(choices)}")
