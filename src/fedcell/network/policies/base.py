"""Scheduling policies: each is a callable from a Problem to a Schedule.

`Optimal`, the exact minimiser of (22), has a file of its own.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedcell.network.round import Problem, Schedule
from fedcell.network.trace import Fleet
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario


class Policy(Protocol):
    """Chooses a_j and f_j, in every round of the problem at once."""

    def __call__(self, problem: Problem, /) -> Schedule: ...


def mean_freq(kappa: float, energy_weight: float) -> float:
    """f-bar (25): the frequency that balances seconds and joules for an average client [cycle/s].

    Infinite where energy is free; the bounds of each client then decide.
    """
    price = 2 * energy_weight * kappa
    return price ** (-1 / 3) if price > 0 else float("inf")


@dataclass(frozen=True)
class Broadcast:
    """The two numbers that the server tells all clients (Sec. IV-C-2)."""

    freq: float  # f-bar (25) [cycle/s]
    samples: float  # D, mean over all N clients of the samples of a local step

    @classmethod
    def among(cls, problem: Problem) -> "Broadcast":
        """For a round by itself: the means over its own clients."""
        freq = mean_freq(float(problem.kappa.mean()), problem.energy_weight)
        return cls(freq, float(problem.samples.mean()))

    def own_freq(self, samples: Array, freq_min: Array, freq_max: Array) -> Array:
        """What each client picks for itself, (26): all train for equally long, within bounds."""
        return np.asarray(np.clip(samples / self.samples * self.freq, freq_min, freq_max))


def broadcast(scenario: Scenario, fleet: Fleet) -> Broadcast:
    """What the server of a scenario tells its clients."""
    return Broadcast(
        freq=mean_freq(float(fleet.kappa.mean()), scenario.task.energy_weight),
        samples=float(scenario.step_samples(fleet.samples).mean()),
    )


@dataclass(frozen=True)
class Even:
    """The same band and the same frequency for all: the baseline of Sec. V-C."""

    told: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        shape = problem.band_time.shape
        f = np.clip(self.told.freq, problem.freq_min, problem.freq_max)
        return Schedule(share=np.full(shape, 1 / shape[-1]), freq=f)


@dataclass(frozen=True)
class Distributed:
    """Each client sets its own frequency, the server splits the band by Theorem 3: Sec. IV-C-2.

    Theorem 3 holds at the joint optimum of (22); with frequencies fixed by (26) it is a
    heuristic, and `EqualFinish` is the exact split (DECISIONS.md, 5).
    """

    told: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        f = _own_freq(self.told, problem)
        return Schedule(share=theorem_3(problem, f), freq=f)


@dataclass(frozen=True)
class EqualFinish:
    """Frequencies as in `Distributed`, and the split of the band that ends the round soonest."""

    told: Broadcast

    def __call__(self, problem: Problem, /) -> Schedule:
        f = _own_freq(self.told, problem)
        return Schedule(share=equal_finish(problem.band_time, problem.cycles / f), freq=f)


@dataclass(frozen=True)
class OptimalStaged:
    """The exact minimiser of (20): training and uploading as two stages (DECISIONS.md, 8)."""

    def __call__(self, problem: Problem, /) -> Schedule:
        u, c = problem.band_time, problem.cycles
        # All train for T, but who reaches freq_min earlier is done earlier and spends no less:
        # T^3 = 2 sum of w_j over the clients that are still above freq_min at T.
        longest = c / problem.freq_min
        last = np.argsort(-longest, axis=-1)
        above = np.cbrt(2 * np.take_along_axis(problem.effort, last, -1).cumsum(-1))
        T = np.minimum(above, np.take_along_axis(longest, last, -1)).max(-1, keepdims=True)
        T = np.maximum(T, (c / problem.freq_max).max(-1, keepdims=True))  # the slowest must manage
        return Schedule(
            share=u / u.sum(-1, keepdims=True),  # all upload for equally long
            freq=np.clip(c / T, problem.freq_min, problem.freq_max),
        )


def theorem_3(problem: Problem, freq: Array) -> Array:
    """The split of the band (24), for given frequencies."""
    # u_j stands for 1/r_j^0: they differ by a factor that cancels.
    root = np.sqrt(problem.kappa * freq**3 * problem.band_time)
    return np.asarray(root / root.sum(-1, keepdims=True))


def equal_finish(band_time: Array, compute_time: Array) -> Array:
    """The shares with which all clients finish together, which is as soon as can be.

    A client that trains for t_j has H - t_j to upload and needs the share u_j / (H - t_j);
    H is where the shares fill the band. They are written in e, the time that the last to
    train has left, so that nothing cancels. 1 / sum is concave in e, so Newton's steps
    from below never overshoot.
    """
    u = band_time
    lead = compute_time.max(-1, keepdims=True) - compute_time
    e = (u - lead).max(-1, keepdims=True)  # no share is above 1
    for _ in range(100):
        time = e + lead
        share = u / time
        total = share.sum(-1, keepdims=True)
        step = (total - 1) * total / (share / time).sum(-1, keepdims=True)
        e = e + step
        if (np.abs(step) <= 1e-15 * e).all():
            break
    share = u / (e + lead)
    return np.asarray(share / share.sum(-1, keepdims=True))


def _own_freq(told: Broadcast, problem: Problem) -> Array:
    return told.own_freq(problem.samples, problem.freq_min, problem.freq_max)
