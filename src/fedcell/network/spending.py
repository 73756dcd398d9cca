"""Who pays: what each client spends, round by round and in all."""

from dataclasses import dataclass, fields, replace
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
class Idle:
    """What those spend that train and are then not drawn (DECISIONS.md, 15)."""

    trained: Bools  # (round, client): it trained in vain
    duration: Array  # (client,) of one such training [s]
    energy: Array  # (client,) [J]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """What each client of each round spent, (round, place); client -1 where there is none."""

    client: Ints
    arrived: Bools  # its upload
    duration: Array  # training and uploading [s]
    energy: Array  # [J]
    idle: Idle | None = None  # others that trained, where the cohort is drawn after training

    def totals(self, count: int) -> Totals:
        """The sums for each of `count` clients."""

        def summed(where: Bools, weights: Array | None = None) -> Any:
            given = None if weights is None else weights[where]
            return np.bincount(self.client[where], given, minlength=count)

        is_client = self.client >= 0
        of_cohort = Totals(
            called=summed(is_client),
            arrived=summed(self.arrived),
            duration=summed(is_client, self.duration),
            energy=summed(is_client, self.energy),
        )
        if self.idle is None:
            return of_cohort
        times, none = self.idle.trained.sum(0), np.zeros(count, np.int64)
        duration, energy = times * self.idle.duration, times * self.idle.energy
        return of_cohort + Totals(called=none, arrived=none, duration=duration, energy=energy)

    def first(self, rounds: int) -> "Spending":
        """The first rounds."""
        names = ("client", "arrived", "duration", "energy")
        cut = {name: getattr(self, name)[:rounds] for name in names}
        idle = self.idle and replace(self.idle, trained=self.idle.trained[:rounds])
        return Spending(**cut, idle=idle)
