"""The constants of Theorem 1, measured along a training: each with its formula, how sure it
is, and whether the assumption that it belongs to is seen to hold."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fedcell.core.dice import Purpose, stream
from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate
from fedcell.core.types import Array, Ints
from fedcell.learning.gradients import Probe

from .theory import Constants

RESAMPLED = 200
STEADY = 3.0  # a "constant" that changes by more than this along a training is doubted


@dataclass(frozen=True, kw_only=True)
class MeasuredConstant:
    """One constant. Its interval is over which clients were asked and which batches they drew;
    it has no width where nothing was drawn."""

    symbol: str
    estimate: Estimate
    formula: str
    doubt: str = ""  # in what the assumption visibly fails

    def to_dict(self) -> dict[str, Any]:
        """Plain values in one row."""
        row = {"symbol": self.symbol, **asdict(self.estimate)}
        return row | {"formula": self.formula, "doubt": self.doubt}


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredConstants:
    """Theorem 1's constants along a training."""

    constants: Constants
    estimates: Sequence[MeasuredConstant]
    rounds: Sequence[int]  # at which gradients were taken
    losses: Sequence[float]
    diversities: Sequence[float]  # lambda at each of them
    pl_ratios: Sequence[float]  # |grad f|^2 / (2 (f - f*)) at each of them

    @property
    def doubts(self) -> list[str]:
        doubts = [estimate.doubt for estimate in self.estimates if estimate.doubt]
        if not self.losses[-1] < self.losses[0]:
            begin, end = self.losses[0], self.losses[-1]
            doubts.append(
                f"the loss goes from {begin:.3g} to {end:.3g}: this training does not learn"
            )
        return doubts


def estimate_constants(
    probes: Sequence[Probe], samples: Array, least_loss: float = 0.0
) -> MeasuredConstants:
    """The constants from gradients along a training, first to last; `samples` are D_j.

    f* is taken to be `least_loss`: a cross-entropy cannot be below 0, and what a long
    training reaches is not known before.
    """
    if len(probes) < 2 or not all(np.isfinite(p.square) for p in probes):
        raise BadInput("constants need finite gradients at two or more models of a training")
    if not all(p.clients.size for p in probes):
        raise BadInput("constants need the batches of some clients: probe(clients=...)")
    points = _Points.of(probes, samples)
    asked = points.square.shape[1]
    C1, noise, factor = _noise(points, np.arange(asked))
    rng = stream(Purpose.BOOTSTRAP, 1)
    drawn_again = rng.integers(asked, size=(RESAMPLED, asked))
    again = [_noise(points, some) for some in drawn_again]
    lambdas = np.array([p.diversity for p in probes])
    ratios = np.array([p.square / (2 * max(p.loss - least_loss, 1e-12)) for p in probes])
    steps = [_secant(a, b) for a, b in pairwise(probes)]
    steps = [s for s in steps if np.isfinite(s)]
    if not steps:
        raise BadInput("constants need models that differ: the training did not move")

    def rest(C1: float, noise: float) -> Constants:
        """The others, which follow; at least a trace of noise, for C_1 divides."""
        C1 = max(C1, 1e-12)
        lam = float(lambdas.max())
        weighted = max(p.square for p in probes)
        largest = max(weighted, max(p.even for p in probes))
        G2 = C1 * largest + noise / lam  # (34), with equality where it is largest
        return Constants(
            smoothness=max(steps),
            convexity=float(ratios.min()),
            diversity=lam,
            gradients=G2,
            relative_noise=C1,
            noise=noise,
            ratio=G2 / (C1 * weighted),  # (35)
            initial=probes[0].square / G2,
            samples=float(np.mean(samples[samples > 0])),
        )

    found = rest(C1, noise)
    resampled = [rest(c, s) for c, s, _ in again]

    def drawn(
        symbol: str, get: Callable[[Constants], float], formula: str, doubt: str = ""
    ) -> MeasuredConstant:
        low, high = np.quantile([get(each) for each in resampled], [0.05, 0.95])
        estimate = Estimate(get(found), float(low), float(high))
        return MeasuredConstant(symbol=symbol, estimate=estimate, formula=formula, doubt=doubt)

    spread = ratios.max() / ratios.min()
    estimates = [
        drawn("L", lambda c: c.smoothness, "max |grad f(w) - grad f(v)| / |w - v| along the path"),
        drawn(
            "mu",
            lambda c: c.convexity,
            f"min |grad f|^2 / (2 (f - {least_loss:g})) along the path",
            f"P-L is not confirmed with one mu: |grad f|^2 / (2 f) changes {spread:.3g}-fold "
            f"along the training ({ratios[0]:.3g} first, {ratios[-1]:.3g} last)"
            if spread > STEADY
            else "",
        ),
        drawn(
            "lambda",
            lambda c: c.diversity,
            "max sum q_j |g_j|^2 / |sum q_j g_j|^2 along the path",
            f"lambda is no constant: it is {lambdas.min():.3g} to {lambdas.max():.3g} along the "
            "training"
            if lambdas.max() > STEADY * lambdas.min()
            else "",
        ),
        drawn(
            "C_1",
            lambda c: c.relative_noise,
            "D_j E|g~ - g|^2 = C_1 |g|^2 + sigma^2, fitted",
            f"as a bound, Assumption 3 needs C_1 and sigma^2 {factor:.3g} times as large for the "
            "noisiest client and model"
            if factor > STEADY
            else "",
        ),
        drawn("sigma^2", lambda c: c.noise, "the same fit"),
        drawn("G^2", lambda c: c.gradients, "max C_1 |grad f|^2 + sigma^2 / lambda"),
        drawn("phi_0", lambda c: c.ratio, "G^2 / (C_1 max |grad f|^2)"),
        drawn("f_0", lambda c: c.initial, "|grad f(w_0)|^2 / G^2"),
    ]
    return MeasuredConstants(
        constants=rest(factor * C1, factor * noise),  # bounds, not means
        estimates=estimates,
        rounds=[p.round for p in probes],
        losses=[p.loss for p in probes],
        diversities=lambdas.tolist(),
        pl_ratios=ratios.tolist(),
    )


@dataclass(frozen=True, eq=False)
class _Points:
    """|g_j|^2 and D_j E|g~_j - g_j|^2, (model, client)."""

    square: Array
    variance: Array

    @classmethod
    def of(cls, probes: Sequence[Probe], samples: Array) -> "_Points":
        square = np.stack([p.squares[p.clients] for p in probes])
        variance = np.stack([samples[p.clients] * p.variances for p in probes])
        return cls(square, variance)


def _noise(points: _Points, some: Ints) -> tuple[float, float, float]:
    """C_1 and sigma^2 of some clients by relative least squares, and by how much the largest
    point is above. Clients whose batch is all their data have no noise, and no say."""
    from scipy.optimize import nnls

    square, variance = points.square[:, some].ravel(), points.variance[:, some].ravel()
    seen = variance > 0
    if not seen.any():
        return 0.0, 0.0, 1.0
    square, variance = square[seen], variance[seen]
    law = variance
    for _ in range(20):  # relative to the law, as it becomes
        columns = np.stack([square, np.ones(square.size)], 1)
        (C1, noise), _ = nnls(columns / law[:, None], variance / law)
        law = np.maximum(C1 * square + noise, 1e-300)
    return float(C1), float(noise), float((variance / law).max())


def _secant(a: Probe, b: Probe) -> float:
    moved = np.linalg.norm(b.model.astype(float) - a.model)
    turned = np.linalg.norm(b.gradient.astype(float) - a.gradient)
    return float(turned / moved) if moved > 0 else float("nan")
