"""The result of a sweep: curves, and a row for each run and policy."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import write_csv
from fedcell.core.showing import Showable
from fedcell.core.version import versions
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.policies.names import PolicyLike
from fedcell.network.selectors.base import reads_policy
from fedcell.network.selectors.fold import selected_trace
from fedcell.network.selectors.history import Row
from fedcell.network.selectors.names import selector_of
from fedcell.network.simulate import price_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario

from .axes import Point
from .experiment import Experiment
from .jobs import PreparedScenarios
from .statistics import rounds_of_mean_curve
from .table import FIRST, HELD, LEDGERS, MEAN, SweepTable
from .training import Curve

SUMMED = ("duration", "energy", "cost")  # of a run [s], [J], [s]: (12) without the rest
AVERAGED = ("upload_cost", "compute_cost", "staged_cost", "objective")  # of a round [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepResult(Showable):
    """The curves of an experiment, and the table of its runs. `run_sweep` returns one.

    Attributes
    ----------
    experiment
        What was run.
    curves
        Curves by index of the point, from 0, and seed.
    failures
        Error messages of failed trainings, by point and seed in words.
    made
        Trainings that this call ran; the others were in the store.
    prepared
        Scenarios with D_j, z_m and alpha_0, for prices.
    """

    experiment: Experiment
    curves: dict[tuple[int, int], Curve]
    failures: dict[str, str]
    made: int
    prepared: PreparedScenarios = field(default_factory=PreparedScenarios, repr=False)

    def curves_of(self, point: int) -> list[Curve]:
        """Return the curves of a point, by its index from 0, in the order of the seeds."""
        return [self.curves[point, s] for s in self.experiment.seeds if (point, s) in self.curves]

    @cached_property
    def _records(self) -> list[tuple[dict[str, Any], dict[str, Sequence[float]]]]:
        """Each run: its row, and its rounds by column."""
        records = []
        for i, point in enumerate(self.experiment.points):
            mean_curve = self._mean_curve(i)
            for seed in self.experiment.seeds:
                curve = self.curves.get((i, seed))
                if curve is not None or not point.trained:
                    row = {**point.labels, "seed": seed}
                    if curve is not None:
                        row |= _trained(self.experiment, point, curve) | {MEAN: mean_curve}
                    for prices, columns in self._prices(point, seed, curve):
                        records.append((row | prices, columns))
        return records

    def _prices(
        self, point: Point, seed: int, curve: Curve | None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Sequence[float]]]]:
        """Yield the cost of a run to its target under each policy, and its rounds; only the losses
        where there is no policy."""
        experiment = self.experiment
        losses = {} if curve is None else {"train_loss": curve.train_loss}
        if not experiment.policies:
            yield {}, losses
            return
        scenario, made, reached = point.scenario, experiment.rounds, None
        if curve is not None:
            scenario = self.prepared.get(point.training(seed))
            made, reached = curve.rounds, curve.reached(point.target)
        fleet = draw_fleet(scenario, seed)
        chosen = None if curve is None or not curve.chosen else curve.chosen
        trace = trace_of(scenario, fleet, made, seed, chosen)
        for name, policy in policies_for(scenario, experiment.policies).items():
            ledger = price_trace(scenario, fleet, trace, policy, seed)
            until = ledger.first(reached or made)
            sums = {what: float(getattr(until, what).sum()) for what in SUMMED}
            means = {what: float(getattr(until, what).mean()) for what in AVERAGED}
            columns = {what: getattr(ledger, what).tolist() for what in SUMMED}
            yield {"policy": name, **sums, **means}, losses | columns

    def _mean_curve(self, place: int) -> int | None:
        """Return the rounds until the mean over seeds of the loss reaches the target of a point."""
        target = self.experiment.points[place].until(1, self.experiment.hold).target
        if target is None:
            return None
        return rounds_of_mean_curve([c.counted(target) for c in self.curves_of(place)], target)

    @cached_property
    def table(self) -> SweepTable:
        """The runs as rows of plain values."""
        experiment = self.experiment
        axes: dict[str, tuple[Any, ...]] = {}
        for point in experiment.points:
            for name, value in point.labels.items():
                axes[name] = tuple(dict.fromkeys((*axes.get(name, ()), value)))
        if experiment.policies:
            axes["policy"] = tuple(experiment.policies)
        return SweepTable(
            title=experiment.title,
            axes=axes,
            seeds=experiment.seeds,
            rounds=experiment.rounds,
            hold=experiment.watched,
            runs=tuple(row for row, _ in self._records),
            about={
                "asked": experiment.asked,
                "versions": versions(),
                **experiment.aims,
                **({"failures": self.failures} if self.failures else {}),
            },
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each point, seed and policy."""
        return self.table.rows()

    def save(self, folder: Path) -> None:
        """Write runs.csv, a row for each run; experiment.json, the experiment; and ledgers.csv, a
        row for each round of each run, with the row number in runs.csv from 0."""
        self.table.save(folder)
        self.save_ledgers(folder)

    def save_ledgers(self, folder: Path) -> None:
        """Write ledgers.csv alone."""
        names = list(dict.fromkeys(name for _, columns in self._records for name in columns))
        rows = (
            [number, place, *line]
            for number, (_, columns) in enumerate(self._records)
            for place, line in enumerate(
                zip(*(columns.get(name, itertools.repeat(None)) for name in names), strict=False), 1
            )
        )
        write_csv(folder / LEDGERS, ["run", "round", *names], rows)

    def __repr__(self) -> str:
        points, seeds = self.experiment.points, len(self.experiment.seeds)
        runs = len(self.curves) + seeds * sum(not point.trained for point in points)
        return f"<SweepResult: {runs} runs at {len(points)} points, {len(self.failures)} failed>"


def trace_of(
    scenario: Scenario, fleet: Fleet, rounds: int, seed: int, chosen: Sequence[Row] | None
) -> Trace:
    """Return the rounds of a training; `chosen` has their clients where a rule that learns chose
    them."""
    if chosen is None:
        return draw_trace(scenario, fleet, rounds, seed)
    return selected_trace(scenario, fleet, range(rounds), seed, chosen)


def policies_for(
    scenario: Scenario, policies: Mapping[str, PolicyLike]
) -> Mapping[str, PolicyLike]:
    """Return the policies that price the trainings of a scenario: one alone where its selector
    reads durations or energies, which are of that one."""
    rule = selector_of(scenario)
    if rule is None or not reads_policy(rule):
        return policies
    own = getattr(rule, "policy", "optimal")
    if own not in policies:
        raise BadInput(
            f"plan.selection = {scenario.plan.selection!r} is for the policy {own}, which does not "
            "price this experiment: name it as a policy"
        )
    return {own: policies[own]}


def _trained(experiment: Experiment, point: Point, curve: Curve) -> dict[str, Any]:
    """Return the columns of runs.csv that a training gives."""
    watched = point.until(experiment.rounds, experiment.hold).target
    return {
        "key": curve.key,
        "rounds": curve.rounds,
        "target": None if watched is None else watched.value,
        FIRST: curve.reached(point.target),
        HELD: curve.reached(watched),
        "diverged": curve.diverged,
        "train_loss": curve.train_loss[-1] if curve.rounds else None,
        "test_loss": curve.test_loss,
        "accuracy": curve.accuracy,
    }
