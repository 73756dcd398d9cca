"""What a server has seen of its clients so far: a frozen value, folded over rounds and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Ints

NEVER = -1  # in place of the round in which a client was called last


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """What a server has seen of its N clients before a round; only what its rule reads is kept."""

    last: Ints | None = None  # round in which it was called last, from 0
    called: Ints | None = None  # rounds in which it was called
    duration: Array | None = None  # when it was called last [s]; NaN: never
    energy: Array | None = None  # spent so far [J]
    loss: Array | None = None  # reported last; NaN: never
    rms_loss: Array | None = None
    norm: Array | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)  # what the rule keeps

    @classmethod
    def start(cls, reads: Sequence[str], count: int) -> History:
        """Return the history before the first round."""
        unknown: dict[str, Any] = {
            name: np.full(count, np.nan)
            for name in ("duration", "loss", "rms_loss", "norm")
            if name in reads
        }
        energy = {"energy", "battery"} & set(reads)
        return cls(
            last=np.full(count, NEVER) if "age" in reads else None,
            called=np.zeros(count, np.int64) if "called" in reads else None,
            energy=np.zeros(count) if energy else None,
            **unknown,
        )

    def after(self, round: int, clients: Ints, memory: Mapping[str, Any]) -> History:
        """Return the history after a round that called these clients."""
        last, called = self.last, self.called
        if last is not None:
            last = last.copy()
            last[clients] = round
        if called is not None:
            called = called.copy()
            called[clients] += 1
        return replace(self, last=last, called=called, memory=memory)

    def spent(self, clients: Ints, duration: Array, energy: Array, vain: Array) -> History:
        """Return the history with the seconds and joules of a round; `vain` has the joules of
        clients that were not called, (N,)."""
        known = self
        if self.duration is not None:
            known = replace(known, duration=_with(self.duration, clients, duration))
        if self.energy is not None:
            total = self.energy + vain
            total[clients] += energy
            known = replace(known, energy=total)
        return known

    def reported(self, clients: Ints, **values: Array) -> History:
        """Return the history with values that clients reported: loss, rms_loss, norm."""
        new: dict[str, Any] = {
            name: _with(getattr(self, name), clients, v) for name, v in values.items()
        }
        return replace(self, **new)

    def arrays(self) -> dict[str, Array]:
        """Return all values as arrays by name, as a file holds them."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "memory"}
        kept = {f"memory.{name}": np.asarray(values) for name, values in self.memory.items()}
        return {name: values for name, values in own.items() if values is not None} | kept

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> History:
        """Return the history of arrays by name."""
        memory = {n.removeprefix("memory."): v for n, v in arrays.items() if n[:7] == "memory."}
        return cls(**{n: v for n, v in arrays.items() if n[:7] != "memory."}, memory=memory)


def _with(values: Any, clients: Ints, new: Array) -> Array:
    changed = np.array(values)
    changed[clients] = new
    return changed


@dataclass(frozen=True, eq=False)
class Row:
    """Who takes part in a round: the called clients, and those that work in vain."""

    clients: Ints  # called, in order
    chance: Array | None = None  # p_j of each of them, where uploads count by 1 / p_j
    evaluated: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # the model, before it
    trained: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # and were not called
    weak: int = 0  # clients that sat out with a weak channel

    def to_list(self) -> list[Any]:
        """Return plain values, as a file holds them."""
        chance = None if self.chance is None else self.chance.tolist()
        asked = self.evaluated.tolist(), self.trained.tolist()
        return [self.clients.tolist(), chance, *asked, self.weak]

    @classmethod
    def of(cls, values: Any) -> Row:
        """Return the row of plain values; raise ValueError or TypeError if they are none."""
        clients, chance, evaluated, trained, weak = values
        lists = [np.array(each, np.int64) for each in (clients, evaluated, trained)]
        known = None if chance is None else np.array(chance, float)
        sound = all(each.ndim == 1 and (each >= 0).all() for each in lists)
        if not sound or (known is not None and known.shape != lists[0].shape):
            raise ValueError
        return cls(lists[0], known, evaluated=lists[1], trained=lists[2], weak=int(weak))


@dataclass(frozen=True, eq=False)
class Selected:
    """The rounds that a rule has chosen during a training, and the history after them."""

    rows: tuple[Row, ...]
    history: History

    def with_row(self, row: Row, history: History) -> Selected:
        """Return this with one more round."""
        return Selected((*self.rows, row), history)

    def to_bytes(self) -> Any:
        """Return all of it as bytes, array of uint8."""
        arrays: dict[str, Any] = {f"history.{n}": v for n, v in self.history.arrays().items()}
        with_chances = any(row.chance is not None for row in self.rows)
        for name in ("clients", "evaluated", "trained", *(["chance"] if with_chances else [])):
            parts = [_column(row, name) for row in self.rows]
            arrays[f"{name}.sizes"] = np.array([part.size for part in parts], np.int64)
            arrays[name] = np.concatenate([*parts, np.empty(0, parts[0].dtype)] if parts else [[]])
        arrays["weak"] = np.array([row.weak for row in self.rows], np.int64)
        file = BytesIO()
        np.savez(file, **arrays)
        return np.frombuffer(file.getvalue(), np.uint8)

    @classmethod
    def from_bytes(cls, content: Any) -> Selected:
        """Return what `to_bytes` gave; refuse anything else."""
        try:
            with np.load(BytesIO(content.tobytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            history = {n[8:]: v for n, v in arrays.items() if n.startswith("history.")}
            columns = {
                name: np.split(arrays[name], arrays[f"{name}.sizes"].cumsum()[:-1])
                for name in ("clients", "evaluated", "trained", "chance")
                if name in arrays and arrays[f"{name}.sizes"].size
            }
            rounds = arrays["clients.sizes"].size
            rows = tuple(
                _row({name: parts[t] for name, parts in columns.items()}, int(arrays["weak"][t]))
                for t in range(rounds)
            )
            return cls(rows, History.of(history))
        except Exception as error:  # whatever a damaged archive makes of itself
            raise BadInput("does not hold the choices of a selector") from error


def _column(row: Row, name: str) -> Any:
    if name == "chance" and row.chance is None:
        return np.full(row.clients.size, np.nan)
    return getattr(row, name)


def _row(columns: dict[str, Any], weak: int) -> Row:
    chance = columns.get("chance")
    if chance is not None and np.isnan(chance).any():
        columns["chance"] = None
    return Row(**columns, weak=weak)
