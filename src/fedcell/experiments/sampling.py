"""A training whose models are judged on as many samples as its target needs: few while it is far.

The round that reaches the target is the one that all samples would have found: whenever the mean of
the last rounds might be at the target, the least certain of these models is judged on more samples,
and only models judged on all of them count.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, sqrt

from fedcell.core.types import Array, Floats
from fedcell.learning.evaluation import Judgement, Part, Sampling
from fedcell.learning.server_optimizer import CustomServer
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target, rounds_to
from fedcell.simulation.extrapolation import least_rounds
from fedcell.simulation.state import State
from fedcell.simulation.train import BLOWN, UNKNOWN, train_rounds

from .training import Sampled, Until

SURE = 4.0  # standard errors by which a mean that is not yet at the target lies above it
GIVEN = 0.3  # part of its rounds, or of its time, that a training is given before it may be cut


@dataclass(frozen=True, eq=False)
class SampledTraining:
    """A training that was watched until its target, or until it was cut."""

    state: State  # its last
    train_loss: tuple[float, ...]
    accuracies: tuple[float, ...]  # empty where the target is a loss
    guessing: tuple[int, ...]  # rounds, from 1, whose model is known to guess
    diverged: bool
    sampled: Sampled
    judging: float  # seconds that judging models took


class Watch:
    """The curve of a training under way, round by round."""

    def __init__(
        self, learner: Sampling, target: Target, guesses: Callable[[Floats], bool]
    ) -> None:
        self.learner, self.target, self.guesses = learner, target, guesses
        self.part: Part = "train" if target.accuracy is None else "test"
        self.losses: list[float] = []
        self.values: list[float] = []  # of what the target is looked for in
        self.errors: list[float] = []
        self.samples: list[int] = []
        self.guessing: list[int] = []
        self._last: deque[tuple[Floats, Judgement]] = deque(maxlen=target.hold)

    def add(self, model: Floats) -> bool:
        """Judges the model of the next round. Returns whether the target is reached."""
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
        return self._is_there(model)

    def _write(self, place: int) -> None:
        """Writes down what is known of one of the last models."""
        judged, round = self._last[place][1], len(self.values) - len(self._last) + place
        value, error = judged.loss if self.part == "train" else judged.accuracy
        self.values[round], self.errors[round] = value, error
        self.samples[round] = judged.samples

    def _doubt(self, place: int) -> float:
        judged = self._last[place][1]
        return -1.0 if judged.complete else self.errors[len(self.errors) - len(self._last) + place]

    def _in_doubt(self) -> bool:
        """Whether the mean of the last rounds may be at the target, and is not exact."""
        hold = self.target.hold
        if len(self._last) < hold or all(judged.complete for _, judged in self._last):
            return False
        sign = 1 if self.target.accuracy is None else -1
        mean = sum(self.values[-hold:]) / hold
        error = sqrt(sum(e * e for e in self.errors[-hold:])) / hold
        return not sign * mean - SURE * error > sign * self.target.value

    def _is_there(self, model: Floats) -> bool:
        hold, wanted = self.target.hold, self.target.value
        sign = 1 if self.target.accuracy is None else -1
        window = [sign * value for value in self.values[-hold:]]
        if any(self.errors[-hold:]) or not isfinite(self.train_loss[-1]):
            return False
        if rounds_to(window, sign * wanted, hold) is None:
            return False
        if self.target.accuracy is None and self.guesses(model):
            self.guessing.append(len(self.values))
            return False
        return True

    @property
    def train_loss(self) -> list[float]:
        """The training loss after each round."""
        return self.values if self.part == "train" else self.losses


def judges_to_guess(judge: Sampling, model: Floats) -> bool:
    """Whether a model finds no more classes of the test data than one that always answers with the
    most common, on as many samples as that takes."""
    judged = Judgement(judge, model, "test")
    while True:
        share, error = judged.accuracy
        if judged.complete or share - SURE * error > judged.strata.majority:
            return not share > judged.strata.majority and not isnan(judged.strata.majority)
        judged.lengthen()


def is_cut(values: Sequence[float] | Array, until: Until, begin: float) -> bool:
    """Whether a training ends although it has not reached its target: its deadline has passed, a
    finished one has already beaten it, or its curve says that it will not get there in the rounds
    and the time that it has. `begin` is when it began, on time.monotonic."""
    rounds, now = len(values), time.monotonic()
    if rounds == 0:
        return False
    if now >= until.deadline or (until.race is not None and until.race.is_lost(rounds)):
        return True
    target = until.target
    if not until.hopeful or target is None:
        return False
    possible = float(until.rounds)
    passed, given = now - begin, until.deadline - begin
    if isfinite(given) and passed > GIVEN * given:
        possible = min(possible, rounds * given / passed)
    if rounds < GIVEN * possible:
        return False
    return least_rounds(values, target) > possible


def train_sampled(
    scenario: Scenario,
    learner: Sampling,
    fleet: Fleet,
    trace: Trace,
    first: State,
    until: Until,
    server: CustomServer | None,
    guesses: Callable[[Floats], bool],
) -> SampledTraining:
    """Rounds until the target is reached, training diverges, or it is cut."""
    target = until.target
    assert target is not None
    begin, watch = time.monotonic(), Watch(learner, target, guesses)
    first_loss, diverged = Judgement(learner, first.model, "train").loss[0], False
    states = train_rounds(scenario, learner, fleet, trace, first, (), server, lambda *_: UNKNOWN)
    state = next(states)
    judging = 0.0
    for state in states:
        trained = time.perf_counter()
        reached = watch.add(state.delivered)
        judging += time.perf_counter() - trained
        blown = not watch.train_loss[-1] <= BLOWN * first_loss  # NaN too
        diverged = bool(blown or state.history.discarded_uploads[-1] > 0)
        if reached or diverged or is_cut(watch.values, until, begin):
            break
    return SampledTraining(
        state=state,
        train_loss=tuple(watch.train_loss),
        accuracies=() if target.accuracy is None else tuple(watch.values),
        guessing=tuple(watch.guessing),
        diverged=diverged,
        sampled=Sampled(target, tuple(watch.errors), tuple(watch.samples)),
        judging=judging,
    )
