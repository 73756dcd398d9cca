"""Counter-based random streams, keyed by purpose and seed.

Each purpose has its own stream, keyed by (purpose, seed), in which every round owns the same
number of places. So a round has the same random numbers alone, in a chunk or in a whole run; and
since every client has its place, a larger cohort extends a smaller one and a higher loss rate
loses the same uploads and more. A place is computed without the places before it, so the cost of
a round grows with its clients and not with the fleet.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput
from .types import Array, Ints

CHUNK_PLACES = 2**21  # (round, client) places in memory at once
MAX_ROUNDS = 2**30  # of a stream: the places of later rounds would repeat the first ones
DENSE_RATIO = 16  # up to this many places per wanted one, drawing all is faster than single ones


PHILOX_MULTIPLIERS = np.array([0xD2E7470EE14C6C93, 0xCA5A826395121157], np.uint64)
PHILOX_STEPS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], np.uint64)  # of the key

Words = NDArray[np.uint64]


class Purpose(IntEnum):
    """The purpose of a random stream. Its number is part of the key: append, never renumber."""

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
    FADING_PHASE = 15
    LINE_OF_SIGHT = 16
    SHADOW_SIGHT = 17
    SHADOW_NO_SIGHT = 18
    INDOOR = 19
    HEADING = 20
    RACE = 40
    SECOND_RACE = 41
    THIRD_RACE = 42
    SERVER = 43


def stream(purpose: Purpose, seed: int, client: int = 0, round: int = 0) -> np.random.Generator:
    """Return the generator of one client in one round, independent of all other draws.

    Parameters
    ----------
    purpose : Purpose
        What the numbers are for; each purpose has streams of its own.
    seed, client, round : int
        Seed of the run, number of the client, and round counted from 0.

    Returns
    -------
    numpy.random.Generator
        The same generator for the same arguments.
    """
    return _generator(purpose, seed, np.array([0, 0, client, round], np.uint64))


def uniform(purpose: Purpose, seed: int, rounds: range, count: int) -> Array:
    """Return numbers in [0, 1), (round, client); a round has the same in every range of rounds."""
    blocks = -(-count // 4)  # Philox makes four numbers at a time; a round starts a new four
    return _generator(purpose, seed, rounds.start * blocks).random((len(rounds), 4 * blocks))[
        :, :count
    ]


def uniform_at(purpose: Purpose, seed: int, rounds: range, places: Ints, count: int) -> Array:
    """Return the numbers of `uniform` at some of its `count` places, (round, place)."""
    if count <= DENSE_RATIO * places.shape[1]:
        return np.take_along_axis(uniform(purpose, seed, rounds, count), places, axis=1)
    blocks = np.uint64(-(-count // 4))
    start = np.arange(rounds.start, rounds.stop, dtype=np.uint64)[:, None] * blocks
    which, lane = np.divmod(places, 4)
    words = _philox(start + which.astype(np.uint64) + np.uint64(1), _key(purpose, seed))
    return np.asarray((np.choose(lane, words) >> np.uint64(11)) * 2.0**-53)


def _philox(counter: Words, key: Words) -> list[Words]:
    """Return the four words of Philox-4x64-10 for each counter (Salmon et al., SC 2011)."""
    zero = np.zeros_like(counter)
    a, b, c, d = counter, zero, zero, zero
    key = key.copy()
    for _ in range(10):
        high_a, high_c = _high_word(a, PHILOX_MULTIPLIERS[0]), _high_word(c, PHILOX_MULTIPLIERS[1])
        low_a, low_c = a * PHILOX_MULTIPLIERS[0], c * PHILOX_MULTIPLIERS[1]
        a, b, c, d = high_c ^ b ^ key[0], low_c, high_a ^ d ^ key[1], low_a
        key += PHILOX_STEPS  # arrays wrap around
    return [a, b, c, d]


def _high_word(x: Words, y: np.uint64) -> Words:
    """Return the upper 64 of the 128 bits of a product."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    x_high, x_low, y_high, y_low = x >> half, x & low, y >> half, y & low
    middle = x_high * y_low + (x_low * y_low >> half)
    return np.asarray(
        x_high * y_high + (middle >> half) + ((middle & low) + x_low * y_high >> half)
    )


def _generator(purpose: Purpose, seed: int, counter: Any) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=_key(purpose, seed), counter=counter))


def _key(purpose: Purpose, seed: int) -> Words:
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise BadInput(f"`seed` = {seed!r}: expected a whole number from 0 to 2^64 - 1")
    return np.array([seed, purpose], np.uint64)


def spread_evenly(mean: float, spread: float, purpose: Purpose, seed: int, count: int) -> Array:
    """Return a number for each client, uniform in mean * (1 -+ spread) (Sec. V-C)."""
    draws = np.ravel(uniform(purpose, seed, range(1), count))
    return np.asarray(mean * (1 + spread * (2 * draws - 1)))


def replicate_seeds(seed: int, count: int) -> list[int]:
    """Return seeds of independent replicates; the first is `seed` itself."""
    more = uniform(Purpose.SEED, seed, range(1), count)[0, 1:] * 2.0**53
    return [seed, *map(int, more)]


def chunks(rounds: range, count: int, most: int | None = None) -> Iterator[range]:
    """Yield the rounds in parts that fit in memory with `count` clients each."""
    step = max(1, (CHUNK_PLACES if most is None else most) // count)
    for start in range(rounds.start, rounds.stop, step):
        yield range(start, min(start + step, rounds.stop))


def as_range(rounds: int | range) -> range:
    """Return the rounds that a number or a range stands for."""
    if isinstance(rounds, range):
        if not rounds or rounds.step != 1 or rounds.start < 0:
            raise BadInput(f"`rounds` = {rounds!r}: expected consecutive rounds from 0 or later")
    else:
        rounds = range(check_count(rounds, "`rounds`"))
    if rounds.stop > MAX_ROUNDS:
        raise BadInput(f"`rounds` = {rounds!r}: a run has at most {MAX_ROUNDS} rounds")
    return rounds


def check_count(value: Any, name: str) -> int:
    """Return a whole number above 0; refuse anything else under its name."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise BadInput(f"{name} = {value!r}: expected a whole number above 0")
    return int(value)
