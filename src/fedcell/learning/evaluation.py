"""Choose the samples that models are evaluated on, and estimate scores from a part of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array, Floats, Ints
from fedcell.learning.partition.make import Partition

from .learner import Learner, majority_of


def subset_of_test(count: int, most: int, seed: int) -> Ints:
    """Return the test samples of evaluations: all, or a fixed subset."""
    if most >= count:
        return np.arange(count)
    return np.sort(stream(Purpose.EVALUATION, seed, round=1).choice(count, most, replace=False))


def subset_of_training(partition: Partition, most: int, seed: int) -> tuple[Ints, Array]:
    """Return the training samples of evaluations, and the weight of each in (2).

    All of them, or a fixed part of each client's data, at least one sample of each client with
    data: the weights of a client sum to q_j in any case (DECISIONS.md, 3).
    """
    total = partition.index.size
    if most >= total:
        return partition.index, np.full(total, 1 / total)
    index, weight = [], []
    for j in np.flatnonzero(partition.sizes).tolist():  # clients with data
        own = partition.of(j)
        take = max(1, round(own.size * most / total))
        index.append(stream(Purpose.EVALUATION, seed, j).choice(own, take, replace=False))
        weight.append(np.full(take, own.size / total / take))
    return np.concatenate(index), np.concatenate(weight)


FIRST_SAMPLES = 128  # samples of the smallest subset, or
FIRST_PER_CLASS = 8  # of each class, where that is more
GROWTH = 4  # factor from one subset to the next
BORROWED = 2.0  # weight [samples] of the pooled variance in that of a class

Part = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class Strata:
    """Evaluation samples in an order of which every prefix is stratified by class."""

    order: Ints  # indices of the samples
    group: Ints  # the class of each sample, numbered from 0
    weight: Array  # of each sample in the mean over all; they sum to 1

    @classmethod
    def of(cls, labels: Ints, weight: Array, rng: Generator) -> "Strata":
        """Order samples with these labels, randomly within a class."""
        group = np.unique(labels, return_inverse=True)[1].ravel()
        position = np.empty(len(labels))
        for members in (np.flatnonzero(group == g) for g in range(int(group.max()) + 1)):
            position[rng.permutation(members)] = (np.arange(members.size) + rng.random()) / (
                members.size
            )
        return cls(np.argsort(position, kind="stable"), group, weight)

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.group.size

    def __repr__(self) -> str:
        return f"<Strata: {self.size} samples of {self._counts.size} classes>"

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the prefixes; the last is all samples."""
        first = max(FIRST_SAMPLES, FIRST_PER_CLASS * self._counts.size)
        sizes = [first]
        while sizes[-1] * GROWTH < self.size:
            sizes.append(sizes[-1] * GROWTH)
        if 2 * sizes[-1] > self.size:  # close to all samples: it would save little
            sizes.pop()
        return (*sizes, self.size)

    @cached_property
    def _counts(self) -> Ints:
        return np.bincount(self.group)

    @cached_property
    def _weights(self) -> Array:
        return np.asarray(np.bincount(self.group, self.weight), float)

    @cached_property
    def majority(self) -> float:
        """Share of the most common class; NaN with fewer than two classes."""
        return majority_of(self.group)

    def estimate(self, values: Array, known: int, unseen: float = 0.0) -> tuple[float, float]:
        """Estimate the mean over all samples from the first `known`, with its standard error.

        In each class this is a ratio estimate from a sample without replacement. A class with few
        samples borrows from the pooled variance within classes.

        Parameters
        ----------
        values : array, (sample,)
            Values of all samples; only those of the first `known` in `order` are read.
        known : int
            Number of known values; with all of them the error is 0.
        unseen : float
            Lower bound of the pooled variance.

        Returns
        -------
        tuple of float
            Mean and standard error.
        """
        if known >= self.size:
            return float((self.weight * values).sum()), 0.0
        places = self.order[:known]
        g, w, v = self.group[places], self.weight[places], values[places]
        groups = self._counts.size
        seen, inside = np.bincount(g, minlength=groups), np.bincount(g, w, groups)
        some = seen > 0
        mean = np.full(groups, (w * v).sum() / w.sum())
        mean[some] = np.bincount(g, w * v, groups)[some] / inside[some]
        scale = np.where(some, inside / np.maximum(seen, 1), w.mean())  # mean weight of a sample
        # In units of the value, so that variances of classes with other weights can be pooled.
        square = np.bincount(g, (w / scale[g] * (v - mean[g])) ** 2, groups)
        freedom = np.maximum(seen - 1, 0)
        within = max(square.sum() / max(freedom.sum(), 1), unseen)
        variance = (square + BORROWED * within) / (freedom + BORROWED)
        variance[~some] = v.var() + within  # of an unseen class only the overall spread is known
        error = self._weights**2 * variance * (1 - seen / self._counts) / np.maximum(seen, 1)
        return float(self._weights @ mean), float(np.sqrt(error.sum()))


@runtime_checkable
class Sampling(Learner, Protocol):
    """A learner that can evaluate a model on some of its evaluation samples."""

    @property
    def parts(self) -> Sequence[Part]:
        """The data that models are evaluated on: "train", and "test" if there is any."""
        ...

    def strata(self, part: Part) -> Strata:
        """Return the evaluation samples of the training data or of the test data."""
        ...

    def judge(self, model: Floats, part: Part, places: Ints) -> tuple[Array, Array]:
        """Return the loss of each of these samples, and 1 where it is classified correctly."""
        ...


class Judgement:
    """Scores of one model on a prefix of the evaluation samples, which can be extended."""

    def __init__(self, learner: Sampling, model: Floats, part: Part) -> None:
        self._learner, self._model, self._part = learner, model, part
        self.strata = learner.strata(part)
        self._losses, self._hits = np.full((2, self.strata.size), np.nan)
        self.samples = 0
        self.lengthen()

    @property
    def complete(self) -> bool:
        """Whether all samples are evaluated."""
        return self.samples == self.strata.size

    def lengthen(self) -> None:
        """Evaluate the model on the next longer prefix."""
        size = next(size for size in self.strata.sizes if size > self.samples)
        places = self.strata.order[self.samples : size]
        if self.samples == 0 and size == self.strata.size:
            places = np.arange(size)  # as the learner itself would
        self._losses[places], self._hits[places] = self._learner.judge(
            self._model, self._part, places
        )
        self.samples = size

    @property
    def loss(self) -> tuple[float, float]:
        """Mean loss and its standard error."""
        return self.strata.estimate(self._losses, self.samples)

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy and its standard error."""
        # The accuracy is not certain even if no class has both hits and misses so far.
        return self.strata.estimate(self._hits, self.samples, unseen=1 / self.samples)
