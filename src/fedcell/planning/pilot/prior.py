"""What is believed of the rounds that settings take, before a run: normal, in logarithms."""

from dataclasses import dataclass, replace

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.law.residuals import USUAL, alike

from .candidates import Search

# What is usual where nobody ran a pilot: a law, by how much worlds are off it everywhere, and by
# how much over log K_gamma and over log E_l (DECISIONS.md, 63).
USUAL_LAW = GivenLaw(mixing=25, drift=0.003, start=350, floor=6)
ANY_WORLD, SLOPES = 1.0, np.array([0.15, 0.25])
JITTER = 1e-9  # on a diagonal, so that rounding does no harm


@dataclass(frozen=True, eq=False)
class Belief:
    """The logarithm of the rounds to the target of some settings: one place for each."""

    mean: Array
    covariance: Array
    effective: Array  # K_gamma of each
    never: Bools  # settings of which a pilot says that they do not get there

    @classmethod
    def first(cls, settings: Search, law: RoundsLaw | None = None) -> "Belief":
        """What is usual; and beside it what a pilot has seen, or what a law by hand says."""
        if law is None:
            return cls.usual(settings)
        if not isinstance(law, FittedLaw):
            usual = cls.usual(settings)
            k, e, gamma = settings.cohorts, settings.steps, settings.loss_rate
            said = law.predict(k, e, gamma, kind=settings.kind)[0]
            unsure = _departing(settings.places) + USUAL.single**2
            return usual.told(np.arange(said.size), np.log(said), unsure)
        # A pilot is heard of the settings that it has run. Of others its coefficients, which are
        # fitted to a few runs, may say anything.
        runs, count = law.runs, settings.cohorts.size
        here = np.isclose(runs.loss_rate, settings.loss_rate)
        tried = np.unique(np.stack([runs.cohort, runs.steps], -1)[here], axis=0)
        every = settings.with_settings(tried[:, 0], tried[:, 1])
        log_rounds, _ = law.log_rounds(every.cohorts, every.steps, settings.loss_rate)
        heard = count + np.flatnonzero(np.isfinite(log_rounds[count:]))
        unsure = law.departures.covariance(every.places[heard]) + law.departures.scales.single**2
        told = cls.usual(every).told(heard, log_rounds[heard], unsure)
        return cls(
            told.mean[:count],
            told.covariance[:count, :count],
            told.effective[:count],
            np.isinf(log_rounds[:count]),
        )

    @classmethod
    def usual(cls, settings: Search) -> "Belief":
        """What is believed of any world."""
        rounds = USUAL_LAW.rounds(
            settings.cohorts, settings.steps, settings.loss_rate, settings.kind
        )
        places = settings.places
        tilted = (places - places.mean(0)) * SLOPES
        covariance = _departing(places) + tilted @ tilted.T + ANY_WORLD**2
        return cls(np.log(rounds), covariance, np.exp(places[:, 0]), np.zeros(rounds.size, bool))

    def told(self, places: Ints, mean: Array, covariance: Array) -> "Belief":
        """The same after somebody has told of some places, and how unsure that is."""
        across = self.covariance[places]
        whole = across[:, places] + covariance + JITTER * np.eye(len(places))
        gain = np.linalg.solve(whole, across).T
        return replace(
            self,
            mean=self.mean + gain @ (mean - self.mean[places]),
            covariance=self.covariance - gain @ across,
        )

    def given(self, places: Ints, log_rounds: Array) -> tuple[Array, Array]:
        """Were the log rounds of some places known, (draw, place): what is expected of all, (draw,
        setting), and its standard deviation, (setting,)."""
        across = self.covariance[places]
        gain = np.linalg.solve(across[:, places] + JITTER * np.eye(len(places)), across).T
        variance = np.diag(self.covariance) - (gain * across.T).sum(1)
        mean = self.mean + (log_rounds - self.mean[places]) @ gain.T
        return mean, np.sqrt(np.maximum(variance, 0.0))


def _departing(places: Array) -> Array:
    """How settings depart from a law, as they usually do: a covariance."""
    near, far = alike(places, places)
    return np.asarray(USUAL.near**2 * near + USUAL.far**2 * far)
