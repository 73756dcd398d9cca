"""Which samples models are judged on: a fixed part of what there is."""

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
    """Test samples that models are judged on: all, or a fixed part."""
    if most >= count:
        return np.arange(count)
    return np.sort(stream(Purpose.EVALUATION, seed, round=1).choice(count, most, replace=False))


def subset_of_training(partition: Partition, most: int, seed: int) -> tuple[Ints, Array]:
    """Training samples that losses are judged on, and what each counts in (2).

    All of them, or a fixed part of every client's data, at least one sample of each that has any:
    a client counts q_j whatever part is taken (DECISIONS.md, 3).
    """
    total = partition.index.size
    if most >= total:
        return partition.index, np.full(total, 1 / total)
    index, weight = [], []
    for j in np.flatnonzero(partition.sizes).tolist():  # who has samples
        own = partition.of(j)
        take = max(1, round(own.size * most / total))
        index.append(stream(Purpose.EVALUATION, seed, j).choice(own, take, replace=False))
        weight.append(np.full(take, own.size / total / take))
    return np.concatenate(index), np.concatenate(weight)


FIRST_SAMPLES = 128  # of the shortest beginning, where a class has room in it
FIRST_PER_CLASS = 8
GROWTH = 4  # times as many samples in the next beginning
BORROWED = 2.0  # samples that the variance of all classes counts for in that of one

Part = Literal["train", "test"]


@dataclass(frozen=True, eq=False)
class Strata:
    """Evaluation samples by class, in an order of which every beginning has its share of each."""

    order: Ints  # places of the samples
    group: Ints  # the class of each place, numbered from 0
    weight: Array  # of each place in the mean over all; they sum to 1

    @classmethod
    def of(cls, labels: Ints, weight: Array, rng: Generator) -> "Strata":
        """Of samples with these labels; the order within a class is random."""
        group = np.unique(labels, return_inverse=True)[1].ravel()
        position = np.empty(len(labels))
        for members in (np.flatnonzero(group == g) for g in range(int(group.max()) + 1)):
            position[rng.permutation(members)] = (np.arange(members.size) + rng.random()) / (
                members.size
            )
        return cls(np.argsort(position, kind="stable"), group, weight)

    @property
    def size(self) -> int:
        """All samples."""
        return self.group.size

    def __repr__(self) -> str:
        return f"<Strata: {self.size} samples of {self._counts.size} classes>"

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the beginnings, the last of them that of all samples."""
        first = max(FIRST_SAMPLES, FIRST_PER_CLASS * self._counts.size)
        sizes = [first]
        while sizes[-1] * GROWTH < self.size:
            sizes.append(sizes[-1] * GROWTH)
        if 2 * sizes[-1] > self.size:  # so near to all that it saves next to nothing
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
        """The share of the most common class; NaN where there are fewer than two."""
        return majority_of(self.group)

    def estimate(self, values: Array, known: int, unseen: float = 0.0) -> tuple[float, float]:
        """The mean over all samples from the values of the first `known`, and its standard error;
        the error is 0 where all are known. `values` has a place for every sample.

        In each class this is a ratio estimate from a sample without replacement. A class of few
        samples borrows from the variance within the others, which is at least `unseen`.
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
        # In units of the value, so that classes of other weights can lend their variance.
        square = np.bincount(g, (w / scale[g] * (v - mean[g])) ** 2, groups)
        freedom = np.maximum(seen - 1, 0)
        within = max(square.sum() / max(freedom.sum(), 1), unseen)
        variance = (square + BORROWED * within) / (freedom + BORROWED)
        variance[~some] = v.var() + within  # of a class that was not seen only the whole is known
        error = self._weights**2 * variance * (1 - seen / self._counts) / np.maximum(seen, 1)
        return float(self._weights @ mean), float(np.sqrt(error.sum()))


@runtime_checkable
class Sampling(Learner, Protocol):
    """A learner that can judge a model on some of its evaluation samples."""

    @property
    def parts(self) -> Sequence[Part]:
        """The data that models are judged on."""
        ...

    def strata(self, part: Part) -> Strata:
        """The evaluation samples, of the training data or of the test data."""
        ...

    def judge(self, model: Floats, part: Part, places: Ints) -> tuple[Array, Array]:
        """The loss of each of the samples at these places, and 1 where its class is found."""
        ...


class Judgement:
    """One model on a beginning of the evaluation samples, which may be lengthened."""

    def __init__(self, learner: Sampling, model: Floats, part: Part) -> None:
        self._learner, self._model, self._part = learner, model, part
        self.strata = learner.strata(part)
        self._losses, self._hits = np.full((2, self.strata.size), np.nan)
        self.samples = 0
        self.lengthen()

    @property
    def complete(self) -> bool:
        """Whether all samples are known."""
        return self.samples == self.strata.size

    def lengthen(self) -> None:
        """Judges the model on the next longer beginning."""
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
        """The mean loss and its standard error."""
        return self.strata.estimate(self._losses, self.samples)

    @property
    def accuracy(self) -> tuple[float, float]:
        """The share of samples whose class is found, and its standard error."""
        # That no class has both hits and misses so far does not make the share certain.
        return self.strata.estimate(self._hits, self.samples, unseen=1 / self.samples)
