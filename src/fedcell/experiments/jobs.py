"""What a worker does: one training from its value, on one thread, with data that it keeps."""

import math
import time
import warnings
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import FedcellWarning
from fedcell.core.types import Floats
from fedcell.learning.data.dataset import Dataset, file_stamp, load_data
from fedcell.learning.engines.engine import Engine, vector_width
from fedcell.learning.evaluation import Judgement, Sampling
from fedcell.learning.learner import Learner, Scores, evaluated, warm_up
from fedcell.learning.server_optimizer import CustomServer
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.checks import check_scored
from fedcell.simulation.evaluation import Stopwatch
from fedcell.simulation.state import State
from fedcell.simulation.train import Stop, at_target, diverging, train_rounds

from .sampling import is_cut, judges_to_guess, train_sampled
from .training import Curve, Sampled, Training, Until


@dataclass(frozen=True)
class Job:
    """A training, until when, and where its data lies."""

    training: Training
    until: Until
    data_dir: Path | None = None


@dataclass(frozen=True)
class Done:
    """A curve, and the seconds that it took to make."""

    curve: Curve
    seconds: float
    judging: float = 0.0  # seconds of these in which models were judged


def train(job: Job, threads: int = 1) -> Done:
    """Makes a training."""
    begin = time.perf_counter()
    training = job.training
    learning = training.scenario.learning
    data = None
    with quiet():
        if learning is not None and not learning.analytic:
            data = _data(learning.dataset, job.data_dir, file_stamp(learning.dataset))
        setup = prepare_training(training.scenario, training.seed, job.data_dir, data=data)
        learner = setup.learner(threads, test=job.until.judged)  # else only the last model is
        warm_up(learner)
        judge = setup.learner(threads)
        trained = train_curve(
            setup.scenario,
            learner,
            training.seed,
            job.until,
            judge=None if job.until.judged else judge,
        )
        sampled = job.until.sampled  # such a curve is of use for its target alone
        last = Scores(math.nan) if sampled else judge.evaluate(trained.model)
    curve = Curve(
        key=training.key,
        seed=training.seed,
        train_loss=trained.train_loss,
        test_loss=_finite(last.test_loss),
        accuracy=_finite(last.accuracy),
        diverged=trained.diverged,
        vector_width=vector_width() if isinstance(learner, Engine) else None,
        accuracies=trained.accuracies if job.until.judged else (),
        guessing=trained.guessing,
        sampled=trained.sampled,
    )
    return Done(curve, time.perf_counter() - begin, trained.judging)


@dataclass(frozen=True, eq=False)
class Trained:
    """What came out of a training, whoever learnt."""

    train_loss: tuple[float, ...]
    accuracies: tuple[float, ...]  # NaN where models were not judged
    diverged: bool
    model: Any  # as it is delivered (learning.deliver)
    guessing: tuple[int, ...] = ()  # rounds, from 1, whose model is known to guess
    sampled: Sampled | None = None  # where models were judged on a part of the samples
    judging: float = 0.0  # seconds that judging models took


def train_curve(
    scenario: Scenario,
    learner: Learner,
    seed: int,
    until: Until,
    server: CustomServer | None = None,
    judge: Learner | None = None,
) -> Trained:
    """Rounds until the target is reached, training blows up, or there were enough. A `judge` tells
    whether a model at the target guesses, where the learner does not judge on test data."""
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, until.rounds, seed)
    with quiet():
        begin, first = time.monotonic(), State.start(learner, scenario.deliver)
        if until.sampled and until.target is not None and isinstance(learner, Sampling):
            return _sampled(scenario, learner, fleet, trace, first, until, server, judge)
        scores = evaluated(learner, first.model)
        check_scored(until.target, scores)
        blown = diverging(scores.train_loss)
        guessing: list[int] = []
        column = "train_loss" if until.target is None else until.target.column

        def guesses(state: State) -> bool:
            if judge is None or not evaluated(judge, state.delivered).guesses:
                return False
            guessing.append(state.rounds)
            return True

        rules: list[Stop] = [blown, at_target(until.target, guesses=guesses)]
        rules.append(lambda at: is_cut(getattr(at.history, column), until, begin))
        watch = Stopwatch()
        states = train_rounds(
            *(scenario, learner, fleet, trace, first, rules, server), stopwatch=watch
        )
        (state,) = deque(states, maxlen=1)  # the last: earlier ones are not kept
    losses, accuracies = (
        tuple(values.tolist()) for values in (state.history.train_loss, state.history.accuracy)
    )
    known = replace(state.history.scored(), guessing=guessing).guesses
    return Trained(
        *(losses, accuracies, blown(state), state.delivered, tuple(known.tolist())),
        judging=watch.judging,
    )


def _sampled(
    scenario: Scenario,
    learner: Sampling,
    fleet: Fleet,
    trace: Trace,
    first: State,
    until: Until,
    server: CustomServer | None,
    judge: Learner | None,
) -> Trained:
    """The same with models that are judged on as many samples as the target needs."""
    begun = Judgement(learner, first.model, "train").loss[0]
    check_scored(until.target, Scores(begun, accuracy=0.0 if "test" in learner.parts else math.nan))

    def guesses(model: Floats) -> bool:
        if not isinstance(judge, Sampling) or "test" not in judge.parts:
            return judge is not None and evaluated(judge, model).guesses
        return judges_to_guess(judge, model)

    found = train_sampled(scenario, learner, fleet, trace, first, until, server, guesses)
    return Trained(
        found.train_loss,
        found.accuracies,
        found.diverged,
        found.state.delivered,
        found.guessing,
        found.sampled if any(found.sampled.errors) else None,
        found.judging,
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Divergence is looked for, and doubts are told once by runs."""
    silent = warnings.catch_warnings(action="ignore", category=FedcellWarning)
    with silent, np.errstate(all="ignore"):
        yield


def _finite(score: float) -> float | None:
    return float(score) if math.isfinite(score) else None


@lru_cache(maxsize=2)
def _data(dataset: str, data_dir: Path | None, stamp: Hashable) -> Dataset:  # noqa: ARG001
    """A dataset, read once in a worker, and again when `stamp` says that its files have changed."""
    return load_data(dataset, data_dir)
