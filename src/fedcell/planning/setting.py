"""A setting of K, E_l and gamma, and the region of settings that a search may use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedcell.core.errors import BadInput
from fedcell.core.schema import Count, Fraction
from fedcell.core.showing import given_fields
from fedcell.core.streams import check_count, replicate_seeds
from fedcell.network.physics.discrete.steps import loses_uploads
from fedcell.network.policies.names import PolicyLike
from fedcell.scenario.scenario import Scenario

Objective = Literal["cost", "duration", "energy"]
"""What a plan minimises: the cost (12), the simulated time, or the joules of all clients."""
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
MAX_STEPS = 10**5  # that a range of steps may begin at
MAX_SEEDS = 100


@dataclass(frozen=True, order=True)
class Setting:
    """What the rounds to a loss depend on, the rest of a scenario being given."""

    cohort: Count  # K
    local_steps: Count  # E_l
    loss_rate: Fraction  # gamma

    def apply_to(self, scenario: Scenario) -> Scenario:
        """The scenario with this setting."""
        world, table = scenario.with_plan(self.cohort, self.local_steps), scenario.clients.table
        if (table is not None and table.loss_rate is not None) or loses_uploads(scenario):
            return world  # clients have rates of their own, of which gamma is the mean
        return world.using(cell={"loss_rate": self.loss_rate})

    def no_harder_than(self, other: "Setting") -> bool:
        """Whether another is at least as hard to learn with: no more clients, no fewer steps."""
        return other.cohort <= self.cohort and other.local_steps >= self.local_steps

    def __str__(self) -> str:
        return in_words(self.cohort, self.local_steps)


@dataclass(frozen=True)
class Region:
    """Which settings a search may use, and what it looks for there.

    Parameters
    ----------
    clients : (int, int), optional
        Least and most clients a round, K; default: all that the scenario can call.
    steps : (int, int), optional
        Least and most local steps, E_l; default: as far as the search goes.
    rounds : int, optional
        Rounds after which a run ends at the latest; default: as the search has it.
    minimise : {"cost", "duration", "energy"}
        What the plan minimises: the cost (12), the time [s] or the energy [J].
    policy : str or Policy, optional
        Policy that schedules the rounds; default: the built-in one with the lowest `minimise`.
    other_loss_rate : bool
        Whether a plan may be made with a pilot that tried other shares of lost uploads. The rounds
        then follow from its law and not from runs, and the plan has a note that says so.

    Examples
    --------
    >>> Region(clients=(3, 20), minimise="energy").clients_up_to(12)
    (3, 12)
    """

    clients: tuple[int, int] | None = None
    steps: tuple[int, int] | None = None
    rounds: int | None = None
    minimise: Objective = "cost"
    policy: PolicyLike | None = None
    other_loss_rate: bool = False

    def __post_init__(self) -> None:
        if self.clients is not None:
            _check_pair(self.clients, "`clients`", "1")
        if self.steps is not None:
            check_range(self.steps, "`steps`", MAX_STEPS)
        if self.rounds is not None:
            check_count(self.rounds, "`rounds`")
        check_objective(self.minimise)

    def __repr__(self) -> str:
        return given_fields(self)

    def clients_up_to(self, most: int) -> tuple[int, int]:
        """Return the least and the most clients, at most as many as can be called."""
        return check_range(self.clients, "`clients`", most)

    def steps_up_to(self, most: int) -> tuple[int, int]:
        """Return the least and the most steps: up to `most` where none are given."""
        return (1, most) if self.steps is None else check_range(self.steps, "`steps`", MAX_STEPS)


def check_objective(minimise: Any) -> Objective:
    """Return what is minimised, or raise BadInput where there is no such objective."""
    if minimise not in OBJECTIVES:
        raise BadInput(f"`minimise` = {minimise}: expected one of {', '.join(OBJECTIVES)}")
    return minimise  # type: ignore[no-any-return]


def check_range(given: Any, name: str, most: int) -> tuple[int, int]:
    """Return the ends of a range of whole numbers from 1 to `most`; None: all of them."""
    if given is None:
        return 1, most
    low, high = _check_pair(given, name, f"1 to {most}")
    if low > most:
        raise _bad_range(given, name, f"1 to {most}")
    return low, min(high, most)


def _check_pair(given: Any, name: str, among: str) -> tuple[int, int]:
    """Return two whole numbers in order."""
    sound = isinstance(given, tuple) and len(given) == 2 and all(type(x) is int for x in given)
    if not sound or not 1 <= given[0] <= given[1]:
        raise _bad_range(given, name, among)
    return given[0], given[1]


def _bad_range(given: Any, name: str, among: str) -> BadInput:
    return BadInput(f"{name} = {given!r}: expected two whole numbers from {among}, as (3, 20)")


def in_words(cohort: int, local_steps: int) -> str:
    """K and E_l for people who know neither letter."""
    clients = "client" if cohort == 1 else "clients"
    steps = "step" if local_steps == 1 else "steps"
    return f"{cohort} {clients} a round, {local_steps} {steps} each"


def validation_settings(reached: Sequence[Setting], tried: Sequence[Setting]) -> list[Setting]:
    """Settings between those, in K and E_l, whose runs reached the target: those that the pilot has
    not tried or, where it has tried them all, the same ones, to be judged on other seeds."""
    levels = [sorted({getattr(s, name) for s in reached}) for name in ("cohort", "local_steps")]
    (few, many), (short, long) = (_halfway(each) for each in levels)
    gamma = reached[0].loss_rate
    corners = [(few, short), (many, long), (few, long), (many, short)]
    settings = [Setting(k, e, gamma) for k, e in corners]
    settings = list(dict.fromkeys(settings))
    return [setting for setting in settings if setting not in tried] or settings


def trial_seeds(seed: int, validation: bool = False) -> list[int]:
    """Seeds of the runs of a pilot, or of those that it is judged by. They follow from
    `seed` and never include it, so that a run with it stays new."""
    every = replicate_seeds(seed, 2 * MAX_SEEDS + 1)[1:]
    return every[MAX_SEEDS:] if validation else every[:MAX_SEEDS]


def _halfway(levels: list[int]) -> tuple[int, int]:
    low, middle, high = levels[0], levels[len(levels) // 2], levels[-1]
    return round(math.sqrt(low * middle)), round(math.sqrt(middle * high))
