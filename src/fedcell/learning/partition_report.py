"""Who holds what, as a result that is shown: numbers of a partition, and labels by client."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcell.core.showing import Showable
from fedcell.core.types import Array, Ints
from fedcell.learning.partition.make import PartitionSummary, summarise_partition

from .setup import TrainingSetup, require_learning


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionReport(Showable):
    """How a scenario deals its training data to the clients."""

    name: str  # of the scenario
    dataset: str
    kind: str
    sizes: str
    seed: int
    statistics: PartitionSummary
    label_counts: Ints  # (client, class)
    names: tuple[str, ...] | None = None  # of the clients, where they are known by them

    @property
    def given(self) -> bool:
        """Whether owners were given, and nothing was dealt."""
        return self.kind == "given"

    @property
    def skews(self) -> Array:
        """Total variation distance between the labels of each client and all labels; NaN where it
        has none."""
        held = self.label_counts.sum(1, keepdims=True)
        shares = np.divide(
            self.label_counts, held, out=np.full(self.label_counts.shape, np.nan), where=held > 0
        )
        return np.asarray(np.abs(shares - self.label_counts.sum(0) / held.sum()).sum(1) / 2)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each client: its name if it has one, its samples, and those of each class."""
        return [
            {"client": j}
            | ({} if self.names is None else {"name": self.names[j]})
            | {"samples": int(counts.sum())}
            | {f"class_{label}": count for label, count in enumerate(counts.tolist())}
            for j, counts in enumerate(self.label_counts)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell partition --json` prints them; with a row for each client
        where owners were given."""
        how = {"dataset": self.dataset, "kind": self.kind, "sizes": self.sizes}
        return how | asdict(self.statistics) | ({"owners": self.rows()} if self.given else {})

    def __repr__(self) -> str:
        numbers = self.statistics
        words = f"{numbers.samples} samples of {self.dataset} over {numbers.clients} clients"
        return f"<PartitionReport: {words}, skew {numbers.skew:.2f}>"


def describe_partition(setup: TrainingSetup, name: str = "scenario") -> PartitionReport:
    """Who holds what, in numbers."""
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
