"""A law of rounds that was fitted to runs: what it predicts, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.estimates import Estimate
from fedcell.core.showing import Showable
from fedcell.core.types import Array

from .law import TERMS, GivenLaw, Prediction, features
from .lost_uploads import LossKind, Number

FORMS = {  # laws that are tried: which terms they have
    "paper": ("mixing", "drift", "start"),
    "dropped": ("mixing", "drift", "start", "dropped"),
    "floor": ("mixing", "drift", "start", "floor"),
}
POOR = 0.2  # relative lack of fit from which a law is called bad
LEAST = 1e-9  # rounds; a law of which nothing is left
LEVEL, NORMAL = 0.9, 1.645  # of intervals, and the normal quantile that goes with it


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLaw(Showable):
    """A law of rounds, and what the runs that it was fitted to say of its errors (all relative
    standard deviations)."""

    form: str  # which of FORMS
    law: GivenLaw
    bootstrap: Array  # (replicate, term): coefficients from resampled seeds
    seed_sd: float  # how runs of different seeds differ
    run_sd: float  # how a run differs from what its seed and setting make one expect
    lack_of_fit_sd: float  # how settings differ from the law
    t_factor: float  # what a standard deviation is multiplied by for an interval
    seeds: int
    settings: int
    runs: int
    censored: int  # runs that did not get there
    kind: LossKind

    @property
    def coefficients(self) -> Array:
        """Those of TERMS."""
        return self.law.coefficients

    def coefficient_estimates(self) -> dict[str, Estimate]:
        """Each coefficient of the law's form with its bootstrap interval."""
        edges = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        low, high = np.quantile(self.replicates, edges, axis=0)
        return {
            name: Estimate(getattr(self.law, name), float(low[i]), float(high[i]), LEVEL)
            for i, name in enumerate(TERMS)
            if name in FORMS[self.form]
        }

    @property
    def bootstrap_correction(self) -> float:
        """By how much more than few resampled seeds their law varies, as a variance."""
        return self.seeds / max(1, self.seeds - 1)

    @property
    def replicates(self) -> Array:
        """The bootstrap's coefficients, as far apart as those from so few seeds may be."""
        centre = self.coefficients
        factor = np.sqrt(self.bootstrap_correction) * self.t_factor / NORMAL
        return np.asarray(np.maximum(centre + factor * (self.bootstrap - centre), 0))

    @property
    def notes(self) -> Sequence[str]:
        """What whoever uses the law should know of it."""
        if self.lack_of_fit_sd <= POOR:
            return []
        return [f"the law fits badly: settings are {self.lack_of_fit_sd:.0%} off it, typically"]

    def predict(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        runs: float = 1,
        kind: LossKind | None = None,
    ) -> Prediction:
        """Mean rounds, and an interval in which the mean of `runs` runs falls nine times in
        ten or more often; infinitely many runs give the interval of the expectation."""
        x = features(cohort, steps, loss_rate, kind or self.kind)
        mean = x @ self.coefficients
        spread = np.log(np.maximum(x @ self.bootstrap.T, LEAST)).std(-1)
        run = (self.seed_sd**2 + self.run_sd**2) / runs
        sd = np.sqrt(spread**2 * self.bootstrap_correction + self.lack_of_fit_sd**2 + run)
        half = np.exp(self.t_factor * sd)
        return mean, mean / half, mean * half

    def to_dict(self) -> dict[str, Any]:
        """The form and the coefficients by name."""
        return {"form": self.form, **self.law.to_dict()}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each coefficient."""
        coefficients = self.coefficient_estimates()
        return [{"coefficient": name, **vars(estimate)} for name, estimate in coefficients.items()]

    def __repr__(self) -> str:
        coefficients = ", ".join(f"{n} {e}" for n, e in self.coefficient_estimates().items())
        return (
            f"<FittedLaw ({self.form}) from {self.runs} runs of {self.seeds} seeds: {coefficients}>"
        )
