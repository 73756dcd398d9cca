"""Which settings a pilot runs, and which judge it afterwards."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedcell.core.dice import replicate_seeds
from fedcell.network.draw import draw_fleet, has_enough_data
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
        lossy = scenario.using(cell={"loss_rate": self.loss_rate})
        return lossy.with_plan(self.cohort, self.local_steps)

    def __str__(self) -> str:
        return f"K = {self.cohort}, E_l = {self.local_steps}, gamma = {self.loss_rate:g}"


def pilot_settings(scenario: Scenario, seed: int = 0) -> list[Setting]:
    """The settings of a pilot: four corners and the middle in K and E_l around the scenario's
    plan, and one with another loss rate.

    The corners tell K's term from E_l's two; the middle, which comes first, tells E_l's two
    from a constant; the last shows whether gamma acts through K (1 - gamma) alone.
    """
    count = int(has_enough_data(scenario, draw_fleet(scenario, seed)).sum())
    planned, steps = scenario.plan.cohort, scenario.mean_local_steps
    high = min(max(1, count), 4 * planned)
    low = max(1, high // 12)
    cohorts = low, _between(low, planned, high), high
    few = max(1, round(steps / 4))
    lengths = few, _between(few, steps, max(4 * few, 4 * steps)), max(4 * few, 4 * steps)
    gamma = scenario.cell.loss_rate
    places = [(1, 1), (0, 2), (2, 0), (2, 2), (0, 0)]
    settings = [Setting(cohorts[i], lengths[j], gamma) for i, j in places]
    settings.append(Setting(cohorts[0], lengths[1], other_loss_rate(gamma)))
    return list(dict.fromkeys(settings))


def validation_settings(tried: Sequence[Setting]) -> list[Setting]:
    """Settings that a pilot which tried these has not seen: between its own in K and E_l, with
    its loss rate and with another; and one with twice as many local steps as it tried."""
    cohorts = sorted({s.cohort for s in tried})
    steps = sorted({s.local_steps for s in tried})
    gamma = tried[0].loss_rate
    few, many = _halfway(cohorts)
    short, long = _halfway(steps)
    other = other_loss_rate(gamma)
    settings = [
        Setting(few, short, gamma),
        Setting(many, long, gamma),
        Setting(few, long, other),
        Setting(many, short, other),
        Setting(many, 2 * steps[-1], gamma),
    ]
    return [setting for setting in dict.fromkeys(settings) if setting not in tried]


def other_loss_rate(gamma: float) -> float:
    """A loss rate that differs enough to show what losses do."""
    return 0.4 if gamma < 0.2 else 0.0


def trial_seeds(seed: int, validation: bool = False) -> list[int]:
    """Seeds of the runs of a pilot, or of those that it is judged by. They follow from
    `seed` and never include it, so that a run with it stays new."""
    every = replicate_seeds(seed, 2 * MOST_SEEDS + 1)[1:]
    return every[MOST_SEEDS:] if validation else every[:MOST_SEEDS]


def _between(low: int, wanted: int, high: int) -> int:
    return wanted if low < wanted < high else max(low, round(math.sqrt(low * high)))


def _halfway(levels: list[int]) -> tuple[int, int]:
    low, middle, high = levels[0], levels[len(levels) // 2], levels[-1]
    return round(math.sqrt(low * middle)), round(math.sqrt(middle * high))
