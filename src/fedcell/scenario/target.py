"""Targets of a training, and when they count as reached: one definition for all packages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf, log10, nan
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import check_count
from fedcell.core.types import Array, Ints

HOLD = 1  # rounds of the moving average, if neither target nor scenario sets it


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Measurements after each round of a run; NaN where nothing was measured."""

    train_loss: Sequence[float] | Array
    accuracy: Sequence[float] | Array = ()  # empty if no round was evaluated on test data
    majority: float = nan  # share of the most common class: accuracy of a constant answer
    guessing: Sequence[int] = ()  # rounds, from 1, with a model known to be no better than that

    @property
    def guesses(self) -> Ints:
        """Return the rounds, from 1, with a model that is no more accurate than always answering
        with the most common class."""
        guessing = np.flatnonzero(np.asarray(self.accuracy, float) <= self.majority) + 1
        return np.union1d(guessing, np.asarray(self.guessing, np.int64))

    @property
    def overflown(self) -> Ints:
        """Return the rounds, from 1, with a training loss that is not finite. NaN counts only
        beside an accuracy; elsewhere the round may not have been evaluated."""
        losses, accuracy = np.asarray(self.train_loss, float), np.full(len(self.train_loss), nan)
        accuracy[: len(self.accuracy)] = self.accuracy
        return np.flatnonzero(np.isinf(losses) | (np.isnan(losses) & ~np.isnan(accuracy))) + 1

    def unsound(self, target: "Target") -> Ints:
        """Return the rounds, from 1, that cannot reach a target: the training loss is not finite,
        or the target is a loss and the model only guesses."""
        if target.loss is None:
            return self.overflown
        return np.union1d(self.overflown, self.guesses)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A training loss, or an accuracy on test data, that a run must reach.

    It is reached when the mean of the last `hold` evaluated rounds is at most the loss, or at
    least the accuracy.

    Parameters
    ----------
    loss : float, optional
        Training loss epsilon, above 0. Give it or `accuracy`.
    accuracy : float, optional
        Accuracy on test data, above 0 and at most 1.
    hold : int, optional
        Rounds of the moving average; 1 is the paper's first passage. Where left out, a run takes
        that of its scenario (1, or 5 with learning.deliver = "last"), and everything else 1.

    Examples
    --------
    >>> Target(loss=0.5, hold=2).reached([0.9, 0.4, 0.7, 0.3])
    4
    >>> print(Target(accuracy=0.9))
    accuracy 0.9
    """

    hold_left_out: ClassVar[bool]  # set on each target, but not part of its value
    loss: float | None = None
    accuracy: float | None = None
    hold: int = None  # type: ignore[assignment]  # None only while it is constructed

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
        for name in ("loss", "accuracy"):  # of any numeric type
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, float(value))

    @property
    def value(self) -> float:
        """Return the loss or the accuracy to reach."""
        return float(self.accuracy if self.loss is None else self.loss)  # type: ignore[arg-type]

    @property
    def column(self) -> str:
        """Return the column of a ledger or a history that the target refers to."""
        return "accuracy" if self.loss is None else "train_loss"

    @property
    def argument(self) -> str:
        """Return the argument that names such a target in messages."""
        return "`accuracy`" if self.loss is None else "`loss`"

    def eased_to(self, value: float) -> "Target":
        """Return this target at a value that was reached, in two digits that are no harder."""
        if self.loss is None:
            return replace(self, accuracy=floor(100 * value) / 100)
        unit = 10.0 ** (floor(log10(value)) - 1)
        eased = float(f"{ceil(value / unit) * unit:.2g}")
        return replace(self, loss=eased)

    def reached(self, values: Sequence[float] | Array, without: Ints | None = None) -> int | None:
        """Return the first round after which the values of its column reach it, or None. Rounds of
        `without`, counted from 1, do not count."""
        if self.loss is None:
            return rounds_to(-np.asarray(values, float), -self.value, self.hold, without)
        return rounds_to(values, self.value, self.hold, without)

    def reached_by(self, run: Scored) -> int | None:
        """Return the first round after which a run reaches it with a sound model, or None."""
        return self.reached(getattr(run, self.column), run.unsound(self))

    def at_least_as_hard_as(self, other: "Target") -> bool:
        """Return whether reaching this target implies reaching the other.

        A loss and an accuracy cannot be compared. Nor can moving averages, unless the one window
        is a multiple of the other.
        """
        if self.column != other.column or self.hold % other.hold:
            return False
        return self.value <= other.value if self.loss is not None else self.value >= other.value

    @property
    def definition(self) -> str:
        """Return in words when it counts as reached."""
        return "at the first passage" if self.hold == 1 else f"in the mean of {self.hold} rounds"

    def __str__(self) -> str:
        what = "accuracy" if self.loss is None else "training loss"
        return f"{what} {self.value:.4g}"


def as_target(given: Any, own: Target | None = None, hold: int = HOLD) -> Target | None:
    """Return a target from a Target, a training loss, or None, which stands for `own`; with `hold`
    where that is left out."""
    if given is None:
        return own
    if not isinstance(given, Target):
        return Target(loss=given, hold=hold)
    return replace(given, hold=hold) if given.hold_left_out else given


def rounds_to(
    losses: Sequence[float] | Array, target: float, hold: int = 1, without: Ints | None = None
) -> int | None:
    """Return G_epsilon as observed: the first round after which the mean of the last `hold` losses
    is at or below a target, or None. Rounds that were not evaluated are skipped, and rounds of
    `without`, counted from 1, do not count."""
    every = np.asarray(losses, float)
    known = np.flatnonzero(~np.isnan(every))
    values = every[known]
    windows = values.size - hold + 1
    if windows < 1:
        return None
    # Summed in one order for any number of windows, so that a single window has the same bits.
    total = values[:windows].copy()
    for place in range(1, hold):
        total += values[place : place + windows]
    reached = known[hold - 1 :][total / hold <= target] + 1
    if without is not None:
        reached = reached[~np.isin(reached, without)]
    return int(reached[0]) if reached.size else None


def _between(value: Any, high: float, or_equal: bool = False) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return 0 < float(value) < high or (or_equal and float(value) == high)
