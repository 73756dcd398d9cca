"""Rounds to a loss, and the K and E_l that go with them: Theorems 1 and 2 (Sec. III, IV-B).

`Constants` are the nine of Theorem 1, `Bound` what they come to: a law with three
coefficients that a pilot can identify (DECISIONS.md, 12). Where the paper is wrong, "printed"
is as it has it, and the default as it should be.
"""

from dataclasses import dataclass, fields
from math import inf, sqrt
from typing import Any, Literal, get_args

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE
from fedcell.scenario.arrays import Array

LossKind = Literal["independent", "worst-case", "paper"]
Number = Any  # a float, or an array of them


def effective_cohort(cohort: Number, loss_rate: float, kind: LossKind = "independent") -> Array:
    """The K_gamma that stands for `cohort` uploads of which a share gamma is lost.

    "paper": K (1 - gamma), Lemma 1 (37). "worst-case": the whole number of uploads that then
    arrive. "independent": 1 / E[1 / K_gamma] over the rounds in which any arrive, which is
    less than K (1 - gamma) (DECISIONS.md, 14).
    """
    k = np.asarray(cohort)
    if not np.issubdtype(k.dtype, np.integer) or (k < 1).any():
        raise BadInput(f"a cohort of {cohort}: expected whole numbers above 0")
    if not 0 <= loss_rate < 1 or kind not in get_args(LossKind):
        raise BadInput(f"loss_rate = {loss_rate}, {kind}: expected 0 to below 1, a known kind")
    if kind == "paper":
        return np.asarray(k * (1 - loss_rate))  # (37)
    if kind == "worst-case":
        return np.asarray(k - np.minimum(np.floor(loss_rate * k + 1e-9), k - 1), float)
    arrive = 1 - loss_rate
    exact = int(min(k.max(initial=1), max(1e4, 1e3 / arrive), 1e6))
    inverse = np.empty(exact + 1)  # E[1 / K_gamma; K_gamma > 0]
    inverse[0], none = 0.0, 1.0
    for n in range(1, exact + 1):
        none *= loss_rate
        inverse[n] = loss_rate * inverse[n - 1] + (1 - none) / n
    mean = k * arrive  # many: 1/K_gamma by its series around 1/mean
    series = (1 + loss_rate / mean + loss_rate * (1 + loss_rate) / mean**2) / mean
    found = np.where(k <= exact, inverse[np.minimum(k, exact)], series)
    return np.asarray(useful(k, loss_rate, kind) / found)


def useful(cohort: Number, loss_rate: float, kind: LossKind = "independent") -> Array:
    """The share of rounds in which any upload arrives; in the others the model stays."""
    k = np.asarray(cohort)
    return 1 - loss_rate**k if kind == "independent" else np.ones(k.shape)


@dataclass(frozen=True, kw_only=True)
class UnitCosts:
    """A round's cost as C_u,0 K + C_n,0 E_l + T_d, (19) [s]."""

    upload: float  # C_u,0 (18)
    compute: float  # C_n,0 (17)
    broadcast: float = 0.0  # T_d

    def of(self, cohort: Number, steps: Number) -> Any:
        return cohort * self.upload + steps * self.compute + self.broadcast


@dataclass(frozen=True, kw_only=True)
class Bound:
    """G = mixing / K_gamma + drift E_l + start / E_l, and two terms that may be added.

    `dropped` is the term of (79) that the paper omits; `floor` is ours: rounds that neither
    clients nor steps save (DECISIONS.md, 12).
    """

    mixing: float
    drift: float
    start: float
    dropped: float = 0.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        faults = [
            f"{f.name} = {getattr(self, f.name)}: expected a number from 0 to {LARGE:g}"
            for f in fields(self)
            if not isinstance(getattr(self, f.name), float | int)
            or not 0 <= getattr(self, f.name) <= LARGE  # NaN is wrong too
        ]
        if not faults and max(self.mixing, self.drift, self.start, self.dropped, self.floor) == 0:
            faults.append("all coefficients are 0: no rounds would be needed")
        if faults:
            raise BadInput(*faults)

    def rounds(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float = 0.0,
        kind: LossKind = "independent",
    ) -> Any:
        """G_epsilon (16), for whole numbers or arrays of them."""
        k, e = effective_cohort(cohort, loss_rate, kind), np.asarray(steps, float)
        return terms(k, e) @ self.coefficients / useful(cohort, loss_rate, kind)

    @property
    def coefficients(self) -> Array:
        return np.array([getattr(self, name) for name in TERMS])

    def best_steps(self, effective: float = inf) -> float:
        """E_l* (Sec. IV-B-2), which minimises G; infinite where nothing drifts. It depends on
        K_gamma where the dropped term is there."""
        return sqrt((self.start + self.dropped / effective) / self.drift) if self.drift else inf

    def printed_cohort(self, steps: float, loss_rate: float, costs: UnitCosts) -> float:
        """K* as Theorem 2 has it: one of the two terms of E_l is left out of G, and E_l* put in
        for E_l (DECISIONS.md, 4)."""
        kept = sqrt(self.drift * self.start)  # (82), times the constant that cancels
        return self._cohort(self.mixing, kept, steps, loss_rate, costs)  # (21)

    def best_cohort(self, steps: float, loss_rate: float, costs: UnitCosts) -> float:
        """The K that minimises (19) at any given E_l, as a real number: K_gamma = K (1 - gamma)."""
        kept = self.drift * steps + self.start / steps + self.floor
        return self._cohort(self.mixing + self.dropped / steps, kept, steps, loss_rate, costs)

    def _cohort(
        self, mixing: float, kept: float, steps: float, loss_rate: float, costs: UnitCosts
    ) -> float:
        # (kept + mixing / (K (1 - gamma))) (K C_u0 + rest) is least where its derivative is 0.
        rest = steps * costs.compute + costs.broadcast
        gain, loss = mixing * rest, (1 - loss_rate) * kept * costs.upload
        return 0.0 if gain == 0 else inf if loss == 0 else sqrt(gain / loss)


