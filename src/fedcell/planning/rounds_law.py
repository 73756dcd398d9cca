"""What a plan asks of a law of rounds, whoever made it."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from fedcell.core.types import Array

from .lost_uploads import LossKind, Number

Prediction = tuple[Array, Array, Array]  # mean, low and high
LEVEL = 0.9  # of intervals


@runtime_checkable
class RoundsLaw(Protocol):
    """What a plan asks of a law: rounds to the target, how sure, and what to know of it."""

    @property
    def coefficients(self) -> Array:
        """Those of TERMS."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What whoever uses the law should know of it."""
        ...

    def predict(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        runs: float = 1,
        kind: LossKind | None = None,
        level: float = LEVEL,
    ) -> Prediction:
        """Mean rounds, and the interval of the mean of `runs` runs; infinite where a setting never
        gets there."""
        ...

    @property
    def excess(self) -> float:
        """How much the mean of a run's rounds is above their median, in logarithms."""
        ...

    def spread(
        self, cohort: Number, steps: Number, loss_rate: float, kind: LossKind | None = None
    ) -> Array:
        """The standard deviation of the logarithm of a run's rounds, all doubts included."""
        ...

    def quantile(self, share: float) -> float:
        """How many of these standard deviations are above a share of what may come."""
        ...

    def share(self, deviations: Array) -> Array:
        """The contrary: which share of what may come lies below so many."""
        ...

    def draws(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        count: int,
        seed: int = 0,
        kind: LossKind | None = None,
    ) -> Array:
        """Mean rounds as they might be as well, at several settings together: (draw, setting)."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Coefficients by name, and the form of a law that was fitted."""
        ...
