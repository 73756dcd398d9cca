"""What a worker does: one training from its value, on one thread, with data that it keeps."""

import math
import time
import warnings
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedcell.core.errors import FedcellWarning
from fedcell.learning.data.dataset import Dataset, load_data
from fedcell.learning.engine import Engine, vector_width
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.simulation.train import Stop, diverging, train_rounds

from .training import Curve, Training, Until


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


def train(job: Job) -> Done:
    """Makes a training."""
    begin = time.perf_counter()
    training, until = job.training, job.until
    learning = training.scenario.learning
    data = None
    if learning is not None and not learning.analytic:
        data = _data(learning.dataset, job.data_dir)
    quiet = warnings.catch_warnings(action="ignore", category=FedcellWarning)
    with quiet, np.errstate(all="ignore"):
        setup = prepare_training(training.scenario, training.seed, job.data_dir, data=data)
        learner = setup.learner(threads=1, test=False)  # the last model is judged on test data
        warm_up(learner)
        fleet = draw_fleet(setup.scenario, training.seed)
        trace = draw_trace(setup.scenario, fleet, until.rounds, training.seed)
        blown = diverging(learner.evaluate(learner.start()).train_loss)
        rules = [blown, holding(until)]
        (state,) = deque(train_rounds(setup.scenario, learner, fleet, trace, stop=rules), maxlen=1)
        last = setup.learner(threads=1).evaluate(state.model)
    curve = Curve(
        key=training.key,
        seed=training.seed,
        train_loss=tuple(state.history.train_loss.tolist()),
        test_loss=_finite(last.test_loss),
        accuracy=_finite(last.accuracy),
        diverged=blown(state),
        vector_width=vector_width() if isinstance(learner, Engine) else None,
    )
    return Done(curve, time.perf_counter() - begin)


def _finite(score: float) -> float | None:
    return float(score) if math.isfinite(score) else None


@lru_cache(maxsize=2)
def _data(dataset: str, data_dir: Path | None) -> Dataset:
    """A dataset, read once in a worker."""
    return load_data(dataset, data_dir)


def holding(until: Until) -> Stop:
    """Ends a training when its loss is at the target and stays, as `until` has it."""
    return lambda state: until.reached(state.history.train_loss[-until.hold :]) is not None
