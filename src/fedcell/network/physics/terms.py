"""The joint problem (22) with declared radios and devices, in the numbers that its solver needs.

With idle devices, other exponents and circuit power it reads, up to constants,

    min  A H + sum_j [ w_j / t_j^(alpha_j - 1) + b_j t_j + q_j s_j ]
    over t_j + s_j <= h_j = H - m_j,   sum_j u_j / s_j <= 1,   t_j in [c_j / f_max, c_j / f_min],

s_j = u_j / a_j. With clock levels w_j / t_j^(alpha_j - 1) is the straight line between its values
at the levels (`scenario.hardware.levels`). A second of the round costs A = 1 + l sum P_done, since
all that are done wait; a second less of waiting is what b_j and q_j are net of. The paper has
A = 1, b = q = m = 0 and alpha = 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem
from fedcell.scenario.hardware.levels import Levels, penalty

FAR = 1e300  # stands for an infinite time
AT_LEVEL = 1e-9  # relative distance at which a clock is at a level


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Terms:
    """The numbers of rounds, (..., client); `second` is (...)."""

    second: Array  # A
    u: Array  # [s]
    w: Array  # l kappa c^alpha [s^alpha]
    b: Array  # net price of a second of training
    q: Array  # net price of a second of uploading
    m: Array  # of a training and an upload, whatever the schedule [s]
    alpha: Array
    shortest: Array  # c / f_max [s]
    longest: Array
    cycles: Array  # c
    levels: Levels | None = None  # clocks of the processors, c / t; None: any

    @classmethod
    def of(cls, problem: Problem, summed: bool = False) -> Terms:
        """Return the terms of a problem; `summed`: joules of training count as a sum in any case,
        and not as the mean of (11)."""
        extras, weight, c = problem.extras, problem.energy_weight, problem.cycles
        if extras is None:
            nothing = np.zeros(c.shape)
            ones = np.ones(c.shape[:-1])
            three, low, high = np.full(c.shape, 3.0), problem.freq_min, problem.freq_max
            w = problem.effort * (problem.clients if summed else 1)
            return cls(
                second=ones, u=problem.band_time, w=w, b=nothing, q=nothing,
                m=nothing, alpha=three, shortest=c / high, longest=c / low, cycles=c,
            )  # fmt: skip
        each = weight if extras.summed or summed else weight / problem.clients
        return cls(
            second=1 + each * extras.done_power.sum(-1),
            u=problem.band_time,
            w=each * problem.kappa * c**extras.exponent,
            b=each * (extras.busy_power - extras.done_power),
            q=weight * extras.send_power - each * extras.done_power,
            m=extras.memory_time + extras.latency,
            alpha=extras.exponent,
            shortest=c / problem.freq_max,
            longest=c / problem.freq_min,
            cycles=c,
            levels=extras.levels,
        )

    def any_clock(self) -> Terms:
        """Return the terms of processors with any clock: a lower bound on those with levels."""
        return replace(self, levels=None)

    def flat(self) -> Terms:
        """Return the same with one axis of rounds."""
        count = self.u.shape[-1]
        vectors = {name: np.reshape(getattr(self, name), (-1, count)) for name in VECTORS}
        levels = self.levels and self.levels.flat(count)
        return Terms(second=np.reshape(self.second, -1), levels=levels, **vectors)

    def __getitem__(self, where: Any) -> Terms:
        """Return some of the rounds."""
        vectors = {name: getattr(self, name)[where] for name in ("second", *VECTORS)}
        return Terms(levels=self.levels and self.levels[where], **vectors)

    def training_time(self, price: Array) -> Array:
        """Return the t that minimises w / t^(alpha - 1) + (b + price) t, within its bounds:
        t = ((alpha - 1) w / (b + price))^(1 / alpha)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            wish = ((self.alpha - 1) * self.w / (self.b + price)) ** (1 / self.alpha)
        wish = np.where(np.isnan(wish), 0.0, wish)  # 0 / 0: nothing is saved, and time is free
        if self.levels is not None:
            wish = self._best_level(wish, price)
        return np.minimum(np.maximum(wish, self.shortest), self.longest)

    def value(self, t: Array) -> Array:
        """Return w / t^(alpha - 1) + b t, or what time-sharing two levels gives."""
        last = self.w / t ** (self.alpha - 1)
        if self.levels is not None:
            last = last * penalty(self.levels, self.cycles / t, self.alpha)
        return last + self.b * t

    def savings(self, t: Array) -> tuple[Array, Array]:
        """Return what a second more of training saves, and what a second less costs more:
        (alpha - 1) w / t^alpha - b, the same unless t is at a level."""
        smooth = (self.alpha - 1) * self.w / t**self.alpha - self.b
        more = less = smooth
        for begin, end, slope in self.segments():
            more = np.where(
                (t * (1 + AT_LEVEL) >= begin) & (t * (1 + AT_LEVEL) < end), -slope, more
            )
            less = np.where(
                (t * (1 - AT_LEVEL) > begin) & (t * (1 - AT_LEVEL) <= end), -slope, less
            )
        return more, less

    def segments(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the times of two adjacent levels and the slope of the value in between, from the
        highest clocks down; NaN where a client has any clock."""
        if self.levels is None:
            return
        times = [self.cycles / level for level in self.levels.each()][::-1]
        plain = self.any_clock()
        for begin, end in pairwise(times):
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = (plain.value(end) - plain.value(begin)) / (end - begin)
            yield begin, end, slope

    def _best_level(self, wish: Array, price: Array) -> Array:
        """Return the times of the levels with the least w / t^(alpha - 1) + (b + price) t."""
        assert self.levels is not None
        plain, least = self.any_clock(), np.full(np.shape(wish), np.inf)
        for level in self.levels.each():
            t = self.cycles / level
            cost = plain.value(t) + price * t  # NaN without levels: never less
            wish, least = np.where(cost < least, t, wish), np.where(cost < least, cost, least)
        return wish


VECTORS = tuple(f.name for f in fields(Terms) if f.name not in ("second", "levels"))


def dual_bound(terms: Terms, beta: Array) -> Array:
    """Return a lower bound on the problem by prices of being done by H that sum to A.

    Minimising the Lagrangian over H, s, t and the price of band leaves
    (sum sqrt((beta + q) u))^2 + sum [ min_t (w / t^(alpha-1) + (b + beta) t) + beta m ].
    """
    t = terms.training_time(beta)
    band = np.sqrt((beta + terms.q) * terms.u).sum(-1) ** 2
    return np.asarray(band + (terms.value(t) + beta * (t + terms.m)).sum(-1))


def reached(terms: Terms, t: Array, s: Array) -> Array:
    """Return the objective at training times t and upload times s, up to its constants."""
    H = (terms.m + t + s).max(-1)
    return np.asarray(terms.second * H + (terms.value(t) + terms.q * s).sum(-1))
