"""Runs that were watched until a loss, as the law of rounds sees them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools, Ints

from .base import LossKind, effective_cohort
from .given import features


@dataclass(frozen=True, kw_only=True, eq=False)
class Observations:
    """Runs that were watched until a loss: arrays with one place for each run."""

    cohort: Ints
    steps: Ints
    loss_rate: Array
    rounds: Array  # G, or all that were run where it was not reached
    censored: Bools  # it was not reached: G is larger
    seed: Ints  # runs of one seed share their random numbers
    error: Array | None = None  # standard error of log G where models were judged on few samples
    kind: LossKind = "independent"

    @property
    def settings(self) -> Ints:
        """Which runs have K, E_l and gamma in common: a number for each run."""
        rows = np.stack([self.cohort, self.steps, self.loss_rate], -1)
        return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1]).ravel()

    @cached_property
    def coordinates(self) -> Array:
        """Where runs are, as far as being alike goes: (run, 2)."""
        return log_coordinates(self.cohort, self.steps, self.loss_rate, self.kind)

    @cached_property
    def features(self) -> Array:
        """What the coefficients are multiplied by to give the rounds: (run, term)."""
        return features(self.cohort, self.steps, self.loss_rate, self.kind)

    def __getitem__(self, where: Any) -> "Observations":
        names = ("cohort", "steps", "loss_rate", "rounds", "censored", "seed")
        error = None if self.error is None else self.error[where]
        return replace(self, error=error, **{name: getattr(self, name)[where] for name in names})

    @property
    def variance(self) -> Array:
        """Of log G, by the samples that models were judged on."""
        return np.zeros(self.rounds.size) if self.error is None else self.error**2


def log_coordinates(cohort: Ints, steps: Ints, loss_rate: Array, kind: LossKind) -> Array:
    """log K_gamma and log E_l of some settings: (setting, 2)."""
    left = np.empty(len(cohort))
    for gamma in np.unique(loss_rate).tolist():
        here = loss_rate == gamma
        left[here] = effective_cohort(cohort[here], gamma, kind)
    return np.log(np.stack([left, steps], -1))
