"""Where a pilot looks next: at settings that may cost least, given what its runs say so far.

A lattice of K and E_l is searched. Every run is asked for where it is most likely to improve the
plan for the time that it takes: the expected improvement of the best cost, over the root of the
seconds. A run is given up where it has cost twice what the best setting does.
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
from fedcell.planning.law.observations import places_of
from fedcell.planning.setting import Region, Setting
from fedcell.scenario.scenario import Scenario

COHORT_RATIO, STEPS_RATIO = 1.4, 1.5  # between neighbours of the lattice
FAR = 1.3  # how far from what was tried a setting may be, in parts of e
WORSE = 2.0  # times the best cost, at which a run is given up
MANY_CLIENTS, SOME_STEPS = 20, 10  # of a first run that is likely to reach the target
MOST_STEPS = 500  # of a client in a round, where nobody says how many
MANY = 12  # runs of a setting: more say little of others
REST = 0.25  # last part of a budget, in which only settings that were tried are run again


def lattice(low: int, high: int, ratio: float) -> Ints:
    """Whole numbers from `low` to `high`, about a ratio apart."""
    values = [low]
    while values[-1] < high:
        values.append(min(high, max(values[-1] + 1, round(values[-1] * ratio))))
    return np.array(values)


@dataclass(frozen=True, eq=False)
class Search:
    """The settings that may be planned, and what a round costs at each."""

    cohorts: Ints  # of each setting
    steps: Ints
    loss_rate: float
    kind: LossKind
    costs: Array  # of a round, of what is to be least
    own: tuple[int, int] | None = None  # K and E_l that the scenario itself has

    @cached_property
    def places(self) -> Array:
        """log K_gamma and log E_l of each: (setting, 2)."""
        gammas = np.full(self.cohorts.size, self.loss_rate)
        return places_of(self.cohorts, self.steps, gammas, self.kind)

    def setting(self, place: int) -> Setting:
        """The setting at a place."""
        return Setting(int(self.cohorts[place]), int(self.steps[place]), self.loss_rate)

    def place(self, setting: Setting) -> int | None:
        """Where a setting is; None if it is not among them."""
        if setting.loss_rate != self.loss_rate:
            return None
        here = (self.cohorts == setting.cohort) & (self.steps == setting.local_steps)
        return int(np.flatnonzero(here)[0]) if here.any() else None

    def with_settings(self, cohorts: Ints, steps: Ints) -> "Search":
        """With further settings behind, whose rounds nobody has priced."""
        unknown = np.full(cohorts.size, np.nan)
        return replace(
            self,
            cohorts=np.append(self.cohorts, cohorts),
            steps=np.append(self.steps, steps),
            costs=np.append(self.costs, unknown),
        )

    def first(self) -> list[Setting]:
        """Two settings to begin with that are likely to reach the target whatever they cost: the
        scenario's own, and one with many clients. What they cost bounds what is worth trying."""
        own = (MANY_CLIENTS, SOME_STEPS) if self.own is None else self.own
        many = max(MANY_CLIENTS, 2 * own[0]), max(SOME_STEPS, own[1])
        return list(dict.fromkeys(self.nearest(*place) for place in (own, many)))

    def nearest(self, cohort: float, steps: float) -> Setting:
        """The setting that is nearest to a K and an E_l."""
        away = np.hypot(np.log(self.cohorts / cohort), np.log(self.steps / steps))
        return self.setting(int(away.argmin()))

    def log_costs(self, law: FittedLaw) -> tuple[Array, Array]:
        """The logarithm of what each setting costs to the target, and its standard deviation."""
        mean, sd = law.log_rounds(self.cohorts, self.steps, self.loss_rate, self.kind)
        return mean + np.log(self.costs), sd

    def best(self, law: FittedLaw, reached: Sequence[Setting]) -> int | None:
        """The place of the setting that costs least of some; None where there are none."""
        places = self.places_of(reached)
        return int(places[self.log_costs(law)[0][places].argmin()]) if places.size else None

    def places_of(self, settings: Iterable[Setting]) -> Ints:
        return np.array([p for s in settings if (p := self.place(s)) is not None], int)

    def most_rounds(self, best_cost: float, hold: int) -> Array:
        """Rounds after which a run of each setting costs so much that it is out of the question."""
        return np.maximum(float(hold), WORSE * best_cost / self.costs)

    def next(
        self,
        law: FittedLaw,
        runs: Mapping[Setting, int],  # that there are, or are under way
        under_way: Mapping[Setting, int],
        seconds: Array,  # that a run is expected to take, at each setting
        left: float,  # of the budget [s]
        settle: bool = False,  # whether only settings that were tried are looked at
        barred: Sequence[Setting] = (),  # that cannot be planned
    ) -> tuple[Setting | None, float]:
        """The setting that a run is most worth at, None where none can be run in time; and by which
        part of its cost it is expected to make the plan better."""
        from scipy.special import ndtr

        mean, sd = self.log_costs(law)
        places = self.places_of(s for s in runs if s not in barred)
        made, pending = np.zeros(len(mean)), np.zeros(len(mean))
        made[places] = [runs[self.setting(p)] for p in places]
        for setting, count in under_way.items():
            if (place := self.place(setting)) is not None:
                pending[place] = count
        near = self.away(places) <= (1e-9 if settle else FAR)
        possible = near & (seconds <= left) & np.isfinite(mean) & (made < MANY)
        possible[self.places_of(barred)] = False
        known = mean[places][np.isfinite(mean[places])]
        if not possible.any() or not known.size:
            return None, 0.0
        # By how much one run is expected to move what is known of its setting, those under way
        # done; and how much better the best of all is then expected to be: a knowledge gradient.
        noise = law.departures.scales.run
        sd = sd / np.sqrt(1 + pending * (sd / noise) ** 2)
        move = sd**2 / np.hypot(sd, noise)
        first, second = np.partition(known, 1)[:2] if known.size > 1 else (known[0], known[0] + 1)
        rival = np.where(mean == first, second, first)
        z = np.clip(-np.abs(rival - np.where(possible, mean, 0.0)) / move, -40.0, 0.0)
        gain = move * (z * ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi))
        best = int(np.where(possible, gain / np.sqrt(np.maximum(seconds, 1e-9)), -1).argmax())
        return self.setting(best), float(gain[best])

    def away(self, places: Ints) -> Array:
        """How far each setting is from the nearest of some, in parts of e."""
        here = np.stack([np.log(self.cohorts), np.log(self.steps)], -1)
        if not places.size:
            return np.zeros(len(here))
        away = np.linalg.norm(here[:, None] - here[None, places], axis=-1)
        return np.asarray(away.min(1))


def search_space(
    scenario: Scenario,
    region: Region | None = None,
    seed: int = 0,
    also: tuple[int, int] | None = None,
) -> Search:
    """Return the lattice of K and E_l within a region, and what a round costs at each setting.

    `also` is a K and an E_l that are among the settings even if they are not on the lattice.
    """
    region = Region() if region is None else region
    few, many = region.clients_up_to(callable_clients(scenario, seed))
    short, long = region.steps_up_to(MOST_STEPS)
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
    return Search(k, e, mean_loss_rate(scenario), scenario.cell.loss_kind, costs, own)
