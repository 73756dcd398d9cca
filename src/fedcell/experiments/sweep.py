"""Running an experiment: what is not made yet is made, each training once, whoever asks for it."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput, DataUnavailable, printable

from .executors import DiedError, LocalProcesses, SweepEngine, leave_if_started_by_a_script
from .experiment import MOST_SEEDS, Experiment, check_precision
from .jobs import Done, Job, train
from .result import SweepResult
from .store import Store
from .table import widest_interval
from .training import Curve, Until

PASSING = (
    OSError,
    MemoryError,
    BadFile,
    DataUnavailable,
    DiedError,
)  # not the training's own fault


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is."""

    done: int
    failed: int
    total: int  # trainings, those that were there before included
    seconds: float  # since it began
    made: int  # since then, those that failed included

    @property
    def seconds_left(self) -> float:
        """As those made so far took; infinite before the first."""
        left = self.total - self.done - self.failed
        return self.seconds / self.made * left if self.made else float("inf")


def run_sweep(
    experiment: Experiment,
    store: Store,
    engine: SweepEngine | None = None,
    *,
    data_dir: Path | None = None,
    retry: bool = False,
    report: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Makes what is not in the store, and gives all curves of an experiment.

    What failed before is made again with `retry`. An interrupt loses what is under way.
    """
    leave_if_started_by_a_script()
    wanted = {
        (i, seed): (point.training(seed), point.until(experiment.rounds, experiment.hold))
        for i, point in enumerate(experiment.points)
        if point.trained
        for seed in experiment.seeds
    }
    jobs: dict[str, Job] = {}
    curves: dict[str, Curve] = {}
    failures: dict[str, str] = {}
    for training, until in wanted.values():
        key = training.key
        if key in curves and curves[key].answers(until):
            continue
        curve = store.get(key, training.seed)
        if curve is not None and curve.answers(until):
            curves[key] = curve
        elif not retry and (why := store.failure(key)) is not None:
            failures[key] = why
        else:
            jobs[key] = _longer(jobs.get(key), Job(training, until, data_dir))
    begin, made, there, known_failures = time.monotonic(), 0, len(curves), len(failures)
    total = there + len(jobs) + len(failures)
    if report:
        report(SweepProgress(there, len(failures), total, 0.0, 0))
    for key, done in _make(store, engine or LocalProcesses(), jobs):
        if isinstance(done, str):
            failures[key] = done
        else:
            curves[key] = done
            made += 1
        if report:
            seconds = time.monotonic() - begin
            tried = made + len(failures) - known_failures
            report(SweepProgress(len(curves), len(failures), total, seconds, tried))
    found = {
        where: curve.first(until)
        for where, (training, until) in wanted.items()
        if (curve := curves.get(training.key)) is not None and curve.answers(until)
    }
    places = {
        ", ".join(
            [*(f"{k} = {v}" for k, v in experiment.points[i].labels.items()), f"seed {seed}"]
        ): failures[training.key]
        for (i, seed), (training, _) in wanted.items()
        if training.key in failures and (i, seed) not in found
    }
    if places and not found and all(point.trained for point in experiment.points):
        where, why = next(iter(places.items()))
        raise BadInput(
            f"all {len(places)} trainings failed, the first at {where}: {why}: once that is put "
            "right, make them again with `retry`"
        )
    return SweepResult(
        experiment=experiment,
        curves=found,
        failures=places,
        made=made,
        data_dir=data_dir,
    )


def run_until_precise(
    experiment: Experiment,
    store: Store,
    engine: SweepEngine | None = None,
    *,
    precision: float | None = None,
    most_seeds: int = MOST_SEEDS,
    **options: Any,
) -> SweepResult:
    """The same with seeds added, at every point alike, until half of the widest 95 % interval is
    at most `precision` of its mean, or there are `most_seeds`; as it is where none is asked for.

    All points get the same seeds, so that they can be compared pair by pair. Stopping when an
    interval happens to be narrow makes it a little too narrow.
    """
    wanted = check_precision(precision, "`precision`") or experiment.precision
    if wanted is not None and not measurable(experiment):
        raise BadInput("precision: there is no loss to reach: set learning.target")
    made = 0
    while True:
        result = run_sweep(experiment, store, engine, **options)
        seeds, made = len(experiment.seeds), made + result.made
        result = replace(result, made=made)
        if wanted is None or result.failures or seeds >= most_seeds:
            return result
        widest = widest_interval(result.table)
        if widest <= wanted:
            return result
        needed = math.ceil(seeds * (widest / wanted) ** 2) if seeds > 1 else 3
        more = min(max(needed, seeds + 1), 2 * seeds + 1, most_seeds)
        experiment = experiment.with_more_seeds(more)


def measurable(experiment: Experiment) -> bool:
    """Whether there is something whose interval could be narrow: rounds to a target, or costs."""
    return all(p.target is not None or not p.trained for p in experiment.points)


def _longer(one: Job | None, other: Job) -> Job:
    """Of two jobs of one training, one that answers both: to the harder target, or without one
    where it is not known which is harder."""
    if one is None:
        return other
    a, b = one.until.target, other.until.target
    rounds = max(one.until.rounds, other.until.rounds)
    target = None
    if a is not None and b is not None:
        target = a if a.at_least_as_hard_as(b) else b if b.at_least_as_hard_as(a) else None
    judged = one.until.judged or other.until.judged
    return Job(one.training, Until(rounds, target, scored=judged), one.data_dir)


def _make(
    store: Store, engine: SweepEngine, jobs: dict[str, Job]
) -> Iterator[tuple[str, Curve | str]]:
    """Trainings as they are done: kept first, then told."""
    store.folder.mkdir(parents=True, exist_ok=True)
    for job, result in engine.run(train, jobs.values()):
        key = job.training.key
        if isinstance(result, Done):
            store.put(result.curve, result.seconds)
            yield key, result.curve
        else:
            why = printable(f"{type(result).__name__}: {result}")
            if not isinstance(result, PASSING):  # it may go better another time
                store.fail(key, why)
            yield key, why
