"""Theorem 1: from the constants of a training to the rounds that it takes at most (Sec. III).

Where the paper is wrong, "printed" is as it has it, and the default as it should be.
"""

from dataclasses import dataclass, fields
from typing import Any

from fedcell.core.errors import BadInput

from .base import Number
from .given import GivenLaw

MOST = 1e30  # of a constant, and one over the least: their products are then finite


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
            f"{f.name} = {value}: expected a number from {low:g} to {MOST:g}"
            for f in fields(self)
            for value, low in [(getattr(self, f.name), least.get(f.name, 1 / MOST))]
            if not isinstance(value, float | int)
            or isinstance(value, bool)
            or not low <= value <= MOST  # NaN is wrong too
        ]
        if faults:
            raise BadInput(*faults)

    @property
    def scale(self) -> float:
        """4 L^2 G^2 lambda / mu^2, before the bracket of (16)."""
        L, mu = self.smoothness, self.convexity
        return 4 * L**2 * self.gradients * self.diversity / mu**2

    def law(self, target: float, *, printed: bool = False, dropped: bool = False) -> GivenLaw:
        """Theorem 1 for a loss of `target` above the least one.

        With the step size that the paper states f_0 / 4 stands last; the one that its proof
        needs makes it f_0 / (4 mu) (DECISIONS.md, 16).
        """
        if not isinstance(target, float | int) or not 1 / MOST <= target <= MOST:
            raise BadInput(f"`target` = {target}: expected a number from {1 / MOST:g} to {MOST:g}")
        lam, D, L = self.diversity, self.samples, self.smoothness
        of_start = 1 if printed else 1 / self.convexity
        each = self.scale / target
        return GivenLaw(  # (16)
            mixing=each * (lam - 1) / (2 * D),
            drift=each * (lam - 1) / (2 * self.relative_noise * self.ratio),
            start=each * of_start * self.initial / 4,
            dropped=each / (2 * L * D) if dropped else 0.0,  # in (79)
        )

    def first(self, printed: bool = False) -> float:
        """beta + 1 of the step size: 2 L lambda / mu, or 2 L lambda as printed."""
        return 2 * self.smoothness * self.diversity / (1 if printed else self.convexity)

    def rate(self, t: Number, printed: bool = False) -> Any:
        """eta_t of Lemma 4, t = 1, 2, ...: (2 / mu) / (t + beta)."""
        return 2 / self.convexity / ((t - 1) + self.first(printed))

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
        M, first = self.moment(effective, steps), self.first(printed)
        return max(4 / self.convexity**2 * M, first * initial_loss) / ((t - 1) + first)  # (69)

    def summed_loss_bound(
        self, t: Number, effective: float, steps: int, printed: bool = False
    ) -> Any:
        """The same with both of its sides added and beta left out, as G_epsilon comes from. (79)"""
        of_start = 1 if printed else 1 / self.convexity
        whole = 4 / self.convexity**2 * self.moment(effective, steps)
        return (whole + self.scale * of_start * self.initial / 4) / t  # (79)
