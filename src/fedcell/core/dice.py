"""Dice that any round can be drawn from: counter-based streams, keyed by what they are for.

Each purpose has a stream of its own, keyed by (purpose, seed), in which every round owns the
same number of places. So any round can be drawn alone, in a chunk or in a whole run with the
same result; and since every client has its place, a larger cohort extends a smaller one and a
higher loss rate loses the same uploads and more.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np

from .errors import BadInput
from .types import Array

CHUNK = 2**21  # (round, client) places drawn at a time; no more are in memory at once


class Purpose(IntEnum):
    """What a stream is for. Its number is its key: append, never renumber."""

    SAMPLES = 0
    KAPPA = 1
    POWER = 2
    PLACE = 3
    SELECTION = 4
    FADING = 5
    LOSS = 6
    SEED = 7
    PARTITION = 8
    MODEL = 9
    BATCHES = 10
    EVALUATION = 11
    NOISE = 12
    BOOTSTRAP = 13
    PROBE = 14


def stream(purpose: Purpose, seed: int, client: int = 0, round: int = 0) -> np.random.Generator:
    """Dice of one client in one round: the same whoever else rolls, and in whatever order."""
    return _generator(purpose, seed, np.array([0, 0, client, round], np.uint64))


def uniform(purpose: Purpose, seed: int, rounds: range, count: int) -> Array:
    """Numbers in [0, 1), (round, client): the same for a round however it is asked for."""
    blocks = -(-count // 4)  # Philox makes four numbers at a time; a round starts on a fresh four
    return _generator(purpose, seed, rounds.start * blocks).random((len(rounds), 4 * blocks))[
        :, :count
    ]


def _generator(purpose: Purpose, seed: int, counter: Any) -> np.random.Generator:
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise BadInput(f"`seed` = {seed!r}: expected a whole number from 0 to 2^64 - 1")
    key = np.array([seed, purpose], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def spread_evenly(mean: float, spread: float, purpose: Purpose, seed: int, count: int) -> Array:
    """A number for each client, drawn evenly from mean * (1 -+ spread) (Sec. V-C)."""
    dice = np.ravel(uniform(purpose, seed, range(1), count))
    return np.asarray(mean * (1 + spread * (2 * dice - 1)))


def replicate_seeds(seed: int, count: int) -> list[int]:
    """Seeds of independent replicates; the first is `seed` itself."""
    more = uniform(Purpose.SEED, seed, range(1), count)[0, 1:] * 2.0**53
    return [seed, *map(int, more)]


def chunks(rounds: range, count: int) -> Iterator[range]:
    """The rounds in parts small enough to be held for all `count` clients at once."""
    step = max(1, CHUNK // count)
    for start in range(rounds.start, rounds.stop, step):
        yield range(start, min(start + step, rounds.stop))


def as_range(rounds: int | range) -> range:
    """The rounds that a number or a range stands for."""
    if isinstance(rounds, range):
        if not rounds or rounds.step != 1 or rounds.start < 0:
            raise BadInput(f"`rounds` = {rounds!r}: expected consecutive rounds from 0 or later")
        return rounds
    return range(check_count(rounds, "`rounds`"))


def check_count(value: Any, name: str) -> int:
    """A whole number above 0 that a caller gave under this name."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise BadInput(f"{name} = {value!r}: expected a whole number above 0")
    return int(value)
