"""A plan that adapts: after every few rounds, the K and E_l that make the rest of a run least."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcell.core.targets import Target
from fedcell.core.types import Array, Ints
from fedcell.learning.learner import Learner, Scores
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.drive import Segment
from fedcell.simulation.history import State

from .belief import Belief
from .design import Setting
from .plan import Aim
from .prospects import Change, choose_change
from .search import Search
from .standing import standing

EVERY = 5  # rounds between two looks at a plan
LEAST_ERROR = 1e-3  # share of samples: an accuracy nearer to 1 is not told apart


@dataclass(kw_only=True, eq=False)
class AdaptivePlan:
    """Steers a run (`simulation.drive.Steering`) to the K and E_l that make its rest least.

    It belongs to one run and keeps the turns of it, so it is not a value.
    What it decides after a round follows from its fields and the losses up to there, so a run that
    is resumed takes the same turns. `learner_of` and `fleet_of` say with whom it goes on, ours or
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
    minimise: Aim = "cost"
    every: int = EVERY
    evaluate_every: int = 1
    _turns: list[Segment] = field(default_factory=list, init=False)  # of the run so far

    def replay(self, state: State) -> Sequence[Segment]:
        """The turns that led to a state."""
        self._turns.clear()
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
        now = int(places[-1])
        stands = standing(self.belief, losses, places, first_loss, target)
        change = choose_change(stands, self.settings, now, self.every, self.goal.hold)
        if change is None:
            return None
        setting = self.settings.setting(change.place)
        scenario = self.first.scenario.with_plan(setting.cohort, setting.local_steps)
        turn = Segment(
            scenario=scenario,
            fleet=self.fleet_of(scenario),
            learner=self.learner_of(scenario),
            first_round=rounds,
            why=self._why(values, self.settings.setting(now), setting, change),
        )
        self._turns.append(turn)
        return turn

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


def _falling(goal: Target, values: Array | float) -> Array:
    """What is to fall: a loss, or the share of samples whose class is not found."""
    known = np.array(values, float)
    return known if goal.accuracy is None else np.maximum(1 - known, LEAST_ERROR)
