"""Partition rules of other packages, by entry points of the group "fedcell.partitions"."""

import hashlib
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedcell.core.callables import blaming
from fedcell.core.errors import BadInput
from fedcell.core.plugins import load_plugin
from fedcell.core.types import Ints
from fedcell.learning.custom import sources_of
from fedcell.scenario.partition import KINDS, PARTITION_GROUP, PartitionSpec


class PartitionRule(Protocol):
    """Assigns training samples to clients.

    A package adds one under a name, which a scenario gives as `learning.partition.kind`::

        [project.entry-points."fedcell.partitions"]
        by-writer = "writers.partition:by_writer"

    `check_partition` tests whether a rule keeps this contract.
    """

    def __call__(
        self, labels: Ints, count: int, spec: PartitionSpec, rng: Generator
    ) -> NDArray[np.integer]:
        """Return the client of each training sample.

        Parameters
        ----------
        labels : array of int64, (sample,)
            The class of each training sample, read-only.
        count : int
            N, the number of clients.
        spec : PartitionSpec
            The table [learning.partition]; the rule may use its options.
        rng : numpy.random.Generator
            The only source of random numbers: the same seed must give the same clients.

        Returns
        -------
        array of int, (sample,)
            A client from 0 to `count` - 1 for each sample, or -1 to leave it out.
        """
        ...


def assign_by_plugin(
    labels: NDArray[np.integer], count: int, spec: PartitionSpec, rng: Generator
) -> Any:
    """Return what the rule named by `spec.kind` assigns; the caller checks it."""
    rule = _rule(str(spec.kind))
    read_only = np.array(labels, np.int64)
    read_only.flags.writeable = False
    with blaming(f"the partition {spec.kind} failed"):
        return rule(read_only, count, spec, rng)


def plugin_fingerprint(kind: str | None) -> str | None:
    """Return a checksum of the source of a rule; None for built-in kinds.

    A run after a change of the rule's code is another run.
    """
    if kind is None or kind in KINDS:
        return None
    rule = _rule(kind)
    checksums = sorted(sources_of(rule, getattr(rule, "__module__", "")).values())
    return hashlib.sha256("|".join([kind, *checksums]).encode()).hexdigest()[:16]


def _rule(kind: str) -> PartitionRule:
    rule = load_plugin(PARTITION_GROUP, kind)
    if not callable(rule):
        raise BadInput(f"the partition {kind} cannot be called: expected a PartitionRule")
    return rule  # type: ignore[no-any-return]
