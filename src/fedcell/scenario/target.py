"""What a training is to reach, and when it has: one definition for all that count rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf, log10, nan
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import check_count
from fedcell.core.types import Array, Ints

HOLD = 1  # rounds, where a target leaves it out and no scenario says otherwise


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What was measured after each round of a run; NaN where nothing was."""

    train_loss: Sequence[float] | Array
    accuracy: Sequence[float] | Array = ()  # empty where no round was judged on test data
    majority: float = nan  # the share of the most common class, which a constant answer finds
    guessing: Sequence[int] = ()  # rounds, from 1, whose model is known to find no more than that

    @property
    def guesses(self) -> Ints:
        """Rounds, from 1, whose model finds no more classes than one that always answers with the
        most common."""
        found = np.flatnonzero(np.asarray(self.accuracy, float) <= self.majority) + 1
        return np.union1d(found, np.asarray(self.guessing, np.int64))

    @property
    def overflown(self) -> Ints:
        """Rounds, from 1, whose training loss is not finite. NaN is, where there is an accuracy;
        elsewhere it may stand for a round that was not evaluated."""
        losses, accuracy = np.asarray(self.train_loss, float), np.full(len(self.train_loss), nan)
        accuracy[: len(self.accuracy)] = self.accuracy
        return np.flatnonzero(np.isinf(losses) | (np.isnan(losses) & ~np.isnan(accuracy))) + 1

    def unsound(self, target: "Target") -> Ints:
        """Rounds, from 1, whose model does not count as having reached a target: the training loss
        is not finite; or the target is a loss, and the model guesses."""
        if target.loss is None:
            return self.overflown
        return np.union1d(self.overflown, self.guesses)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A training loss, or an accuracy on test data, and for how long it is to be there.

    It is reached when the mean of the last `hold` evaluated rounds is at the loss or below, at the
    accuracy or above. With 1 that is the paper's first passage. Where `hold` is left out, a run
    takes that of its scenario (1, or 5 with learning.deliver = "last"), and everything else 1.

    >>> Target(loss=0.5, hold=2).reached([0.9, 0.4, 0.7, 0.3])
    4
    >>> print(Target(accuracy=0.9))
    accuracy 0.9
    """

    hold_left_out: ClassVar[bool]  # of each target its own, but no part of its value
    loss: float | None = None
    accuracy: float | None = None
    hold: int = None  # type: ignore[assignment]  # left out, until it is made

    def __post_init__(self) -> None:
        if (self.loss is None) == (self.accuracy is None):
            raise BadInput("a target is a loss or an accuracy: give one of them")
        if self.loss is not None and not _between(self.loss, inf):
            raise BadInput(f"`target` = {self.loss}: expected a finite number above 0")
        if self.accuracy is not None and not _between(self.accuracy, 1, or_equal=True):
            raise BadInput(f"`accuracy` = {self.accuracy}: expected a number above 0, at most 1")
        object.__setattr__(self, "hold_left_out", self.hold is None)
        hold = HOLD if self.hold is None else check_count(self.hold, "`hold`")
        object.__setattr__(self, "hold", hold)
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

    @property
    def argument(self) -> str:
        """The argument that names such a target in messages."""
        return "`accuracy`" if self.loss is None else "`loss`"

    def eased_to(self, value: float) -> "Target":
        """This target at a value that was come to, in two digits that are no harder."""
        if self.loss is None:
            return replace(self, accuracy=floor(100 * value) / 100)
        unit = 10.0 ** (floor(log10(value)) - 1)
        eased = float(f"{ceil(value / unit) * unit:.2g}")
        return replace(self, loss=eased)

    def reached(self, values: Sequence[float] | Array, without: Ints | None = None) -> int | None:
        """The first round after which the values of its column have it; None if none has. Rounds
        of `without`, counted from 1, do not count."""
        if self.loss is None:
            return rounds_to(-np.asarray(values, float), -self.value, self.hold, without)
        return rounds_to(values, self.value, self.hold, without)

    def reached_by(self, run: Scored) -> int | None:
        """The first round after which a run has it, by a model that counts (`Scored.unsound`)."""
        return self.reached(getattr(run, self.column), run.unsound(self))

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
    """A target from what a caller gave: one, a training loss, or None, which is their `own`;
    with `hold` where the caller left that out."""
    if given is None:
        return own
    if not isinstance(given, Target):
        return Target(loss=given, hold=hold)
    return replace(given, hold=hold) if given.hold_left_out else given


def rounds_to(
    losses: Sequence[float] | Array, target: float, hold: int = 1, without: Ints | None = None
) -> int | None:
    """G_epsilon as observed: the first round after which the mean of the last `hold` losses is at
    or below a target; None if it never is. Rounds that were not evaluated are passed over, and
    none of `without`, counted from 1, is the one that is found."""
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
    found = known[hold - 1 :][total / hold <= target] + 1
    if without is not None:
        found = found[~np.isin(found, without)]
    return int(found[0]) if found.size else None


def _between(value: Any, high: float, or_equal: bool = False) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return 0 < float(value) < high or (or_equal and float(value) == high)
