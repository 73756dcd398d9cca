"""Watts of a working device over its clock f, by least squares:

    P = P_b + kappa f^alpha u,

u the part of the time in which the processor works, the rest it waits for memory. Given alpha the
law is linear in P_b and kappa, so all is found along a grid of alpha. Errors are taken to be in
proportion to the watts. Intervals are by profile: all values at which the sum of squares, at its
least over the other numbers, is below S (1 + t^2 / (n - p)), t a quantile of Student's.

The energy of c cycles is least at f* = ((P_b - P) / ((alpha - 1) kappa))^(1/alpha), P = 0 for
a device that is off or asleep when done, and P_i for one that idles. Given alpha its interval is
that of the ratio of P_b - P and kappa (Fieller's).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import NAN, Estimate
from fedcell.core.types import Array

from .measurements import distinct

LEVEL = 0.95
LEAST_EXPONENT, HIGHEST_EXPONENT = 1.0, 6.0
GRID = np.linspace(LEAST_EXPONENT, HIGHEST_EXPONENT, 5001)
MIN_CLOCKS = 3  # with fewer, the exponent is not known
ROUNDS = 4  # of weights


@dataclass(frozen=True, kw_only=True, eq=False)
class PowerLaw:
    """The fitted watts.

    Attributes
    ----------
    busy_power, kappa, exponent, top_power : Estimate
        P_b [W], kappa [W s^alpha], alpha, and P as measured at the highest clock [W].
    free_busy_power : float or None
        P_b where it is not held at idle_power, if that is far below it.
    best_clock, best_clock_idle : Estimate or None
        f* of a device that sleeps when done, and of one that idles [cycle/s]; ends may be
        infinite. None where it cannot be told.
    rms, r2 : float
        Root mean square of the relative residuals, and the explained part of the variance.
    """

    busy_power: Estimate
    kappa: Estimate
    exponent: Estimate
    top_power: Estimate
    best_clock: Estimate | None
    best_clock_idle: Estimate | None
    rms: float
    r2: float
    free_busy_power: float | None = None

    def watts(self, clock: Array, working: Array | float = 1.0) -> Array:
        """Return the power at some clocks."""
        dynamic = float(self.kappa) * clock ** float(self.exponent) * working
        return np.asarray(float(self.busy_power) + dynamic)


@dataclass(frozen=True, eq=False)
class _Profile:
    """Least squares along a grid of alpha: P_b and D = kappa f_0^alpha, (alpha,), f_0 the highest
    clock, with the inverse of their normal matrix."""

    alpha: Array
    P: Array
    D: Array
    v00: Array
    v01: Array
    v11: Array
    squares: Array


def fit_powers(
    clock: Array,
    working: Array,
    watts: Array,
    idle: float | None = None,
    exponent: float | None = None,
) -> PowerLaw | None:
    """Return the law of some rows; None where the watts do not rise with the clock.

    With a known `exponent`, two clocks are enough."""
    from scipy.stats import t as student

    clocks = distinct(clock).size
    top = float(clock.max())
    grid = GRID if exponent is None else np.array([exponent])
    unknowns = 3 if exponent is None else 2
    at_top = float(working[clock == top].mean())
    fitted, least = watts, idle or 0.0
    for _ in range(ROUNDS):
        profile = _along(grid, clock / top, working, watts, fitted)
        (alpha, P, D), reached = _best(profile, least)
        fitted = np.maximum(P + D * (clock / top) ** alpha * working, 1e-3 * watts)
    if D <= 0:
        _check_falling(clock, watts)
        return None
    law = PowerLaw(
        busy_power=Estimate(P, NAN, NAN, LEVEL),
        kappa=Estimate(D / top**alpha, NAN, NAN, LEVEL),
        exponent=Estimate(alpha, NAN, NAN, LEVEL),
        top_power=Estimate(P + D * at_top, NAN, NAN, LEVEL),
        best_clock=None,
        best_clock_idle=None,
        rms=float(np.sqrt(np.mean((watts / fitted - 1) ** 2))),
        r2=1 - float(((watts - fitted) ** 2).sum() / ((watts - watts.mean()) ** 2).sum()),
    )
    if (freedom := watts.size - unknowns) < 1:
        return law
    lowest, above = profile.squares.min(), float(student.ppf((1 + LEVEL) / 2, freedom)) ** 2
    limit = reached * (1 + above / freedom)
    if reached > lowest * (1 + above / freedom):
        law = replace(law, free_busy_power=float(profile.P[profile.squares.argmin()]))
    law = _with_intervals(law, profile, limit, (top, at_top), least)
    if clocks < MIN_CLOCKS:
        return law
    best = _best_clock(profile, limit, top, (alpha, P, D), 0.0)
    idles = None if idle is None else _best_clock(profile, limit, top, (alpha, P, D), idle)
    return replace(law, best_clock=best, best_clock_idle=idles)


def _check_falling(clock: Array, watts: Array) -> None:
    """Refuse watts that fall with the clock by more than their errors explain."""
    from scipy.stats import linregress

    line = linregress(clock, watts)
    if line.slope < 0 and line.pvalue < 1 - LEVEL:
        raise BadInput("the watts fall as the clock rises: check the columns and their units")


def _along(alpha: Array, speed: Array, working: Array, watts: Array, fitted: Array) -> _Profile:
    """Return the least squares of each alpha."""
    z = speed ** alpha[:, None] * working
    v = 1 / fitted**2
    s00, s01, s11 = (v * np.ones_like(z)).sum(-1), (v * z).sum(-1), (v * z * z).sum(-1)
    r0, r1 = (v * watts).sum(), (v * z * watts).sum(-1)
    determinant = s00 * s11 - s01**2
    P, D = (s11 * r0 - s01 * r1) / determinant, (s00 * r1 - s01 * r0) / determinant
    squares = (v * (watts - P[:, None] - D[:, None] * z) ** 2).sum(-1)
    return _Profile(alpha, P, D, s11 / determinant, -s01 / determinant, s00 / determinant, squares)


def _best(profile: _Profile, least: float) -> tuple[tuple[float, float, float], float]:
    """Return alpha, P_b and D with the least squares, P_b at least `least`; and the squares."""
    missing = np.maximum(least - profile.P, 0.0)
    P = profile.P + missing
    D = profile.D + missing * profile.v01 / profile.v00  # the best D for another P_b
    squares = profile.squares + missing**2 / profile.v00
    i = int(np.argmin(squares))
    return (float(profile.alpha[i]), float(P[i]), float(D[i])), float(squares[i])


def _with_intervals(
    law: PowerLaw, profile: _Profile, limit: float, highest: tuple[float, float], least: float
) -> PowerLaw:
    """Return a law with the intervals of its numbers: the union of those at each alpha."""
    top, working = highest
    room = np.maximum(limit - profile.squares, 0.0)
    inside = profile.squares <= limit * (1 + 1e-12)

    def union(value: Array, variance: Array, floor: float, scale: Array | float = 1.0) -> Array:
        half = np.sqrt(room * variance)
        low, high = np.maximum(value - half, floor), np.maximum(value + half, floor)
        return np.array([(low * scale)[inside].min(), (high * scale)[inside].max()])

    p = profile
    v = p.v00 + 2 * working * p.v01 + working**2 * p.v11
    found = {
        "busy_power": union(p.P, p.v00, least),
        "kappa": union(p.D, p.v11, 0.0, top**-p.alpha),
        "top_power": union(p.P + working * p.D, v, 0.0),
    }
    if p.alpha.size > 1:
        found["exponent"] = np.array([p.alpha[inside].min(), p.alpha[inside].max()])
    kept = {name: float(getattr(law, name)) for name in found}
    intervals: dict[str, Any] = {
        name: Estimate(kept[name], float(low), float(high), LEVEL)
        for name, (low, high) in found.items()
    }
    return replace(law, **intervals)


def _best_clock(
    profile: _Profile, limit: float, top: float, best: tuple[float, float, float], done: float
) -> Estimate:
    """Return f* with its interval, where the device draws `done` watts when it is done."""

    def clock(ratio: Array, alpha: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = top * (ratio / (alpha - 1)) ** (1 / alpha)
        return np.where(alpha <= 1, np.inf, found)

    inside = profile.squares <= limit * (1 + 1e-12)
    room = np.maximum(limit - profile.squares, 0.0)[inside]
    alpha, p, d = profile.alpha[inside], profile.P[inside] - done, profile.D[inside]
    v00, v01, v11 = profile.v00[inside], profile.v01[inside], profile.v11[inside]
    # (p - x d)^2 <= room (v00 - 2 x v01 + x^2 v11), a quadratic in the ratio x of p and d.
    A, B, C = d * d - room * v11, p * d - room * v01, p * p - room * v00
    root = np.sqrt(np.maximum(B * B - A * C, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        small = np.where(B > 0, C / (B + root), (B - root) / A)
        large = np.where(A > 0, (B + root) / A, np.inf)
    low = np.where((C <= 0) | (p < 0), 0.0, np.maximum(small, 0.0))
    high = np.where(A > 0, np.maximum(large, 0.0), np.inf)
    exponent, P, D = best
    value = clock(np.array(max(P - done, 0.0) / D), np.array(exponent))
    return Estimate(
        float(value),
        float(clock(low, alpha).min()),
        float(clock(high, alpha).max()),
        LEVEL,
    )
