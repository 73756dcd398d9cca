"""Train with models that are evaluated on as many samples as the target needs: few while it is far.

The round that reaches the target is the same as with all samples: whenever the mean of the last
rounds may be at the target, the least certain of these models is evaluated on more samples, and
only models evaluated on all samples count.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, sqrt

from fedcell.core.types import Array, Floats
from fedcell.learning.evaluation import Judgement, Part, Sampling
from fedcell.learning.server_optimizer import CustomServer
from fedcell.network.selectors.fold import Selection
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target, rounds_to
from fedcell.simulation.extrapolation import least_rounds
from fedcell.simulation.state import State
from fedcell.simulation.train import DIVERGED_FACTOR, NOT_EVALUATED, train_rounds

from .training import Sampled, Until

CONFIDENCE = 4.0  # standard errors by which a mean off the target differs from it
MIN_PART = 0.3  # of its rounds, or of its time, that a training gets before it may be cut


@dataclass(frozen=True, eq=False)
class SampledTraining:
    """A training that ended at its target, diverged, or was cut."""

    state: State  # the last
    train_loss: tuple[float, ...]
    accuracies: tuple[float, ...]  # empty where the target is another metric
    metrics: Mapping[str, tuple[float, ...]]  # that of the target, where it is another one
    baseline_rounds: tuple[int, ...]  # from 1: no better than the majority class
    diverged: bool
    sampled: Sampled
    evaluation_seconds: float  # that evaluating models took


class SampledCurve:
    """The curve of a training in progress, evaluated round by round on samples."""

    def __init__(
        self, learner: Sampling, target: Target, is_baseline: Callable[[Floats], bool]
    ) -> None:
        self.learner, self.target, self.is_baseline = learner, target, is_baseline
        self.part: Part = "test" if target.needs_test else "train"
        self.losses: list[float] = []
        self.values: list[float] = []  # the metric of the target
        self.errors: list[float] = []
        self.samples: list[int] = []
        self.baseline_rounds: list[int] = []
        self._last: deque[tuple[Floats, Judgement]] = deque(maxlen=target.hold)

    def add(self, model: Floats) -> bool:
        """Evaluate the model of the next round. Return whether the target is reached."""
        judged = Judgement(self.learner, model, self.part)
        if self.part == "test":
            self.losses.append(Judgement(self.learner, model, "train").loss[0])
        self._last.append((model, judged))
        for column in (self.values, self.errors, self.samples):
            column.append(0)
        self._write(len(self._last) - 1)
        while self._in_doubt():
            place = max(range(len(self._last)), key=self._doubt)
            self._last[place][1].lengthen()
            self._write(place)
        return self._is_reached(model)

    def _write(self, place: int) -> None:
        """Record the present estimate of one of the last models."""
        judged, round = self._last[place][1], len(self.values) - len(self._last) + place
        value, error = judged.loss if self.target.accuracy is None else judged.accuracy
        self.values[round], self.errors[round] = value, error
        self.samples[round] = judged.samples

    def _doubt(self, place: int) -> float:
        judged = self._last[place][1]
        return -1.0 if judged.complete else self.errors[len(self.errors) - len(self._last) + place]

    def _in_doubt(self) -> bool:
        """Return whether the mean of the last rounds may be at the target, and is not exact."""
        hold = self.target.hold
        if len(self._last) < hold or all(judged.complete for _, judged in self._last):
            return False
        sign = self.target.sign
        mean = sum(self.values[-hold:]) / hold
        error = sqrt(sum(e * e for e in self.errors[-hold:])) / hold
        return not sign * mean - CONFIDENCE * error > sign * self.target.value

    def _is_reached(self, model: Floats) -> bool:
        hold, wanted = self.target.hold, self.target.value
        sign = self.target.sign
        window = [sign * value for value in self.values[-hold:]]
        if any(self.errors[-hold:]) or not isfinite(self.train_loss[-1]):
            return False
        if rounds_to(window, sign * wanted, hold) is None:
            return False
        if self.target.loss is not None and self.is_baseline(model):
            self.baseline_rounds.append(len(self.values))
            return False
        return True

    @property
    def train_loss(self) -> list[float]:
        """The training loss after each round."""
        return self.values if self.part == "train" else self.losses


def is_baseline(learner: Sampling, model: Floats) -> bool:
    """Return whether the test accuracy of a model is no better than that of the majority class, on
    as many samples as deciding it takes."""
    judged = Judgement(learner, model, "test")
    while True:
        share, error = judged.accuracy
        if judged.complete or share - CONFIDENCE * error > judged.strata.majority:
            return not share > judged.strata.majority and not isnan(judged.strata.majority)
        judged.lengthen()


def is_cut(values: Sequence[float] | Array, until: Until, begin: float) -> bool:
    """Return whether a training ends short of its target: its deadline has passed, a finished one
    costs less, or its curve will not reach the target in the rounds and time that it has. `begin`
    is its start on time.monotonic."""
    rounds, now = len(values), time.monotonic()
    if rounds == 0:
        return False
    if now >= until.deadline or (until.race is not None and until.race.is_lost(rounds)):
        return True
    target = until.target
    if not until.stop_if_unreachable or target is None:
        return False
    possible = float(until.rounds)
    passed, given = now - begin, until.deadline - begin
    if isfinite(given) and passed > MIN_PART * given:
        possible = min(possible, rounds * given / passed)
    if rounds < MIN_PART * possible:
        return False
    return least_rounds(values, target) > possible


def train_sampled(
    scenario: Scenario,
    learner: Sampling,
    fleet: Fleet,
    trace: Trace | Selection,
    first: State,
    until: Until,
    server: CustomServer | None,
    is_baseline: Callable[[Floats], bool],
) -> SampledTraining:
    """Train until the target is reached, the training diverges, or it is cut."""
    target = until.target
    assert target is not None
    begin, curve = time.monotonic(), SampledCurve(learner, target, is_baseline)
    first_loss, diverged = Judgement(learner, first.model, "train").loss[0], False
    states = train_rounds(
        scenario, learner, fleet, trace, first, (), server, lambda *_: NOT_EVALUATED
    )
    state = next(states)
    evaluation_seconds = 0.0
    for state in states:
        trained = time.perf_counter()
        reached = curve.add(state.delivered)
        evaluation_seconds += time.perf_counter() - trained
        blown = not curve.train_loss[-1] <= DIVERGED_FACTOR * first_loss  # NaN too
        diverged = bool(blown or state.history.discarded_uploads[-1] > 0)
        if reached or diverged or is_cut(curve.values, until, begin):
            break
    return SampledTraining(
        state=state,
        train_loss=tuple(curve.train_loss),
        accuracies=() if target.accuracy is None else tuple(curve.values),
        metrics={"test_loss": tuple(curve.values)} if target.metric == "test_loss" else {},
        baseline_rounds=tuple(curve.baseline_rounds),
        diverged=diverged,
        sampled=Sampled(target, tuple(curve.errors), tuple(curve.samples)),
        evaluation_seconds=evaluation_seconds,
    )
