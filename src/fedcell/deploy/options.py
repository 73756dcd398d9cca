"""How a federation is run: how long to wait, under which policy, whom to tell."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec

from fedcell.core.errors import BadFile, BadInput, DataUnavailable
from fedcell.core.files.formats import read_tables, write_text
from fedcell.core.schema import (
    Count,
    Doc,
    NotNegative,
    Positive,
    Table,
    Whole,
    decode,
    documented,
    field_infos,
)
from fedcell.learning.learner import check_metrics
from fedcell.network.policies.names import PolicyLike, policy_name
from fedcell.network.round import Problem, Schedule
from fedcell.planning.adaptive.run import Adaptation
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.scenario.load import load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Direction, Target
from fedcell.simulation.folder.run_folder import IDENTITY

from .exchanges import Exchange
from .scores import RoundScores
from .screening import Screen

Evaluator = Literal["server", "devices"]
Config = Mapping[str, Any]  # what a message tells: plain values, numbers, texts, flags


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """A round as it is sent out, for a shaper of links or a base station."""

    round: int  # counted from 1
    clients: Sequence[int]
    schedule: Schedule
    problem: Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class FederationOptions:
    """How a federation is run.

    Parameters
    ----------
    deadline : float, optional
        Seconds after which a reply is late, and counts as a lost upload.
    policy : str or callable, optional
        Allocation policy of each round.
    arrays : mapping of str to array, optional
        First model by name, as a state_dict of NumPy arrays, for devices that run a ClientApp of
        your own. Default: the devices run the ready ClientApp, with the data and model of
        [learning].
    judged_by : {"server", "devices"}, optional
        Evaluate models on the server's copy of the data, or on all devices, each on its own samples
        (2). With `arrays`, always by the devices.
    metrics : mapping of str to {"higher", "lower"}, optional
        Metrics that devices report for a model by name beside losses and accuracy, and which values
        are better; they can be targets. For models that devices evaluate.
    join_timeout : float, optional
        Seconds in which all devices introduce themselves.
    start_with : int, optional
        Start with the devices that are there by then, if at least this many. The others count as
        absent in each round, and join when they come. Default: all.
    keys : str or Path, optional
        Table that binds the names of devices to their public keys.
    screen : {"none", "clip", "exclude"}, optional
        What is done with updates far outside the norm of the others.
    screen_factor : float, optional
        Far is this many times as long as the median update.
    strategy : flwr Strategy, optional
        Aggregates the uploads instead of fedcell.
    adaptation : Adaptation, optional
        Correct the devices by what is measured, and re-plan K and E_l during the run; `start` is a
        plan or a law.
    data_dir : str or Path, optional
        Folder of the published datasets on the server.
    schedule_file : str or Path, optional
        File that gets the shares and frequencies of each round.
    about : mapping, optional
        Values that are sent with every order.
    on_schedule, on_exchanges, on_scores : callable, optional
        Called with the schedule, the exchanges and the scores of each round.

    Examples
    --------
    >>> from fedcell.deploy import FederationOptions
    >>> FederationOptions(deadline=60.0, screen="clip").policy
    'distributed'
    """

    deadline: float = 300.0  # [s]
    policy: PolicyLike = "distributed"
    arrays: Mapping[str, Any] | None = None
    judged_by: Evaluator = "server"
    metrics: Mapping[str, Direction] = field(default_factory=dict)
    join_timeout: float = 120.0  # [s]
    start_with: int | None = None
    keys: str | Path | None = None
    screen: Screen = "none"
    screen_factor: float = 3.0
    strategy: Any = None
    adaptation: Adaptation | None = None
    data_dir: str | Path | None = None
    schedule_file: str | Path | None = None
    about: Config = field(default_factory=dict)
    on_schedule: Callable[[Scheduled], None] | None = None
    on_exchanges: Callable[[Sequence[Exchange]], None] | None = None
    on_scores: Callable[[Sequence[RoundScores]], None] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.deadline < inf:
            raise BadInput(f"`deadline` = {self.deadline}: expected seconds above 0")
        if self.judged_by not in get_args(Evaluator):
            raise BadInput(f"`judged_by` = {self.judged_by!r}: expected server or devices")
        check_metrics(self.metrics)
        if self.metrics and self.evaluator == "server":
            raise BadInput("`metrics`: devices report them: give `arrays`, or judged_by='devices'")
        if self.screen not in get_args(Screen):
            ways = ", ".join(get_args(Screen))
            raise BadInput(f"`screen` = {self.screen!r}: expected one of {ways}")
        if not 1 <= self.screen_factor < inf:
            raise BadInput(f"`screen_factor` = {self.screen_factor}: expected a number from 1")

    @property
    def data_path(self) -> Path | None:
        """The folder of the datasets as a path."""
        return None if self.data_dir is None else Path(self.data_dir)

    @property
    def evaluator(self) -> "Evaluator":
        """Which side evaluates models: the devices, where the model is one of your own."""
        return "devices" if self.arrays is not None else self.judged_by

    def chosen(self) -> dict[str, Any]:
        """The choices that the models, losses and ledgers of a run follow from."""
        return {
            "policy": policy_name(self.policy),
            "screen": self.screen,
            "screen_factor": None if self.screen == "none" else self.screen_factor,
            "judged_by": self.evaluator,
            **({"metrics": dict(self.metrics)} if self.metrics else {}),
        }


def check_chosen(folder: Path, chosen: Mapping[str, Any]) -> None:
    """Refuses to resume a run with other choices, which would mix two kinds of rounds."""
    if not (folder / IDENTITY).is_file():
        return  # there is no run to resume, which is said elsewhere
    before = read_tables(folder / IDENTITY).get("federation")
    if not isinstance(before, dict):
        raise BadFile(
            f"{folder}: does not say under which policy and screen devices ran it: choose another "
            "`folder`"
        )
    for name, value in chosen.items():
        if (then := before.get(name)) != value:
            raise BadFile(
                f"{folder}: was run with {name} = {then}, and is to be resumed with {name} = "
                f"{value}: keep {name} = {then}, or choose another `folder`"
            )


COMPONENTS = {
    "serverapp": "fedcell.deploy.serverapp:app",
    "clientapp": "fedcell.deploy.clientapp:app",
}
Seed = Annotated[int, msgspec.Meta(ge=0, description="a whole number from 0")]


@documented
class RunConfig(Table, frozen=True, kw_only=True):
    """The keys of `[tool.flwr.app.config]`, with a dash where these have an underscore."""

    table_name: ClassVar[str] = "run-config"

    scenario: Annotated[str, Doc("a scenario file, or a shipped one; empty: the plan's own")] = (
        "digits"
    )
    plan: Annotated[str, Doc("what `fedcell plan` wrote: its clients, steps and target")] = ""
    policy: Annotated[str, Doc("allocation policy of each round; empty: the plan's")] = ""
    seed: Annotated[Seed, Doc("random seed")] = 0
    rounds: Annotated[Whole, Doc("after which it ends; 0: as the scenario says")] = 0
    target_metric: Annotated[
        str, Doc("metric to stop at, as mae=0.2 or loss=0.5; empty: the scenario's")
    ] = ""
    target_loss: Annotated[NotNegative, Doc("training loss to stop at; 0: the scenario's")] = 0.0
    target_accuracy: Annotated[
        NotNegative, Doc("accuracy on test data to stop at, instead of a loss; 0: the scenario's")
    ] = 0.0
    hold: Annotated[
        Whole, Doc("rounds whose mean must be at the target; 0: as the scenario says")
    ] = 0
    folder: Annotated[str, Doc("of the run, on the server")] = "run-flower"
    resume: Annotated[bool, Doc("continue the run in the folder")] = False
    deadline: Annotated[Positive, Doc("after which a reply is late", unit="s")] = 300.0
    join_timeout: Annotated[
        Positive, Doc("in which all devices introduce themselves", unit="s")
    ] = 120.0
    start_with: Annotated[
        Whole,
        Doc("begin with the devices that are there then, if at least this many; 0: with all only"),
    ] = 0
    judged_by: Annotated[
        Literal["server", "devices"],
        Doc("who evaluates models: the server on its own data, or all devices on theirs"),
    ] = "server"
    adaptive: Annotated[
        bool, Doc("correct devices by measurements, and re-plan K and E_l during the run")
    ] = False
    every: Annotated[Count, Doc("with adaptive: rounds between two decisions")] = 5
    pilot_file: Annotated[
        str, Doc("gets a pilot that is run on the devices, instead of a run; empty: none")
    ] = ""
    pilot_budget: Annotated[str, Doc("how long a pilot may take")] = "10min"
    screen: Annotated[
        Literal["none", "clip", "exclude"],
        Doc("what is done with updates far outside the others' norm"),
    ] = "none"
    screen_factor: Annotated[
        Positive, Doc("far is this many times as long as the median update")
    ] = 3.0
    keys: Annotated[
        str, Doc("a table of names and public keys of the devices that may join; empty: none")
    ] = ""
    data_dir: Annotated[str, Doc("where the server finds published datasets")] = ""
    schedule_file: Annotated[
        str, Doc("gets the shares and frequencies of each round, for a base station or a shaper")
    ] = ""
    status_file: Annotated[str, Doc("gets how the run ended")] = ""

    @classmethod
    def of(cls, given: dict[str, Any]) -> "RunConfig":
        """Return the values of a Flower run's configuration; keys of other apps are ignored."""
        names = {info.name for info in field_infos(cls)}
        ours = {key.replace("-", "_"): value for key, value in given.items()}
        return decode(cls, {name: value for name, value in ours.items() if name in names})

    def using(self, **changes: Any) -> "RunConfig":
        """The same with other values."""
        return msgspec.structs.replace(self, **changes)

    def world(self) -> Scenario:
        """The scenario that is run, as it is planned."""
        planned = self._plan()
        if planned is None:
            return load_scenario(self.scenario)
        return planned.apply_to(load_scenario(self.scenario) if self.scenario else None)

    def differences(self, world: Scenario) -> list[str]:
        """In what the run is not the one that was planned, where there is a plan, as far as this
        machine has the data."""
        planned, learning = self._plan(), world.learning
        if planned is None or learning is None:
            return []
        target = self.target() or learning.goal
        data_dir = Path(self.data_dir) if self.data_dir else None
        try:
            return planned.differences(world, target, seed=self.seed, data_dir=data_dir)
        except DataUnavailable:  # the devices have it
            return []

    def target(self) -> Target | None:
        """What the run stops at, where the configuration says so; None: as the scenario says."""
        given = {
            "target-metric": self.target_metric and _named_target(self.target_metric),
            "target-loss": self.target_loss and Target(loss=self.target_loss),
            "target-accuracy": self.target_accuracy and Target(accuracy=self.target_accuracy),
        }
        named = {key: target for key, target in given.items() if isinstance(target, Target)}
        if len(named) > 1:
            raise BadInput(f"{' and '.join(named)}: give one of them")
        if not named and not self.hold:
            return None
        world = self.world()
        hold = self.hold or world.hold
        for target in named.values():
            return replace(target, hold=hold)
        own = world.goal()
        if own is None:
            raise BadInput("hold: there is no target to hold: give target-metric")
        return replace(own, hold=hold)

    def options(self) -> FederationOptions:
        """Return how the federation is run."""
        planned = self._plan()
        law = None if planned is None else planned.law
        return FederationOptions(
            deadline=self.deadline,
            policy=self.policy or (planned.policy if planned else "distributed"),
            judged_by=self.judged_by,
            join_timeout=self.join_timeout,
            start_with=self.start_with or None,
            keys=self.keys or None,
            screen=self.screen,
            screen_factor=self.screen_factor,
            adaptation=Adaptation(start=law, every=self.every) if self.adaptive else None,
            data_dir=self.data_dir or None,
            schedule_file=self.schedule_file or None,
        )

    def _plan(self) -> TrainingPlan | None:
        return TrainingPlan.load(Path(self.plan)) if self.plan else None


