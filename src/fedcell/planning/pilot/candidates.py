"""The settings that a pilot may try, and a cost-aware knowledge gradient that chooses among them.

The settings are a lattice of K and E_l. The next trial is where it is expected to improve the plan
most for the time that it takes: the knowledge gradient of the best cost, over the root of the
seconds. A trial ends early where it has cost twice what the best setting does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.network.participation import mean_loss_rate
from fedcell.planning.costs.rounds import best_policy, callable_clients, price_round_grid
from fedcell.planning.law.base import LossKind
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.law.observations import log_coordinates
from fedcell.planning.setting import Region, Setting
from fedcell.scenario.scenario import Scenario

COHORT_RATIO, STEPS_RATIO = 1.4, 1.5  # between neighbours of the lattice
MAX_STRIDE = 1.3  # distance of a new setting from those tried, over log K and log E_l
GIVE_UP_RATIO = 2.0  # times the best cost, at which a trial ends early
FIRST_CLIENTS, FIRST_STEPS = 20, 10  # of a first trial that is likely to reach the target
MAX_LATTICE_STEPS = 500  # of a client in a round, unless a region has others
MAX_TRIALS_OF_SETTING = 12  # more say little of other settings
SETTLING_SHARE = 0.25  # last part of a budget, in which only settings already tried are run


def lattice(low: int, high: int, ratio: float) -> Ints:
    """Return whole numbers from `low` to `high`, about a ratio apart."""
    values = [low]
    while values[-1] < high:
        values.append(min(high, max(values[-1] + 1, round(values[-1] * ratio))))
    return np.array(values)


@dataclass(frozen=True, eq=False)
class CandidateSettings:
    """The settings that may be planned, and what a round costs at each."""

    cohorts: Ints  # of each setting
    steps: Ints
    loss_rate: float
    kind: LossKind
    costs: Array  # of a round, of the objective
    own: tuple[int, int] | None = None  # K and E_l that the scenario itself has

    @cached_property
    def coordinates(self) -> Array:
        """Return log K_gamma and log E_l of each: (setting, 2)."""
        gammas = np.full(self.cohorts.size, self.loss_rate)
        return log_coordinates(self.cohorts, self.steps, gammas, self.kind)

    def setting(self, index: int) -> Setting:
        """Return the setting at an index."""
        return Setting(int(self.cohorts[index]), int(self.steps[index]), self.loss_rate)

    def index_of(self, setting: Setting) -> int | None:
        """Return the index of a setting; None if it is not among them."""
        if setting.loss_rate != self.loss_rate:
            return None
        here = (self.cohorts == setting.cohort) & (self.steps == setting.local_steps)
        return int(np.flatnonzero(here)[0]) if here.any() else None

    def with_settings(self, cohorts: Ints, steps: Ints) -> "CandidateSettings":
        """Return these and further settings, whose rounds are not priced."""
        unknown = np.full(cohorts.size, np.nan)
        return replace(
            self,
            cohorts=np.append(self.cohorts, cohorts),
            steps=np.append(self.steps, steps),
            costs=np.append(self.costs, unknown),
        )

    def first(self) -> list[Setting]:
        """Return two settings to begin with that are likely to reach the target at any cost: that
        of the scenario, and one with many clients. Their costs bound what is worth trying."""
        own = (FIRST_CLIENTS, FIRST_STEPS) if self.own is None else self.own
        many = max(FIRST_CLIENTS, 2 * own[0]), max(FIRST_STEPS, own[1])
        return list(dict.fromkeys(self.nearest(*index) for index in (own, many)))

    def nearest(self, cohort: float, steps: float) -> Setting:
        """Return the setting that is nearest to a K and an E_l."""
        away = np.hypot(np.log(self.cohorts / cohort), np.log(self.steps / steps))
        return self.setting(int(away.argmin()))

    def log_costs(self, law: FittedLaw) -> tuple[Array, Array]:
        """Return the logarithm of each setting's cost to the target, and its deviation."""
        mean, sd = law.log_rounds(self.cohorts, self.steps, self.loss_rate, self.kind)
        return mean + np.log(self.costs), sd

    def best(self, law: FittedLaw, reached: Sequence[Setting]) -> int | None:
        """Return the index of the cheapest of some settings; None where there are none."""
        indices = self.indices_of(reached)
        return int(indices[self.log_costs(law)[0][indices].argmin()]) if indices.size else None

    def indices_of(self, settings: Iterable[Setting]) -> Ints:
        """Return the indices of those of some settings that are among these."""
        return np.array([p for s in settings if (p := self.index_of(s)) is not None], int)

    def max_rounds(self, best_cost: float, hold: int) -> Array:
        """Return the rounds after which a trial of each setting is too dear to continue."""
        return np.maximum(float(hold), GIVE_UP_RATIO * best_cost / self.costs)

    def knowledge_gradient(
        self,
        law: FittedLaw,
        runs: Mapping[Setting, int],  # finished or in flight
        in_flight: Mapping[Setting, int],
        seconds: Array,  # that a trial is expected to take, at each setting
        left: float,  # of the budget [s]
        settle: bool = False,  # whether only settings already tried are considered
        barred: Sequence[Setting] = (),  # that cannot be planned
    ) -> tuple[Setting | None, float]:
        """Return the setting with the largest knowledge gradient over the root of its seconds, None
        where no trial ends in time; and the share of its cost that the plan is expected to gain."""
        from scipy.special import ndtr

        mean, sd = self.log_costs(law)
        indices = self.indices_of(s for s in runs if s not in barred)
        made, pending = np.zeros(len(mean)), np.zeros(len(mean))
        made[indices] = [runs[self.setting(p)] for p in indices]
        for setting, count in in_flight.items():
            if (index := self.index_of(setting)) is not None:
                pending[index] = count
        near = self.away(indices) <= (1e-9 if settle else MAX_STRIDE)
        possible = near & (seconds <= left) & np.isfinite(mean) & (made < MAX_TRIALS_OF_SETTING)
        possible[self.indices_of(barred)] = False
        known = mean[indices][np.isfinite(mean[indices])]
        if not possible.any() or not known.size:
            return None, 0.0
        # By how much one trial is expected to move the mean of its setting, those in flight done;
        # and how much better the best of all is then expected to be: the knowledge gradient.
        noise = law.residuals.scales.run
        sd = sd / np.sqrt(1 + pending * (sd / noise) ** 2)
        move = sd**2 / np.hypot(sd, noise)
        first, second = np.partition(known, 1)[:2] if known.size > 1 else (known[0], known[0] + 1)
        rival = np.where(mean == first, second, first)
        z = np.clip(-np.abs(rival - np.where(possible, mean, 0.0)) / move, -40.0, 0.0)
        gain = move * (z * ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi))
        best = int(np.where(possible, gain / np.sqrt(np.maximum(seconds, 1e-9)), -1).argmax())
        return self.setting(best), float(gain[best])

    def away(self, indices: Ints) -> Array:
        """Return the distance of each setting to the nearest of some, over log K and log E_l."""
        here = np.stack([np.log(self.cohorts), np.log(self.steps)], -1)
        if not indices.size:
            return np.zeros(len(here))
        away = np.linalg.norm(here[:, None] - here[None, indices], axis=-1)
        return np.asarray(away.min(1))


