"""Who is called in a round: uniformly, or by the size of their data.

This is the place for other selectors: each takes dice and who may be called, (round, client),
and gives the clients of each round with how often each was drawn, (round, place).
"""

import numpy as np

from fedcell.core.types import Array, Bools, Ints


def select_uniform(dice: Array, may: Bools, cohort: int) -> tuple[Ints, Ints]:
    """The `cohort` candidates with the smallest dice, in that order."""
    dice = np.where(may, dice, 2.0)
    if cohort < dice.shape[1]:
        first = np.argpartition(dice, cohort - 1, axis=1)[:, :cohort]
    else:
        first = np.broadcast_to(np.arange(cohort), dice.shape)
    order = np.take_along_axis(dice, first, axis=1).argsort(1, kind="stable")
    chosen = np.take_along_axis(first, order, axis=1)
    present = np.take_along_axis(dice, chosen, axis=1) < 2
    return np.where(present, chosen, -1), present.astype(np.int64)


def select_weighted(dice: Array, weight: Array, cohort: int) -> tuple[Ints, Ints]:
    """`cohort` draws by weight with replacement; a client drawn again counts where it first was."""
    chosen = np.full((len(dice), cohort), -1)
    count = np.zeros_like(chosen)
    for t, (die, total) in enumerate(zip(dice[:, :cohort], weight.cumsum(1), strict=True)):
        if total[-1] == 0:
            continue
        drawn = np.searchsorted(total, die * total[-1], side="right")
        who, first, times = np.unique(drawn, return_index=True, return_counts=True)
        order = first.argsort()
        chosen[t, : who.size], count[t, : who.size] = who[order], times[order]
    return chosen, count
