"""Fit a law of rounds to runs: its coefficients, and its residuals."""

import numpy as np

from fedcell.core.errors import BadInput, NotReached
from fedcell.core.types import Array, Ints

from .fitted import FORMS, FittedLaw
from .given import TERMS, GivenLaw
from .observations import Observations
from .residuals import USUAL, LawResiduals, Scales, likely_scales

ITERATIONS, REWEIGHTED = 5, 3


def fit_law(runs: Observations, start: Scales | None = None, keep: bool = False) -> FittedLaw:
    """Fit the law with a floor, and its residuals.

    Runs that did not reach the target count as what is expected of them, given that they take
    longer. `start` has scales of an earlier fit of fewer runs; with `keep` they are not fitted.
    """
    _check(runs)
    scales, completed = start or USUAL, np.log(runs.rounds)
    unsure = runs.variance
    for _ in range(ITERATIONS if runs.censored.any() else 2):
        coefficients = _coefficients(runs, np.exp(completed), FORMS["floor"])
        excess = scales.excess  # the law is one of means, and residuals are of medians
        law = np.log(runs.features @ coefficients) - excess
        off = completed - law
        if not keep:
            scales = likely_scales(runs.coordinates, off, runs.seed, unsure, scales)
        residuals = LawResiduals.of(runs.coordinates, off, runs.seed, scales, unsure, excess)
        mean, sd = residuals.at(runs.coordinates)
        completed, unsure = _complete(runs, law + mean, np.hypot(sd, scales.single))
    return FittedLaw(law=GivenLaw.of(coefficients), residuals=residuals, runs=runs)


def fit_form(runs: Observations, form: str) -> GivenLaw:
    """Fit a law of one of FORMS alone, without residuals."""
    _check(runs)
    completed = np.log(runs.rounds)
    for _ in range(ITERATIONS if runs.censored.any() else 1):
        coefficients = _coefficients(runs, np.exp(completed), FORMS[form])
        completed, _ = _complete(runs, np.log(runs.features @ coefficients), np.array(0.2))
    return GivenLaw.of(coefficients)


def _check(runs: Observations) -> None:
    if not runs.rounds.size:
        raise BadInput("there are no runs yet: continue the pilot")
    if runs.censored.all():
        raise NotReached(
            "no run reached the target: take an easier one, or let the runs be longer (plan.rounds)"
        )


def _coefficients(runs: Observations, rounds: Array, terms: tuple[str, ...]) -> Array:
    """Return non-negative coefficients of some terms."""
    use = [TERMS.index(name) for name in terms]
    coefficients = np.zeros(len(TERMS))
    coefficients[use] = fit_terms(runs.features[:, use], rounds, runs.settings)
    return coefficients


def fit_terms(features: Array, rounds: Array, settings: Ints) -> Array:
    """Non-negative coefficients of features (run, term), each setting of runs alike. Errors are
    relative to the law itself: relative to what was seen, lucky runs would count for more."""
    from scipy.optimize import nnls

    weight = 1 / np.sqrt(np.bincount(settings)[settings])
    scale = np.asarray(rounds, float)
    for _ in range(REWEIGHTED):
        found, _ = nnls(features * (weight / scale)[:, None], weight * rounds / scale)
        scale = np.maximum(features @ found, 1e-9)
    return np.asarray(found)


def _complete(runs: Observations, expected: Array, spread: Array) -> tuple[Array, Array]:
    """Logarithms of rounds, and their variances: of runs that were cut short, the mean and variance
    of a normal above where they were cut; the others are known."""
    from scipy.special import log_ndtr

    known = np.log(runs.rounds)
    z = (known - expected) / spread
    hazard = np.exp(-z * z / 2 - log_ndtr(-z)) / np.sqrt(2 * np.pi)
    beyond = np.maximum(expected + spread * hazard, known)
    variance = spread**2 * np.clip(1 - hazard * (hazard - z), 0.0, 1.0)
    return np.where(runs.censored, beyond, known), np.where(runs.censored, variance, runs.variance)
