"""A law of rounds that was fitted to runs: what it predicts, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from fedcell.core.showing import Showable
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array, Bools
from fedcell.planning.setting import Setting

from .base import LEVEL, LossKind, Number, Prediction, effective_cohort
from .given import TERMS, GivenLaw, features
from .observations import Observations, log_coordinates
from .residuals import LawResiduals

FORMS = {  # laws that are fitted: which terms they have
    "paper": ("mixing", "drift", "start"),
    "floor": ("mixing", "drift", "start", "floor"),
}
LEAST_FREEDOM = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLaw(Showable):
    """A law of rounds that was fitted to runs, with the residuals of the settings that were run.

    Attributes
    ----------
    law : GivenLaw
        The coefficients.
    residuals : LawResiduals
        Gaussian process of log rounds around the law.
    runs : Observations
        The runs that it was fitted to.
    never : tuple of Setting
        Settings that cannot reach the target.
    least : int
        Rounds that any run takes: those for which the target must hold.
    doubt : float
        Factor of the posterior deviation of a setting, in intervals.
    """

    law: GivenLaw
    residuals: LawResiduals
    runs: Observations
    never: tuple[Setting, ...] = ()  # settings that cannot reach the target
    least: int = 1  # rounds that any run takes: those for which the target must hold
    doubt: float = 1.0  # times what the runs leave uncertain of a setting, in intervals

    @property
    def coefficients(self) -> Array:
        """Return the coefficients of TERMS, (term,)."""
        return self.law.coefficients

    @property
    def kind(self) -> LossKind:
        """Return how uploads were lost."""
        return self.runs.kind

    @property
    def seeds(self) -> int:
        """Return the number of seeds."""
        return np.unique(self.runs.seed).size

    @property
    def settings(self) -> int:
        """Return the number of settings that were run."""
        return np.unique(self.runs.settings).size

    @property
    def notes(self) -> Sequence[str]:
        """Return sentences for users of the law."""
        return [
            f"{s} never reaches the target; fewer clients with as many steps, or more steps, are "
            "assumed not to either"
            for s in self.never
        ]

    def log_rounds(
        self, cohort: Number, steps: Number, loss_rate: float, kind: LossKind | None = None
    ) -> tuple[Array, Array]:
        """Return the expected logarithm of the rounds of settings, and its standard deviation."""
        kind = kind or self.kind
        k, e = np.broadcast_arrays(cohort, steps)
        flat = log_coordinates(k.ravel(), e.ravel(), np.full(k.size, loss_rate), kind)
        off, sd = self.residuals.at(flat)
        law = np.log(features(k, e, loss_rate, kind) @ self.coefficients) - self.residuals.excess
        mean = np.where(self._hopeless(k, e, loss_rate, kind), inf, law + off.reshape(k.shape))
        return mean, sd.reshape(k.shape)

    def _hopeless(self, k: Array, e: Array, loss_rate: float, kind: LossKind) -> Bools:
        """Return where a setting with as many clients and as few steps never reached the target."""
        found = np.zeros(k.shape, bool)
        if self.never:
            left = effective_cohort(k, loss_rate, kind)
            for s in self.never:
                most = effective_cohort(s.cohort, s.loss_rate, self.kind)
                found |= (left <= most) & (e >= s.local_steps)
        return found

    def predict(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        runs: float = 1,
        kind: LossKind | None = None,
        level: float = LEVEL,
    ) -> Prediction:
        """Return mean rounds, and the interval of the mean of `runs` runs; infinitely many runs
        give the interval of the expectation."""
        median, sd = self.log_rounds(cohort, steps, loss_rate, kind)
        single = self.residuals.scales.single
        away = self.quantile((1 + level) / 2) * np.hypot(self.doubt * sd, single / np.sqrt(runs))
        middle = median + self.excess * (runs > 1)  # of a mean of runs, or of one
        found = np.exp(median + self.excess), np.exp(middle - away), np.exp(middle + away)
        mean, low, high = (np.maximum(rounds, self.least) for rounds in found)
        return mean, low, high

    @property
    def excess(self) -> float:
        """Return how much the mean of a run's rounds is above their median, in logarithms."""
        return self.residuals.scales.excess

    def spread(
        self, cohort: Number, steps: Number, loss_rate: float, kind: LossKind | None = None
    ) -> Array:
        """Return the standard deviation of the logarithm of a run's rounds, all doubts included."""
        _, sd = self.log_rounds(cohort, steps, loss_rate, kind)
        return np.hypot(self.doubt * sd, self.residuals.scales.single)

    @property
    def freedom(self) -> int:
        """Return the degrees of freedom: the fewer seeds, the less is known of how they differ."""
        return max(LEAST_FREEDOM, self.seeds)

    def quantile(self, share: float) -> float:
        """Return the quantile of Student's distribution."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, share))

    def share(self, deviations: Array) -> Array:
        """Return the CDF of Student's distribution."""
        from scipy.special import stdtr

        return np.asarray(stdtr(self.freedom, deviations))

    def draws(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        count: int,
        seed: int = 0,
        kind: LossKind | None = None,
    ) -> Array:
        """Return joint posterior draws of the mean rounds at several settings: (draw, setting)."""
        kind = kind or self.kind
        k, e = np.broadcast_arrays(cohort, steps)
        wanted = log_coordinates(k, e, np.full(k.size, loss_rate), kind)
        normal = stream(Purpose.BOOTSTRAP, seed).standard_normal((count, k.size))
        off = self.residuals.draws(wanted, normal)
        law = np.log(features(k, e, loss_rate, kind) @ self.coefficients)
        mean = law - self.residuals.excess + self.excess
        hopeless = self._hopeless(k, e, loss_rate, kind)
        return np.where(hopeless, inf, np.exp(mean + off))

    def to_dict(self) -> dict[str, Any]:
        """Return the form and the coefficients by name."""
        return {"form": "floor", **self.law.to_dict()}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each coefficient."""
        values = zip(TERMS, self.coefficients.tolist(), strict=True)
        return [{"coefficient": name, "value": v} for name, v in values if name in FORMS["floor"]]

    def __repr__(self) -> str:
        coefficients = ", ".join(f"{r['coefficient']} {r['value']:.3g}" for r in self.rows())
        runs = f"{self.runs.rounds.size} runs of {self.seeds} seeds"
        return f"<FittedLaw from {runs}: {coefficients}>"
