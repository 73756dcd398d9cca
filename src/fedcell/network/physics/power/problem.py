"""The joint problem over share, clock and transmit power, in the numbers that its solver needs.

With x = ln(1 + SNR / gap) as the variable in place of the power, (22) reads, up to constants,

    min  A H + sum_j [ w_j / t_j^(alpha_j - 1) + b_j t_j + q_j s_j + E_j phi(x_j) + D_j / x_j ]
    over m_j + t_j + s_j <= H,   sum_j y_j / (x_j s_j) <= 1,   s_j >= S_j phi(x_j),
         s_j >= V_j / x_j,   x_j in [x_lo, x_hi],   t_j in [c_j / f_max, c_j / f_min],

phi(x) = (e^x - 1) / x. It is convex: phi has a power series with positive coefficients, and
1 / (x s) is a monomial with negative exponents. Then a = y / (x s) and f = c / t. E phi(x) is what
the amplifier draws for an upload, S phi(x) its length with all the power, V / x its length with
the largest share, D / x what is drawn on air where clients send in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools
from fedcell.network.physics.discrete.link import DiscreteLink
from fedcell.network.physics.link import PowerLimit
from fedcell.network.physics.terms import Terms
from fedcell.network.round import Problem, Schedule

from .functions import m_of, phi
from .link import Link

HIGHEST = 600.0  # of x: e^x is far from overflow
BISECTIONS = 56  # of log x
TINY = 1e-290


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FreePower:
    """The numbers of rounds, (..., client), beside those of training and of time."""

    terms: Terms
    y: Array  # [s]
    radiated: Array  # E: l_0 times the amplifier's joules as x -> 0 [s]
    on_air: Array  # D
    sending: Array  # S
    airtime: Array  # V
    least: Array  # x_lo
    most: Array  # x_hi
    floor: Array  # shortest upload

    @classmethod
    def of(cls, problem: Problem, terms: Terms | None = None) -> FreePower:
        """Return the numbers of a problem, with those of (22) for training and time or others."""
        link, weight = Link.of(problem), problem.energy_weight
        if isinstance(link, DiscreteLink):
            raise BadInput(
                "radio.rate_table gives rates with steps, which only optimal and optimal-power "
                "choose among: take one of them, or Shannon's rates with radio.gap_db"
            )
        most = np.minimum(link.fastest, HIGHEST)
        if weight == 0 and not (most.max() < HIGHEST or np.isfinite(link.power_max).all()):
            raise BadInput(
                "with energy_weight = 0 the best transmit power has no limit: give "
                "radio.power_max or radio.spectral_cap, or a price of energy"
            )
        least = np.minimum(link.least, most)
        airtime = link.scale / link.widest
        sending = link.sending
        return cls(
            terms=Terms.of(problem) if terms is None else terms,
            y=link.scale,
            radiated=weight * link.draw * link.noise * link.scale,
            on_air=weight * link.on_air * link.scale,
            sending=sending,
            airtime=airtime,
            least=least,
            most=most,
            floor=_shortest(sending, airtime, least, most),
        )

    def flat(self) -> FreePower:
        """Return the same with one axis of rounds."""
        count = self.y.shape[-1]
        names = [f.name for f in fields(self) if f.name != "terms"]
        vectors = {name: np.reshape(getattr(self, name), (-1, count)) for name in names}
        return FreePower(terms=self.terms.flat(), **vectors)

    def __getitem__(self, where: Any) -> FreePower:
        """Return some of the rounds."""
        return FreePower(**{f.name: getattr(self, f.name)[where] for f in fields(self)})

    def value(self, t: Array, s: Array, x: Array, length: Array | None = None) -> Array:
        """Return the objective, up to its constants, at the length of the rounds or another."""
        H = (self.terms.m + t + s).max(-1) if length is None else length
        with np.errstate(divide="ignore"):
            upload = self.radiated * phi(x) + self.on_air / x + self.terms.q * s
        return np.asarray(self.terms.second * H + (self.terms.value(t) + upload).sum(-1))

    def bound(self, beta: Array, R: Array) -> tuple[Array, Array]:
        """Return a lower bound on the objective by a price of band, and prices of being done by H
        that sum to A; and the value of each client in it."""
        terms = self.terms
        t = terms.training_time(beta)
        training = terms.value(t) + beta * (t + terms.m)
        each = training + self._least_upload(terms.q + beta, R[..., None] * self.y)
        return np.asarray(each.sum(-1) - R), np.asarray(each)

    def _least_upload(self, Q: Array, Y: Array) -> Array:
        """Return min E phi(x) + D / x + Q s + Y / (x s) over x and s of an upload.

        The best s for x is sqrt(Y / (x Q)), or the shortest that the limits allow. Then the slope
        by x rises through zero once.
        """
        Q, Y = np.maximum(Q, TINY), np.maximum(Y, TINY)

        def length(x: Array) -> tuple[Array, Array, Array]:
            free = np.sqrt(Y / (x * Q))
            return free, self.sending * phi(x), self.airtime / x

        low, high = np.maximum(self.least, 1e-13), self.most
        low = np.minimum(low, high)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(BISECTIONS):
                x = np.sqrt(low * high)
                free, sending, airtime = length(x)
                s = np.maximum(np.maximum(free, sending), airtime)
                m = m_of(x)
                rise = np.where(sending >= airtime, self.sending * m, -self.airtime)  # x^2 ds/dx
                rise = np.where(s <= free, 0.0, rise)
                slope = self.radiated * m - self.on_air - Y / s + rise * (Q - Y / (x * s * s))
                low, high = np.where(slope < 0, x, low), np.where(slope < 0, high, x)
            x = np.sqrt(low * high)
            s = np.maximum.reduce(length(x))
            found = self.radiated * phi(x) + self.on_air / x + Q * s + Y / (x * s)
        return np.asarray(found)

    def chosen(self, problem: Problem, schedule: Schedule) -> tuple[Array, Array, Array]:
        """Return t, s and x of a schedule that gives transmit powers."""
        link = Link.of(problem)
        assert schedule.power is not None
        s, _ = link.upload(schedule.share, schedule.power)
        with np.errstate(divide="ignore"):
            used = np.minimum(schedule.share, self.y / (self.least * s))
            width = 1.0 if link.in_turn else used
            x = np.log1p(schedule.power / (link.noise * width))
        return problem.cycles / schedule.freq, s, np.asarray(np.minimum(x, self.most))


def with_fixed_powers(problem: Problem, which: Bools) -> Problem:
    """Return a problem in which some devices, (..., client), cannot set their transmit power: they
    keep the density of their power law."""
    if problem.link is None or not which.any():
        return problem
    if isinstance(problem.link, DiscreteLink):
        raise BadInput(
            "radio.rate_table gives rates with steps: optimal-power needs devices that all set "
            "their transmit power (sets-power)"
        )
    limit = None if problem.extras is None else problem.extras.limit
    band_time = limit.band_time if isinstance(limit, PowerLimit) else problem.band_time
    with np.errstate(divide="ignore"):
        x = problem.link.scale / band_time
    return replace(problem, link=problem.link.keeping(x, which))


def _shortest(sending: Array, airtime: Array, least: Array, most: Array) -> Array:
    """Return the shortest s with S phi(x) <= s and V / x <= s for some x within its bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.where(airtime > 0, airtime / np.log1p(airtime / sending), 0.0)
    return np.asarray(np.maximum.reduce((sending * phi(least), airtime / most, both)))
