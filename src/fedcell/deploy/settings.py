"""How a federation is run: how long to wait, under which policy, whom to tell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, get_args

from fedcell.core.errors import BadInput
from fedcell.network.policies.names import PolicyLike
from fedcell.network.round import Problem, Schedule

from .exchange import Exchange
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

    def __post_init__(self) -> None:
        if not 0 < self.deadline < inf:
            raise BadInput(f"`deadline` = {self.deadline}: expected seconds above 0")
        if self.screen not in get_args(Screen):
            ways = ", ".join(get_args(Screen))
            raise BadInput(f"`screen` = {self.screen!r}: expected one of {ways}")
        if not 1 <= self.screen_factor < inf:
            raise BadInput(f"`screen_factor` = {self.screen_factor}: expected a number from 1")
