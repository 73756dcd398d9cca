"""What a worker does: one training from its value, on one thread, with data that it keeps."""

import math
import time
import warnings
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import FedcellError, FedcellWarning
from fedcell.core.types import Floats
from fedcell.learning.data.dataset import Dataset, file_stamp, load_data
from fedcell.learning.engines.engine import Engine, vector_width
from fedcell.learning.evaluation import Judgement, Sampling
from fedcell.learning.learner import Learner, Scores, evaluated, warm_up
from fedcell.learning.server_optimizer import CustomServer
from fedcell.learning.setup import TrainingSetup, prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.selectors.fold import Selection
from fedcell.network.selectors.history import Row
from fedcell.network.selectors.names import allow
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.checks import check_scored
from fedcell.simulation.evaluation import Stopwatch
from fedcell.simulation.selecting.live import live_selection
from fedcell.simulation.state import History, State
from fedcell.simulation.train import Stop, at_target, diverging, train_rounds

from .sampling import is_baseline, is_cut, train_sampled
from .training import Curve, Sampled, Training, Until


def prepare(training: Training, data_dir: Path | None = None) -> TrainingSetup:
    """Return the data, partition and network of a training; a dataset is read once a process."""
    scenario, data = training.scenario, None
    learning = scenario.learning
    if learning is not None and not learning.analytic:
        try:
            data = _load_once(learning.dataset, data_dir, file_stamp(learning.dataset))
        except FedcellError as error:
            raise error.within("learning.dataset") from error
    return prepare_training(scenario, training.seed, data_dir, data=data)


@dataclass(frozen=True)
class PreparedScenarios:
    """The scenarios of trainings with D_j of the partition, z_m and alpha_0 of the model."""

    data_dir: Path | None = None
    _scenarios: dict[Training, Scenario] = field(default_factory=dict, repr=False, compare=False)

    def add(self, training: Training, scenario: Scenario) -> None:
        """Keep the scenario that the worker of a training has prepared."""
        self._scenarios[training] = scenario

    def get(self, training: Training) -> Scenario:
        """Return the scenario of a training; prepare it here where no worker has."""
        if training not in self._scenarios:
            self._scenarios[training] = prepare(training, self.data_dir).scenario
        return self._scenarios[training]


@lru_cache(maxsize=2)
def _load_once(dataset: str, data_dir: Path | None, stamp: Hashable) -> Dataset:  # noqa: ARG001
    """Read a dataset once in a process, and again when `stamp` says that its files have changed."""
    return load_data(dataset, data_dir)


@dataclass(frozen=True)
class TrainingJob:
    """A training, when it ends, and the folder of its data."""

    training: Training
    until: Until
    data_dir: Path | None = None


@dataclass(frozen=True)
class JobResult:
    """The curve of a training, and the seconds that it took."""

    curve: Curve
    seconds: float
    scenario: Scenario  # as prepared: with D_j of the partition, z_m and alpha_0 of the model
    evaluation_seconds: float = 0.0  # of these in which models were evaluated


