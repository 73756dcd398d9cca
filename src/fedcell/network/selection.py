"""Who is called in a round: the clients in the order in which they are asked.

A round asks one client after the other until K have joined; those that cannot are passed over.
So it costs what the asked cost, however many others there are. This is the place for other
selectors: each takes dice, (round, ask), and gives the clients that are asked, (round, ask).
"""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array, Bools, Ints


def ask_uniformly(dice: Array, count: int) -> Ints:
    """The first places of a random order of `count` clients: each order is as likely as another.

    A shuffle in which place i is exchanged with one drawn from i and those behind it. The places
    that nobody has touched hold their own client, so nothing of the fleet's length is made.
    """
    rounds, asks = dice.shape
    place = np.arange(asks)
    drawn = place + (dice * (count - place)).astype(np.int64)
    first = np.arange(rounds)[:, None] * count  # a number of its own for each place of each round
    key = (first + drawn).ravel()
    order = stable_order(key)
    ordered = key[order]
    same = ordered[1:] == ordered[:-1]
    before = np.full(key.size, -1)  # the exchange that last brought something to the drawn place
    before[order[1:][same]] = order[:-1][same]
    # The exchange that last brought something to a place before its own turn, if any did.
    own = (first + place).ravel()
    last = order[np.searchsorted(ordered, own, side="right") - 1]
    last = np.where(last == np.arange(key.size), before, np.where(key[last] == own, last, -1))
    # What an exchange brings is what its own place held, which another may have brought there.
    origin = np.where(last >= 0, last, np.arange(key.size))
    while (origin != (further := origin[origin])).any():
        origin = further
    brought = origin[np.maximum(before, 0)] % asks
    return np.where(before >= 0, brought, drawn.ravel()).reshape(rounds, asks)


def stable_order(key: Ints) -> Ints:
    """`key.argsort(kind="stable")` of whole numbers from 0, several times as fast.

    Each number is sorted with its place in the low bits, which makes all of them differ.
    """
    bits = int(key.size).bit_length()
    if key.size == 0 or int(key.max()).bit_length() + bits >= 63:
        return key.argsort(kind="stable")
    packed = (key << bits) | np.arange(key.size)
    packed.sort()
    return np.asarray(packed & (2**bits - 1))


def ask_by_weight(dice: Array, weight: Array) -> Ints:
    """Clients drawn by weight, with replacement."""
    total = weight.cumsum()
    # Rounded up, a die may be at the total; the last client that weighs anything has it.
    found = np.searchsorted(total, dice * total[-1], side="right")
    return np.asarray(np.minimum(found, np.searchsorted(total, total[-1])))


def first_joined(may: Bools, cohort: int) -> tuple[Ints, Ints]:
    """Which asks found the first `cohort` that may join, (round, place); 1 where one did, 0 where
    too few could."""
    where = (~may).argsort(1, kind="stable")[:, :cohort]
    return where, np.take_along_axis(may, where, axis=1).astype(np.int64)


def merge_repeated(clients: Ints, where: Ints, count: Ints) -> tuple[Ints, Ints]:
    """A client that was drawn again counts where it first was."""
    merged, times = np.zeros_like(where), np.zeros_like(count)
    for t, (row, found) in enumerate(zip(where, count, strict=True)):
        drawn = row[found > 0]
        _, first, again = np.unique(clients[t, drawn], return_index=True, return_counts=True)
        order = first.argsort()
        merged[t, : order.size], times[t, : order.size] = drawn[first[order]], again[order]
    return merged, times
