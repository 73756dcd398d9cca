"""What the rest of a run would take with other settings, and whether a change is worth it."""

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array, Bools

from .search import Search
from .standing import Standing

NEAR = 3.0  # times by which K and E_l may change at once
WORTH = 0.05  # of the rest: what a change is to save at the least


@dataclass(frozen=True)
class Change:
    """Another setting for the rest of a run."""

    place: int
    rounds_before: float  # that were expected with the setting so far,
    rounds: float  # and are with the new one
    saved: float  # share of the rest of what is to be least


def choose_change(
    standing: Standing, settings: Search, now: int, every: int, hold: int
) -> Change | None:
    """The setting to go on with; None where none promises to be clearly better.

    A change is worth what it saves until the next look, its doubt counted against it; and after
    that, when more is known, what the better of the two is expected to save: a knowledge gradient.
    """
    from scipy.special import ndtr

    allowed = near(settings, now) & ~standing.never
    allowed[now] = True
    some = np.flatnonzero(allowed)
    here = int(np.searchsorted(some, now))
    rounds, costs = np.stack(
        [rest_with(standing, settings, place, now, every, hold) for place in some.tolist()], -1
    )  # each (draw, setting)
    more = np.log(costs / costs[:, [here]])
    gap, spread = more.mean(0), np.where(some == now, 0.0, standing.doubt[some])
    sd = np.hypot(more.std(0), spread)
    learnt = sd**2 / np.hypot(sd, standing.error(every)) + 1e-12
    z = gap / learnt
    later = learnt * np.exp(-z * z / 2) / np.sqrt(2 * np.pi) - gap * ndtr(-z)
    soon = min(1.0, every / float(rounds[:, here].mean()))
    worth = np.where(gap < -WORTH, soon * (-gap - sd**2 / 2) + (1 - soon) * later, -np.inf)
    best = int(worth.argmax())
    if not worth[best] > WORTH:
        return None
    expected = np.exp(np.log(rounds).mean(0))
    return Change(
        place=int(some[best]),
        rounds_before=float(expected[here]),
        rounds=float(expected[best]),
        saved=float(-np.expm1(gap[best])),
    )


def rest_with(
    standing: Standing, settings: Search, place: int, now: int, every: int, hold: int
) -> tuple[Array, Array]:
    """Rounds and cost of the rest with a setting: to the end, or until another one near it, as one
    with more clients, finishes the run in as many rounds as the target is to hold. (draw,) each."""
    speed, costs = standing.speed, settings.costs
    left = standing.end - standing.stage
    rounds = np.maximum(left[:, place] / speed[:, place], 1 if place == now else hold)
    cost = rounds * costs[place]
    for other in np.flatnonzero(near(settings, place) & ~standing.never).tolist():
        before = (left[:, other] - hold * speed[:, other]) / speed[:, place]
        before = np.maximum(before, every)  # for nobody looks earlier
        total = before * costs[place] + hold * costs[other]
        rounds = np.where(total < cost, before + hold, rounds)
        cost = np.minimum(total, cost)
    return rounds, cost


def near(settings: Search, place: int) -> Bools:
    """Which settings may be gone to at once."""
    ratios = settings.cohorts / settings.cohorts[place], settings.steps / settings.steps[place]
    reach = np.log(NEAR) + 1e-9
    return np.asarray((np.abs(np.log(ratios)) <= reach).all(0))
