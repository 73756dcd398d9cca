"""Curves of runs: losses or accuracies, and the moving averages that targets refer to."""

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
    """The scores of the evaluated rounds of a run, and their moving averages."""

    seen: Any  # places of the rounds
    values: Array
    held: Array  # mean of the last `hold`, or of those that there are; of a short run the values

    @classmethod
    def of(cls, ledger: Ledger, measure: str, hold: int) -> "Curve":
        every = ledger.column(measure)
        seen = np.flatnonzero(np.isfinite(every))
        values = every[seen]
        if hold == 1 or values.size < hold:
            return cls(seen, values, values)
        sums = np.convolve(values, np.ones(hold))[: values.size]
        return cls(seen, values, sums / np.minimum(np.arange(values.size) + 1, hold))

    def at(self, rounds: int) -> float:
        """Return the moving average after a number of rounds."""
        return float(self.held[np.searchsorted(self.seen, rounds - 1)])


@dataclass(frozen=True)
class RunsDrawing:
    """One run, or several seeds of one, and the options of its figure."""

    runs: Sequence[Ledgers]
    target: Target | None = None
    changes: Sequence[int] = ()  # rounds, counted from 1, from which one run had another plan
    deliver: Deliver | None = None  # which model was judged, where that is known

    def __post_init__(self) -> None:
        if not self.runs or not all(self.runs):
            raise BadInput("no round was done: there is nothing to draw")

    @property
    def measure(self) -> str:
        """The measure that the target refers to."""
        return "train_loss" if self.target is None else self.target.column

    @property
    def policies(self) -> list[str]:
        """The policies that every run is priced under."""
        return [name for name in self.runs[0] if all(name in run for run in self.runs)]

    @property
    def has_accuracy(self) -> bool:
        """Whether models were evaluated on test data."""
        return any(np.isfinite(first(run).accuracy).any() for run in self.runs)

    @property
    def metrics(self) -> list[str]:
        """Metrics on test data that are known: accuracy, and those of the learner by name."""
        known = ["accuracy"] if self.has_accuracy else []
        named = dict.fromkeys(name for run in self.runs for name in first(run).metrics)
        return known + list(named)

    def curves(self, measure: str) -> list[Curve]:
        """Return the curve of each run."""
        return [Curve.of(first(run), measure, self.hold) for run in self.runs]

    @property
    def judged(self) -> str:
        """The model that the curves belong to, as the end of a sentence."""
        return "" if self.deliver is None else JUDGED[self.deliver]

    @property
    def hold(self) -> int:
        """Rounds of a moving average."""
        return SMOOTHED if self.target is None else self.target.hold

    def reached(self) -> list[int | None]:
        """Return the rounds of each run to the target."""
        return [None if self.target is None else first(r).rounds_to(self.target) for r in self.runs]


def first(run: Ledgers) -> Ledger:
    """Return a ledger of a run: all have the same losses."""
    return next(iter(run.values()))
