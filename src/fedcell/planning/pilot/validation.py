"""Is the law of rounds right? Predictions against runs that it has not seen, and the claims
that Theorem 1 makes beside its form."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate
from fedcell.core.quantities import parse_duration
from fedcell.core.showing import Showable
from fedcell.learning.custom import CustomLearner, name_of
from fedcell.planning.law.base import LEVEL
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.setting import Setting, trial_seeds, validation_settings
from fedcell.scenario.identity import check_pilot_identity
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.compute import Compute, Observer

from .pilot import Pilot
from .run import (
    check_same_code,
    holding,
    most_rounds,
    note_changed_code,
    prepare_pilot,
    resumed_from,
)
from .runner import PilotRunner, TrialJob
from .trial import Trial

BAD = 0.25  # relative error from which a prediction is called a failure


@dataclass(frozen=True, kw_only=True)
class SettingCheck:
    """Predicted and measured rounds of one setting. A mean over runs of which some did not
    reach the target is a lower bound, and marked."""

    setting: Setting
    runs: int
    missed: int  # runs that did not reach the target
    diverged: int
    measured: float  # mean rounds
    predicted: Estimate  # with the interval of a mean of as many runs
    runs_inside: float  # share of the runs that lie in the interval of a single run

    @property
    def error(self) -> float:
        """How far the prediction is off, relative."""
        return self.predicted.value / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the measured mean lies in the interval."""
        return self.measured in self.predicted

    @property
    def sound(self) -> bool:
        """Whether all of its runs reached the target."""
        return not self.missed and not self.diverged

    def to_dict(self) -> dict[str, Any]:
        """Plain values in one row."""
        row = {**asdict(self.setting), "runs": self.runs, "missed": self.missed}
        row |= {"diverged": self.diverged, "measured": self.measured}
        row |= {"predicted": self.predicted.value}
        row |= {"low": self.predicted.low, "high": self.predicted.high, "error": self.error}
        return row | {"inside": self.inside, "runs_inside": self.runs_inside}

    @property
    def failure(self) -> str | None:
        """Why the law is not to be trusted here, in words; None where it is."""
        if self.diverged:
            return f"training diverges in {self.diverged} of {self.runs} runs with {self.setting}"
        if self.missed:
            return f"{self.missed} of {self.runs} runs did not reach the loss with {self.setting}"
        if abs(self.error) > BAD:
            return f"the law is {self.error:+.0%} off with {self.setting}"
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation(Showable):
    """How good the predictions of a pilot are, at settings and seeds that it has not seen."""

    name: str  # of the scenario
    checks: tuple[SettingCheck, ...]

    @property
    def sound(self) -> list[SettingCheck]:
        """The settings that all of their runs reached."""
        return [check for check in self.checks if check.sound]

    @property
    def median_error(self) -> float:
        """The median of the absolute errors; NaN where no setting was reached."""
        return self._error_quantile(0.5)

    @property
    def p90_error(self) -> float:
        """Their 90th percentile."""
        return self._error_quantile(0.9)

    @property
    def coverage(self) -> float:
        """The share of the means that lie in their 90 % intervals."""
        return float(np.mean([c.inside for c in self.sound])) if self.sound else float("nan")

    @property
    def run_coverage(self) -> float:
        """The share of the runs that lie in theirs."""
        return float(np.mean([c.runs_inside for c in self.sound])) if self.sound else float("nan")

    @property
    def failures(self) -> list[str]:
        """Where the law is not to be trusted, in words."""
        return [check.failure for check in self.checks if check.failure]

    def _error_quantile(self, share: float) -> float:
        errors = [abs(check.error) for check in self.sound]
        return float(np.quantile(errors, share)) if errors else float("nan")

    def rows(self) -> list[dict[str, Any]]:
        """One row for each setting."""
        return [check.to_dict() for check in self.checks]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell validate --json` prints them."""
        names = ("median_error", "p90_error", "coverage", "run_coverage")
        return {
            "settings": len(self.checks),
            "reached": len(self.sound),
            **{name: getattr(self, name) for name in names},
            "rows": self.rows(),
            "failures": self.failures,
        }

    def __repr__(self) -> str:
        return (
            f"<Validation: {len(self.checks)} settings, median error {self.median_error:.1%}, "
            f"{self.coverage:.0%} of means inside their intervals>"
        )


def check_law(law: FittedLaw, trials: Sequence[Trial], target: Target) -> tuple[SettingCheck, ...]:
    """Predicted and measured rounds, setting by setting."""
    checks = []
    for setting in sorted({trial.setting for trial in trials}):
        here = [trial for trial in trials if trial.setting == setting]
        reached = [trial.rounds_to(target) for trial in here]
        rounds = [len(t.losses) if g is None else g for g, t in zip(reached, here, strict=True)]
        k, e, gamma = np.array(setting.cohort), np.array(setting.local_steps), setting.loss_rate
        value, low, high = (float(x) for x in law.predict(k, e, gamma, runs=len(here)))
        _, lowest, highest = (float(x) for x in law.predict(k, e, gamma))
        checks.append(
            SettingCheck(
                setting=setting,
                runs=len(here),
                missed=sum(g is None for g in reached),
                diverged=sum(trial.diverged for trial in here),
                measured=float(np.mean(rounds)),
                predicted=Estimate(value, low, high, LEVEL),
                runs_inside=float(np.mean([lowest <= g <= highest for g in rounds])),
            )
        )
    return tuple(checks)


def target_exponent(trials: Sequence[Trial], target: Target) -> float | None:
    """The slope of log G over log eps, from the target to twice it, over the runs that reach it
    and with f* taken to be 0; Theorem 1 says -1. None for another metric."""
    if target.loss is None:
        return None
    losses = target.loss * np.geomspace(1, 2, 5)
    there = [trial for trial in trials if trial.rounds_to(target)]
    means: list[float] = []
    for eps in losses.tolist():
        rounds = [trial.rounds_to(replace(target, level=eps)) for trial in there]
        means.append(float(np.mean([g for g in rounds if g])) if rounds else np.nan)
    return float(np.polyfit(np.log(losses), np.log(means), 1)[0])


def validate_pilot(
    scenario: Scenario,
    pilot: Pilot,
    budget: float | str = 60.0,
    path: str | Path | None = None,
    *,
    rounds: int | None = None,
    name: str = "the scenario",
    compute: Compute = Compute(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> Validation:
    """Compare a pilot's law with runs that it has not seen: other K and E_l, other seeds.

    Parameters
    ----------
    scenario : Scenario
        The scenario of the pilot.
    pilot : Pilot
        The pilot.
    budget : float or str, optional
        Wall-clock time: seconds, or text such as "5min".
    path : str or Path, optional
        File that keeps the runs; a validation continues from it.
    rounds : int, optional
        Rounds after which a run ends.
    name : str, optional
        Name of the scenario, for messages.
    compute : Compute, optional
        As in `run_pilot`, with the custom learner and server of the pilot.
    observer : Observer, optional
        Callbacks for progress: `download`, `compile`, `trial`.

    Returns
    -------
    Validation
        Predicted and measured rounds, setting by setting.
    """
    begin = time.monotonic()
    seconds = parse_duration(budget, "`budget`")
    custom = CustomLearner.of(compute.learner)
    learner = None if custom is None else custom.name
    server = None if compute.server is None else name_of(compute.server)
    check_same_code(pilot, learner, server)
    runner, empty, _ = prepare_pilot(scenario, pilot.target, pilot.seed, name, compute, observer)
    check_pilot_identity(pilot.identity, empty.identity, pilot.path)
    note_changed_code(pilot, empty)
    law = pilot.fit()
    reached = pilot.reached(pilot.target)
    if not reached:
        raise BadInput(
            "every setting that reached the target diverged on another seed: lower learning.rate"
        )
    settings = validation_settings(reached, pilot.tried)
    most = most_rounds(scenario, rounds)
    empty = replace(empty, what="validation")
    made = empty
    with holding(path):
        made = empty if path is None else resumed_from(Path(path), empty)
        known = {(trial.setting, trial.seed) for trial in made.trials}
        seeds = trial_seeds(pilot.seed, validation=True)
        asked = _in_turn(settings, seeds, most, known)
        end = begin + seconds - made.seconds
        before = made.seconds
        least = sum((setting, seeds[0]) not in known for setting in settings)
        for trial in _trials(runner, _until(asked, end, least)):
            if _cut(trial, most) and time.monotonic() >= end:
                continue  # by the budget: it says nothing of the law
            made = made.with_trial(trial)
            made = replace(made, seconds=round(before + time.monotonic() - begin, 1))
            if path is not None:
                made.save(path)
            if observer.trial is not None:
                observer.trial(trial, made.seconds)
    judges = [trial for trial in made.trials if trial.setting in settings]
    return Validation(name=name, checks=check_law(law, judges, pilot.target))


def _trials(runner: PilotRunner, asked: Iterator[TrialJob]) -> Iterator[Trial]:
    """Trials as they end; those that a store holds are taken from there."""
    stored: deque[Trial] = deque()

    def missing() -> Iterator[TrialJob]:
        for ask in asked:
            trial = runner.stored(ask)
            if trial is None:
                yield ask
            else:
                stored.append(trial)

    for trial in runner.run_all(missing()):
        while stored:
            yield stored.popleft()
        yield trial
    yield from stored


def _cut(trial: Trial, most: int) -> bool:
    """Tell whether a trial ended before it reached the target, diverged or had all its rounds."""
    open_end = trial.rounds_to(trial.target) is None and not trial.diverged
    return open_end and len(trial.losses) < most


def _in_turn(
    settings: Sequence[Setting], seeds: Sequence[int], rounds: int, known: set[tuple[Setting, int]]
) -> Iterator[TrialJob]:
    """Every setting once for each seed."""
    for seed in seeds:
        for setting in settings:
            if (setting, seed) not in known:
                yield TrialJob(setting, seed, rounds)


def _until(asked: Iterator[TrialJob], end: float, least: int) -> Iterator[TrialJob]:
    """What there is time for; one of each setting in any case."""
    for place, ask in enumerate(asked):
        if place >= least and time.monotonic() >= end:
            return
        yield ask if place < least else replace(ask, deadline=end)
