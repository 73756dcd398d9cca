"""One run of a pilot, and the rounds to a target that runs observe."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from msgspec import Meta

from fedcell.core.errors import BadInput, Diverged
from fedcell.core.schema import Count, NotNegative
from fedcell.core.types import Array
from fedcell.planning.law.base import LossKind
from fedcell.planning.law.observations import Observations
from fedcell.planning.records import FLAT, Seed, Share, Stored, not_evaluated
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Scored, Target
from fedcell.simulation.extrapolation import MIN_SETTLED_ROUNDS, has_settled, least_rounds

Losses = Annotated[
    tuple[float | None, ...],
    Meta(min_length=1, description="a list of numbers, null where not evaluated"),
]
WIDE = 1.64  # standard errors on either side, between which 90 % of what may be lies
MAX_EXTRAPOLATION = 2.0  # of a curve, times the rounds that were run
MOST_TARGETS = 4  # whose rounds are kept


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a pilot: its training loss after each round, until the target, or until it was
    cut: it took too long, or could no longer be of use."""

    setting: Annotated[Setting, FLAT]
    seed: Seed
    # Training loss after each round: NaN where not evaluated, infinity at the end if it diverged.
    losses: Annotated[Sequence[float], Stored(Losses, not_evaluated)]
    target: Target  # at which it was stopped
    wall_seconds: NotNegative  # that it took; 0 where it came from a store
    judging_seconds: NotNegative = 0.0  # of these, in which models were judged
    # Accuracy on test data after each round, where that was watched.
    accuracies: Annotated[Sequence[float], Stored(tuple[Share | None, ...], not_evaluated)] = ()
    # Rounds, from 1, whose model is known to guess (`Scored`).
    guessing: Annotated[Sequence[int], Stored(tuple[Count, ...])] = ()
    # Standard error of what was watched, after each round, and the samples that it was measured
    # on. Empty: exact, on all samples.
    errors: Annotated[Sequence[float], Stored(tuple[NotNegative, ...])] = ()
    samples: Annotated[Sequence[int], Stored(tuple[Count, ...])] = ()

    # The metric of its target after each round, where that is neither loss nor accuracy.
    measured: Annotated[Sequence[float], Stored(tuple[float | None, ...], not_evaluated)] = ()

    @property
    def scored(self) -> Scored:
        """Return the measurements after each round, in which a target is looked for."""
        return Scored(
            train_loss=self.losses,
            accuracy=self.accuracies,
            guessing=self.guessing,
            metrics={self.target.metric: self.measured} if len(self.measured) else {},
        )

    def rounds_to(self, target: Target) -> int | None:
        """Return G as observed; None if the target was not reached."""
        known, key = self._known_rounds, (target, target.better)
        if key not in known:
            if len(known) >= MOST_TARGETS:
                known.clear()
            known[key] = target.reached_by(self.scored)
        return known[key]

    @cached_property
    def _known_rounds(self) -> dict[tuple[Target, str | None], int | None]:
        """Return G for the last targets, each of which is asked for several times."""
        return {}

    def rounds_error(self, target: Target) -> float:
        """Return the standard error of log G where models were judged on a part of the samples;
        0 for the target that the samples were chosen for, which was decided on all of them."""
        reached = self.rounds_to(target)
        exact = target == self.target or target.column != self.target.column
        if not self.errors or reached is None or exact:
            return 0.0
        values, error = np.asarray(self.values(target), float), np.asarray(self.errors, float)
        hold = np.ones(target.hold)
        smooth = np.sqrt(np.convolve(error**2, hold)[: values.size] / target.hold**2)
        early, late = (
            target.reached(_shifted(values, sign * WIDE * smooth, target), None) or values.size
            for sign in (-1, 1)
        )
        return math.log(max(late, reached) / min(early, reached)) / (2 * WIDE)

    @property
    def diverged(self) -> bool:
        """Tell whether training diverged."""
        return math.isinf(self.losses[-1])

    def least_rounds(self, target: Target) -> float:
        """Return the least rounds to a target that it has not reached."""
        return least_rounds(self.values(target), target)

    def answers(self, target: Target) -> bool:
        """Tell whether a run to a target would have ended here: it reached the target or diverged,
        or was cut before its own target."""
        if self.rounds_to(target) is not None or self.diverged:
            return True
        return bool(len(self.values(target))) and self.rounds_to(self.target) is None

    def values(self, target: Target) -> Sequence[float]:
        """Return the values of the column that a target is about."""
        return tuple(self.scored.values(target))


def _shifted(values: Array, by: Array, target: Target) -> Array:
    """Return values moved away from a target, or towards it where `by` is negative."""
    return values + target.sign * by


def observe(trials: Sequence[Trial], target: Target, kind: LossKind) -> Observations:
    """Return the rounds of trials to a target.

    Left out are trials that diverged, settled short of it, or did not watch it. One that was
    stopped by an easier target is cut there.
    """
    trials = [trial for trial in trials if trial.diverged or len(trial.values(target))]
    never = settled(trials, target)
    kept = [trial for trial in trials if not trial.diverged and trial.setting not in never]
    if not trials:
        raise BadInput("there are no runs yet: continue the pilot")
    if all(trial.diverged for trial in trials):
        raise Diverged("every run diverged: lower learning.rate")
    reached = [trial.rounds_to(target) for trial in kept]
    bounds = [
        min(t.least_rounds(target), MAX_EXTRAPOLATION * len(t.losses)) if g is None else g
        for g, t in zip(reached, kept, strict=True)
    ]
    return Observations(
        cohort=np.array([trial.setting.cohort for trial in kept], int),
        steps=np.array([trial.setting.local_steps for trial in kept], int),
        loss_rate=np.array([trial.setting.loss_rate for trial in kept], float),
        rounds=np.array(bounds, float),
        censored=np.array([g is None for g in reached], bool),
        seed=np.array([trial.seed for trial in kept]),
        error=np.array([trial.rounds_error(target) for trial in kept], float),
        kind=kind,
    )


def settled(trials: Sequence[Trial], target: Target) -> tuple[Setting, ...]:
    """Return settings that never reach a target: no run did, two runs or a long one settled short
    of it, and no harder setting, with as few clients and as many steps, reached it."""
    reached = {trial.setting for trial in trials if trial.rounds_to(target)}
    resting: dict[Setting, float] = {}
    for trial in trials:
        if not trial.diverged and has_settled(trial.values(target), target):
            sure = 1.0 if len(trial.losses) >= 2 * MIN_SETTLED_ROUNDS else 0.5
            resting[trial.setting] = resting.get(trial.setting, 0.0) + sure
    found = [setting for setting, sure in resting.items() if sure >= 1]
    return tuple(sorted(s for s in found if not any(s.no_harder_than(other) for other in reached)))


def nearest_to(target: Target, trials: Sequence[Trial]) -> float:
    """Return the mean over `hold` rounds that came nearest to a target."""
    found = [math.nan]
    for trial in trials:
        values = np.asarray(trial.values(target), float)
        values = values[np.isfinite(values)]
        width = min(target.hold, values.size)
        if width:
            found += np.convolve(values, np.full(width, 1 / width), "valid").tolist()
    return float(np.nanmin(found) if target.sign == 1 else np.nanmax(found))
