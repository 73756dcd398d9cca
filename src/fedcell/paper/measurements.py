"""Measure the constants of Theorem 1 at points of a panel, and store them with the trainings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import printable
from fedcell.experiments.axes import Point
from fedcell.experiments.executors import Executor
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.training import Training
from fedcell.learning.setup import prepare_training
from fedcell.planning.constants import measure_constants
from fedcell.scenario.target import Target

from .verdicts import where

KIND = "constants"
DEFAULT_COHORT = 10  # constants are measured at this K, or the nearest one,
MAX_SEEDS = 10  # on at most this number of seeds


@dataclass(frozen=True)
class Measurement:
    """A measurement of the constants along a training, up to a target."""

    training: Training
    target: Target | None
    rounds: int
    data_dir: Path | None = None

    @property
    def key(self) -> str:
        target = self.target
        plain = target is None or (target.hold == 1 and target.accuracy is None)
        how = "" if plain or target is None else f"-{target.column}-{target.hold}"
        value = None if target is None else target.value
        return f"{self.training.key}-{value}{how}-{self.rounds}"


def measure(job: Measurement) -> dict[str, Any]:
    """Measure the constants on one thread."""
    training = job.training
    setup = prepare_training(training.scenario, training.seed, job.data_dir)
    return measure_constants(setup, job.rounds, job.target, threads=1).to_dict()


def constants_of(
    experiment: Experiment, store: Store, engine: Executor, data_dir: Path | None = None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a row of labels and constants for each point at the default K, and failures.

    Failures are sentences by point.
    """
    jobs = {
        (tuple(point.labels.items()), seed): Measurement(
            point.training(seed), point.target, experiment.rounds, data_dir
        )
        for point in _at_default_cohort(experiment)
        for seed in experiment.seeds[:MAX_SEEDS]
    }
    missing = {job.key: job for job in jobs.values() if store.kept(KIND, job.key) is None}
    failures: dict[str, str] = {}
    for job, constants in engine.run(measure, missing.values()):
        if isinstance(constants, Exception):
            failures[job.key] = printable(str(constants))
        else:
            store.keep(KIND, job.key, constants)
    measured = [
        {"labels": dict(labels), "seed": seed, **row}
        for (labels, seed), job in jobs.items()
        if (row := store.kept(KIND, job.key)) is not None
    ]
    missed = {where(at): failures[j.key] for (at, _), j in jobs.items() if j.key in failures}
    return measured, missed


def _at_default_cohort(experiment: Experiment) -> list[Point]:
    nearest = min(
        experiment.axes.get("plan.cohort", (DEFAULT_COHORT,)), key=lambda k: abs(k - DEFAULT_COHORT)
    )
    return [p for p in experiment.points if p.labels.get("plan.cohort", nearest) == nearest]


def measured_at(about: Mapping[str, Any], labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the constants measured at these labels, apart from K: a row for each seed."""
    return [
        dict(row)
        for row in about.get(KIND, ())
        if all(row["labels"].get(n) == v for n, v in labels.items() if n in row["labels"])
    ]
