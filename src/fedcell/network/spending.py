"""Time and energy of each client, by round and in total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Totals:
    """Sums over the rounds of a run for each of the N clients; they cannot be written to."""

    called: Ints  # rounds in which it uploaded
    arrived: Ints  # rounds in which its upload arrived
    duration: Array  # training and uploading [s]
    energy: Array  # [J]

    def __post_init__(self) -> None:
        for own in fields(self):
            view = getattr(self, own.name).view()
            view.flags.writeable = False
            object.__setattr__(self, own.name, view)

    @classmethod
    def none(cls, count: int) -> Totals:
        """Return the totals of `count` clients before the first round."""
        return RunningTotals(count).so_far


@dataclass(frozen=True, kw_only=True, eq=False)
class Idle:
    """Costs of clients that train and are then not drawn (DECISIONS.md, 15)."""

    trained: Bools  # (round, client): it trained and was not drawn
    duration: Array  # (client,) of one such training [s]; (round, client) where rounds differ
    energy: Array  # the same [J]

    def spent(self, round: int) -> tuple[Array, Array]:
        """Return duration and energy of each client in a round; 0 for drawn clients."""
        duration, energy = (
            np.where(self.trained[round], each if each.ndim == 1 else each[round], 0.0)
            for each in (self.duration, self.energy)
        )
        return duration, energy

    def energy_of_rounds(self) -> Array:
        """Return the energy of all clients that trained and were not drawn, by round [J]."""
        # Summed row by row, so that a round has the same bits in every range of rounds.
        energy = np.broadcast_to(self.energy, self.trained.shape)
        return np.array([e[trained].sum() for e, trained in zip(energy, self.trained, strict=True)])

    def first(self, rounds: int) -> Idle:
        """Return the first rounds."""
        return self._cut(slice(rounds))

    def rest(self, rounds: int) -> Idle:
        """Return the rounds after the first ones."""
        return self._cut(slice(rounds, None))

    def _cut(self, rounds: slice) -> Idle:
        cut = [each if each.ndim == 1 else each[rounds] for each in (self.duration, self.energy)]
        return Idle(trained=self.trained[rounds], duration=cut[0], energy=cut[1])

    @classmethod
    def join(cls, parts: Sequence[Idle]) -> Idle:
        """Return consecutive rounds as one; a training may take another time in each part."""
        trained = np.concatenate([part.trained for part in parts])
        duration, energy = (
            np.concatenate([np.broadcast_to(getattr(p, name), p.trained.shape) for p in parts])
            for name in ("duration", "energy")
        )
        return cls(trained=trained, duration=duration, energy=energy)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spending:
    """Time and energy of each client of each round, (round, place); client -1: no client."""

    client: Ints
    arrived: Bools  # its upload
    duration: Array  # training and uploading [s]
    energy: Array  # [J]
    idle: Idle | None = None  # others that trained, where the cohort is drawn after training

    def totals(self, count: int) -> Totals:
        """Return the sums for each of `count` clients."""
        return RunningTotals(count).add(self)

    def emptied(self, battery: Array) -> Ints:
        """Return the round, counted from 1, in which each client exceeds its battery [J], or 0."""
        spent, when = np.zeros(battery.size), np.zeros(battery.size, np.int64)
        for t, client in enumerate(self.client):
            some = client[client >= 0]
            spent[some] += self.energy[t][client >= 0]
            if self.idle is not None:
                spent += self.idle.spent(t)[1]
                some = np.arange(battery.size)
            when[some[(spent[some] > battery[some]) & (when[some] == 0)]] = t + 1
        return when

    @classmethod
    def join(cls, parts: Sequence[Spending]) -> Spending:
        """Return consecutive rounds as one; cohorts may differ in size."""
        places = max(part.client.shape[1] for part in parts)

        def wide(name: str, nothing: Any) -> Any:
            rows = [getattr(part, name) for part in parts]
            gap = [((0, 0), (0, places - row.shape[1])) for row in rows]
            padded = (np.pad(r, g, constant_values=nothing) for r, g in zip(rows, gap, strict=True))
            return np.concatenate(list(padded))

        idle = [part.idle for part in parts if part.idle is not None]
        return cls(
            client=wide("client", -1),
            arrived=wide("arrived", False),
            duration=wide("duration", 0.0),
            energy=wide("energy", 0.0),
            idle=Idle.join(idle) if idle else None,
        )

    def without(self, round: int, clients: Sequence[int]) -> Spending:
        """Return this spending with lost uploads of a round, counted from 0."""
        arrived = self.arrived.copy()
        arrived[round] &= ~np.isin(self.client[round], clients)
        return replace(self, arrived=arrived)

    def first(self, rounds: int) -> Spending:
        """Return the first rounds."""
        return self._cut(slice(rounds), self.idle and self.idle.first(rounds))

    def rest(self, rounds: int) -> Spending:
        """Return the rounds after the first ones."""
        return self._cut(slice(rounds, None), self.idle and self.idle.rest(rounds))

    def _cut(self, rounds: slice, idle: Idle | None) -> Spending:
        names = ("client", "arrived", "duration", "energy")
        return Spending(**{name: getattr(self, name)[rounds] for name in names}, idle=idle)


class RunningTotals:
    """Sums for each of `count` clients, to which the parts of a run are added in order: they sum to
    the same bits as the whole, and no other array of the fleet's length is needed."""

    def __init__(self, count: int) -> None:
        self._called, self._arrived = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._duration, self._energy = np.zeros(count), np.zeros(count)

    @property
    def so_far(self) -> Totals:
        """The sums of all that was added: views of them, not copies."""
        return Totals(
            called=self._called,
            arrived=self._arrived,
            duration=self._duration,
            energy=self._energy,
        )

    def add(self, spending: Spending) -> Totals:
        """Add the rounds of some spending, and return the sums so far."""
        # Idle clients are added with their round, so rounds are added one by one.
        idle, every = spending.idle, len(spending.client)
        step = every if idle is None else 1
        for first in range(0, every, max(step, 1)):
            part = slice(first, first + step)
            client, arrived = spending.client[part], spending.arrived[part]
            is_client = client >= 0
            called = client[is_client]
            np.add.at(self._called, called, 1)
            np.add.at(self._arrived, client[arrived], 1)
            np.add.at(self._duration, called, spending.duration[part][is_client])
            np.add.at(self._energy, called, spending.energy[part][is_client])
            if idle is not None:
                duration, energy = idle.spent(first)
                self._duration += duration
                self._energy += energy
        return self.so_far
