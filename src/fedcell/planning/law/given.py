"""The law of rounds: how many it takes to a loss, over K, E_l and gamma (Sec. III, IV-B).

Theorem 1's nine constants come to three coefficients that runs can tell apart
(DECISIONS.md, 12). `GivenLaw` has given ones, `FittedLaw` (in `fitted`) those of runs; a plan takes
either.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, sqrt
from numbers import Real
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, NotNegative
from fedcell.core.types import Array

from .base import (
    LEVEL,
    LossKind,
    Number,
    Prediction,
    effective_cohort,
    share_of_rounds_with_arrivals,
)

UPPER_END = 1.6448536269514722  # of an interval of LEVEL, as `ndtri` has it: importing scipy for it
# takes longer than planning for a thousand clients


@dataclass(frozen=True, kw_only=True)
class UnitCosts:
    """A round's cost as C_u,0 K + C_n,0 E_l + T_d, (19) [s]."""

    upload: NotNegative  # C_u,0 (18)
    compute: NotNegative  # C_n,0 (17)
    broadcast: NotNegative = 0.0  # T_d

    def of(self, cohort: Number, steps: Number) -> Any:
        """The cost of a round with this K and E_l [s]."""
        return cohort * self.upload + steps * self.compute + self.broadcast


@dataclass(frozen=True, kw_only=True)
class GivenLaw:
    """Law of rounds with given coefficients: G = mixing / K_gamma + drift E_l + start / E_l.

    Two more terms may be added: dropped / (K_gamma E_l) and floor.

    Parameters
    ----------
    mixing : float
        Rounds times clients, from 0: more clients save rounds.
    drift : float
        Rounds per local step, from 0: clients drift apart.
    start : float
        Rounds times local steps, from 0: more steps save rounds.
    dropped : float
        The term of (79) that the paper omits.
    floor : float
        Rounds that neither clients nor steps save; not in the paper (DECISIONS.md, 12).

    Raises
    ------
    BadInput
        If a coefficient is negative or not finite, or all are 0.

    Examples
    --------
    >>> law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    >>> float(law.rounds(cohort=5, steps=50))
    28.0
    """

    mixing: NotNegative
    drift: NotNegative
    start: NotNegative
    dropped: NotNegative = 0.0
    floor: NotNegative = 0.0

    def __post_init__(self) -> None:
        faults = [
            f"{f.name} = {getattr(self, f.name)}: expected a number from 0 to {LARGE:g}"
            for f in fields(self)
            if not isinstance(getattr(self, f.name), Real)
            or not 0 <= getattr(self, f.name) <= LARGE  # NaN is wrong too
        ]
        if not faults and max(self.mixing, self.drift, self.start, self.dropped, self.floor) == 0:
            faults.append("all coefficients are 0: no rounds would be needed")
        if faults:
            raise BadInput(*faults)

    @classmethod
    def of(cls, coefficients: Array) -> "GivenLaw":
        """Return the law with these coefficients of TERMS."""
        return cls(**dict(zip(TERMS, map(float, coefficients), strict=True)))

    @property
    def coefficients(self) -> Array:
        """Return the coefficients of TERMS, (term,)."""
        return np.array([getattr(self, name) for name in TERMS])

    @property
    def notes(self) -> Sequence[str]:
        """Always empty."""
        return ()

    @property
    def excess(self) -> float:
        """Return 0: runs do not differ."""
        return 0.0

    def rounds(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float = 0.0,
        kind: LossKind = "independent",
    ) -> Any:
        """Return G_epsilon (16), for whole numbers or arrays of them."""
        k, e = effective_cohort(cohort, loss_rate, kind), np.asarray(steps, float)
        useful = share_of_rounds_with_arrivals(cohort, loss_rate, kind)
        return terms(k, e) @ self.coefficients / useful

    def predict(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        runs: float = 1,  # noqa: ARG002
        kind: LossKind | None = None,
        level: float = LEVEL,  # noqa: ARG002
    ) -> Prediction:
        """Return the rounds three times: mean, low and high are one."""
        rounds = np.asarray(self.rounds(cohort, steps, loss_rate, kind or "independent"))
        return rounds, rounds, rounds

    def spread(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,  # noqa: ARG002
        kind: LossKind | None = None,  # noqa: ARG002
    ) -> Array:
        """Return zeros: a given law has no spread."""
        return np.zeros(np.broadcast(cohort, steps).shape)

    def quantile(self, share: float) -> float:
        """Return the quantile of a normal distribution: rounds differ in what they cost."""
        if share == (1 + LEVEL) / 2:
            return UPPER_END
        from scipy.special import ndtri

        return float(ndtri(share))

    def share(self, deviations: Array) -> Array:
        """Return the CDF of a normal distribution."""
        from scipy.special import ndtr

        return np.asarray(ndtr(deviations))

    def draws(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        count: int,  # noqa: ARG002
        seed: int = 0,  # noqa: ARG002
        kind: LossKind | None = None,
    ) -> Array:
        """Return the rounds as the only draw: (1, setting)."""
        return np.asarray(self.rounds(cohort, steps, loss_rate, kind or "independent"))[None]

    def to_dict(self) -> dict[str, Any]:
        """Return the coefficients by name."""
        return {name: getattr(self, name) for name in TERMS}

    def best_steps(self, effective: float = inf) -> float:
        """Return E_l* (Sec. IV-B-2), which minimises G; infinite where nothing drifts. It depends
        on K_gamma where the dropped term is there."""
        return sqrt((self.start + self.dropped / effective) / self.drift) if self.drift else inf

    def printed_cohort(self, steps: float, loss_rate: float, costs: UnitCosts) -> float:
        """Return K* as Theorem 2 has it: one of the two terms of E_l is left out of G, and E_l* put
        in for E_l (DECISIONS.md, 4)."""
        per_steps = sqrt(self.drift * self.start)  # (82), times the constant that cancels
        return self._cohort(self.mixing, per_steps, steps, loss_rate, costs)  # (21)

    def best_cohort(self, steps: float, loss_rate: float, costs: UnitCosts) -> float:
        """Return the K that minimises (19) at a given E_l, as a real number: K_gamma = K (1 -
        gamma)."""
        per_steps = self.drift * steps + self.start / steps + self.floor
        return self._cohort(self.mixing + self.dropped / steps, per_steps, steps, loss_rate, costs)

    def _cohort(
        self, mixing: float, per_steps: float, steps: float, loss_rate: float, costs: UnitCosts
    ) -> float:
        # (per_steps + mixing / (K (1 - gamma))) (K C_u0 + compute) is least where its derivative
        # by K is 0; per_steps are the rounds, and compute the cost, that do not depend on K.
        compute = steps * costs.compute + costs.broadcast
        gain, loss = mixing * compute, (1 - loss_rate) * per_steps * costs.upload
        return 0.0 if gain == 0 else inf if loss == 0 else sqrt(gain / loss)


TERMS = tuple(field.name for field in fields(GivenLaw))


def terms(effective: Array, steps: Array) -> Array:
    """What the coefficients of a law are multiplied by: (..., term)."""
    k, e = np.broadcast_arrays(effective, steps)
    return np.stack([1 / k, e, 1 / e, 1 / (k * e), np.ones(k.shape)], axis=-1)


def features(cohort: Number, steps: Number, loss_rate: Number, kind: LossKind) -> Array:
    """The terms at settings of any K, E_l and gamma: (..., term)."""
    k, e, g = np.broadcast_arrays(cohort, steps, np.asarray(loss_rate, float))
    values = np.empty((*k.shape, len(TERMS)))
    for gamma in np.unique(g).tolist():
        here = g == gamma
        useful = share_of_rounds_with_arrivals(k[here], gamma, kind)
        values[here] = terms(effective_cohort(k[here], gamma, kind), e[here]) / useful[:, None]
    return values


def nearest_whole(value: float, most: int) -> int:
    """A K or an E_l that there can be: the nearest whole number from 1 to `most`."""
    return int(min(max(round(min(value, float(most))), 1), most))
