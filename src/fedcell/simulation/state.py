"""The state of a training between two rounds, and its history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Any

import numpy as np

from fedcell.core.types import Array, Floats, Ints
from fedcell.learning.learner import Learner, Scores, first_model, own_metrics
from fedcell.learning.server_optimizer import ServerOptimizer
from fedcell.network.selectors.history import Selected
from fedcell.scenario.learning import Deliver
from fedcell.scenario.target import Scored

COLUMNS: dict[str, type] = {
    "discarded_uploads": np.int64,  # uploads that arrived and were not finite
    "train_loss": np.float64,  # (2)
    "test_loss": np.float64,
    "accuracy": np.float64,
}

AVERAGE_DECAY = 16  # eta of the average of the last models (DECISIONS.md, 74)


class _Rows:
    """Rows that only grow: a history with fewer of them does not see the others."""

    def __init__(self, rows: Any) -> None:
        self.data, self.count = rows, len(rows)

    def with_row(self, place: int, row: tuple[Any, ...]) -> "_Rows":
        """Return rows with one at `place`: these if that is the end, else a copy."""
        if place < self.count:  # another training continued from the same state
            return _Rows(self.data[:place].copy()).with_row(place, row)
        if place == len(self.data):
            room = np.empty(max(64, 2 * place), self.data.dtype)
            room[:place] = self.data
            self.data = room
        self.data[place] = row
        self.count = place + 1
        return self


@dataclass(frozen=True, eq=False)
class History:
    """Scores after each round: arrays of length `rounds`; NaN in rounds without an evaluation."""

    _rows: _Rows
    rounds: int  # done
    majority: float = nan  # accuracy of the majority class on the test data

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> "History":
        """Return a history of arrays by name, of equal length; others than `COLUMNS` are metrics of
        the learner."""
        metrics = [name for name in columns if name not in COLUMNS]
        kinds = [*COLUMNS.items(), *((name, np.float64) for name in metrics)]
        rows = np.empty(len(columns["train_loss"]), kinds)
        for name, _ in kinds:
            rows[name] = columns[name]
        return cls(_Rows(rows), len(rows))

    @classmethod
    def none(cls, metrics: Iterable[str] = ()) -> "History":
        """Return a history of no rounds, with columns for metrics of a learner."""
        columns: dict[str, Any] = {name: np.empty(0, kind) for name, kind in COLUMNS.items()}
        return cls.of(columns | {name: np.empty(0) for name in metrics})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: `COLUMNS`, then metrics of the learner."""
        return tuple(self._rows.data.dtype.names)

    @property
    def metrics(self) -> dict[str, Array]:
        """Metrics of the learner on test data, by name."""
        return {name: np.asarray(self._column(name)) for name in self.names[len(COLUMNS) :]}

    def column(self, name: str) -> Array:
        """Return a column by its name, also that of a metric."""
        return np.asarray(self._column(name))

    def _column(self, name: str) -> Any:
        column = self._rows.data[name][: self.rounds]
        column.flags.writeable = False
        return column

    @property
    def discarded_uploads(self) -> Ints:
        """Uploads that arrived and were not finite."""
        return np.asarray(self._column("discarded_uploads"))

    @property
    def train_loss(self) -> Array:
        """Training loss (2)."""
        return np.asarray(self._column("train_loss"))

    @property
    def test_loss(self) -> Array:
        """Mean loss on the test samples."""
        return np.asarray(self._column("test_loss"))

    @property
    def accuracy(self) -> Array:
        """Share of test samples that are classified correctly."""
        return np.asarray(self._column("accuracy"))

    def scored(self, first: int = 0) -> Scored:
        """Return the scores of rounds from `first` on, counted from 0, to check a target."""
        return Scored(
            train_loss=self.train_loss[first:],
            accuracy=self.accuracy[first:],
            majority=self.majority,
            metrics={
                name: self._column(name)[first:]
                for name in ("test_loss", *self.names[len(COLUMNS) :])
            },
        )

    def columns(self) -> dict[str, Any]:
        """Return copies of the arrays, by name."""
        return {name: np.array(self._column(name)) for name in self.names}

    def rows(self, first: int = 0) -> list[tuple[Any, ...]]:
        """Return rounds from `first` on, a tuple each, in the order of the columns."""
        listed: list[tuple[Any, ...]] = self._rows.data[first : self.rounds].tolist()
        return listed

    def with_round(self, discarded: int, scores: Scores) -> "History":
        """Return the history with one more round."""
        row = (discarded, *map(scores.of, self.names[1:]))
        majority = self.majority if isnan(scores.majority) else scores.majority
        return History(self._rows.with_row(self.rounds, row), self.rounds + 1, majority)

    def with_last(self, scores: Scores) -> "History":
        """Return the history with other scores in the last round."""
        before = History.of({name: column[:-1] for name, column in self.columns().items()})
        before = replace(before, majority=self.majority)
        return before.with_round(int(self.discarded_uploads[-1]), scores)


@dataclass(frozen=True, eq=False)
class State:
    """All that a training carries from one round to the next; saved to resume it."""

    model: Floats
    history: History
    average: Floats  # of the last models: `moved_average`
    server: Floats | None = None  # memory of the server, (vector, number), if it has one
    clients: Mapping[int, Any] | None = None  # what they remember, if the learner keeps anything
    selected: Selected | None = None  # rounds that a rule has chosen, where one learns
    deliver: Deliver = field(kw_only=True)  # which of both models is evaluated and exported

    @property
    def rounds(self) -> int:
        """Number of rounds done."""
        return self.history.rounds

    @property
    def bytes(self) -> int:
        """Size of the models, and of what the server and clients remember."""
        known = [self.model, self.average, self.server, *(self.clients or {}).values()]
        return sum(int(values.nbytes) for values in known if values is not None)

    @property
    def delivered(self) -> Floats:
        """The model that is evaluated, compared with the target and exported (learning.deliver)."""
        return self.average if self.deliver == "average" else self.model

    @property
    def other(self) -> Floats:
        """The model that is not delivered."""
        return self.model if self.deliver == "average" else self.average

    def with_majority(self, majority: float) -> "State":
        """Return the state with the accuracy of the majority class, which is not saved by round."""
        return replace(self, history=replace(self.history, majority=majority))

    @property
    def last_loss(self) -> float:
        """Training loss after the last round; NaN without an evaluation."""
        return float(self.history.train_loss[-1]) if self.rounds else float("nan")

    @classmethod
    def start(
        cls,
        learner: Learner,
        deliver: Deliver,
        server: ServerOptimizer = ServerOptimizer(),  # noqa: B008
    ) -> "State":
        """Return the state before the first round."""
        model = first_model(learner)
        memory = server.start(learner, model.size)
        none = History.none(own_metrics(learner))
        return cls(model, none, model, memory, deliver=deliver)


def moved_average(average: Floats, model: Floats, round: int) -> Floats:
    """Return the average of the last models after a round, counted from 1: polynomial decay (Shamir
    and Zhang, 2013), p_t = (eta + 1) / (t + eta). Round s weighs about (s / t)^eta, so the average
    has a mean age of about t / (eta + 2) rounds: its window grows with the rounds."""
    part = (AVERAGE_DECAY + 1) / (round + AVERAGE_DECAY)
    # In this form a model that does not change keeps the bits of an average equal to it.
    return model if part == 1 else average + part * (model - average)
