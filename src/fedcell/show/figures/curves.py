"""What is drawn of runs: their losses or accuracies, and the held means that targets are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array
from fedcell.network.ledger import Ledger
from fedcell.scenario.learning import Deliver
from fedcell.scenario.target import Target

JUDGED: dict[Deliver, str] = {"last": ", last model", "average": ", average model"}
SMOOTHED = 5  # rounds that a mean is drawn of where no target says
Ledgers = Mapping[str, Ledger]  # of one run, by policy


@dataclass(frozen=True)
class Curve:
    """What a run has learnt: the values of the rounds that were evaluated, and their held means."""

    seen: Any  # places of the rounds
    values: Array
    held: Array  # mean of the last `hold`, or of those that there are; of a short run the values

    @classmethod
    def of(cls, ledger: Ledger, measure: str, hold: int) -> "Curve":
        every = getattr(ledger, measure)
        seen = np.flatnonzero(np.isfinite(every))
        values = every[seen]
        if hold == 1 or values.size < hold:
            return cls(seen, values, values)
        sums = np.convolve(values, np.ones(hold))[: values.size]
        return cls(seen, values, sums / np.minimum(np.arange(values.size) + 1, hold))

    def at(self, rounds: int) -> float:
        """The held mean after so many rounds."""
        return float(self.held[np.searchsorted(self.seen, rounds - 1)])


@dataclass(frozen=True)
class RunsDrawing:
    """One run, or several seeds of one, and what of it is drawn."""

    runs: Sequence[Ledgers]
    target: Target | None = None
    changes: Sequence[int] = ()  # rounds, counted from 1, from which one run had another plan
    deliver: Deliver | None = None  # which model was judged, where that is known

    def __post_init__(self) -> None:
        if not self.runs or not all(self.runs):
            raise BadInput("no round was done: there is nothing to draw")

    @property
    def measure(self) -> str:
        """What is to reach the target."""
        return "train_loss" if self.target is None else self.target.column

    @property
    def policies(self) -> list[str]:
        """Those that every run is priced under."""
        return [name for name in self.runs[0] if all(name in run for run in self.runs)]

    @property
    def has_accuracy(self) -> bool:
        """Whether models were judged on test data."""
        return any(np.isfinite(first(run).accuracy).any() for run in self.runs)

    def curves(self, measure: str) -> list[Curve]:
        """What each run has learnt."""
        return [Curve.of(first(run), measure, self.hold) for run in self.runs]

    @property
    def judged(self) -> str:
        """Which model the curves are of, in words that follow others."""
        return "" if self.deliver is None else JUDGED[self.deliver]

    @property
    def hold(self) -> int:
        """Rounds that a held mean is of."""
        return SMOOTHED if self.target is None else self.target.hold

    def reached(self) -> list[int | None]:
        """Rounds of each run to the target."""
        return [None if self.target is None else first(r).rounds_to(self.target) for r in self.runs]


def first(run: Ledgers) -> Ledger:
    """A ledger of a run: all have the same losses."""
    return next(iter(run.values()))
