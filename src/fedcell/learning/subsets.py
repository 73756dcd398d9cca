"""Which samples models are judged on: a fixed part of what there is."""

import numpy as np

from fedcell.core.dice import Purpose, stream
from fedcell.core.types import Array, Ints

from .partition import Partition


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
