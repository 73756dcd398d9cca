"""What a run gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedcell.core.showing import Showable
from fedcell.network.ledger import Ledger

from .history import State
from .judge import Stopwatch
from .summary import RunSummary


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult(Showable):
    """What a run gave: a ledger for each policy, and its outcome in a few values."""

    ledgers: Mapping[str, Ledger]  # by policy
    outcome: RunSummary
    state: State  # with the trained model
    identity: Mapping[str, Any] = field(
        default_factory=dict
    )  # what makes it this run; empty: unknown
    stopwatch: Stopwatch | None = None  # where its time went; None where it was loaded

    @property
    def complete(self) -> bool:
        """False if it was interrupted."""
        return self.outcome.complete

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        return self.outcome.to_dict()

    def rows(self) -> list[dict[str, Any]]:
        """One row for each policy and round."""
        return [
            {"policy": policy} | row
            for policy, ledger in self.ledgers.items()
            for row in ledger.rows()
        ]

    def __repr__(self) -> str:
        first = next(iter(self.ledgers.items()), None)
        words = "no round done" if first is None else f"{first[0]}: {first[1]!r}"
        return f"<RunResult, {len(self.ledgers)} policies; {words}>"
