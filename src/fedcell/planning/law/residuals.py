"""Residuals of a law of rounds as a Gaussian process: similar settings have similar residuals, and
little is known of a setting that is unlike all that were tried.

Everything is in logarithms of rounds, over log K_gamma and log E_l.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.types import Array, Ints

# Length scales of the two kernels over log K_gamma and log E_l: local bumps, and slow trends.
GP_LENGTH_SCALE_MIN, GP_LENGTH_SCALE_MAX = 0.7, 2.5


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the logarithm of rounds."""

    near: float  # of bumps that a law does not have
    far: float  # of slow trends that it does not have
    seed: float  # between seeds, common to all settings
    run: float  # of a run, beyond its seed and its setting

    @property
    def single(self) -> float:
        """Return the standard deviation of one run around its setting."""
        return float(np.hypot(self.seed, self.run))

    @property
    def excess(self) -> float:
        """Return how much the mean of a run's rounds is above their median, in logarithms."""
        return self.single**2 / 2


USUAL = Scales(near=0.15, far=0.35, seed=0.085, run=0.12)  # of the prior
UNSURE = 0.6  # standard deviation of the prior, of their logarithms
CHUNK = 4096  # settings at a time


@dataclass(frozen=True, eq=False)
class LawResiduals:
    """Posterior of the residuals of a law everywhere, given runs at some settings."""

    coordinates: Array  # log K_gamma and log E_l of each run, (run, 2)
    scales: Scales
    factor: Array  # lower Cholesky factor of the runs' covariance
    weights: Array  # its inverse times how far the runs are off
    excess: float = 0.0  # by which the law that they are off from is above medians

    @classmethod
    def of(
        cls,
        coordinates: Array,
        off: Array,
        seeds: Ints,
        scales: Scales,
        unsure: Array,
        excess: float = 0.0,
    ) -> "LawResiduals":
        """Return the posterior of runs that are `off` the law, (run,), with variances `unsure`."""
        from scipy.linalg import cho_solve, cholesky

        parts = _parts(coordinates, seeds)
        covariance = sum(s**2 * part for s, part in zip(_values(scales), parts, strict=True))
        factor = cholesky(covariance + np.diag(1e-9 + unsure), lower=True)
        return cls(coordinates, scales, factor, cho_solve((factor, True), off), excess)

    def at(self, wanted: Array) -> tuple[Array, Array]:
        """Return the expected residual at each setting, and its standard deviation."""
        from scipy.linalg import solve_triangular

        mean, variance = np.empty(len(wanted)), np.empty(len(wanted))
        for start in range(0, len(wanted), CHUNK):  # a grid may have a million settings
            some = slice(start, start + CHUNK)
            across = self._kernel(wanted[some], self.coordinates)
            known = solve_triangular(self.factor, across.T, lower=True)
            mean[some] = across @ self.weights
            variance[some] = self.scales.near**2 + self.scales.far**2 - (known**2).sum(0)
        return mean, np.sqrt(np.maximum(variance, 1e-8))

    def draws(self, wanted: Array, normal: Array) -> Array:
        """Return joint draws of the residuals, from normal numbers: (draw, setting)."""
        root = np.linalg.cholesky(self.covariance(wanted) + 1e-8 * np.eye(len(wanted)))
        across = self._kernel(wanted, self.coordinates)
        return np.asarray(across @ self.weights + normal @ root.T)

    def covariance(self, wanted: Array) -> Array:
        """Return the covariance of the residuals at some settings, given the runs."""
        from scipy.linalg import solve_triangular

        across = self._kernel(wanted, self.coordinates)
        known = solve_triangular(self.factor, across.T, lower=True)
        return np.asarray(self._kernel(wanted, wanted) - known.T @ known)

    def _kernel(self, one: Array, other: Array) -> Array:
        near, far = correlations(one, other)
        return np.asarray(self.scales.near**2 * near + self.scales.far**2 * far)


def _values(scales: Scales) -> list[float]:
    return [getattr(scales, f.name) for f in fields(scales)]


def correlations(one: Array, other: Array) -> tuple[Array, Array]:
    """Return the correlation of settings, from 0 to 1, by each of the two kernels."""
    # One coordinate after the other: the same sums as over a last axis, in a third of the time.
    square = sum((a[:, None] - b) ** 2 for a, b in zip(one.T, other.T, strict=True))
    scales = GP_LENGTH_SCALE_MIN, GP_LENGTH_SCALE_MAX
    near, far = (np.exp(-square / 2 / scale**2) for scale in scales)
    return near, far


def _parts(coordinates: Array, seeds: Ints) -> Sequence[Array]:
    """Return what each variance is multiplied by."""
    same = (seeds[:, None] == seeds[None]).astype(float)
    return *correlations(coordinates, coordinates), same, np.eye(len(coordinates))


def likely_scales(
    coordinates: Array, off: Array, seeds: Ints, unsure: Array, start: Scales = USUAL
) -> Scales:
    """Return the scales that make the residuals of runs most likely, with a prior at USUAL; the
    variance of each residual `off` is `unsure`."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    parts = _parts(coordinates, seeds)
    usual = np.log(_values(USUAL))

    def negative_log_posterior(logs: Array) -> tuple[float, Array]:
        variances = np.exp(2 * logs)
        covariance = sum(v * part for v, part in zip(variances, parts, strict=True))
        factor = cho_factor(covariance + np.diag(1e-9 + unsure), lower=True)
        inverse = cho_solve(factor, np.eye(len(off)))
        weights = inverse @ off
        value = off @ weights / 2 + np.log(np.diag(factor[0])).sum()
        slopes = [
            v * ((inverse * part).sum() - weights @ part @ weights)
            for v, part in zip(variances, parts, strict=True)
        ]
        doubt = (logs - usual) / UNSURE
        return float(value + doubt @ doubt / 2), np.array(slopes) + doubt / UNSURE

    bounds: Any = [(np.log(0.005), np.log(1.0))] * 4
    best = minimize(
        negative_log_posterior,
        np.log(_values(start)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 15},
    )
    return Scales(*np.exp(best.x).tolist())
