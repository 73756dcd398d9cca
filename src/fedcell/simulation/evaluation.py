"""Which data the models of a run are judged on, and when."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fedcell.core.types import Floats
from fedcell.learning.learner import Learner, Scores, evaluated
from fedcell.scenario.target import Target

TEST_EVERY = 5  # rounds between two judgements on many test samples
MANY_SAMPLES = 1000  # of the test data: fewer are judged on in every round
NEAR_TARGET = 2.0  # times the target: from there on test data tells whether a model guesses

# Scores a model after a round, counted from 1; the flag says that it is the last round of the run.
Judge = Callable[[Floats, int, bool], Scores]


@dataclass
class Stopwatch:
    """Where the time of a training goes, in wall-clock seconds of this machine."""

    training: float = 0.0  # clients, and the aggregation of what they upload
    evaluation: float = 0.0  # of models, on training and test data

    def __str__(self) -> str:
        return f"{self.training:.3g} s training, {self.evaluation:.3g} s evaluating models"


@runtime_checkable
class TestsApart(Learner, Protocol):
    """A learner that can leave test data out when it judges a model."""

    @property
    def test_samples(self) -> int:
        """Test samples that models are judged on."""
        ...

    def train_scores(self, model: Floats) -> Scores:
        """The training loss alone."""
        ...

    def with_test_scores(self, model: Floats, scores: Scores) -> Scores:
        """The same scores with those on test data."""
        ...


@dataclass(frozen=True, eq=False)
class SparseJudge:
    """Judges on the training data after every round, and on the test data where something asks for
    it: every few rounds, near the target, and after the last round."""

    learner: TestsApart
    target: Target | None

    def __call__(self, model: Floats, round: int, last: bool) -> Scores:
        if last or round % TEST_EVERY == 0:
            return evaluated(self.learner, model)
        scores = self.learner.train_scores(model)
        loss = None if self.target is None else self.target.loss
        if loss is None or scores.train_loss > NEAR_TARGET * loss:
            return scores
        return self.learner.with_test_scores(model, scores)


def judge_of(learner: Learner, target: Target | None) -> Judge | None:
    """The judge of a run; None where the learner judges every model on all that it has: it cannot
    do otherwise, there are few test samples, or an accuracy is the target."""
    by_accuracy = target is not None and target.accuracy is not None
    if by_accuracy or not isinstance(learner, TestsApart) or learner.test_samples <= MANY_SAMPLES:
        return None
    return SparseJudge(learner, target)
