"""The schedule that minimises (22) over share, clock and transmit power, with its certificate."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array
from fedcell.network.physics.power.link import Link
from fedcell.network.physics.power.problem import FreePower
from fedcell.network.round import Certificate, Problem, Schedule

from .joint.solve import JointSplit, joint_split


class OptimalPower:
    """The schedule that minimises (22) over share, clock and transmit power of each client.

    >>> from fedcell.network import load_round
    >>> best = OptimalPower()(load_round("docs/round.json"))
    >>> bool(best.certificate.gap < 1e-9)
    True
    """

    def __call__(self, problem: Problem, /) -> Schedule:
        power = FreePower.of(problem)
        found = joint_split(power)
        return schedule_of(problem, power, found)


def schedule_of(problem: Problem, power: FreePower, found: JointSplit) -> Schedule:
    """Return the schedule of a split; its certificate is the dual bound at the prices."""
    link = Link.of(problem)
    share = power.y / (found.x * found.upload)
    total = share.sum(-1, keepdims=True)
    share = np.where((total > 1) | (found.R[..., None] > 0), share / total, share)
    freq = np.clip(problem.cycles / found.train, problem.freq_min, problem.freq_max)
    schedule = Schedule(share, freq, power=link.power(share, found.x))
    return Schedule(share, freq, certify_power(problem, power, schedule, found), schedule.power)


def certify_power(
    problem: Problem, power: FreePower, schedule: Schedule, found: JointSplit
) -> Certificate:
    """Return how far a schedule with transmit powers is from the optimum at the most, by prices."""
    t, s, x = power.chosen(problem, schedule)
    value = power.value(t, s, x)
    beta = _complete(power, found.beta)
    bound, _ = power.bound(beta, found.R)
    low, high, f = problem.freq_min, problem.freq_max, schedule.freq
    spare = 1 - schedule.share.sum(-1)
    excess = np.maximum(1 - f / low, f / high - 1).max(-1)
    gap = np.asarray((value - bound) / value)
    return Certificate(
        primal=np.maximum(0, np.maximum(excess, -spare)) + 0.0,
        dual=np.asarray(found.R * spare / value),
        gap=gap,
    )


def _complete(power: FreePower, beta: Array) -> Array:
    """Return prices that sum to A: where they are too low, the round is as short as it can be, and
    the client that makes it so pays the rest."""
    terms = power.terms
    A, total = terms.second[..., None], beta.sum(-1, keepdims=True)
    shortest = terms.m + terms.shortest + power.floor
    last = np.arange(beta.shape[-1]) == shortest.argmax(-1)[..., None]
    missing = np.where(total < A * (1 - 1e-9), A - total, 0.0)
    beta = np.where(last, beta + missing, beta)
    return np.asarray(beta * (A / beta.sum(-1, keepdims=True)))
