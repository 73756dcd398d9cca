"""Running an experiment: what is not made yet is made, each training once, whoever asks for it."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput, DataUnavailable, printable
from fedcell.core.files import write_csv
from fedcell.core.showing import Showable
from fedcell.core.targets import rounds_to
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.simulate import price_trace

from .axes import Point
from .engines import DiedError, LocalProcesses, SweepEngine
from .experiment import Experiment
from .statistics import RoundsEstimate, estimate_rounds
from .store import Store
from .training import Curve, Training, Until
from .work import Done, Job, train

PASSING = (OSError, MemoryError, DataUnavailable, DiedError)  # not the training's own fault
TIMES = "times.csv"  # of the store: what each training took


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


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepResult(Showable):
    """The curves of an experiment, by point and seed."""

    experiment: Experiment
    curves: dict[tuple[int, int], Curve]  # by place of the point, and seed
    failures: dict[str, str]  # why, by key
    made: int  # trainings that this call made; the others were there
    data_dir: Path | None = None  # where data lies, for prices depend on who holds how much

    def curves_of(self, point: int) -> list[Curve]:
        """Those of a point, seed after seed."""
        return [self.curves[point, s] for s in self.experiment.seeds if (point, s) in self.curves]

    def rounds(self, point: int, hold: int = 1) -> RoundsEstimate:
        """Rounds to the target at a point, over seeds."""
        target = self.experiment.points[point].until(1, 1).target
        if target is None:
            raise BadInput("there is no loss to reach: set learning.target")
        found = [rounds_to(curve.train_loss, target, hold) for curve in self.curves_of(point)]
        return estimate_rounds(found, self.experiment.rounds)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each point and seed, and for each policy that it is priced under."""
        return [
            {**point.labels, "seed": seed, **row}
            for i, point in enumerate(self.experiment.points)
            for seed in self.experiment.seeds
            if (i, seed) in self.curves
            for row in _rows(self.experiment, point, self.curves[i, seed], self.data_dir)
        ]

    def save(self, folder: Path) -> None:
        """Writes runs.csv: one row for each run."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        write_csv(folder / "runs.csv", names, ([row.get(n) for n in names] for row in rows))

    def __repr__(self) -> str:
        points, runs = len(self.experiment.points), len(self.curves)
        return f"<SweepResult: {runs} runs at {points} points, {len(self.failures)} failed>"


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
    wanted = {
        (i, seed): (point.training(seed), point.until(experiment.rounds, experiment.hold))
        for i, point in enumerate(experiment.points)
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
    begin, made, there = time.monotonic(), 0, len(curves)
    total = there + len(jobs) + len(failures)
    for key, done in _make(store, engine or LocalProcesses(), jobs):
        if isinstance(done, str):
            failures[key] = done
        else:
            curves[key] = done
            made += 1
        if report:
            seconds = time.monotonic() - begin
            tried = made + len(failures)
            report(SweepProgress(len(curves), len(failures), total, seconds, tried))
    found = {where: training.key for where, (training, _) in wanted.items()}
    return SweepResult(
        experiment=experiment,
        curves={where: curves[key] for where, key in found.items() if key in curves},
        failures=failures,
        made=made,
        data_dir=data_dir,
    )


def _longer(one: Job | None, other: Job) -> Job:
    """Of two jobs of one training, until both are answered: to the lower target."""
    if one is None:
        return other
    a, b = one.until, other.until
    target = None if None in (a.target, b.target) else min(a.target or 0, b.target or 0)
    until = Until(max(a.rounds, b.rounds), target, max(a.hold, b.hold))
    return Job(one.training, until, one.data_dir)


def _make(
    store: Store, engine: SweepEngine, jobs: dict[str, Job]
) -> Iterator[tuple[str, Curve | str]]:
    """Trainings as they are done: kept first, then told."""
    store.folder.mkdir(parents=True, exist_ok=True)
    for job, result in engine.run(train, jobs.values()):
        key = job.training.key
        if isinstance(result, Done):
            store.put(result.curve)
            with (store.folder / TIMES).open("a", encoding="utf-8") as file:
                file.write(f"{key},{result.curve.rounds},{result.seconds:.3f}\n")
            yield key, result.curve
        else:
            why = printable(f"{type(result).__name__}: {result}")
            if not isinstance(result, PASSING):  # it may go better another time
                store.fail(key, why)
            yield key, why


def _rows(
    experiment: Experiment, point: Point, curve: Curve, data_dir: Path | None
) -> Iterator[dict[str, Any]]:
    until = point.until(experiment.rounds, experiment.hold)
    first = None if until.target is None else rounds_to(curve.train_loss, until.target)
    held = until.reached(curve.train_loss)
    row: dict[str, Any] = {
        "key": curve.key,
        "rounds": curve.rounds,
        "target": until.target,
        "rounds_to_target": first,
        "rounds_to_hold": held,
        "diverged": curve.diverged,
        "train_loss": curve.train_loss[-1] if curve.rounds else None,
        "test_loss": curve.test_loss,
        "accuracy": curve.accuracy,
    }
    if not experiment.policies:
        yield row
        return
    setup = prepare_training(point.scenario, curve.seed, data_dir)
    fleet = draw_fleet(setup.scenario, curve.seed)
    trace = draw_trace(setup.scenario, fleet, curve.rounds, curve.seed)
    for policy in experiment.policies:
        ledger = price_trace(setup.scenario, fleet, trace, policy, curve.seed)
        end = (first or curve.rounds) - 1
        yield row | {
            "policy": policy,
            "duration": float(ledger.total_duration[end]),
            "energy": float(ledger.total_energy[end]),
            "cost": float(ledger.cost[: end + 1].sum()),
        }


def trainings_of(experiments: Sequence[Experiment]) -> int:
    """How many different trainings some experiments ask for together."""
    keys: set[str] = set()
    for experiment in experiments:
        for point in experiment.points:
            keys |= {Training.of(point.scenario, seed).key for seed in experiment.seeds}
    return len(keys)