TERMS = tuple(field.name for field in fields(Bound))


def terms(effective: Array, steps: Array) -> Array:
    """What the coefficients of a Bound are multiplied by: (..., term)."""
    k, e = np.broadcast_arrays(effective, steps)
    return np.stack([1 / k, e, 1 / e, 1 / (k * e), np.ones(k.shape)], axis=-1)


def within(value: float, most: int) -> int:
    """A K or an E_l that there can be: the nearest whole number from 1 to `most`."""
    return int(min(max(round(min(value, float(most))), 1), most))


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What Theorem 1 is made of. All are bounds over the whole of a training."""

    smoothness: float  # L (13)
    convexity: float  # mu (14)
    diversity: float  # lambda (15)
    gradients: float  # G^2 (34)
    relative_noise: float  # C_1 (32)
    noise: float  # sigma^2 (32)
    ratio: float  # phi_0 (35)
    initial: float  # f_0: |grad f(w_0)|^2 <= f_0 G^2 (App. E)
    samples: float  # D, mean of D_j

    def __post_init__(self) -> None:
        least = {"diversity": 1.0, "noise": 0.0, "initial": 0.0}
        faults = [
            f"{f.name} = {value}: expected a number " + (f"from {low:g}" if low >= 0 else "above 0")
            for f in fields(self)
            for value, low in [(getattr(self, f.name), least.get(f.name, -1.0))]
            if not isinstance(value, float | int)
            or not ((value >= low if low >= 0 else value > 0) and value < inf)
        ]
        if faults:
            raise BadInput(*faults)

    @property
    def scale(self) -> float:
        """4 L^2 G^2 lambda / mu^2, before the bracket of (16)."""
        L, mu = self.smoothness, self.convexity
        return 4 * L**2 * self.gradients * self.diversity / mu**2

    def bound(self, target: float, *, printed: bool = False, dropped: bool = False) -> Bound:
        """Theorem 1 for a loss of `target` above the least one.

        With the step size that the paper states f_0 / 4 stands last; the one that its proof
        needs makes it f_0 / (4 mu) (DECISIONS.md, 16).
        """
        lam, D, L = self.diversity, self.samples, self.smoothness
        of_start = 1 if printed else 1 / self.convexity
        each = self.scale / target
        return Bound(  # (16)
            mixing=each * (lam - 1) / (2 * D),
            drift=each * (lam - 1) / (2 * self.relative_noise * self.ratio),
            start=each * of_start * self.initial / 4,
            dropped=each / (2 * L * D) if dropped else 0.0,  # in (79)
        )

    def offset(self, printed: bool = False) -> float:
        """beta of the step size: beta + 1 = 2 L lambda / mu, or 2 L lambda as printed."""
        return 2 * self.smoothness * self.diversity / (1 if printed else self.convexity) - 1

    def rate(self, t: Number, printed: bool = False) -> Any:
        """eta_t of Lemma 4, t = 1, 2, ...: (2 / mu) / (t + beta)."""
        return 2 / self.convexity / (t + self.offset(printed))

    def moment(self, effective: float, steps: int) -> float:
        """M of App. E, what a step may add to the loss: eta_t^2 M."""
        lam, D = self.diversity, self.samples
        return (
            steps
            * self.gradients
            * self.smoothness**2
            * lam
            * (
                (lam - 1) * steps / (2 * self.relative_noise * self.ratio)
                + 1 / (2 * self.smoothness * effective * D * steps)
                + (lam - 1) / (2 * effective * D)
            )
        )

    def loss_bound(
        self, t: Number, effective: float, steps: int, initial_loss: float, printed: bool = False
    ) -> Any:
        """Lemma 4: no more than this is E f(w_t) - f*, t = 1, 2, ... local steps.
        (69); (60) leaves beta out of its denominator."""
        beta = self.offset(printed)
        M = self.moment(effective, steps)
        return max(4 / self.convexity**2 * M, (beta + 1) * initial_loss) / (t + beta)  # (69)

    def summed_loss_bound(
        self, t: Number, effective: float, steps: int, printed: bool = False
    ) -> Any:
        """The same with both of its sides added and beta left out, as G_epsilon comes from. (79)"""
        of_start = 1 if printed else 1 / self.convexity
        whole = 4 / self.convexity**2 * self.moment(effective, steps)
        return (whole + self.scale * of_start * self.initial / 4) / t  # (79)
