"""Targets of a training, and when they count as reached: one definition for all packages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf, isfinite, log10, nan
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import check_count
from fedcell.core.types import Array, Ints

HOLD = 1  # rounds of the moving average, if neither target nor scenario sets it

Direction = Literal["higher", "lower"]  # which values of a metric are better
USUAL: dict[str, Direction] = {"loss": "lower", "test_loss": "lower", "accuracy": "higher"}
WORDS = {"loss": "training loss", "test_loss": "test loss"}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_@.-]{0,39}")  # of a metric: also the name of a column


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Measurements after each round of a run; NaN where nothing was measured.

    This is the one curve in which targets are looked for; those of trainings, trials of pilots,
    states and ledgers give it as `scored`.
    """

    train_loss: Sequence[float] | Array
    accuracy: Sequence[float] | Array = ()  # empty if no round was evaluated on test data
    majority: float = nan  # share of the most common class: accuracy of a constant answer
    guessing: Sequence[int] = ()  # rounds, from 1, with a model known to be no better than that
    metrics: Mapping[str, Sequence[float] | Array] = field(default_factory=dict)  # others, by name

    def values(self, target: "Target") -> Sequence[float] | Array:
        """Return what a target is looked for in; empty where that was not measured."""
        known = {"loss": self.train_loss, "accuracy": self.accuracy}
        return (known | dict(self.metrics)).get(target.metric, ())

    @property
    def guesses(self) -> Ints:
        """Return the rounds, from 1, with a model that is no more accurate than always answering
        with the most common class."""
        guessing = np.flatnonzero(np.asarray(self.accuracy, float) <= self.majority) + 1
        return np.union1d(guessing, np.asarray(self.guessing, np.int64))

    @property
    def overflown(self) -> Ints:
        """Return the rounds, from 1, with a training loss that is not finite. NaN counts only
        beside a metric on test data; elsewhere the round may not have been evaluated."""
        losses = np.asarray(self.train_loss, float)
        evaluated = np.zeros(losses.size, bool)
        for values in (self.accuracy, *self.metrics.values()):
            evaluated[: len(values)] |= ~np.isnan(np.asarray(values, float))
        return np.flatnonzero(np.isinf(losses) | (np.isnan(losses) & evaluated)) + 1

    def unsound(self, target: "Target") -> Ints:
        """Return the rounds, from 1, that cannot reach a target: the training loss is not finite,
        or the target is a loss and the model only guesses."""
        if target.loss is None:
            return self.overflown
        return np.union1d(self.overflown, self.guesses)


