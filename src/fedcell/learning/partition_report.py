"""Describe a partition: statistics, and label counts by client."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcell.core.showing import Showable
from fedcell.core.types import Array, Ints
from fedcell.learning.partition.make import PartitionSummary, summarise_partition

from .setup import TrainingSetup, require_learning


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionReport(Showable):
    """The partition of a scenario's training data over its clients.

    Attributes
    ----------
    name : str
        Name of the scenario.
    dataset, kind, sizes : str
        The dataset, and how it was partitioned.
    seed : int
        Seed of the partition.
    statistics : PartitionSummary
        Sizes and label skew.
    label_counts : array of int, (client, class)
        Samples of each class that each client holds.
    names : tuple of str, optional
        Names of the clients, if they have any.
    """

    name: str
    dataset: str
    kind: str
    sizes: str
    seed: int
    statistics: PartitionSummary
    label_counts: Ints
    names: tuple[str, ...] | None = None

    @property
    def given(self) -> bool:
        """Whether owners were given."""
        return self.kind == "given"

    @property
    def skews(self) -> Array:
        """Total variation distance of each client's labels from all labels; NaN without data."""
        held = self.label_counts.sum(1, keepdims=True)
        shares = np.divide(
            self.label_counts, held, out=np.full(self.label_counts.shape, np.nan), where=held > 0
        )
        return np.asarray(np.abs(shares - self.label_counts.sum(0) / held.sum()).sum(1) / 2)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each client: name if any, samples, and samples of each class."""
        return [
            {"client": j}
            | ({} if self.names is None else {"name": self.names[j]})
            | {"samples": int(counts.sum())}
            | {f"class_{label}": count for label, count in enumerate(counts.tolist())}
            for j, counts in enumerate(self.label_counts)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `fedcell partition --json` prints them."""
        how = {"dataset": self.dataset, "kind": self.kind, "sizes": self.sizes}
        return how | asdict(self.statistics) | ({"owners": self.rows()} if self.given else {})

    def __repr__(self) -> str:
        numbers = self.statistics
        words = f"{numbers.samples} samples of {self.dataset} over {numbers.clients} clients"
        return f"<PartitionReport: {words}, skew {numbers.skew:.2f}>"


def describe_partition(setup: TrainingSetup, name: str = "scenario") -> PartitionReport:
    """Describe how a prepared scenario partitions its data.

    Parameters
    ----------
    setup : TrainingSetup
        From `prepare_training`.
    name : str
        Name of the scenario in the report.

    Returns
    -------
    PartitionReport
    """
    spec = require_learning(setup.scenario).partition
    return PartitionReport(
        name=name,
        dataset=setup.data.name,
        kind=spec.kind or "iid",
        sizes={"dirichlet": "drawn", "given": "given"}.get(spec.kind or "iid", spec.sizes),
        seed=setup.seed,
        statistics=summarise_partition(setup.partition, setup.data.y_train),
        label_counts=setup.partition.label_counts(setup.data.y_train, setup.data.classes),
        names=setup.client_names,
    )
