"""When a loss is reached: one definition for runs, pilots and sweeps."""

from collections.abc import Sequence

import numpy as np

from .types import Array


def rounds_to(losses: Sequence[float] | Array, target: float, hold: int = 1) -> int | None:
    """G_epsilon as observed: the first round after which the mean of the last `hold` losses is at
    or below a target; None if it never is. With 1 it is the paper's first passage."""
    values = np.asarray(losses, float)
    windows = values.size - hold + 1
    if windows < 1:
        return None
    # Summed in one order, however many windows there are: who looks at the last one only agrees.
    total = values[:windows].copy()
    for place in range(1, hold):
        total += values[place : place + windows]
    found = np.flatnonzero(total / hold <= target)
    return int(found[0]) + hold if found.size else None
