"""Run an experiment: each training that the store lacks, once."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput, DataUnavailable, printable

from .axes import Point
from .executors import Executor, LocalProcesses, WorkerDiedError, leave_if_started_by_a_script
from .experiment import MAX_SEEDS, Experiment, check_precision
from .jobs import JobResult, PreparedScenarios, TrainingJob, train
from .result import SweepResult
from .store import Store
from .table import widest_interval
from .training import Curve, Training, Until

# Errors of the machine or its files: the store does not remember them, another run may succeed.
TRANSIENT = (OSError, MemoryError, BadFile, DataUnavailable, WorkerDiedError)


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a sweep, in trainings."""

    done: int  # stored ones included
    failed: int
    total: int
    seconds: float  # since the start
    made: int  # trainings since the start, failed ones included

    @property
    def seconds_left(self) -> float:
        """Estimated from the mean time of a training so far; infinite before the first."""
        left = self.total - self.done - self.failed
        return self.seconds / self.made * left if self.made else float("inf")


def run_sweep(
    experiment: Experiment,
    store: Store,
    executor: Executor | None = None,
    *,
    data_dir: Path | None = None,
    retry: bool = False,
    report: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Run the trainings of an experiment that the store lacks, and return the curves of all.

    Equal trainings run once, whichever points need them. An interrupt loses only the trainings in
    progress: those that are done are in the store.

    Parameters
    ----------
    experiment
        Points, seeds, rounds and policies.
    store
        Folder of curves: read first, and written to after each training.
    executor
        Runs the trainings; default: `LocalProcesses`, one process for each processor.
    data_dir
        Folder of published datasets; default: the user's cache.
    retry
        Run trainings again that the store knows to have failed.
    report
        Called with a `SweepProgress` at the start and after each training.

    Returns
    -------
    SweepResult
        The curves by point and seed, with their table and prices.

    Raises
    ------
    BadInput
        If every training has failed.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from fedcell import load_scenario
    >>> from fedcell.experiments.executors import Inline
    >>> experiment = Experiment.sweep(
    ...     load_scenario("digits"), {"plan.cohort": [5, 10]}, seeds=1, rounds=3
    ... )
    >>> run_sweep(experiment, Store(mkdtemp()), Inline())
    <SweepResult: 2 runs at 2 points, 0 failed>
    """
    prepared = PreparedScenarios(data_dir)
    return _run(experiment, store, executor, prepared, retry=retry, report=report)


def _run(
    experiment: Experiment,
    store: Store,
    executor: Executor | None,
    prepared: PreparedScenarios,
    *,
    retry: bool = False,
    report: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Run a sweep with scenarios that may have been prepared before."""
    leave_if_started_by_a_script()
    wanted = {
        (i, seed): (point.training(seed), _until(experiment, point))
        for i, point in enumerate(experiment.points)
        if point.trained
        for seed in experiment.seeds
    }
    curves, failures, jobs = _split(wanted.values(), store, prepared.data_dir, retry)
    begin, made, known_failures = time.monotonic(), 0, len(failures)
    total = len(curves) + len(jobs) + len(failures)
    if report:
        report(SweepProgress(len(curves), len(failures), total, 0.0, 0))
    for job, result in _train_all(store, executor or LocalProcesses(), jobs):
        key = job.training.key
        if isinstance(result, str):
            failures[key] = result
        else:
            curves[key] = result.curve
            made += 1
            if experiment.policies:
                prepared.add(job.training, result.scenario)
        if report:
            seconds = time.monotonic() - begin
            tried = made + len(failures) - known_failures
            report(SweepProgress(len(curves), len(failures), total, seconds, tried))
    by_place = {
        place: curve.first(until)
        for place, (training, until) in wanted.items()
        if (curve := curves.get(training.key)) is not None and curve.answers(until)
    }
    failed = {
        _label(experiment, *place): failures[training.key]
        for place, (training, _) in wanted.items()
        if training.key in failures and place not in by_place
    }
    if not by_place and all(point.trained for point in experiment.points):
        _refuse_all_failed(failed)
    return SweepResult(
        experiment=experiment, curves=by_place, failures=failed, made=made, prepared=prepared
    )


def _until(experiment: Experiment, point: Point) -> Until:
    """Return when the trainings of a point end, and what is measured."""
    until = point.until(experiment.rounds, experiment.hold)
    return replace(until, test_every_round=experiment.tested)


def _split(
    wanted: Iterable[tuple[Training, Until]], store: Store, data_dir: Path | None, retry: bool
) -> tuple[dict[str, Curve], dict[str, str], dict[str, TrainingJob]]:
    """Return the stored curves, the stored failures and the jobs of trainings, by key."""
    curves: dict[str, Curve] = {}
    failures: dict[str, str] = {}
    jobs: dict[str, TrainingJob] = {}
    for training, until in wanted:
        key = training.key
        if key in curves and curves[key].answers(until):
            continue
        curve = store.get(key, training.seed)
        if curve is not None and curve.answers(until):
            curves[key] = curve
        elif not retry and (why := store.failure(key)) is not None:
            failures[key] = why
        else:
            jobs[key] = _longer(jobs.get(key), TrainingJob(training, until, data_dir))
    return curves, failures, jobs


def _label(experiment: Experiment, point: int, seed: int) -> str:
    """Return a point and a seed in words."""
    labels = experiment.points[point].labels
    return ", ".join([*(f"{k} = {v}" for k, v in labels.items()), f"seed {seed}"])


def _refuse_all_failed(failed: Mapping[str, str]) -> None:
    for where, why in failed.items():
        raise BadInput(
            f"all {len(failed)} trainings failed, the first at {where}: {why}: correct that, and "
            "run them again with `retry`"
        )


def run_until_precise(
    experiment: Experiment,
    store: Store,
    executor: Executor | None = None,
    *,
    precision: float | None = None,
    max_seeds: int = MAX_SEEDS,
    data_dir: Path | None = None,
    **options: Any,
) -> SweepResult:
    """Run a sweep, and add seeds at every point until its intervals are as narrow as `precision`.

    All points get the same seeds, so that they can be compared pair by pair. Stopping when an
    interval happens to be narrow makes it a little too narrow.

    Parameters
    ----------
    experiment, store, executor, data_dir
        As of `run_sweep`.
    precision
        Half of the widest 95 % interval in parts of its mean; default: the experiment's, and
        where that has none, no seed is added.
    max_seeds
        Seeds at most.
    **options
        Others of `run_sweep`.

    Returns
    -------
    SweepResult
        That of the last seeds.
    """
    wanted = check_precision(precision, "`precision`") or experiment.precision
    if wanted is not None and not measurable(experiment):
        raise BadInput("precision: there is no loss to reach: set learning.target")
    made, prepared = 0, PreparedScenarios(data_dir)
    while True:
        result = _run(experiment, store, executor, prepared, **options)
        seeds, made = len(experiment.seeds), made + result.made
        result = replace(result, made=made)
        if wanted is None or result.failures or seeds >= max_seeds:
            return result
        widest = widest_interval(result.table)
        if widest <= wanted:
            return result
        needed = math.ceil(seeds * (widest / wanted) ** 2) if seeds > 1 else 3
        more = min(max(needed, seeds + 1), 2 * seeds + 1, max_seeds)
        experiment = experiment.with_more_seeds(more)


def measurable(experiment: Experiment) -> bool:
    """Return whether every point has a value with an interval: rounds to a target, or costs."""
    return all(p.target is not None or not p.trained for p in experiment.points)


def _longer(one: TrainingJob | None, other: TrainingJob) -> TrainingJob:
    """Join two jobs of one training: to the harder target, or without one where neither is known
    to be harder."""
    if one is None:
        return other
    a, b = one.until.target, other.until.target
    rounds = max(one.until.rounds, other.until.rounds)
    target = None
    if a is not None and b is not None:
        target = a if a.at_least_as_hard_as(b) else b if b.at_least_as_hard_as(a) else None
    tested = one.until.tested or other.until.tested
    return TrainingJob(one.training, Until(rounds, target, test_every_round=tested), one.data_dir)


def _train_all(
    store: Store, executor: Executor, jobs: Mapping[str, TrainingJob]
) -> Iterator[tuple[TrainingJob, JobResult | str]]:
    """Yield each job with its result, or why it failed, once the store has it."""
    store.folder.mkdir(parents=True, exist_ok=True)
    for job, result in executor.run(train, jobs.values()):
        if isinstance(result, JobResult):
            store.put(result.curve, result.seconds)
            yield job, result
        else:
            why = printable(f"{type(result).__name__}: {result}")
            if not isinstance(result, TRANSIENT):
                store.fail(job.training.key, why)
            yield job, why