def search_space(
    scenario: Scenario,
    region: Region | None = None,
    seed: int = 0,
    also: tuple[int, int] | None = None,
) -> CandidateSettings:
    """Return the lattice of K and E_l within a region, and what a round costs at each setting.

    `also` is a K and an E_l that are among the settings even if they are not on the lattice.
    """
    region = Region() if region is None else region
    few, many = region.clients_up_to(callable_clients(scenario, seed))
    short, long = region.steps_up_to(MAX_LATTICE_STEPS)
    policy = region.policy
    if policy is None:
        policy = best_policy(scenario, region.minimise, seed)
    levels = lattice(few, many, COHORT_RATIO), lattice(short, long, STEPS_RATIO)
    k, e = (level.ravel() for level in np.meshgrid(*levels, indexing="ij"))
    if also is not None and not ((k == also[0]) & (e == also[1])).any():
        k, e, long = np.append(k, also[0]), np.append(e, also[1]), max(long, also[1])
    priced = price_round_grid(scenario, policy, long, seed)
    costs = np.asarray(getattr(priced, region.minimise)(k, e), float)
    own = scenario.plan.cohort, max(1, round(scenario.mean_local_steps))
    return CandidateSettings(k, e, mean_loss_rate(scenario), scenario.cell.loss_kind, costs, own)
