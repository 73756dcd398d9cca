"""Forecasts that a run was changed for, and whether they hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.learning.learner import Learner, Scores
from fedcell.network.trace import Fleet
from fedcell.planning.pilot.candidates import Search
from fedcell.planning.pilot.prior import Belief
from fedcell.planning.setting import Objective, Setting
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.execution import Segment
from fedcell.simulation.state import State

from .decision import CLEAR, Change, Rest, change_to, choose_change, rest_of
from .posterior import standing

FAILED = 1.5  # standard deviations by which a forecast is missed clearly
WIDEST = 4.0  # times that a prior is widened at most


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
        return self.surprise(spent, left) > FAILED and spent + left > self.stay_cost


EVERY = 5  # rounds between two looks at a plan
PATIENCE = 3  # looks before a forecast can fail: an average lags after a change
LEAST_ERROR = 1e-3  # share of samples: an accuracy nearer to 1 is not told apart


@dataclass(kw_only=True, eq=False)
class AdaptivePlan:
    """Steers a run (`simulation.drive.Steering`) to the K and E_l that make its rest least.

    It belongs to one run and keeps the turns of it, so it is not a value. What it decides after a
    round follows from its fields and the losses up to there, so a resumed run takes the same turns.
    A change is made for a forecast. Where that is missed, the prior is widened; where it fails, the
    run returns to its first setting, unless that is clearly dearer, and each failure doubles the
    saving that another change needs. `learner_of` and `fleet_of` have the clients, simulated or
    real ones.
    """

    first: Segment
    settings: Search  # K and E_l that may be gone on with, and what a round takes there
    belief: Belief  # of their rounds, before the run
    goal: Target
    initial: Scores  # before the first round
    rounds: int  # of the run at most
    learner_of: Callable[[Scenario], Learner]
    fleet_of: Callable[[Scenario], Fleet]
    minimise: Objective = "cost"
    every: int = EVERY
    evaluate_every: int = 1
    _turns: list[Segment] = field(default_factory=list, init=False)  # of the run so far
    _forecasts: list[Forecast] = field(default_factory=list, init=False)  # since it left its start
    _failed: int = field(default=0, init=False)  # forecasts, so far
    _widening: float = field(default=1.0, init=False)  # of the posterior

    def replay(self, state: State) -> Sequence[Segment]:
        """The turns that led to a state."""
        self._turns.clear()
        self._forecasts.clear()
        self._failed, self._widening = 0, 1.0
        for rounds in range(self.every, state.rounds + 1, self.every):
            self._look(state, rounds)
        return tuple(self._turns)

    def steer(self, state: State) -> Segment | None:
        """After a round: with what to go on, if that is to change."""
        return None if state.rounds % self.every else self._look(state, state.rounds)

    def _look(self, state: State, rounds: int) -> Segment | None:
        values = getattr(state.history, self.goal.column)[:rounds]
        # A run that was to end here has evaluated out of turn, which one that goes on does not.
        values = np.where(np.arange(1, rounds + 1) % self.evaluate_every, np.nan, values)
        seen = state.judged_beside(self.initial.majority).history.scored()
        unsound = seen.unsound(self.goal)
        if rounds >= self.rounds or self.goal.reached(values, unsound) is not None:
            return None
        losses, target = _falling(self.goal, values), float(_falling(self.goal, self.goal.value))
        first_loss = float(_falling(self.goal, getattr(self.initial, self.goal.column)))
        # A model that guesses at the target tells nothing of the way to it.
        losses[(losses <= target) & np.isin(np.arange(1, rounds + 1), unsound)] = np.nan
        if not (np.isfinite(losses) & (losses > 0)).any() or not target < first_loss:
            return None
        places = self._places(rounds)
        now, start = int(places[-1]), int(places[0])

        def rest(widening: float) -> Rest:
            stands = standing(
                self.belief,
                losses,
                places,
                first_loss,
                target,
                averaged=state.deliver == "average",
                widening=widening,
            )
            return rest_of(stands, self.settings, now, self.every, self.goal.hold, start)

        expected = usual = rest(1.0)
        worst = self._worst(usual, places)
        if worst is not None:  # judged by the prior that it was made with
            surprise = worst.surprise(*self._since(worst, usual, places))
            self._widening = max(self._widening, min(surprise, WIDEST))
        if self._widening > 1:
            expected = rest(self._widening)
        change, why = None, ""
        if worst is not None and self._gives_up(worst, usual, expected, places):
            self._failed += 1
            change = change_to(expected, start, now, start)
            why = self._why_back(worst, usual, places)
        else:
            change = choose_change(expected, now, start, self.every, 2.0**self._failed)
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
        return self._turn(change.place, rounds, why)

    def _turn(self, place: int, rounds: int, why: str) -> Segment:
        setting = self.settings.setting(place)
        scenario = self.first.scenario.with_plan(setting.cohort, setting.local_steps)
        turn = Segment(
            scenario=scenario,
            fleet=self.fleet_of(scenario),
            learner=self.learner_of(scenario),
            first_round=rounds,
            why=why,
        )
        self._turns.append(turn)
        return turn

    def _gives_up(self, worst: Forecast, usual: Rest, widened: Rest, places: Ints) -> bool:
        """Whether a forecast has failed, and the run returns to its first setting: unless that is
        clearly dearer for the rest, and the run has spent less than it would have cost."""
        if places.size < worst.round + PATIENCE * self.every:
            return False
        spent, left = self._since(worst, usual, places)
        start = widened.at(int(places[0]))
        dearer = widened.more[start] > CLEAR * widened.sd[start]
        return worst.failed(spent, left) and (spent > worst.stay_cost or not dearer)

    def _worst(self, expected: Rest, places: Ints) -> Forecast | None:
        """The forecast since the run left its first setting that is missed by most."""
        return max(
            self._forecasts,
            key=lambda forecast: forecast.surprise(*self._since(forecast, expected, places)),
            default=None,
        )

    def _since(self, forecast: Forecast, expected: Rest, places: Ints) -> tuple[float, float]:
        """What was spent since a forecast, and what is expected to come."""
        spent = float(self.settings.costs[places[forecast.round :]].sum())
        return spent, float(expected.costs[expected.at(int(places[-1]))])

    def _places(self, rounds: int) -> Ints:
        """Where among the settings each round was."""
        segments = [self.first, *self._turns]
        ends = [*(segment.first_round for segment in segments[1:]), rounds]
        plans = [segment.scenario.plan for segment in segments]
        gamma = self.settings.loss_rate
        found = [self.settings.place(Setting(p.cohort, p.local_steps, gamma)) for p in plans]
        return np.repeat(np.array(found, np.int64), np.diff([0, *ends]))

    def _why(self, values: Array, old: Setting, new: Setting, change: Change) -> str:
        what = "loss" if self.goal.accuracy is None else "accuracy"
        last = values[np.isfinite(values)][-1]
        return (
            f"{what} {last:.3g} after {values.size} rounds: {change.rounds_before:.0f} more are "
            f"expected with {old}, and {change.rounds:.0f} with {new}: "
            f"{change.saved:.0%} less {self.minimise}"
        )

    def _why_back(self, forecast: Forecast, expected: Rest, places: Ints) -> str:
        left = expected.rounds[expected.at(int(places[-1]))]
        return (
            f"forecast at round {forecast.round} failed: {forecast.rounds:.0f} more rounds were "
            f"expected, {places.size - forecast.round} are done and {left:.0f} more are expected: "
            f"back to {self.settings.setting(int(places[0]))}"
        )


def _falling(goal: Target, values: Array | float) -> Array:
    """What is to fall: a loss, or the share of samples whose class is not found."""
    known = np.array(values, float)
    return known if goal.accuracy is None else np.maximum(1 - known, LEAST_ERROR)
