"""What a Flower run of ours is told: the keys of its configuration, which are plain values."""

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from fedcell.core.errors import BadFile
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
from fedcell.planning.plan import TrainingPlan
from fedcell.planning.rounds_law import RoundsLaw
from fedcell.scenario.load import load_scenario
from fedcell.scenario.scenario import Scenario

from .settings import Settings

COMPONENTS = {
    "serverapp": "fedcell.deploy.serverapp:app",
    "clientapp": "fedcell.deploy.clientapp:app",
}
Dice = Annotated[int, msgspec.Meta(ge=0, description="a whole number from 0")]


@documented
class RunConfig(Table, frozen=True, kw_only=True):
    """The keys of `[tool.flwr.app.config]`, with a dash where these have an underscore."""

    table_name: ClassVar[str] = "run-config"

    scenario: Annotated[str, Doc("a scenario file, or a shipped one; empty: the plan's own")] = (
        "digits"
    )
    plan: Annotated[str, Doc("what `fedcell plan` wrote: its clients, steps and target")] = ""
    policy: Annotated[str, Doc("who gets which share and frequency; empty: the plan's own")] = ""
    seed: Annotated[Dice, Doc("the dice")] = 0
    rounds: Annotated[Whole, Doc("after which it ends; 0: as the scenario says")] = 0
    target_loss: Annotated[NotNegative, Doc("training loss to stop at; 0: the scenario's")] = 0.0
    folder: Annotated[str, Doc("of the run, on the server")] = "run-flower"
    resume: Annotated[bool, Doc("go on with the run in the folder")] = False
    deadline: Annotated[Positive, Doc("after which an answer is late", unit="s")] = 300.0
    join_timeout: Annotated[
        Positive, Doc("in which all devices introduce themselves", unit="s")
    ] = 120.0
    judged_by: Annotated[
        Literal["server", "devices"],
        Doc("who evaluates models: the server on its own data, or all devices on theirs"),
    ] = "server"
    adaptive: Annotated[
        bool, Doc("correct devices by what is measured, and plan K and E_l anew under way")
    ] = False
    every: Annotated[Count, Doc("with adaptive: rounds between two looks")] = 5
    pilot_file: Annotated[
        str, Doc("gets a pilot that is run on the devices, instead of a run; empty: none")
    ] = ""
    pilot_budget: Annotated[str, Doc("how long a pilot may take")] = "10min"
    screen: Annotated[
        Literal["none", "clip", "exclude"],
        Doc("what is done with updates far outside the others' norm"),
    ] = "none"
    screen_factor: Annotated[Positive, Doc("far is so many times as long as the median update")] = (
        3.0
    )
    data_dir: Annotated[str, Doc("where the server finds published datasets")] = ""
    schedule_file: Annotated[
        str, Doc("gets the shares and frequencies of each round, for whoever gives out the band")
    ] = ""
    status_file: Annotated[str, Doc("gets how the run ended")] = ""

    @classmethod
    def of(cls, given: dict[str, Any]) -> "RunConfig":
        """From the configuration of a run; keys that are not ours are somebody else's."""
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

    def shared(self) -> dict[str, Any]:
        """What runs and pilots are told alike."""
        return {
            "rounds": self.rounds or None,
            "target": self.target_loss or None,
            "seed": self.seed,
            "settings": self.settings(),
            "join_timeout": self.join_timeout,
            "judged_by": self.judged_by,
            "data_dir": Path(self.data_dir) if self.data_dir else None,
        }

    def settings(self) -> Settings:
        """How the federation is run."""
        planned = self._plan()
        return Settings(
            deadline=self.deadline,
            policy=self.policy or (planned.policy if planned else "distributed"),
            screen=self.screen,
            screen_factor=self.screen_factor,
        )

    def law(self) -> RoundsLaw | None:
        """What the plan expects of rounds, where there is one."""
        planned = self._plan()
        return None if planned is None else planned.law

    def _plan(self) -> TrainingPlan | None:
        return TrainingPlan.load(Path(self.plan)) if self.plan else None


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
        (folder / name).write_text(text, "utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # as JSON has it, which escapes all control characters but one
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
