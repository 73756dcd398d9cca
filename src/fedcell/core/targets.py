"""What a training is to reach, and when it has: one definition for all that count rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np

from .dice import check_count
from .errors import BadInput
from .types import Array

HOLD = 5  # rounds: what few clients make swing dips below a loss long before it stays there


@dataclass(frozen=True, kw_only=True)
class Target:
    """A training loss, or an accuracy on test data, and for how long it is to be there.

    It is reached when the mean of the last `hold` evaluated rounds is at the loss or below, at the
    accuracy or above. With 1 that is the paper's first passage.

    >>> Target(loss=0.5, hold=2).reached([0.9, 0.4, 0.7, 0.3])
    4
    >>> print(Target(accuracy=0.9))
    accuracy 0.9
    """

    loss: float | None = None
    accuracy: float | None = None
    hold: int = HOLD

    def __post_init__(self) -> None:
        if (self.loss is None) == (self.accuracy is None):
            raise BadInput("a target is a loss or an accuracy: give one of them")
        if self.loss is not None and not _between(self.loss, inf):
            raise BadInput(f"`target` = {self.loss}: expected a finite number above 0")
        if self.accuracy is not None and not _between(self.accuracy, 1, or_equal=True):
            raise BadInput(f"`accuracy` = {self.accuracy}: expected a number above 0, at most 1")
        object.__setattr__(self, "hold", check_count(self.hold, "`hold`"))
        for name in ("loss", "accuracy"):  # a number of whatever kind
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, float(value))

    @property
    def value(self) -> float:
        """The number that is to be reached."""
        return float(self.accuracy if self.loss is None else self.loss)  # type: ignore[arg-type]

    @property
    def column(self) -> str:
        """Where a ledger or a history has what is watched."""
        return "accuracy" if self.loss is None else "train_loss"

    def reached(self, values: Sequence[float] | Array) -> int | None:
        """The first round after which the values of its column have it; None if none has."""
        if self.loss is None:
            return rounds_to(-np.asarray(values, float), -self.value, self.hold)
        return rounds_to(values, self.value, self.hold)

    def at_least_as_hard_as(self, other: "Target") -> bool:
        """Whether whoever has this one has the other too; of a loss and an accuracy none knows.

        The mean of ten rounds is at a target only if that of five of them is; of three none knows.
        """
        if self.column != other.column or self.hold % other.hold:
            return False
        return self.value <= other.value if self.loss is not None else self.value >= other.value

    @property
    def definition(self) -> str:
        """When it counts as reached, in words."""
        return "at the first passage" if self.hold == 1 else f"in the mean of {self.hold} rounds"

    def __str__(self) -> str:
        what = "accuracy" if self.loss is None else "training loss"
        return f"{what} {self.value:.4g}"


def as_target(given: Any, own: Target | None = None, hold: int = HOLD) -> Target | None:
    """A target from what a caller gave: one, a training loss, or None, which is their `own`."""
    if given is None:
        return own
    return given if isinstance(given, Target) else Target(loss=given, hold=hold)


def rounds_to(losses: Sequence[float] | Array, target: float, hold: int = 1) -> int | None:
    """G_epsilon as observed: the first round after which the mean of the last `hold` losses is at
    or below a target; None if it never is. Rounds that were not evaluated are passed over."""
    every = np.asarray(losses, float)
    known = np.flatnonzero(~np.isnan(every))
    values = every[known]
    windows = values.size - hold + 1
    if windows < 1:
        return None
    # Summed in one order, however many windows there are: who looks at the last one only agrees.
    total = values[:windows].copy()
    for place in range(1, hold):
        total += values[place : place + windows]
    found = np.flatnonzero(total / hold <= target)
    return int(known[found[0] + hold - 1]) + 1 if found.size else None


def _between(value: Any, high: float, or_equal: bool = False) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return 0 < float(value) < high or (or_equal and float(value) == high)
