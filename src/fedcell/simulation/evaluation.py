"""Choose the data that the models of a run are evaluated on, round by round."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedcell.core.types import Floats
from fedcell.learning.learner import Learner, Scores, evaluated
from fedcell.scenario.target import Target

TEST_EVERY = 5  # rounds between two evaluations on many test samples
MANY_SAMPLES = 1000  # test samples; up to as many are used in every round
NEAR_TARGET = 2.0  # times the target loss, below which every model is evaluated on test data

# Scores a model after a round, counted from 1; the flag says that it is the last round of the run.
Evaluator = Callable[[Floats, int, bool], Scores]


@dataclass
class Stopwatch:
    """Wall-clock seconds of a training on this machine."""

    training: float = 0.0  # of clients, and aggregation of their uploads
    evaluation: float = 0.0  # of models, on training and test data

    def __str__(self) -> str:
        return f"{self.training:.3g} s training, {self.evaluation:.3g} s evaluating models"


@runtime_checkable
class SplitEvaluation(Learner, Protocol):
    """A learner that can evaluate a model on training data alone."""

    @property
    def test_samples(self) -> int:
        """Number of test samples."""
        ...

    def train_scores(self, model: Floats) -> Scores:
        """Return the training loss alone."""
        ...

    def with_test_scores(self, model: Floats, scores: Scores) -> Scores:
        """Return the same scores with those on test data."""
        ...


@dataclass(frozen=True, eq=False)
class SparseEvaluator:
    """Evaluate on training data after every round, and on test data every few rounds, near the
    target and after the last round."""

    learner: SplitEvaluation
    target: Target | None

    def __call__(self, model: Floats, round: int, last: bool) -> Scores:
        if last or round % TEST_EVERY == 0:
            return evaluated(self.learner, model)
        scores = self.learner.train_scores(model)
        loss = None if self.target is None else self.target.loss
        if loss is None or scores.train_loss > NEAR_TARGET * loss:
            return scores
        return self.learner.with_test_scores(model, scores)


def choose_evaluator(learner: Learner, target: Target | None) -> Evaluator | None:
    """Return the evaluator of a run; None where the learner evaluates every model on all data: it
    cannot split them, there are few test samples, or the target is measured on test data."""
    if target is not None and target.needs_test:
        return None
    if not isinstance(learner, SplitEvaluation) or learner.test_samples <= MANY_SAMPLES:
        return None
    return SparseEvaluator(learner, target)
