"""Who pays: what each client spends, round by round and in all."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Totals:
    """Who pays: sums over the rounds of a run for each of the N clients."""

    called: Ints  # rounds in which it uploaded
    arrived: Ints  # rounds in which its upload arrived
    duration: Array  # training and uploading [s]
    energy: Array  # [J]

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Totals)}
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """What each client of each round spent, (round, place); client -1 where there is none."""

    client: Ints
    called: Bools  # it uploaded; others only trained (DECISIONS.md, 15)
    arrived: Bools
    duration: Array  # training and uploading [s]
    energy: Array  # [J]

    def totals(self, count: int) -> Totals:
        """The sums for each of `count` clients."""

        def summed(where: Bools, weights: Array | None = None) -> Any:
            given = None if weights is None else weights[where]
            return np.bincount(self.client[where], given, minlength=count)

        there = self.client >= 0
        return Totals(
            called=summed(self.called),
            arrived=summed(self.arrived),
            duration=summed(there, self.duration),
            energy=summed(there, self.energy),
        )

    def first(self, rounds: int) -> "Spending":
        """The first rounds."""
        return Spending(**{f.name: getattr(self, f.name)[:rounds] for f in fields(self)})

    def beside(self, other: "Spending") -> "Spending":
        """The places of both, in the same rounds."""
        names = [f.name for f in fields(self)]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        return Spending(**{name: np.concatenate(pair, axis=1) for name, pair in pairs.items()})
