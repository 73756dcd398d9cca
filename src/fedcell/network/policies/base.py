"""What a policy is: a callable from a Problem to a Schedule. And what the server tells clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem, Schedule
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario


class Policy(Protocol):
    """Chooses a_j and f_j, in every round of the problem at once.

    Any callable will do; `check_policy` says whether it may be trusted.

    >>> import numpy as np
    >>> def fair(problem: Problem) -> Schedule:
    ...     shape = problem.band_time.shape
    ...     return Schedule(share=np.full(shape, 1 / shape[-1]), freq=problem.freq_max)
    """

    def __call__(self, problem: Problem, /) -> Schedule: ...


def mean_freq(kappa: float, energy_weight: float) -> float:
    """f-bar (25): the frequency that balances seconds and joules for an average client [cycle/s].

    Infinite where energy is free; the bounds of each client then decide.
    """
    price = 2 * energy_weight * kappa
    return price ** (-1 / 3) if price > 0 else float("inf")


@dataclass(frozen=True)
class Broadcast:
    """The two numbers that the server tells all clients (Sec. IV-C-2).

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
        """For a round by itself: the means over its own clients."""
        freq = mean_freq(float(problem.kappa.mean()), problem.energy_weight)
        return cls(freq, float(problem.samples.mean()))

    @classmethod
    def to(cls, scenario: Scenario, fleet: Fleet) -> Broadcast:
        """What the server of a scenario tells the clients of its fleet: means of who has data."""
        some: Any = fleet.samples > 0
        some = slice(None) if some.all() else some  # as is, where all have data
        return cls(
            freq=mean_freq(float(fleet.kappa[some].mean()), scenario.task.energy_weight),
            samples=float(fleet.step_samples(scenario, some).mean()),
        )

    def own_freq(self, samples: Array, freq_min: Array, freq_max: Array) -> Array:
        """What each client picks for itself, (26): all train for equally long, within bounds."""
        return np.asarray(np.clip(samples / self.samples * self.freq, freq_min, freq_max))

    def own_freq_in(self, problem: Problem) -> Array:
        """The same for the clients of a problem."""
        return self.own_freq(problem.samples, problem.freq_min, problem.freq_max)