@dataclass(frozen=True, kw_only=True, init=False)
class Target:
    """A level of a metric that a run must reach: the training loss, or a metric on test data.

    It is reached when the mean of the last `hold` evaluated rounds is at the level or better.

    Parameters
    ----------
    loss : float, optional
        Training loss epsilon, above 0: the same as metric="loss" with this level.
    accuracy : float, optional
        Accuracy on test data, above 0 and at most 1: the same as metric="accuracy".
    metric : str, optional
        Name of the metric: "loss" (training), "test_loss", "accuracy", or a metric of the learner.
    level : float, optional
        Value to reach.
    better : {"higher", "lower"}, optional
        Which values are better. Where left out, the learner of the metric says so.
    hold : int, optional
        Rounds of the moving average; 1 is the paper's first passage. Where left out, a run takes
        that of its scenario (1, or 5 with learning.deliver = "last"), and everything else 1.

    Examples
    --------
    >>> Target(loss=0.5, hold=2).reached([0.9, 0.4, 0.7, 0.3])
    4
    >>> print(Target(accuracy=0.9), Target(metric="mae", level=0.2), sep=", ")
    accuracy 0.9, mae 0.2
    """

    metric: str
    level: float
    hold: int
    # A property of the metric, so targets that differ in it alone are equal; None: not yet known.
    better: Direction | None = field(compare=False)

    def __init__(
        self,
        *,
        loss: float | None = None,
        accuracy: float | None = None,
        metric: str | None = None,
        level: float | None = None,
        better: Direction | None = None,
        hold: int | None = None,
    ) -> None:
        named = {"loss": loss, "accuracy": accuracy}
        given = [(name, value) for name, value in named.items() if value is not None]
        if metric is not None or level is not None:
            if metric is None or level is None:
                raise BadInput("a target is a level of a metric: give `metric` and `level`")
            given.append(("loss" if metric == "train_loss" else metric, level))
        if len(given) != 1:
            raise BadInput("a target is a loss or an accuracy, or another metric: give one of them")
        name, value = given[0]
        _check_level(name, value)
        if better not in (None, *get_args(Direction)):
            raise BadInput(f"`better` = {better}: expected higher or lower")
        if (usual := USUAL.get(name)) is not None and better not in (None, usual):
            raise BadInput(f"`better` = {better}: of {name}, {usual} values are better")
        values = {
            "metric": name,
            "level": float(value),  # of any numeric type
            "better": usual or better,
            "hold": HOLD if hold is None else check_count(hold, "`hold`"),
            "hold_left_out": hold is None,  # not part of its value
        }
        for key, each in values.items():
            object.__setattr__(self, key, each)

    hold_left_out = False

    @property
    def loss(self) -> float | None:
        """Return the training loss to reach; None for a target of another metric."""
        return self.level if self.metric == "loss" else None

    @property
    def accuracy(self) -> float | None:
        """Return the accuracy to reach; None for a target of another metric."""
        return self.level if self.metric == "accuracy" else None

    @property
    def value(self) -> float:
        """Return the level to reach."""
        return self.level

    @property
    def sign(self) -> int:
        """Return 1 where lower values are better, and -1 where higher ones are."""
        if self.better is None:
            raise BadInput(
                f"the target is {self}: whether higher or lower values of {self.metric} are better "
                "is known to a learner that measures it; give `better`"
            )
        return 1 if self.better == "lower" else -1

    @property
    def column(self) -> str:
        """Return the column of a ledger or a history that the target refers to."""
        return "train_loss" if self.metric == "loss" else self.metric

    @property
    def needs_test(self) -> bool:
        """Return whether it is measured on test data."""
        return self.metric != "loss"

    @property
    def argument(self) -> str:
        """Return the argument that names such a target in messages."""
        return f"`{self.metric}`" if self.metric in ("loss", "accuracy") else "`level`"

    def with_directions(self, better: Mapping[str, Direction]) -> "Target":
        """Return this target with the direction of its metric; refuse a metric that is not among
        those which are measured on test data, and another direction than theirs."""
        known = {"loss": USUAL["loss"], "test_loss": USUAL["test_loss"], **better}
        if self.metric not in known:
            raise BadInput(
                f"the target is {self}, and {self.metric} is not measured: name one of "
                f"{', '.join(known)}"
            )
        if self.better not in (None, known[self.metric]):
            raise BadInput(
                f"`better` = {self.better}: the learner has {known[self.metric]} values of "
                f"{self.metric} as the better ones"
            )
        return replace(self, better=known[self.metric])

    def towards(self, values: Sequence[float] | Array | float) -> Array:
        """Return values of the metric with a sign by which lower ones are better."""
        return np.asarray(self.sign * np.asarray(values, float))

    def gap(self, values: Sequence[float] | Array | float) -> Array:
        """Return how far values are from the best possible ones: 0 of a loss or an error, 1 of an
        accuracy or another share."""
        known = np.array(values, float)
        return known if self.sign == 1 else 1 - known

    def eased_to(self, value: float) -> "Target":
        """Return this target at a value that was reached, in two digits that are no harder."""
        if self.accuracy is not None:
            return Target(accuracy=floor(100 * value) / 100, hold=self.hold)
        unit = 10.0 ** (floor(log10(abs(value))) - 1) if value else 1.0
        eased = float(f"{self.sign * ceil(self.sign * value / unit) * unit:.2g}")
        return replace(self, level=eased)

    def reached(self, values: Sequence[float] | Array, without: Ints | None = None) -> int | None:
        """Return the first round after which the values of its column reach it, or None. Rounds of
        `without`, counted from 1, do not count."""
        if self.sign == 1:
            return rounds_to(values, self.value, self.hold, without)
        return rounds_to(-np.asarray(values, float), -self.value, self.hold, without)

    def reached_by(self, run: Scored) -> int | None:
        """Return the first round after which a run reaches it with a sound model, or None."""
        return self.reached(run.values(self), run.unsound(self))

    def at_least_as_hard_as(self, other: "Target") -> bool:
        """Return whether reaching this target implies reaching the other.

        Targets of two metrics cannot be compared. Nor can moving averages, unless the one window
        is a multiple of the other.
        """
        if self.column != other.column or self.hold % other.hold:
            return False
        return self.sign * self.value <= self.sign * other.value

    @property
    def definition(self) -> str:
        """Return in words when it counts as reached."""
        return "at the first passage" if self.hold == 1 else f"in the mean of {self.hold} rounds"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as files hold them; `Target(**values)` makes the target again."""
        if self.metric in ("loss", "accuracy"):
            return {"loss": self.loss, "accuracy": self.accuracy, "hold": self.hold}
        return {
            "metric": self.metric,
            "level": self.level,
            "better": self.better,
            "hold": self.hold,
        }

    def __repr__(self) -> str:
        given = {name: value for name, value in self.to_dict().items() if value is not None}
        return f"Target({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __str__(self) -> str:
        return f"{WORDS.get(self.metric, self.metric)} {self.value:.4g}"


def _check_level(name: Any, value: Any) -> None:
    """Refuse a metric or a level that no target can have."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput(f"`metric` = {name!r}: expected a name, of letters, digits, _, - and .")
    if name == "loss" and not _between(value, inf):
        raise BadInput(f"`target` = {value}: expected a finite number above 0")
    if name == "accuracy" and not _between(value, 1, or_equal=True):
        raise BadInput(f"`accuracy` = {value}: expected a number above 0, at most 1")
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not isfinite(float(value)):
        raise BadInput(f"`level` = {value}: expected a finite number")


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