def train(job: TrainingJob, threads: int = 1) -> JobResult:
    """Run a training to its end."""
    begin = time.perf_counter()
    training = job.training
    allow(training.scenario.plan.selection)  # who made the job may name code
    with quiet():
        setup = prepare(training, job.data_dir)
        learner = setup.learner(
            threads, test=job.until.tested
        )  # else only the last model is tested
        warm_up(learner)
        tester = setup.learner(threads)
        trained = train_curve(
            setup.scenario,
            learner,
            training.seed,
            job.until,
            tester=None if job.until.tested else tester,
        )
        sampled = job.until.sampled  # its curve serves its target alone: no last scores
        last = Scores(math.nan) if sampled else tester.evaluate(trained.model)
    curve = Curve(
        key=training.key,
        seed=training.seed,
        train_loss=trained.train_loss,
        test_loss=_finite(last.test_loss),
        accuracy=_finite(last.accuracy),
        diverged=trained.diverged,
        vector_width=vector_width() if isinstance(learner, Engine) else None,
        accuracies=trained.accuracies if job.until.tested else (),
        metrics=trained.metrics if job.until.tested else {},
        baseline_rounds=trained.baseline_rounds,
        sampled=trained.sampled,
        chosen=trained.chosen,
    )
    return JobResult(curve, time.perf_counter() - begin, setup.scenario, trained.evaluation_seconds)


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Losses, accuracies and the model of a training with any learner."""

    train_loss: tuple[float, ...]
    accuracies: tuple[float, ...]  # NaN in rounds without an evaluation
    diverged: bool
    model: Any  # as it is delivered (learning.deliver)
    baseline_rounds: tuple[int, ...] = ()  # from 1: no better than the majority class
    sampled: Sampled | None = None  # where models were evaluated on a part of the samples
    evaluation_seconds: float = 0.0  # that evaluating models took
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # of the learner
    chosen: tuple[Row, ...] = ()  # clients of each round, where a rule that learns chose them


def train_curve(
    scenario: Scenario,
    learner: Learner,
    seed: int,
    until: Until,
    server: CustomServer | None = None,
    tester: Learner | None = None,
) -> TrainingResult:
    """Train until the target is reached, the training diverges, or it has done all rounds. A
    `tester` evaluates models at the target on test data, where the learner itself does not."""
    fleet = draw_fleet(scenario, seed)
    rule = live_selection(scenario, fleet, seed, until.rounds)
    trace = rule or draw_trace(scenario, fleet, until.rounds, seed)
    with quiet():
        begin, first = time.monotonic(), State.start(learner, scenario.deliver)
        if until.sampled and until.target is not None and isinstance(learner, Sampling):
            return _sampled(scenario, learner, fleet, trace, first, until, server, tester)
        scores = evaluated(learner, first.model)
        check_scored(until.target, scores)
        diverged = diverging(scores.train_loss)
        baseline_rounds: list[int] = []
        column = "train_loss" if until.target is None else until.target.column

        def is_baseline_state(state: State) -> bool:
            if tester is None or not evaluated(tester, state.delivered).guesses:
                return False
            baseline_rounds.append(state.rounds)
            return True

        rules: list[Stop] = [diverged, at_target(until.target, is_baseline=is_baseline_state)]
        rules.append(lambda at: is_cut(at.history.column(column), until, begin))
        watch = Stopwatch()
        states = train_rounds(
            *(scenario, learner, fleet, trace, first, rules, server), stopwatch=watch
        )
        (state,) = deque(states, maxlen=1)  # only the last is kept in memory
    losses, accuracies = (
        tuple(values.tolist()) for values in (state.history.train_loss, state.history.accuracy)
    )
    known = replace(state.history.scored(), guessing=baseline_rounds).guesses
    return TrainingResult(
        *(losses, accuracies, diverged(state), state.delivered, tuple(known.tolist())),
        evaluation_seconds=watch.evaluation,
        metrics=_watched(state.history, until.target),
        chosen=() if state.selected is None else state.selected.rows,
    )


def _watched(history: History, target: Target | None) -> dict[str, tuple[float, ...]]:
    """Return the metrics of a learner after each round; the test loss where a target is one."""
    columns = dict(history.metrics)
    if target is not None and target.metric == "test_loss":
        columns["test_loss"] = history.test_loss
    return {name: tuple(values.tolist()) for name, values in columns.items()}


def _sampled(
    scenario: Scenario,
    learner: Sampling,
    fleet: Fleet,
    trace: Trace | Selection,
    first: State,
    until: Until,
    server: CustomServer | None,
    tester: Learner | None,
) -> TrainingResult:
    """Train with models that are evaluated on as many samples as the target needs."""
    first_loss = Judgement(learner, first.model, "train").loss[0]
    on_test = 0.0 if "test" in learner.parts else math.nan
    check_scored(until.target, Scores(first_loss, test_loss=on_test, accuracy=on_test))

    def is_baseline_model(model: Floats) -> bool:
        if not isinstance(tester, Sampling) or "test" not in tester.parts:
            return tester is not None and evaluated(tester, model).guesses
        return is_baseline(tester, model)

    result = train_sampled(scenario, learner, fleet, trace, first, until, server, is_baseline_model)
    return TrainingResult(
        result.train_loss,
        result.accuracies,
        result.diverged,
        result.state.delivered,
        result.baseline_rounds,
        result.sampled if any(result.sampled.errors) else None,
        result.evaluation_seconds,
        result.metrics,
        () if result.state.selected is None else result.state.selected.rows,
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings: trainings check for divergence, and runs report doubts once."""
    silent = warnings.catch_warnings(action="ignore", category=FedcellWarning)
    with silent, np.errstate(all="ignore"):
        yield


def _finite(score: float) -> float | None:
    return float(score) if math.isfinite(score) else None
