"""The ledger of a run: costs and results of each round, and their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import nan
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable, rows_from
from fedcell.core.types import Array, Ints
from fedcell.scenario.target import Direction, Scored, Target

from .physics.timeline import PARTS
from .spending import Spending, Totals


def _none() -> Any:
    return np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger(Showable):
    """Costs and results of each round: arrays of length `rounds`.

    A round without any client costs its broadcast and nothing else.

    Attributes
    ----------
    duration : ndarray
        Broadcast and round, T_d + H [s].
    energy : ndarray
        Energy of all clients [J].
    upload_cost, compute_cost, staged_cost : ndarray
        C_u,t (20a), C_n,t (20b) and their sum (20) [s].
    cost : ndarray
        Part of the round in (12): T_d + C_u,t + C_n,t [s].
    objective : ndarray
        (22) [s].
    called, draws, received, excluded_by_channel, excluded_by_data : ndarray of int
        Numbers of clients; `draws` exceeds `called` where a client is drawn twice.
    totals : Totals
        Sums over rounds for each client.
    download_energy, train_energy, upload_energy, wait_energy, tail_energy : ndarray
        The parts of `energy` [J]; empty unless radios or devices are declared.
    vain_duration, vain_energy : ndarray
        Seconds and joules of clients that work for a selector: they evaluate the model, or train
        without being called. In `duration` and `energy`, too; empty if no client does.
    train_loss, test_loss, accuracy, discarded_uploads : ndarray
        Empty unless a model was trained; NaN in rounds that were not evaluated.
    metrics : mapping of str to ndarray
        Other metrics of the learner on test data, by name; NaN in rounds without an evaluation.
    better : mapping of str to {"higher", "lower"}
        Which values of each of these metrics are better.

    Examples
    --------
    >>> from fedcell.network import simulate_network
    >>> ledger = simulate_network(Scenario(), "optimal", rounds=50)
    >>> round(float(ledger.total_duration[-1]), 1), ledger.totals.energy.shape
    (546.6, (100,))
    """

    duration: Array  # broadcast and round, T_d + H [s]
    energy: Array  # of all clients [J]
    upload_cost: Array  # C_u,t (20a) [s]
    compute_cost: Array  # C_n,t (20b) [s]
    staged_cost: Array  # (20): C_u,t + C_n,t [s]
    cost: Array  # a round's part of (12): T_d + C_u,t + C_n,t [s]
    objective: Array  # (22) [s]
    called: Ints  # clients that uploaded
    draws: Ints  # draws that found a client; more than called where one was drawn twice
    received: Ints  # clients with an upload that arrived
    excluded_by_channel: Ints  # clients asked and skipped: a weak channel
    excluded_by_data: Ints  # clients never called: too little data
    totals: Totals
    spending: Spending | None = None  # by round, where the ledger may be cut
    download_energy: Array = field(default_factory=_none)  # by part, with declared hardware [J]
    train_energy: Array = field(default_factory=_none)
    upload_energy: Array = field(default_factory=_none)
    wait_energy: Array = field(default_factory=_none)
    tail_energy: Array = field(default_factory=_none)
    vain_duration: Array = field(default_factory=_none)  # of work for a selector [s]
    vain_energy: Array = field(default_factory=_none)  # the same [J]
    discarded_uploads: Ints = field(default_factory=_none)  # that arrived and were not finite
    train_loss: Array = field(default_factory=_none)  # (2) after the round; NaN: not evaluated
    test_loss: Array = field(default_factory=_none)
    accuracy: Array = field(default_factory=_none)
    majority: float = nan  # the share of the most common class, beside the accuracies
    metrics: Mapping[str, Array] = field(default_factory=dict)  # others of the learner, by name
    better: Mapping[str, Direction] = field(default_factory=dict)  # and which values are better

    @property
    def rounds(self) -> int:
        """Return the number of rounds."""
        return self.duration.size

    @property
    def trained(self) -> bool:
        """Return whether a model was trained, so that there are losses."""
        return self.train_loss.size > 0

    @property
    def energy_by_part(self) -> dict[str, float]:
        """Return the joules of the run by part; empty unless radios or devices are declared."""
        if self.train_energy.size == 0:
            return {}
        return {part: float(getattr(self, f"{part}_energy").sum()) for part in PARTS}

    @property
    def scored(self) -> Scored:
        """Return the measurements after each round, in which a target is searched."""
        return Scored(
            train_loss=self.train_loss,
            accuracy=self.accuracy,
            majority=self.majority,
            metrics={"test_loss": self.test_loss, **self.metrics},
        )

    def column(self, name: str) -> Array:
        """Return a column by its name, also that of a metric; empty where it has no values."""
        return np.asarray(self.metrics[name] if name in self.metrics else getattr(self, name))

    @property
    def total_duration(self) -> Array:
        """Return the simulated time at the end of each round [s]."""
        return np.asarray(self.duration.cumsum())

    @property
    def total_energy(self) -> Array:
        """Return the energy spent by the end of each round [J]."""
        return np.asarray(self.energy.cumsum())

    def rounds_to(self, target: Target | float) -> int | None:
        """Return G_epsilon as observed: rounds until a target is reached, or None.

        A number is a training loss; `Target(loss=0.2, hold=5)` one that the mean of five rounds
        must reach; `Target(metric="mae", level=0.2)` a level of another metric. Rounds do not count
        if their loss is not finite, or, for a loss, if their model is no more accurate than always
        answering with the most common class.
        """
        if not self.trained:
            raise BadInput("no model was trained: there is no loss to reach")
        wanted = target if isinstance(target, Target) else Target(loss=target)
        measured: dict[str, Direction] = {"accuracy": "higher", **self.better}
        return wanted.with_directions(measured).reached_by(self.scored)

    def seconds_to(self, target: Target | float) -> float | None:
        """Return the simulated time until a target is reached [s], or None."""
        rounds = self.rounds_to(target)
        return None if rounds is None else float(self.total_duration[rounds - 1])

    def joules_to(self, target: Target | float) -> float | None:
        """Return the energy of all clients until a target is reached [J], or None."""
        rounds = self.rounds_to(target)
        return None if rounds is None else float(self.total_energy[rounds - 1])

    def first(self, rounds: int) -> Ledger:
        """Return the ledger of the first rounds, as if no more had been run."""
        if not 0 <= rounds <= self.rounds:
            raise BadInput(f"`rounds` = {rounds}: the ledger has {self.rounds}")
        spending = _spending(self).first(rounds)
        names = self.column_names()
        columns: dict[str, Any] = {name: getattr(self, name)[:rounds] for name in names}
        columns["metrics"] = {name: column[:rounds] for name, column in self.metrics.items()}
        totals = spending.totals(self.totals.called.size)
        return replace(self, **columns, totals=totals, spending=spending)

    def with_rounds(self, other: Ledger, first: int = 0) -> Ledger:
        """Return this ledger with the rounds of another in place of its own from `first` on;
        `totals` stay those of this one until it is cut."""
        end = first + other.rounds
        columns: dict[str, Any] = {}
        for name in self.column_names():
            own = getattr(self, name)
            columns[name] = np.concatenate([own[:first], getattr(other, name), own[end:]])
        whole = _spending(self)
        parts = [whole.first(first), _spending(other), whole.rest(end)]
        return replace(self, **columns, spending=Spending.join(parts))

    @classmethod
    def join(cls, parts: Sequence[Ledger]) -> Ledger:
        """Return ledgers of consecutive rounds as one, which can be cut if the parts can."""
        names = parts[0].column_names()
        columns: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        columns["metrics"] = {
            name: np.concatenate([p.metrics[name] for p in parts]) for name in parts[0].metrics
        }
        spending = Spending.join([_spending(part) for part in parts])
        totals = spending.totals(parts[0].totals.called.size)
        return replace(parts[0], **columns, totals=totals, spending=spending)

    def without(self, round: int, clients: Sequence[int]) -> Ledger:
        """Return this ledger with lost uploads of a round, counted from 0; costs stay the same."""
        spending = _spending(self).without(round, clients)
        received = self.received.copy()
        received[round] = spending.arrived[round].sum()
        totals = spending.totals(self.totals.called.size)
        return replace(self, received=received, totals=totals, spending=spending)

    def column_names(self) -> list[str]:
        """Return the names of the columns that have values, in order."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return [n for n, v in values.items() if isinstance(v, np.ndarray) and v.size]

    def columns(self) -> dict[str, Any]:
        """Return all columns by name, with the running totals."""
        names = [*self.column_names(), *self.metrics, "total_duration", "total_energy"]
        return {name: self.column(name) for name in names}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each round."""
        return rows_from({n: c.tolist() for n, c in self.columns().items()}, "round", first=1)

    def __repr__(self) -> str:
        words = f"{self.rounds} rounds, {self.duration.sum():.4g} s, {self.energy.sum():.4g} J"
        if np.isfinite(self.train_loss).any():
            last = self.train_loss[np.isfinite(self.train_loss)][-1]
            words += f", training loss {last:.4g}"
        return f"<Ledger: {words}>"


def _spending(ledger: Ledger) -> Spending:
    if ledger.spending is None:
        raise BadInput("this ledger has sums over all rounds only: price a trace to cut it")
    return ledger.spending


class NoClientCalled(BadInput):
    """All clients were in outage in all rounds, or had too little data."""


def require_usable(ledger: Ledger) -> Ledger:
    """Return a ledger with finite costs and called clients; refuse any other."""
    check_usable(ledger.objective, ledger.called)
    return ledger


def check_usable(costs: Array, called: Ints | Array) -> None:
    """Refuse rounds with costs that are not finite, or without any called client."""
    if not np.isfinite(costs).all():
        raise BadInput("the costs are too large to be computed with: check the units (SI)")
    if not called.any():
        raise NoClientCalled(
            "no client was ever called: all sat out, with too weak a channel or too little data; "
            "lower cell.gain_threshold, radio.snr_min_db or clients.min_samples"
        )
