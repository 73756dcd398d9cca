"""What a training has seen so far, and all that it carries from one round to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Any

import numpy as np

from fedcell.core.types import Array, Floats, Ints
from fedcell.learning.learner import Learner, Scores, first_model
from fedcell.learning.server_optimizer import ServerOptimizer
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
    """Rows that are only ever added to: who holds fewer of them does not see the others."""

    def __init__(self, rows: Any) -> None:
        self.data, self.count = rows, len(rows)

    def with_row(self, place: int, row: tuple[Any, ...]) -> "_Rows":
        """With a row at `place`: here if that is the end, else in rows of its own."""
        if place < self.count:  # somebody went on from the same state
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
    """What was seen after each round: arrays of length `rounds`; NaN where not evaluated."""

    _rows: _Rows
    rounds: int  # that are done
    majority: float = nan  # the share of the most common class, beside the accuracies

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> "History":
        """From arrays by name, of equal length."""
        rows = np.empty(len(columns["train_loss"]), list(COLUMNS.items()))
        for name in COLUMNS:
            rows[name] = columns[name]
        return cls(_Rows(rows), len(rows))

    @classmethod
    def none(cls) -> "History":
        """That of no rounds."""
        return cls.of({name: np.empty(0, kind) for name, kind in COLUMNS.items()})

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
        """(2)."""
        return np.asarray(self._column("train_loss"))

    @property
    def test_loss(self) -> Array:
        """The loss of the test samples."""
        return np.asarray(self._column("test_loss"))

    @property
    def accuracy(self) -> Array:
        """The share of test samples whose class is found."""
        return np.asarray(self._column("accuracy"))

    def scored(self, first: int = 0) -> Scored:
        """Rounds from `first` on, counted from 0, as a target is looked for in them."""
        losses, accuracy = self.train_loss[first:], self.accuracy[first:]
        return Scored(train_loss=losses, accuracy=accuracy, majority=self.majority)

    def columns(self) -> dict[str, Any]:
        """Copies of the arrays, by name."""
        return {name: np.array(self._column(name)) for name in COLUMNS}

    def rows(self, first: int = 0) -> list[tuple[int, float, float, float]]:
        """Rounds from `first` on, one tuple each, in the order of the columns."""
        listed: list[tuple[int, float, float, float]] = self._rows.data[
            first : self.rounds
        ].tolist()
        return listed

    def with_round(self, discarded: int, scores: Scores) -> "History":
        """With one round more."""
        row = (discarded, scores.train_loss, scores.test_loss, scores.accuracy)
        majority = self.majority if isnan(scores.majority) else scores.majority
        return History(self._rows.with_row(self.rounds, row), self.rounds + 1, majority)

    def with_last(self, scores: Scores) -> "History":
        """With other scores in the last round."""
        before = History.of({name: column[:-1] for name, column in self.columns().items()})
        before = replace(before, majority=self.majority)
        return before.with_round(int(self.discarded_uploads[-1]), scores)


@dataclass(frozen=True, eq=False)
class State:
    """All that learning carries from one round to the next; what is saved to resume."""

    model: Floats
    history: History
    average: Floats  # of the last models: `moved_average`
    server: Floats | None = None  # what the server remembers, (vector, number), if it does
    deliver: Deliver = field(kw_only=True)  # which of both models is judged and handed over

    @property
    def rounds(self) -> int:
        """Rounds that are done."""
        return self.history.rounds

    @property
    def delivered(self) -> Floats:
        """The model that is judged, stopped on and handed over (learning.deliver)."""
        return self.average if self.deliver == "average" else self.model

    @property
    def other(self) -> Floats:
        """The one of both models that is not delivered."""
        return self.model if self.deliver == "average" else self.average

    def judged_beside(self, majority: float) -> "State":
        """With the share of the most common class, which no file keeps for each round."""
        return replace(self, history=replace(self.history, majority=majority))

    @property
    def last_loss(self) -> float:
        """The training loss after the last round; NaN where it was not evaluated."""
        return float(self.history.train_loss[-1]) if self.rounds else float("nan")

    @classmethod
    def start(
        cls,
        learner: Learner,
        deliver: Deliver,
        server: ServerOptimizer = ServerOptimizer(),  # noqa: B008
    ) -> "State":
        """Before the first round."""
        model = first_model(learner)
        memory = server.start(learner, model.size)
        return cls(model, History.none(), model, memory, deliver=deliver)


def moved_average(average: Floats, model: Floats, round: int) -> Floats:
    """The average of the last models after a round, counted from 1: polynomial decay (Shamir and
    Zhang, 2013), p_t = (eta + 1) / (t + eta). Round s weighs about (s / t)^eta, so the average
    has a mean age of about t / (eta + 2) rounds: its window grows with the rounds, and nothing
    has to be chosen for it."""
    part = (AVERAGE_DECAY + 1) / (round + AVERAGE_DECAY)
    # So written, a model that stays as it is keeps the bits of an average that is equal to it.
    return model if part == 1 else average + part * (model - average)
