"""Clocks that come in levels: a processor between two of them shares its time.

To do c cycles in t seconds at average clock f = c / t, the cheapest way is to run for a part of
the time at the level below f and for the rest at the level above it. As kappa f^alpha is convex,
any other mix of levels costs more. The joules are then piecewise linear and convex in t, equal
to those of the law at each level and above them in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL
from fedcell.core.types import Array, Ints

MAX_LEVELS = 200  # of a processor; those that one can buy have up to about 30
LevelList = tuple[float, ...]


def check_levels(levels: Sequence[Any]) -> LevelList:
    """Return clocks [cycle/s] as numbers, refused where they do not rise.

    >>> check_levels([6e8, 1.5e9])
    (600000000.0, 1500000000.0)
    """
    try:
        values = tuple(float(level) for level in levels)
    except (TypeError, ValueError) as error:
        raise BadInput(f"levels = {list(levels)!r}: expected numbers, clocks in cycle/s") from error
    if not values or len(values) > MAX_LEVELS:
        raise BadInput(f"levels has {len(values)} clocks: expected 1 to {MAX_LEVELS}")
    if not all(SMALL <= value <= LARGE for value in values):
        raise BadInput(f"levels = {list(values)}: expected clocks above 0, in cycle/s")
    for one, other in pairwise(values):
        if one >= other:
            raise BadInput(f"levels = {one:g}, {other:g}: expected clocks that rise")
    return values


@dataclass(frozen=True, eq=False)
class Levels:
    """The clock levels of clients, (..., client).

    Parameters
    ----------
    lists : ndarray, shape (kinds, levels)
        Levels of each kind of processor, rising [cycle/s]; short lists end in copies of their last.
    kind : ndarray of int, shape (..., client)
        Kind of each client; -1: any clock.

    Examples
    --------
    >>> two = Levels.of([(1e9, 2e9), None])
    >>> low, high, share = two.around(np.array([1.5e9, 1.5e9]))
    >>> low.tolist(), high.tolist(), share.tolist()
    ([1000000000.0, 1500000000.0], [2000000000.0, 1500000000.0], [0.5, 0.0])
    >>> two.penalty(np.array([1.5e9, 1.5e9]), np.array([3.0, 3.0])).round(4).tolist()
    [1.3333, 1.0]
    """

    lists: Array
    kind: Ints

    @classmethod
    def of(cls, each: Sequence[LevelList | None]) -> Levels:
        """Return the levels of clients from a list of clocks for each, None for any clock."""
        kinds = list(dict.fromkeys(levels for levels in each if levels is not None))
        number = {levels: i for i, levels in enumerate(kinds)}
        longest = max(map(len, kinds), default=1)
        lists = [(*levels, *[levels[-1]] * (longest - len(levels))) for levels in kinds]
        kind = np.array([-1 if levels is None else number[levels] for levels in each], np.int64)
        return cls(np.array(lists or [(np.nan,)]), kind)

    def __getitem__(self, where: Any) -> Levels:
        """Return some of the rounds or clients."""
        return Levels(self.lists, self.kind[where])

    def flat(self, clients: int) -> Levels:
        """Return the same with one axis of rounds."""
        return Levels(self.lists, self.kind.reshape(-1, clients))

    @property
    def fixed(self) -> Any:
        """Return which clients have levels."""
        return self.kind >= 0

    def each(self) -> Iterator[Array]:
        """Yield the lowest level of all clients, the next, ...: NaN where any clock will do."""
        for level in self.lists.T:
            yield np.where(self.fixed, level[self.kind], np.nan)

    def around(self, freq: Array) -> tuple[Array, Array, Array]:
        """Return the levels below and above clocks, and the share of time at the upper one.

        Both are the clock itself at a level, without levels, or beyond them.
        """
        low = high = np.array(freq, float)
        below, above = np.full(low.shape, -np.inf), np.full(low.shape, np.inf)
        for level in self.each():
            below = np.where(level <= freq, np.fmax(below, level), below)
            above = np.where(level >= freq, np.fmin(above, level), above)
        between = np.isfinite(below) & np.isfinite(above) & (above > below)
        low, high = np.where(between, below, freq), np.where(between, above, freq)
        share = np.where(between, (freq - low) / np.where(between, high - low, 1.0), 0.0)
        return low, high, share

    def penalty(self, freq: Array, exponent: Array) -> Array:
        """Return the joules of time-sharing over those of one clock, at least 1:
        ((1 - x) f_1^alpha + x f_2^alpha) / f^alpha with f = (1 - x) f_1 + x f_2."""
        low, high, share = self.around(freq)
        mixed = (1 - share) * (low / freq) ** exponent + share * (high / freq) ** exponent
        return np.where(share > 0, np.maximum(mixed, 1.0), 1.0)


def penalty(levels: Levels | None, freq: Array, exponent: Array) -> Array | float:
    """Return `Levels.penalty`; 1 where no client has levels."""
    return 1.0 if levels is None else levels.penalty(freq, exponent)
