"""The Pareto front of plans: those that no other plan beats in both time and energy."""

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array, Bools, Ints

from .grid import PlanGrid


@dataclass(frozen=True, kw_only=True)
class FrontPlan:
    """A plan of the Pareto front of time and energy, with its expected totals.

    Attributes
    ----------
    cohort, local_steps : int
        K and E_l.
    rounds : float
        Rounds to the target.
    duration : float
        Time of a run to the target [s].
    energy : float
        Energy of all clients [J].
    cost : float
        Cost (12) [s].
    """

    cohort: int
    local_steps: int
    rounds: float
    duration: float
    energy: float
    cost: float


def pareto_front(grid: PlanGrid, allowed: Bools) -> tuple[FrontPlan, ...]:
    """Return the plans of a grid that keep its limits and that no other of them beats in both time
    and energy, the fastest first."""
    i, j = np.nonzero(allowed & np.isfinite(grid.duration) & np.isfinite(grid.energy))
    front = undominated(grid.duration[i, j], grid.energy[i, j])
    return tuple(
        FrontPlan(
            cohort=int(grid.cohorts[k]),
            local_steps=int(grid.steps[e]),
            rounds=float(grid.rounds[k, e]),
            duration=float(grid.duration[k, e]),
            energy=float(grid.energy[k, e]),
            cost=float(grid.cost[k, e]),
        )
        for k, e in zip(i[front], j[front], strict=True)
    )


def undominated(first: Array, second: Array) -> Ints:
    """Return the indices of the pairs that no other pair is below in one value and not above in
    the other, ordered by the first value.

    >>> undominated(np.array([1.0, 2.0, 3.0, 2.0]), np.array([5.0, 4.0, 4.0, 6.0])).tolist()
    [0, 1]
    """
    order = np.lexsort((second, first))
    least = np.minimum.accumulate(np.append(np.inf, second[order]))
    return order[second[order] < least[:-1]]
