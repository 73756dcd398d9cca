"""How far the rounds of settings are from a law, as a Gaussian process: settings that are alike
depart alike, and of one that is unlike all that were tried little is known.

Everything is in logarithms of rounds, over log K_gamma and log E_l.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.types import Array, Ints

# How far settings within `REACH` of each other may differ, in parts of e: bumps, and slow trends.
NEAR_REACH, FAR_REACH = 0.7, 2.5


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the logarithm of rounds."""

    near: float  # of bumps that a law does not have
    far: float  # of slow trends that it does not have
    seed: float  # between seeds, common to all settings
    run: float  # of a run from what its seed and setting make one expect

    @property
    def single(self) -> float:
        """Of one run around its setting."""
        return float(np.hypot(self.seed, self.run))

    @property
    def excess(self) -> float:
        """How much the mean of a run's rounds is above their median, in logarithms."""
        return self.single**2 / 2


USUAL = Scales(near=0.15, far=0.35, seed=0.085, run=0.12)  # and how far off that may be:
UNSURE = 0.6  # standard deviation of their logarithms
CHUNK = 4096  # places at a time


@dataclass(frozen=True, eq=False)
class Departures:
    """What runs at some places say of departures everywhere."""

    places: Array  # (run, 2)
    scales: Scales
    factor: Array  # lower Cholesky factor of the runs' covariance
    weights: Array  # its inverse times how far the runs are off
    excess: float = 0.0  # by which the law that they are off from is above medians

    @classmethod
    def of(
        cls,
        places: Array,
        off: Array,
        seeds: Ints,
        scales: Scales,
        unsure: Array,
        excess: float = 0.0,
    ) -> "Departures":
        """From runs that are so far off the law; of some that is `unsure` by a variance."""
        from scipy.linalg import cho_solve, cholesky

        parts = _parts(places, seeds)
        covariance = sum(s**2 * part for s, part in zip(_values(scales), parts, strict=True))
        factor = cholesky(covariance + np.diag(1e-9 + unsure), lower=True)
        return cls(places, scales, factor, cho_solve((factor, True), off), excess)

    def at(self, wanted: Array) -> tuple[Array, Array]:
        """The expected departure at each place, and its standard deviation."""
        from scipy.linalg import solve_triangular

        mean, variance = np.empty(len(wanted)), np.empty(len(wanted))
        for start in range(0, len(wanted), CHUNK):  # a grid may have a million places
            some = slice(start, start + CHUNK)
            across = self._kernel(wanted[some], self.places)
            known = solve_triangular(self.factor, across.T, lower=True)
            mean[some] = across @ self.weights
            variance[some] = self.scales.near**2 + self.scales.far**2 - (known**2).sum(0)
        return mean, np.sqrt(np.maximum(variance, 1e-8))

    def draws(self, wanted: Array, normal: Array) -> Array:
        """Departures at some places as they may be together, from normal numbers: (draw, place)."""
        root = np.linalg.cholesky(self.covariance(wanted) + 1e-8 * np.eye(len(wanted)))
        across = self._kernel(wanted, self.places)
        return np.asarray(across @ self.weights + normal @ root.T)

    def covariance(self, wanted: Array) -> Array:
        """Of the departures at some places, given the runs."""
        from scipy.linalg import solve_triangular

        across = self._kernel(wanted, self.places)
        known = solve_triangular(self.factor, across.T, lower=True)
        return np.asarray(self._kernel(wanted, wanted) - known.T @ known)

    def _kernel(self, one: Array, other: Array) -> Array:
        near, far = alike(one, other)
        return np.asarray(self.scales.near**2 * near + self.scales.far**2 * far)


def _values(scales: Scales) -> list[float]:
    return [getattr(scales, f.name) for f in fields(scales)]


def alike(one: Array, other: Array) -> tuple[Array, Array]:
    """How alike places are, from 0 to 1, by each of the two reaches."""
    square = ((one[:, None] - other[None]) ** 2).sum(-1)
    return np.exp(-square / 2 / NEAR_REACH**2), np.exp(-square / 2 / FAR_REACH**2)


def _parts(places: Array, seeds: Ints) -> Sequence[Array]:
    """What each variance is multiplied by."""
    same = (seeds[:, None] == seeds[None]).astype(float)
    return *alike(places, places), same, np.eye(len(places))


def likely_scales(
    places: Array, off: Array, seeds: Ints, unsure: Array, start: Scales = USUAL
) -> Scales:
    """The scales that make the departures of runs most likely, given what is usual; how far some
    are off is `unsure` by a variance."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    parts = _parts(places, seeds)
    usual = np.log(_values(USUAL))

    def surprise(logs: Array) -> tuple[float, Array]:
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
    found = minimize(
        surprise,
        np.log(_values(start)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 15},
    )
    return Scales(*np.exp(found.x).tolist())
