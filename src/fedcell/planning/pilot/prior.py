"""Prior of the rounds that settings take, before a run: log-normal, over all settings jointly."""

from dataclasses import dataclass, replace

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.law.residuals import USUAL, correlations

from .candidates import CandidateSettings

# A generic prior, without a pilot: a law, the standard deviation of scenarios around it everywhere,
# and that of its slopes over log K_gamma and log E_l (DECISIONS.md, 63).
GENERIC_LAW = GivenLaw(mixing=25, drift=0.003, start=350, floor=6)
LEVEL_SD, SLOPE_SDS = 1.0, np.array([0.15, 0.25])
JITTER = 1e-9  # on a diagonal, so that rounding does no harm


@dataclass(frozen=True, eq=False)
class RoundsPrior:
    """Log rounds to the target of some settings: jointly normal, (setting,)."""

    mean: Array
    covariance: Array
    effective: Array  # K_gamma of each
    never: Bools  # settings that do not reach the target, by a pilot

    @classmethod
    def from_law(cls, settings: CandidateSettings, law: RoundsLaw | None = None) -> "RoundsPrior":
        """Return the generic prior, conditioned on the runs of a pilot or on a given law."""
        if law is None:
            return cls.generic(settings)
        if not isinstance(law, FittedLaw):
            prior = cls.generic(settings)
            k, e, gamma = settings.cohorts, settings.steps, settings.loss_rate
            said = law.predict(k, e, gamma, kind=settings.kind)[0]
            unsure = _residual_covariance(settings.coordinates) + USUAL.single**2
            return prior.conditioned_on(np.arange(said.size), np.log(said), unsure)
        # A pilot counts for the settings that it has run. For others its coefficients, which are
        # fitted to a few runs, may be far off.
        runs, count = law.runs, settings.cohorts.size
        here = np.isclose(runs.loss_rate, settings.loss_rate)
        tried = np.unique(np.stack([runs.cohort, runs.steps], -1)[here], axis=0)
        every = settings.with_settings(tried[:, 0], tried[:, 1])
        log_rounds, _ = law.log_rounds(every.cohorts, every.steps, settings.loss_rate)
        known = count + np.flatnonzero(np.isfinite(log_rounds[count:]))
        unsure = law.residuals.covariance(every.coordinates[known]) + law.residuals.scales.single**2
        posterior = cls.generic(every).conditioned_on(known, log_rounds[known], unsure)
        return cls(
            posterior.mean[:count],
            posterior.covariance[:count, :count],
            posterior.effective[:count],
            np.isinf(log_rounds[:count]),
        )

    @classmethod
    def generic(cls, settings: CandidateSettings) -> "RoundsPrior":
        """Return the prior of any scenario."""
        rounds = GENERIC_LAW.rounds(
            settings.cohorts, settings.steps, settings.loss_rate, settings.kind
        )
        coordinates = settings.coordinates
        tilted = (coordinates - coordinates.mean(0)) * SLOPE_SDS
        covariance = _residual_covariance(coordinates) + tilted @ tilted.T + LEVEL_SD**2
        return cls(
            np.log(rounds), covariance, np.exp(coordinates[:, 0]), np.zeros(rounds.size, bool)
        )

    def conditioned_on(self, indices: Ints, mean: Array, covariance: Array) -> "RoundsPrior":
        """Return the posterior, given the log rounds of some settings with their covariance."""
        across = self.covariance[indices]
        whole = across[:, indices] + covariance + JITTER * np.eye(len(indices))
        gain = np.linalg.solve(whole, across).T
        return replace(
            self,
            mean=self.mean + gain @ (mean - self.mean[indices]),
            covariance=self.covariance - gain @ across,
        )

    def conditional(self, indices: Ints, log_rounds: Array) -> tuple[Array, Array]:
        """Return the conditional mean of all settings, (draw, setting), and its standard deviation,
        (setting,), if the log rounds of some were known exactly, (draw, known setting)."""
        across = self.covariance[indices]
        gain = np.linalg.solve(across[:, indices] + JITTER * np.eye(len(indices)), across).T
        variance = np.diag(self.covariance) - (gain * across.T).sum(1)
        mean = self.mean + (log_rounds - self.mean[indices]) @ gain.T
        return mean, np.sqrt(np.maximum(variance, 0.0))


def _residual_covariance(coordinates: Array) -> Array:
    """Return the covariance of the residuals of a law, with the usual scales."""
    near, far = correlations(coordinates, coordinates)
    return np.asarray(USUAL.near**2 * near + USUAL.far**2 * far)
