"""Compute the number of samples of each class of each client, for every kind of skew.

`supply` is the number of samples of each class; a table is (client, class), and its columns sum to
the supply. `weight` is the size of each client relative to the others. Each table comes with notes.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools, Ints

MAX_DRAWS = 1000  # of a Dirichlet split until all clients have min_partition_size,
MAX_NUMBERS = 3 * 10**7  # with at most these random numbers: some seconds
PASSES = 200  # over rows and columns of a pathological split, to approach its sizes

Skewed = tuple[Ints, list[str]]


def iid(supply: Ints, weight: Array, rng: Generator) -> Skewed:
    """Every client draws from all samples with equal chances."""
    owner = np.repeat(np.arange(weight.size), _whole(weight, supply.sum(), least=1))
    return tally(rng.permutation(owner), _sorted_labels(supply), (weight.size, supply.size)), []


def shards(supply: Ints, weight: Array, each: int, rng: Generator) -> Skewed:
    """The samples sorted by label and cut into shards, `each` per client (McMahan et al.)."""
    total, n = weight.size * each, int(supply.sum())
    if total > n:
        raise refusal(
            f"num_shards_per_partition = {each}: {weight.size} clients would need {total} shards, "
            f"more than the {n} samples there are"
        )
    sizes = _whole(weight, n, least=each)
    order = rng.permutation(total)
    length = ((sizes[:, None] + np.arange(each)) // each).ravel()[order]  # a client's sum to D_j
    label, end = _sorted_labels(supply), length.cumsum()
    straddle = int((label[end - 1] != label[end - length]).sum())
    table = tally(np.repeat(order // each, length), label, (weight.size, supply.size))
    return table, [f"{straddle} of {total} shards straddle two classes or more"] * (straddle > 0)


def dirichlet(
    supply: Ints, count: int, alpha: float, least: int, balance: bool, rng: Generator
) -> Skewed:
    """Per class: each is dealt over the clients by one draw, until all have enough."""
    n = int(supply.sum())
    if count * least > n:
        raise refusal(
            f"min_partition_size = {least}: {count} clients with that need {count * least} "
            f"samples, and there are {n}"
        )
    table = np.zeros((count, supply.size), np.int64)
    draws = min(MAX_DRAWS, max(10, MAX_NUMBERS // table.size))
    for drawn in range(1, draws + 1):
        sizes = np.zeros(count, np.int64)
        for k, samples in enumerate(supply):
            share = rng.dirichlet(np.full(count, alpha))
            if balance:
                may = sizes <= n / count
                share = np.where(may, share, 0.0) if share[may].any() else may.astype(float)
            ends = share.cumsum()
            # The cuts start at random, so that rounding favours no client in every class.
            cuts = np.floor(ends / ends[-1] * samples + rng.random())
            table[:, k] = np.diff(np.minimum(cuts, samples), prepend=0.0)
            sizes += table[:, k]
        if sizes.min() >= least:
            note = f"drawn {drawn} times until each had min_partition_size = {least} samples"
            return table, [note] * (drawn > 1)
    raise refusal(
        f"min_partition_size = {least}: not reached in {draws} draws; raise alpha, lower "
        "min_partition_size or take fewer clients"
    )


def inner_dirichlet(supply: Ints, weight: Array, alpha: float, rng: Generator) -> Skewed:
    """Per client: its label mix is one draw, over the classes that have not run out."""
    need, left = _whole(weight, supply.sum(), least=1), supply.copy()
    mix = rng.dirichlet(np.full(supply.size, alpha), weight.size)
    table = np.zeros(mix.shape, np.int64)
    while need.any():  # each pass meets all needs or empties a class
        odds = mix * (left > 0)
        odds = np.where(odds.any(1, keepdims=True), odds, left)
        asked = rng.multinomial(need, odds / odds.sum(1, keepdims=True))
        for k in np.flatnonzero(asked.sum(0) > left):  # chance decides which clients get it
            asked[:, k] = rng.multivariate_hypergeometric(asked[:, k], left[k], method="marginals")
        table += asked
        need -= asked.sum(1)
        left -= asked.sum(0)
    return table, []


def pathological(supply: Ints, weight: Array, each: int, mode: str, rng: Generator) -> Skewed:
    """Exactly `each` classes per client, sizes as near to the weights as these allow."""
    holds = _holders(supply, weight.size, each, mode, rng)
    sizes = _whole(weight, supply.sum(), least=each)
    near = holds.astype(float)
    for _ in range(PASSES):  # rows towards the sizes, columns to the supply
        near = np.maximum(near * (sizes / near.sum(1))[:, None], holds)
        near *= supply / near.sum(0)
    table, owed = np.zeros(holds.shape, np.int64), np.zeros(weight.size)
    for k, samples in enumerate(supply):
        held = holds[:, k]
        owed[held] += near[held, k]  # what rounding takes from a client, later classes repay
        table[held, k] = _whole(np.maximum(owed[held], 1), samples, least=1)
        owed[held] -= table[held, k]
    off = np.abs(table.sum(1) - sizes)
    if (off <= np.maximum(1, 0.05 * sizes)).all():
        return table, []
    return table, [
        f"sizes are off those asked for by {(off / sizes).mean():.0%} on average and "
        f"{(off / sizes).max():.0%} at most: the classes that clients hold allow no nearer"
    ]


def _holders(supply: Ints, count: int, each: int, mode: str, rng: Generator) -> Bools:
    """Choose the classes of each client: each class has a holder, and no more than samples."""
    classes, most = supply.size, np.minimum(supply, count)
    if each > classes:
        raise refusal(f"num_classes_per_partition = {each}: the labels have {classes} classes")
    if count * each < classes:
        raise refusal(
            f"num_classes_per_partition = {each}: {count} clients hold {count * each} classes at "
            f"most, so some of the {classes} would have no holder"
        )
    if most.sum() < count * each:
        raise refusal(
            f"num_classes_per_partition = {each}: some classes have too few samples for "
            f"{count} clients to hold {each} each"
        )
    rank = rng.random((count, classes))
    if mode != "random":  # as in flwr-datasets: client j begins with class j
        first = np.arange(count)[:, None] + np.arange(each if mode == "deterministic" else 1)
        np.put_along_axis(rank, first % classes, -1.0, axis=1)
    holds = rank.argsort(1).argsort(1) < each
    while True:  # as a rule this returns at once; else some clients exchange a class
        holders, free = holds.sum(0), holds & (rank >= 0)
        if (holders > supply).any():
            giver, takers = int(np.argmax(holders - supply)), holders < most
        elif not holders.all():
            giver, takers = int(np.argmax(holders * free.any(0))), holders == 0
        else:
            return holds
        can, room = free[:, [giver]] & ~holds & takers, most - holders
        if can.any():
            taker = int(np.argmax(room * can.any(0)))
            many = min(room[taker], max(1, (holders - supply)[giver] // takers.sum()))
            chosen = rng.permutation(np.flatnonzero(can[:, taker]))[:many]
            holds[chosen, giver], holds[chosen, taker] = False, True
            continue
        # All holders of the giver hold all takers: another client passes a third class on.
        taker, i = int(np.argmax(takers)), int(np.argmax(free[:, giver]))
        ways = np.argwhere(free & ~holds[:, [taker]] & ~holds[i])
        if not (free[i, giver] and ways.size):  # never for "random"
            raise refusal(
                f'class_assignment_mode = "{mode}": some class would have no holder, or fewer '
                'samples than holders; "random" avoids it'
            )
        j, third = rng.choice(ways)
        holds[i, [giver, third]] = False, True
        holds[j, [third, taker]] = False, True


def deal_on(table: Ints, each: int) -> Skewed:
    """Deal each row to `each` clients in turn, class after class."""
    least = int(table.sum(1).min())
    if least < each:
        raise refusal(
            f"same_skew_as = {len(table)}: a part has {least} samples for {each} clients; "
            "take fewer clients"
        )
    ends = np.pad(table.cumsum(1), ((0, 0), (1, 0)))[:, None, :]
    turns = (ends + np.arange(each)[::-1, None]) // each  # that a client had when a class ends
    dealt = np.diff(turns, axis=2).reshape(-1, table.shape[1])
    short = int(((dealt == 0) & (np.repeat(table, each, axis=0) > 0)).any(1).sum())
    note = f"{short} of {len(dealt)} clients lack a class of their part: it does not go round"
    return dealt, [note] * (short > 0)


def tally(row: Ints, column: NDArray[np.integer], shape: tuple[int, int]) -> Ints:
    """Count how often each pair occurs."""
    table = np.zeros(shape, np.int64)
    np.add.at(table, (row, column), 1)
    return table


def refusal(fault: str) -> BadInput:
    """Return the error for an option of [learning.partition]."""
    return BadInput(f"learning.partition.{fault}")


def _whole(weight: Array, total: int, least: int) -> Ints:
    """Return whole numbers in proportion to `weight` that sum to `total`, each at least `least`."""
    rest = total - least * weight.size
    above = np.maximum(weight * (total / weight.sum()) - least, 0.0)
    above = (
        above * (rest / above.sum()) if above.any() else np.full(weight.size, rest / weight.size)
    )
    whole = np.floor(above).astype(np.int64)
    whole[np.argsort(whole - above, kind="stable")[: rest - whole.sum()]] += 1
    return np.asarray(whole + least)


def _sorted_labels(supply: Ints) -> Ints:
    return np.repeat(np.arange(supply.size), supply)
