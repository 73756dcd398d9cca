"""How each kind of result is told and drawn: the one place where results meet their looks."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable
from fedcell.experiments.result import SweepResult
from fedcell.experiments.table import SweepTable
from fedcell.learning.report import PartitionReport
from fedcell.network.compare import Comparison, CostSweep
from fedcell.network.ledger import Ledger
from fedcell.network.schedule import ScheduledRound
from fedcell.paper.reproduce import Reproduction
from fedcell.planning.fitted import FittedLaw
from fedcell.planning.measure import ConstantsReport
from fedcell.planning.outcome import PlanOutcome
from fedcell.planning.pilot import Pilot
from fedcell.planning.plan import TrainingPlan
from fedcell.planning.validate import Validation
from fedcell.simulation.run import RunResult

from .figures import paper, partitions, plans, rounds, runs, style, sweeps
from .tables import pilots as pilot_tables
from .tables import plans as plan_tables
from .tables import rounds as round_tables
from .tables import runs as run_tables
from .tables import sweeps as sweep_tables
from .tables.console import WIDTH

TABLES: Mapping[type, Callable[..., None]] = {
    ScheduledRound: round_tables.print_schedule,
    Comparison: round_tables.print_comparison,
    CostSweep: round_tables.print_sweep,
    Ledger: round_tables.print_ledger,
    RunResult: run_tables.print_run,
    PartitionReport: run_tables.print_partition,
    Pilot: pilot_tables.print_pilot,
    FittedLaw: pilot_tables.print_law,
    Validation: pilot_tables.print_validation,
    TrainingPlan: plan_tables.print_plan,
    PlanOutcome: plan_tables.print_outcome,
    ConstantsReport: pilot_tables.print_constants,
    SweepResult: sweep_tables.print_sweep_result,
    SweepTable: sweep_tables.print_sweep_table,
    Reproduction: sweep_tables.print_reproduction,
}


def _ledger_figure(ledger: Ledger) -> Any:
    if not ledger.trained:
        return rounds.ledger_figure(ledger)
    return runs.run_figure({"this run": ledger})


def _run_figure(result: RunResult) -> Any:
    if not result.ledgers:
        raise BadInput("no round was done: there is nothing to draw")
    return runs.run_figure(result.ledgers, result.outcome.target)


def _pilot_figure(pilot: Pilot) -> Any:
    report = pilot.report
    return plans.checks_figure(report.checks, f"{report.name}: the law and the pilot's own runs")


def _validation_figure(validation: Validation) -> Any:
    title = f"{validation.name}: {len(validation.checks)} settings that the pilot has not seen"
    return plans.checks_figure(validation.checks, title)


def _partition_figure(report: PartitionReport) -> Any:
    dealt = f"{report.kind}, {report.sizes} sizes, seed {report.seed}"
    title = f"{report.dataset}, {'as given' if report.given else dealt}"
    return partitions.partition_figure(report.label_counts, title, report.names)


FIGURES: Mapping[type, Callable[..., Any]] = {
    ScheduledRound: rounds.schedule_figure,
    Comparison: rounds.comparison_figure,
    CostSweep: rounds.cost_figure,
    Ledger: _ledger_figure,
    RunResult: _run_figure,
    PartitionReport: _partition_figure,
    Pilot: _pilot_figure,
    FittedLaw: plans.law_figure,
    Validation: _validation_figure,
    TrainingPlan: plans.plan_figure,
    PlanOutcome: plans.outcome_figure,
    ConstantsReport: plans.constants_figure,
    SweepResult: lambda result, **options: sweeps.sweep_figure(result.table, **options),
    SweepTable: sweeps.sweep_figure,
    Reproduction: paper.panel_figure,
}


def print_result(out: Console, result: Showable, **options: Any) -> None:
    """Tells a result on a console."""
    TABLES[type(result)](out, result, **options)


def summary(result: Showable, **options: Any) -> str:
    """A result in words and tables."""
    text = io.StringIO()
    print_result(Console(file=text, width=WIDTH, markup=False, highlight=False), result, **options)
    return text.getvalue().strip("\n")


def plot(result: Showable, path: str | Path | None = None, **options: Any) -> Any:
    """A result as a matplotlib Figure, written to `path` if given."""
    with style.drawing():
        figure = FIGURES[type(result)](result, **options)
        if path is not None:
            style.save_figure(figure, path)
    return figure
