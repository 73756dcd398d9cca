"""Runs that were watched until a loss, as the law of rounds sees them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedcell.network.trace import Bools, Ints
from fedcell.scenario.arrays import Array

from .theory import TERMS, LossKind, effective_cohort, terms, useful


def features(cohort: Any, steps: Any, loss_rate: Any, kind: LossKind) -> Array:
    """The terms of a Bound at settings, for the loss kind: (..., term)."""
    k, e, g = np.broadcast_arrays(cohort, steps, np.asarray(loss_rate, float))
    found = np.empty((*k.shape, len(TERMS)))
    for gamma in np.unique(g).tolist():
        here = g == gamma
        effective = effective_cohort(k[here], gamma, kind)
        found[here] = terms(effective, e[here]) / useful(k[here], gamma, kind)[:, None]
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Runs that were watched until a loss: arrays with one place for each run."""

    cohort: Ints
    steps: Ints
    loss_rate: Array
    rounds: Array  # G, or all that were run where it was not reached
    censored: Bools  # it was not reached: G is larger
    block: Ints  # runs of one block share their dice
    kind: LossKind = "independent"

    @property
    def settings(self) -> Ints:
        """Which runs have K, E_l and gamma in common: a number for each run."""
        rows = np.stack([self.cohort, self.steps, self.loss_rate], -1)
        return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1]).ravel()

    @cached_property
    def features(self) -> Array:
        """What the coefficients are multiplied by to give the rounds: (run, term)."""
        return features(self.cohort, self.steps, self.loss_rate, self.kind)

    def __getitem__(self, where: Any) -> "Observed":
        names = ("cohort", "steps", "loss_rate", "rounds", "censored", "block")
        return replace(self, **{name: getattr(self, name)[where] for name in names})
