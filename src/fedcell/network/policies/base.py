"""The policy protocol, and the numbers that the server broadcasts to clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedcell.core.types import Array
from fedcell.network.physics.frequency import average_freq_in, average_freq_of
from fedcell.network.round import Problem, Schedule
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario


class Policy(Protocol):
    """A callable from a Problem to a Schedule: it chooses a_j and f_j in all rounds at once.

    `check_policy` tests one. An installed package adds one by name with an entry point in the group
    "fedcell.policies"; a class with one parameter is called with a Broadcast first.

    Examples
    --------
    >>> import numpy as np
    >>> def fair(problem: Problem) -> Schedule:
    ...     shape = problem.band_time.shape
    ...     return Schedule(share=np.full(shape, 1 / shape[-1]), freq=problem.freq_max)
    """

    def __call__(self, problem: Problem, /) -> Schedule: ...


def mean_freq(kappa: float, energy_weight: float) -> float:
    """Return f-bar (25), the best frequency of an average client [cycle/s].

    Infinite if energy is free; the bounds of each client then apply.
    """
    price = 2 * energy_weight * kappa
    return price ** (-1 / 3) if price > 0 else float("inf")


@dataclass(frozen=True)
class Broadcast:
    """The two numbers that the server broadcasts to all clients (Sec. IV-C-2).

    Parameters
    ----------
    freq : float
        f-bar (25) [cycle/s].
    samples : float
        D, mean samples of a local step over all clients with data.

    Examples
    --------
    >>> from fedcell import Scenario
    >>> from fedcell.network import draw_fleet
    >>> scenario = Scenario()
    >>> broadcast = Broadcast.to(scenario, draw_fleet(scenario))
    >>> round(broadcast.freq / 1e6), round(broadcast.samples)
    (463, 503)
    """

    freq: float  # f-bar (25) [cycle/s]
    samples: float  # D, mean over all clients with data of the samples of a local step

    @classmethod
    def among(cls, problem: Problem) -> Broadcast:
        """Return the broadcast of a single round: means over its clients."""
        paper = mean_freq(float(problem.kappa.mean()), problem.energy_weight)
        return cls(average_freq_in(problem, paper), float(problem.samples.mean()))

    @classmethod
    def to(cls, scenario: Scenario, fleet: Fleet) -> Broadcast:
        """Return the broadcast of a scenario: means over the clients of its fleet with data."""
        some: Any = fleet.samples > 0
        some = slice(None) if some.all() else some  # no copy if all have data
        paper = mean_freq(float(fleet.kappa[some].mean()), scenario.task.energy_weight)
        return cls(
            freq=average_freq_of(scenario, fleet, some, paper),
            samples=float(fleet.step_samples(scenario, some).mean()),
        )

    def own_freq(self, samples: Array, freq_min: Array, freq_max: Array) -> Array:
        """Return the frequency that each client sets itself (26): equal times, within bounds."""
        return np.asarray(np.clip(samples / self.samples * self.freq, freq_min, freq_max))

    def own_freq_in(self, problem: Problem) -> Array:
        """Return `own_freq` of the clients of a problem."""
        return self.own_freq(problem.samples, problem.freq_min, problem.freq_max)
