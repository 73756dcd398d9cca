"""Which settings a pilot runs, and which judge it afterwards."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedcell.core.streams import replicate_seeds
from fedcell.scenario.scenario import Scenario

MOST_SEEDS = 100


@dataclass(frozen=True, order=True)
class Setting:
    """What the rounds to a loss depend on, the rest of a scenario being given."""

    cohort: int  # K
    local_steps: int  # E_l
    loss_rate: float  # gamma

    def apply_to(self, scenario: Scenario) -> Scenario:
        """The scenario with this setting."""
        world, table = scenario.with_plan(self.cohort, self.local_steps), scenario.clients.table
        if table is not None and table.loss_rate is not None:
            return world  # its clients have rates of their own, of which gamma is the mean
        return world.using(cell={"loss_rate": self.loss_rate})

    def no_harder_than(self, other: "Setting") -> bool:
        """Whether another is at least as hard to learn with: no more clients, no fewer steps."""
        return other.cohort <= self.cohort and other.local_steps >= self.local_steps

    def __str__(self) -> str:
        return in_words(self.cohort, self.local_steps)


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
    every = replicate_seeds(seed, 2 * MOST_SEEDS + 1)[1:]
    return every[MOST_SEEDS:] if validation else every[:MOST_SEEDS]


def _halfway(levels: list[int]) -> tuple[int, int]:
    low, middle, high = levels[0], levels[len(levels) // 2], levels[-1]
    return round(math.sqrt(low * middle)), round(math.sqrt(middle * high))
