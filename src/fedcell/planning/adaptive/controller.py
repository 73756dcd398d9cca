"""A controller that changes K and E_l of a run by forecasts, and checks whether they hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.learning.learner import Learner, Scores
from fedcell.network.trace import Fleet
from fedcell.planning.pilot.candidates import CandidateSettings
from fedcell.planning.pilot.prior import RoundsPrior
from fedcell.planning.setting import Objective, Setting
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.prepared import Segment
from fedcell.simulation.state import State

from .decision import CLEAR_SD, RemainingRun, SettingChange, change_to, choose_change, remaining_run
from .posterior import training_posterior

FAILED_SD = 1.5  # standard deviations by which a forecast is missed clearly
MAX_WIDENING = 4.0  # of a prior


@dataclass(frozen=True)
class Forecast:
    """What the rest of a run was expected to take when its setting was changed."""

    round: int  # after which it was made
    rounds: float  # expected, geometric mean
    cost: float  # as well
    sd: float  # of the logarithm of that cost
    stay_cost: float  # that was expected with the setting that the run began with

    def surprise(self, spent: float, left: float) -> float:
        """Return by how many standard deviations the cost since the forecast, with what is expected
        now, is above the cost that was forecast."""
        return float(np.log((spent + left) / self.cost)) / self.sd

    def failed(self, spent: float, left: float) -> bool:
        """Tell whether the forecast is clearly missed, and nothing is left of the saving."""
        return self.surprise(spent, left) > FAILED_SD and spent + left > self.stay_cost


EVERY = 5  # rounds between two decisions
PATIENCE = 3  # decisions before a forecast can fail: an average lags after a change
MIN_ERROR_RATE = 1e-3  # share of samples: accuracies nearer to 1 are not distinguished


@dataclass(kw_only=True, eq=False)
class AdaptivePlan:
    """Controller of one run: changes K and E_l to minimise what its rest takes.

    It belongs to one run and keeps the segments of it, so it is not a value. What it decides after
    a round follows from its fields and the losses so far, so a resumed run decides the same.
    A change is made for a forecast. Where that is missed, the prior is widened; where it fails, the
    run returns to its first setting, unless that is clearly dearer; the settings since that
    forecast are excluded from then on, and each failure doubles the saving that another change
    needs. `learner_of` and `fleet_of` have the clients, simulated or real ones.
    """

    first: Segment
    settings: CandidateSettings  # K and E_l that it may change to, and what a round takes there
    prior: RoundsPrior  # of their rounds, before the run
    goal: Target
    initial: Scores  # before the first round
    rounds: int  # of the run at most
    learner_of: Callable[[Scenario], Learner]
    fleet_of: Callable[[Scenario], Fleet]
    minimise: Objective = "cost"
    every: int = EVERY
    evaluate_every: int = 1
    _segments: list[Segment] = field(default_factory=list, init=False)  # of the run so far
    _forecasts: list[Forecast] = field(default_factory=list, init=False)  # since it left its start
    _failed: int = field(default=0, init=False)  # forecasts, so far
    _widening: float = field(default=1.0, init=False)  # of the posterior
    _excluded: set[int] = field(default_factory=set, init=False)  # settings of failed forecasts

    def replay(self, state: State) -> Sequence[Segment]:
        """Return the segments that led to a state."""
        self._segments.clear()
        self._forecasts.clear()
        self._failed, self._widening = 0, 1.0
        self._excluded.clear()
        for rounds in range(self.every, state.rounds + 1, self.every):
            self._decide(state, rounds)
        return tuple(self._segments)

    def steer(self, state: State) -> Segment | None:
        """Return the next segment after a round, or None: no change."""
        return None if state.rounds % self.every else self._decide(state, state.rounds)

    def _decide(self, state: State, rounds: int) -> Segment | None:
        values = state.history.scored().values(self.goal)[:rounds]
        # A run that was to end here has evaluated out of turn, which one that continues does not.
        values = np.where(np.arange(1, rounds + 1) % self.evaluate_every, np.nan, values)
        seen = state.with_majority(self.initial.majority).history.scored()
        unsound = seen.unsound(self.goal)
        if rounds >= self.rounds or self.goal.reached(values, unsound) is not None:
            return None
        losses, target = _falling(self.goal, values), float(_falling(self.goal, self.goal.value))
        first_loss = float(_falling(self.goal, self.initial.of(self.goal.column)))
        # A model that guesses at the target says nothing of the progress towards it.
        losses[(losses <= target) & np.isin(np.arange(1, rounds + 1), unsound)] = np.nan
        if not (np.isfinite(losses) & (losses > 0)).any() or not target < first_loss:
            return None
        places = self._places(rounds)
        now, start = int(places[-1]), int(places[0])

        def rest(widening: float) -> RemainingRun:
            posterior = training_posterior(
                self.prior,
                losses,
                places,
                first_loss,
                target,
                averaged=state.deliver == "average",
                widening=widening,
            )
            return remaining_run(posterior, self.settings, now, self.every, self.goal.hold, start)

        expected = usual = rest(1.0)
        worst = self._worst(usual, places)
        if worst is not None:  # judged by the prior that it was made with
            surprise = worst.surprise(*self._since(worst, usual, places))
            self._widening = max(self._widening, min(surprise, MAX_WIDENING))
        if self._widening > 1:
            expected = rest(self._widening)
        change, why = None, ""
        if worst is not None and self._gives_up(worst, usual, expected, places):
            self._failed += 1
            self._excluded |= {*places[worst.round :].tolist()} - {start}
            change = change_to(expected, start, now, start)
            why = self._why_back(worst, usual, places)
        else:
            change = choose_change(
                *(expected, now, start, self.every, 2.0**self._failed, self._excluded)
            )
            if change is not None:
                old, new = self.settings.setting(now), self.settings.setting(change.place)
                why = self._why(values, old, new, change)
        if change is None:
            return None
        if change.place == start:
            self._forecasts.clear()
        else:
            self._forecasts.append(
                Forecast(rounds, change.rounds, change.cost, change.cost_sd, change.stay_cost)
            )
        return self._segment(change.place, rounds, why)

    def _segment(self, place: int, rounds: int, why: str) -> Segment:
        setting = self.settings.setting(place)
        scenario = self.first.scenario.with_plan(setting.cohort, setting.local_steps)
        segment = Segment(
            scenario=scenario,
            fleet=self.fleet_of(scenario),
            learner=self.learner_of(scenario),
            first_round=rounds,
            why=why,
        )
        self._segments.append(segment)
        return segment

    def _gives_up(
        self, worst: Forecast, usual: RemainingRun, widened: RemainingRun, places: Ints
    ) -> bool:
        """Tell whether a forecast has failed, so that the run returns to its first setting: unless
        that is clearly dearer for the rest, and the run has spent less than it would have cost."""
        if places.size < worst.round + PATIENCE * self.every:
            return False
        spent, left = self._since(worst, usual, places)
        start = widened.at(int(places[0]))
        dearer = widened.more[start] > CLEAR_SD * widened.sd[start]
        return worst.failed(spent, left) and (spent > worst.stay_cost or not dearer)

    def _worst(self, expected: RemainingRun, places: Ints) -> Forecast | None:
        """Return the forecast that is missed by most, since the run left its first setting."""
        return max(
            self._forecasts,
            key=lambda forecast: forecast.surprise(*self._since(forecast, expected, places)),
            default=None,
        )

    def _since(
        self, forecast: Forecast, expected: RemainingRun, places: Ints
    ) -> tuple[float, float]:
        """Return what was spent since a forecast, and what is expected to come."""
        spent = float(self.settings.costs[places[forecast.round :]].sum())
        return spent, float(expected.costs[expected.at(int(places[-1]))])

    def _places(self, rounds: int) -> Ints:
        """Return the index of the setting of each round."""
        segments = [self.first, *self._segments]
        ends = [*(segment.first_round for segment in segments[1:]), rounds]
        plans = [segment.scenario.plan for segment in segments]
        gamma = self.settings.loss_rate
        found = [self.settings.index_of(Setting(p.cohort, p.local_steps, gamma)) for p in plans]
        return np.repeat(np.array(found, np.int64), np.diff([0, *ends]))

    def _why(self, values: Array, old: Setting, new: Setting, change: SettingChange) -> str:
        what = self.goal.metric
        last = values[np.isfinite(values)][-1]
        return (
            f"{what} {last:.3g} after {values.size} rounds: {change.rounds_before:.0f} more are "
            f"expected with {old}, and {change.rounds:.0f} with {new}: "
            f"{change.saved:.0%} less {self.minimise}"
        )

    def _why_back(self, forecast: Forecast, expected: RemainingRun, places: Ints) -> str:
        left = expected.rounds[expected.at(int(places[-1]))]
        return (
            f"forecast at round {forecast.round} failed: {forecast.rounds:.0f} more rounds were "
            f"expected, {places.size - forecast.round} are done and {left:.0f} more are expected: "
            f"back to {self.settings.setting(int(places[0]))}"
        )


def _falling(goal: Target, values: Array | float) -> Array:
    """Return what falls in training: a loss, or the share of samples that are misclassified."""
    known = goal.gap(values)
    return known if goal.sign == 1 else np.maximum(known, MIN_ERROR_RATE)