def _named_target(text: str) -> Target:
    """Return the target that METRIC=NUMBER names."""
    metric, _, number = text.partition("=")
    try:
        return Target(metric=metric.strip(), level=float(number))
    except ValueError as error:
        raise BadInput(f"target-metric = {text}: expected METRIC=NUMBER, as mae=0.2") from error


def app_files(values: RunConfig | None = None) -> dict[str, str]:
    """The files of a Flower app that runs ours, by name: for `flwr run FOLDER`."""
    values = RunConfig() if values is None else values
    lines = []
    for info in field_infos(RunConfig):
        value = getattr(values, info.name)
        lines.append(f"{info.name.replace('_', '-')} = {_toml(value)}")
    components = "\n".join(f'{name} = "{where}"' for name, where in COMPONENTS.items())
    text = f"""[project]
name = "fedcell-app"
version = "1.0.0"
description = "A fedcell plan on a Flower federation"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedcell"

[tool.flwr.app.components]
{components}

[tool.flwr.app.config]
{chr(10).join(lines)}
"""
    return {"pyproject.toml": text}


def write_app(folder: Path, values: RunConfig | None = None) -> None:
    """Writes a Flower app that runs ours into a folder, which must be new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadFile(f"{folder}: is there already: choose another folder for the app")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in app_files(values).items():
        write_text(folder / name, text)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # as JSON has it, which escapes all control characters but one
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
