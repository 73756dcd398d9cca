"""The joint problem (22) with declared radios and devices, in the numbers that its solver needs.

With idle devices, other exponents and circuit power it reads, up to constants,

    min  A H + sum_j [ w_j / t_j^(alpha_j - 1) + b_j t_j + q_j s_j ]
    over t_j + s_j <= h_j = H - m_j,   sum_j u_j / s_j <= 1,   t_j in [c_j / f_max, c_j / f_min],

s_j = u_j / a_j. A second of the round costs A = 1 + l sum P_done, since all that are done wait; a
second less of waiting is what b_j and q_j are net of. The paper has A = 1, b = q = m = 0 and
alpha = 3.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem

FAR = 1e300  # stands for an infinite time


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Terms:
    """The numbers of rounds, (..., client); `second` is (...)."""

    second: Array  # A
    u: Array  # [s]
    w: Array  # l kappa c^alpha [s^alpha]
    b: Array  # net price of a second of training
    q: Array  # net price of a second of uploading
    m: Array  # [s]
    alpha: Array
    shortest: Array  # c / f_max [s]
    longest: Array

    @classmethod
    def of(cls, problem: Problem, summed: bool = False) -> Terms:
        """Return the terms of a problem; `summed`: joules of training count as a sum in any case,
        and not as the mean of (11)."""
        extras, weight, c = problem.extras, problem.energy_weight, problem.cycles
        if extras is None:
            nothing = np.zeros(c.shape)
            ones = np.ones(c.shape[:-1])
            times = {"shortest": c / problem.freq_max, "longest": c / problem.freq_min}
            three = np.full(c.shape, 3.0)
            w = problem.effort * (problem.clients if summed else 1)
            return cls(
                **times, second=ones, u=problem.band_time, w=w, b=nothing, q=nothing, m=nothing,
                alpha=three,
            )  # fmt: skip
        each = weight if extras.summed or summed else weight / problem.clients
        return cls(
            second=1 + each * extras.done_power.sum(-1),
            u=problem.band_time,
            w=each * problem.kappa * c**extras.exponent,
            b=each * (extras.busy_power - extras.done_power),
            q=weight * extras.send_power - each * extras.done_power,
            m=extras.memory_time,
            alpha=extras.exponent,
            shortest=c / problem.freq_max,
            longest=c / problem.freq_min,
        )

    def flat(self) -> Terms:
        """Return the same with one axis of rounds."""
        count = self.u.shape[-1]
        names = [f.name for f in fields(self) if f.name != "second"]
        vectors = {name: np.reshape(getattr(self, name), (-1, count)) for name in names}
        return Terms(second=np.reshape(self.second, -1), **vectors)

    def __getitem__(self, where: Any) -> Terms:
        """Return some of the rounds."""
        return Terms(**{f.name: getattr(self, f.name)[where] for f in fields(self)})

    def training_time(self, price: Array) -> Array:
        """Return the t that minimises w / t^(alpha - 1) + (b + price) t, within its bounds:
        t = ((alpha - 1) w / (b + price))^(1 / alpha)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            wish = ((self.alpha - 1) * self.w / (self.b + price)) ** (1 / self.alpha)
        wish = np.where(np.isnan(wish), 0.0, wish)  # 0 / 0: nothing is saved, and time is free
        return np.minimum(np.maximum(wish, self.shortest), self.longest)

    def value(self, t: Array) -> Array:
        """Return w / t^(alpha - 1) + b t."""
        return self.w / t ** (self.alpha - 1) + self.b * t


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
