"""Decide whether a run changes its setting: what the rest of it would take with others."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.planning.pilot.candidates import CandidateSettings

from .posterior import TrainingPosterior

MAX_RATIO = 3.0  # times by which K and E_l may change at once
MIN_SAVING = 0.1  # share of the rest that a change saves at the least
CLEAR_SD = 1.0  # standard deviations by which a saving is above that
MIN_COST_SD = 0.1  # of the logarithm of a forecast cost: runs of one setting differ by as much


@dataclass(frozen=True)
class RemainingRun:
    """What the rest of a run is expected to take with some settings: (setting,) each."""

    indices: Ints  # of the settings
    rounds: Array  # geometric means
    costs: Array
    more: Array  # mean logarithm of the cost over that with the present setting
    sd: Array  # of that logarithm; 0 at the present setting
    cost_sd: Array  # of the logarithm of the cost itself
    hopeless: bool = False  # the pilot found that the present setting never reaches the target

    def at(self, place: int) -> int:
        """Return the index of a place."""
        return int(np.flatnonzero(self.indices == place)[0])


@dataclass(frozen=True)
class SettingChange:
    """Another setting for the rest of a run."""

    place: int
    rounds_before: float  # that were expected with the setting so far,
    rounds: float  # and are with the new one
    saved: float  # share of the rest of the objective
    cost: float  # of the rest with the new setting
    cost_sd: float  # of its logarithm
    stay_cost: float  # of the rest with the setting of the start


def remaining_run(
    posterior: TrainingPosterior,
    settings: CandidateSettings,
    now: int,
    every: int,
    hold: int,
    start: int,
) -> RemainingRun:
    """Return what the rest would take with each setting that the run may change to: those near the
    present one, and that of the start."""
    allowed = near(settings, now) & ~posterior.never
    allowed[[now, start]] = True
    some = np.flatnonzero(allowed)
    here = int(np.searchsorted(some, now))
    each = [remaining_with(posterior, settings, place, now, every, hold) for place in some.tolist()]
    rounds, costs = np.log(np.stack(each, -1))  # (draw, setting) both
    more, doubt = costs - costs[:, [here]], posterior.doubt[some]
    return RemainingRun(
        indices=some,
        rounds=np.exp(rounds.mean(0)),
        costs=np.exp(costs.mean(0)),
        more=more.mean(0),
        sd=np.where(some == now, 0.0, np.hypot(more.std(0), doubt)),
        cost_sd=np.sqrt(costs.var(0) + doubt**2 + MIN_COST_SD**2),
        hopeless=bool(posterior.never[now]),
    )


def choose_change(
    rest: RemainingRun,
    now: int,
    start: int,
    every: int,
    reluctance: float = 1.0,
    excluded: Collection[int] = (),
) -> SettingChange | None:
    """Return the setting for the rest of a run; None where none is clearly better.

    The saving must be above MIN_SAVING by CLEAR_SD standard deviations, so that a setting of which
    little is known is left alone; `reluctance` multiplies both after forecasts that failed. A
    return to the first setting, which the user chose, needs the expected saving only. A run that is
    expected to end before the next decision, after `every` rounds, is not changed. A setting whose
    forecast failed in this run is `excluded`. A setting that never reaches the target by the pilot
    is left for the expected saving, too.
    """
    if rest.rounds[rest.at(now)] < every:
        return None
    doubt = 0.0 if rest.hopeless else reluctance * CLEAR_SD
    sure = -rest.more - doubt * rest.sd
    sure[np.isin(rest.indices, list(excluded))] = -np.inf
    sure[rest.indices == start] = -rest.more[rest.indices == start]
    best = int(sure.argmax())
    if rest.indices[best] == now or not sure[best] > reluctance * MIN_SAVING:
        return None
    return change_to(rest, int(rest.indices[best]), now, start)


def change_to(rest: RemainingRun, place: int, now: int, start: int) -> SettingChange:
    """Return the change to a place."""
    there = rest.at(place)
    return SettingChange(
        place=place,
        rounds_before=float(rest.rounds[rest.at(now)]),
        rounds=float(rest.rounds[there]),
        saved=float(-np.expm1(rest.more[there])),
        cost=float(rest.costs[there]),
        cost_sd=float(rest.cost_sd[there]),
        stay_cost=float(rest.costs[rest.at(start)]),
    )


def remaining_with(
    posterior: TrainingPosterior,
    settings: CandidateSettings,
    place: int,
    now: int,
    every: int,
    hold: int,
) -> tuple[Array, Array]:
    """Return rounds and cost of the rest with a setting, (draw,) each: to the end, or until another
    setting near it, as one with more clients, finishes the run between two decisions, or in as many
    rounds as the target must hold."""
    speed, costs, finish = posterior.speed, settings.costs, max(hold, every)
    left = posterior.end + posterior.shift - posterior.stage
    rounds = np.maximum(left[:, place] / speed[:, place], 1 if place == now else hold)
    cost = rounds * costs[place]
    for other in np.flatnonzero(near(settings, place) & ~posterior.never).tolist():
        before = (left[:, other] - finish * speed[:, other]) / speed[:, place]
        before = np.maximum(before, every)  # the next decision
        total = before * costs[place] + finish * costs[other]
        rounds = np.where(total < cost, before + finish, rounds)
        cost = np.minimum(total, cost)
    return rounds, cost


def near(settings: CandidateSettings, place: int) -> Bools:
    """Return which settings the run may change to at once."""
    ratios = settings.cohorts / settings.cohorts[place], settings.steps / settings.steps[place]
    reach = np.log(MAX_RATIO) + 1e-9
    return np.asarray((np.abs(np.log(ratios)) <= reach).all(0))
