"""What a worker does: one training from its value, on one thread, with data that it keeps."""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import FedcellWarning
from fedcell.learning.data.dataset import Dataset, load_data
from fedcell.learning.engine import Engine, vector_width
from fedcell.learning.gradients import probe
from fedcell.learning.learner import Differentiable, Learner, warm_up
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.history import State
from fedcell.simulation.train import Stop, diverging, train_rounds

from .training import Curve, Training, Until

PROBED = (0, 1, 2, 4, 8, 16, 32)  # rounds after which lambda is measured


@dataclass(frozen=True)
class Job:
    """A training, until when, and where its data lies."""

    training: Training
    until: Until
    data_dir: Path | None = None
    probed: bool = False  # whether lambda is measured along it


@dataclass(frozen=True)
class Done:
    """A curve, and the seconds that it took to make."""

    curve: Curve
    seconds: float


def train(job: Job, threads: int = 1) -> Done:
    """Makes a training."""
    begin = time.perf_counter()
    training = job.training
    learning = training.scenario.learning
    data = None
    if learning is not None and not learning.analytic:
        data = _data(learning.dataset, job.data_dir)
    with _quiet():
        setup = prepare_training(training.scenario, training.seed, job.data_dir, data=data)
        learner = setup.learner(threads, test=False)  # the last model is judged on test data
        warm_up(learner)
        trained = train_curve(setup.scenario, learner, training.seed, job.until, job.probed)
        last = setup.learner(threads).evaluate(trained.model)
    curve = Curve(
        key=training.key,
        seed=training.seed,
        train_loss=trained.train_loss,
        test_loss=_finite(last.test_loss),
        accuracy=_finite(last.accuracy),
        diverged=trained.diverged,
        diversity=trained.diversity,
        vector_width=vector_width() if isinstance(learner, Engine) else None,
    )
    return Done(curve, time.perf_counter() - begin)


@dataclass(frozen=True, eq=False)
class Trained:
    """What came out of a training, whoever learnt."""

    train_loss: tuple[float, ...]
    diverged: bool
    diversity: tuple[tuple[int, float], ...]  # (round, lambda), where it was measured
    model: Any


def train_curve(
    scenario: Scenario, learner: Learner, seed: int, until: Until, probed: bool = False
) -> Trained:
    """Rounds until the target holds, training blows up, or there were enough."""
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, until.rounds, seed)
    with _quiet():
        state = first = State.start(learner)
        blown = diverging(learner.evaluate(first.model).train_loss)
        rules = [blown, holding(until)]
        lambdas: list[tuple[int, float]] = []
        for state in train_rounds(scenario, learner, fleet, trace, first, rules):
            wanted = probed and state.rounds in PROBED and not any(rule(state) for rule in rules)
            if wanted and isinstance(learner, Differentiable):
                found = probe(learner, state.model, state.rounds, scenario.task.batch_size)
                lambdas.append((state.rounds, found.diversity))
    losses = tuple(state.history.train_loss.tolist())
    return Trained(losses, blown(state), tuple(lambdas), state.model)


@contextmanager
def _quiet() -> Iterator[None]:
    """Divergence is looked for, and doubts are told once by runs."""
    quiet = warnings.catch_warnings(action="ignore", category=FedcellWarning)
    with quiet, np.errstate(all="ignore"):
        yield


def _finite(score: float) -> float | None:
    return float(score) if math.isfinite(score) else None


@lru_cache(maxsize=2)
def _data(dataset: str, data_dir: Path | None) -> Dataset:
    """A dataset, read once in a worker."""
    return load_data(dataset, data_dir)


def holding(until: Until) -> Stop:
    """Ends a training when its loss is at the target and stays, as `until` has it."""
    return lambda state: until.reached(state.history.train_loss[-until.hold :]) is not None
