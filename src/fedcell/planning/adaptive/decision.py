"""What the rest of a run would take with other settings, and whether a change is worth it."""

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.planning.pilot.candidates import Search

from .posterior import Standing

NEAR = 3.0  # times by which K and E_l may change at once
WORTH = 0.1  # of the rest: what a change is to save at the least
CLEAR = 0.5  # standard deviations of a saving by which it is to be above that
LEAST_SD = 0.1  # of the logarithm of a forecast cost: runs of one setting differ by as much


@dataclass(frozen=True)
class Rest:
    """What the rest of a run is expected to take with some settings: (setting,) each."""

    places: Ints
    rounds: Array  # geometric means
    costs: Array
    more: Array  # mean logarithm of the cost over that with the present setting
    sd: Array  # of that logarithm; 0 at the present setting
    cost_sd: Array  # of the logarithm of the cost itself

    def at(self, place: int) -> int:
        """Return the index of a place."""
        return int(np.flatnonzero(self.places == place)[0])


@dataclass(frozen=True)
class Change:
    """Another setting for the rest of a run."""

    place: int
    rounds_before: float  # that were expected with the setting so far,
    rounds: float  # and are with the new one
    saved: float  # share of the rest of what is to be least
    cost: float  # of the rest with the new setting
    cost_sd: float  # of its logarithm
    stay_cost: float  # of the rest with the setting of the start


def rest_of(
    standing: Standing, settings: Search, now: int, every: int, hold: int, start: int
) -> Rest:
    """Return what the rest would take with each setting that the run may change to: those near the
    present one, and that of the start."""
    allowed = near(settings, now) & ~standing.never
    allowed[[now, start]] = True
    some = np.flatnonzero(allowed)
    here = int(np.searchsorted(some, now))
    rounds, costs = np.log(
        np.stack(
            [rest_with(standing, settings, place, now, every, hold) for place in some.tolist()], -1
        )
    )  # each (draw, setting)
    more, doubt = costs - costs[:, [here]], standing.doubt[some]
    return Rest(
        places=some,
        rounds=np.exp(rounds.mean(0)),
        costs=np.exp(costs.mean(0)),
        more=more.mean(0),
        sd=np.where(some == now, 0.0, np.hypot(more.std(0), doubt)),
        cost_sd=np.sqrt(costs.var(0) + doubt**2 + LEAST_SD**2),
    )


def choose_change(
    rest: Rest, now: int, start: int, every: int, reluctance: float = 1.0
) -> Change | None:
    """Return the setting for the rest of a run; None where none is clearly better.

    The saving is to be above WORTH by CLEAR standard deviations, so that a setting of which little
    is known is left alone; `reluctance` multiplies both after forecasts that failed. Going back to
    the setting of the start is what was asked for, and needs the expected saving only. A run that
    is expected to end before the next look, after `every` rounds, is not changed.
    """
    if rest.rounds[rest.at(now)] < every:
        return None
    sure = -rest.more - reluctance * CLEAR * rest.sd
    sure[rest.places == start] = -rest.more[rest.places == start]
    best = int(sure.argmax())
    if rest.places[best] == now or not sure[best] > reluctance * WORTH:
        return None
    return change_to(rest, int(rest.places[best]), now, start)


def change_to(rest: Rest, place: int, now: int, start: int) -> Change:
    """Return the change to a place."""
    there = rest.at(place)
    return Change(
        place=place,
        rounds_before=float(rest.rounds[rest.at(now)]),
        rounds=float(rest.rounds[there]),
        saved=float(-np.expm1(rest.more[there])),
        cost=float(rest.costs[there]),
        cost_sd=float(rest.cost_sd[there]),
        stay_cost=float(rest.costs[rest.at(start)]),
    )


def rest_with(
    standing: Standing, settings: Search, place: int, now: int, every: int, hold: int
) -> tuple[Array, Array]:
    """Rounds and cost of the rest with a setting: to the end, or until another one near it, as one
    with more clients, finishes the run between two looks, or in as many rounds as the target is to
    hold. (draw,) each."""
    speed, costs, finish = standing.speed, settings.costs, max(hold, every)
    left = standing.end + standing.shift - standing.stage
    rounds = np.maximum(left[:, place] / speed[:, place], 1 if place == now else hold)
    cost = rounds * costs[place]
    for other in np.flatnonzero(near(settings, place) & ~standing.never).tolist():
        before = (left[:, other] - finish * speed[:, other]) / speed[:, place]
        before = np.maximum(before, every)  # the next look
        total = before * costs[place] + finish * costs[other]
        rounds = np.where(total < cost, before + finish, rounds)
        cost = np.minimum(total, cost)
    return rounds, cost


def near(settings: Search, place: int) -> Bools:
    """Which settings may be gone to at once."""
    ratios = settings.cohorts / settings.cohorts[place], settings.steps / settings.steps[place]
    reach = np.log(NEAR) + 1e-9
    return np.asarray((np.abs(np.log(ratios)) <= reach).all(0))
