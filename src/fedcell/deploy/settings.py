"""How a federation is run: how long to wait, under which policy, whom to tell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, get_args

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files import read_tables
from fedcell.network.policies.names import PolicyLike, policy_name
from fedcell.network.round import Problem, Schedule
from fedcell.simulation.folder import IDENTITY

from .exchange import Exchange
from .scores import RoundScores
from .screen import Screen

Config = Mapping[str, Any]  # what a message tells: plain values, numbers, texts, flags


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """A round as it is sent out, for whoever carries it out: a shaper of links, a base station."""

    round: int  # counted from 1
    clients: Sequence[int]
    schedule: Schedule
    problem: Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """How a federation is run."""

    deadline: float = 300.0  # [s] after which an answer is late
    policy: PolicyLike = "distributed"
    screen: Screen = "none"
    screen_factor: float = 3.0
    strategy: Any = None  # of Flower's, to average with instead of ours
    about: Config = field(default_factory=dict)  # what is sent along with every order
    on_schedule: Callable[[Scheduled], None] | None = None
    on_exchanges: Callable[[Sequence[Exchange]], None] | None = None
    on_scores: Callable[[Sequence[RoundScores]], None] | None = None  # where devices judge

    def __post_init__(self) -> None:
        if not 0 < self.deadline < inf:
            raise BadInput(f"`deadline` = {self.deadline}: expected seconds above 0")
        if self.screen not in get_args(Screen):
            ways = ", ".join(get_args(Screen))
            raise BadInput(f"`screen` = {self.screen!r}: expected one of {ways}")
        if not 1 <= self.screen_factor < inf:
            raise BadInput(f"`screen_factor` = {self.screen_factor}: expected a number from 1")

    def chosen(self, judged_by: str) -> dict[str, Any]:
        """The choices that the models, losses and ledgers of a run follow from."""
        return {
            "policy": policy_name(self.policy),
            "screen": self.screen,
            "screen_factor": None if self.screen == "none" else self.screen_factor,
            "judged_by": judged_by,
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
