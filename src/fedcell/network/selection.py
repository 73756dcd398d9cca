"""Select the clients of a round: the order in which they are asked.

A round asks one client after the other until K have joined, and skips those that cannot. So its
cost grows with the asked clients and not with the fleet. Other selectors belong here: each takes
uniform random numbers, (round, ask), and returns the clients that are asked, (round, ask).
"""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array, Bools, Ints


def ask_uniformly(draws: Array, count: int) -> Ints:
    """Return the first places of a random order of `count` clients; all orders are equally likely.

    A Fisher-Yates shuffle, in which place i is swapped with a random later one. Places without a
    swap hold their own client, so no array of the fleet's length is needed.
    """
    rounds, asks = draws.shape
    place = np.arange(asks)
    drawn = place + (draws * (count - place)).astype(np.int64)
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


def ask_by_weight(draws: Array, weight: Array) -> Ints:
    """Return clients drawn by weight, with replacement."""
    total = weight.cumsum()
    # A draw may round up to the total, which belongs to the last client with a weight.
    client = np.searchsorted(total, draws * total[-1], side="right")
    return np.asarray(np.minimum(client, np.searchsorted(total, total[-1])))


def first_joined(may: Bools, cohort: int) -> tuple[Ints, Ints]:
    """Return the asks of the first `cohort` clients that may join, (round, place); and 1 for each
    of these, 0 where too few could."""
    where = (~may).argsort(1, kind="stable")[:, :cohort]
    return where, np.take_along_axis(may, where, axis=1).astype(np.int64)


def merge_repeated(clients: Ints, where: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Merge repeated draws of a client into its first place."""
    merged, times = np.zeros_like(where), np.zeros_like(count)
    for t, (row, joined) in enumerate(zip(where, count, strict=True)):
        drawn = row[joined > 0]
        _, first, again = np.unique(clients[t, drawn], return_index=True, return_counts=True)
        order = first.argsort()
        merged[t, : order.size], times[t, : order.size] = drawn[first[order]], again[order]
    return merged, times
