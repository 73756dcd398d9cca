"""The joint problem (22) over modes of uploads: its choices, and the bound that prices prove.

A choice of a client is a mode, with its joules or with the watts that the amplifier draws: up to
constants it costs E + (q + p) s for an upload of length s >= u / w that takes the share u / s.
Over the choices of a client the problem is not convex. At any price R of band and prices beta of
being done by H that sum to A the clients decide alone, and

    sum_j min_t (...) + sum_j min over choices and s of (E + (q + p + beta) s + R u / s) - R

is a bound from below. It is met up to what about two clients could gain (Shapley and Folkman).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.network.physics.terms import Terms

from .modes import Modes

TINY = 1e-290
REACH, BISECTIONS = 3.0, 12  # of the search for a price of band, in logarithms


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Choices:
    """What the clients of rounds may choose among, (..., client, choice)."""

    band_time: Array  # u [s]; infinite: not to be chosen
    shortest: Array  # u / w [s]
    joules: Array  # E, times what a joule weighs [s]
    watts: Array  # p, times what a joule weighs

    @classmethod
    def of(cls, modes: Modes, weight: float) -> Choices:
        """Return each mode with its joules, and again with its watts."""
        with np.errstate(invalid="ignore"):
            shortest = np.where(
                np.isfinite(modes.band_time), modes.band_time / modes.widest, np.inf
            )
        nothing = np.zeros(modes.power.shape)
        drawn = np.isfinite(modes.power)
        if not drawn.any():
            return cls(
                band_time=modes.band_time,
                shortest=shortest,
                joules=weight * modes.energy,
                watts=nothing,
            )
        known = np.isfinite(modes.energy)
        parts = {
            "band_time": (np.where(known, modes.band_time, np.inf), modes.band_time),
            "shortest": (np.where(known, shortest, np.inf), shortest),
            "joules": (np.where(known, weight * modes.energy, 0.0), nothing),
            "watts": (nothing, np.where(drawn, weight * modes.power, 0.0)),
        }
        return cls(**{name: np.concatenate(pair, -1) for name, pair in parts.items()})

    def __getitem__(self, where: Any) -> Choices:
        """Return some of the rounds."""
        return Choices(**{f.name: getattr(self, f.name)[where] for f in fields(self)})

    def at(self, choice: Ints) -> Choices:
        """Return one choice of each client, (..., client)."""
        picked = {
            f.name: np.take_along_axis(getattr(self, f.name), choice[..., None], -1)[..., 0]
            for f in fields(self)
        }
        return Choices(**picked)

    def values(self, price: Array, R: Array) -> Array:
        """Return what each choice costs at the best length of its upload, (..., client, choice);
        `price` is that of a second of sending, without what the amplifier draws."""
        return self.answers(price, R)[0]

    def answers(self, price: Array, R: Array) -> tuple[Array, Array]:
        """Return the `values`, and the length of the upload in each choice."""
        Q = np.maximum(price[..., None] + self.watts, TINY)
        with np.errstate(invalid="ignore", over="ignore"):
            Ru = R[..., None, None] * self.band_time
            s = np.maximum(self.shortest, np.sqrt(Ru / Q))
            cost = self.joules + Q * s + np.where(s > 0, Ru / s, 0.0)
        return np.where(np.isfinite(self.band_time), cost, np.inf), s

    def price_of_band(self, price: Array, R: Array) -> Array:
        """Return the price of band near R at which the shares of the best choices fill the band:
        the best bound for given prices of time. They fall as it rises, in steps as choices change.
        """
        low, high = np.log(np.maximum(R, TINY)) - REACH, np.log(np.maximum(R, TINY)) + REACH
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            cost, s = self.answers(price, np.exp(middle))
            best = cost.argmin(-1)[..., None]
            u, s = (np.take_along_axis(values, best, -1)[..., 0] for values in (self.band_time, s))
            many = (u / s).sum(-1) > 1
            low, high = np.where(many, middle, low), np.where(many, high, middle)
        return np.asarray(np.exp((low + high) / 2))


def choices_bound(terms: Terms, choices: Choices, beta: Array, R: Array) -> tuple[Array, Array]:
    """Return the bound from below that prices prove, (...), and what each choice costs at them,
    (..., client, choice).

    `beta` are prices of being done by H that sum to A.
    """
    t = terms.training_time(beta)
    each = choices.values(terms.q + beta, R)
    training = terms.value(t) + beta * (t + terms.m)
    return np.asarray((training + each.min(-1)).sum(-1) - R), each
