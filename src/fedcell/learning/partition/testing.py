"""Check a partition rule of your own: call `check_partition` in a test."""

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Ints
from fedcell.learning.data.owners import as_owner
from fedcell.scenario.partition import PartitionSpec

from .make import Partition
from .plugins import PartitionRule


def check_partition(rule: PartitionRule, spec: PartitionSpec | None = None, seed: int = 0) -> None:
    """Check that a partition rule keeps its contract, for several datasets and client counts.

    The rule must return a client from 0 to N - 1, or -1, for each sample; assign at least one
    sample; leave its arguments as they are; and depend on nothing but them.

    Parameters
    ----------
    rule : PartitionRule
        The callable under test.
    spec : PartitionSpec, optional
        The options that it is given; the defaults where left out.
    seed : int
        Seed of the random numbers.

    Raises
    ------
    AssertionError
        If the contract is broken, with the reason and the setting.

    Examples
    --------
    >>> check_partition(lambda labels, count, spec, rng: rng.integers(count, size=labels.size))
    """
    options = spec or PartitionSpec()
    for name, (labels, count) in sample_labels(seed).items():
        given = labels.copy()
        given.flags.writeable = False
        first = rule(given, count, options, stream(Purpose.PARTITION, seed))
        try:
            owner = as_owner(first, labels.size)
            Partition.of_owner(owner, count=count)
        except BadInput as error:
            raise AssertionError(f"{name}: {error}") from error
        if owner.dtype.kind != "i":
            raise AssertionError(f"{name}: owner holds {owner.dtype}: expected client numbers")
        again = rule(given, count, options, stream(Purpose.PARTITION, seed))
        if not np.array_equal(first, again):
            raise AssertionError(f"{name}: the same seed assigns other clients the second time")


def sample_labels(seed: int = 0) -> dict[str, tuple[Ints, int]]:
    """Return labels and a number of clients, by the name of the setting."""
    rng = stream(Purpose.PARTITION, seed, client=1)
    balanced = rng.permutation(np.repeat(np.arange(10), 60))
    skewed = rng.permutation(np.repeat(np.arange(5), [300, 100, 50, 10, 1]))
    return {
        "ten classes, 20 clients": (balanced, 20),
        "rare classes, 7 clients": (skewed, 7),
        "sorted labels, 6 clients": (np.sort(balanced), 6),
        "one class, 4 clients": (np.zeros(40, np.int64), 4),
        "one client": (balanced, 1),
        "as many clients as samples": (np.arange(12) % 3, 12),
    }
