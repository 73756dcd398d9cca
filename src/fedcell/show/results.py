"""How each kind of result is told and drawn: the one place where results meet their looks."""

import io
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable
from fedcell.deploy.exchanges import ExchangeReport
from fedcell.deploy.testbed.uploads import TestbedReport
from fedcell.experiments.result import SweepResult
from fedcell.experiments.seeds import SeedsResult
from fedcell.experiments.table import SweepTable
from fedcell.learning.partition_report import PartitionReport
from fedcell.network.compare import Comparison, CostSweep
from fedcell.network.ledger import Ledger
from fedcell.network.schedule import ScheduledRound
from fedcell.paper.reproduce import Reproduction
from fedcell.planning.choice.plan import PlanOutcome, TrainingPlan
from fedcell.planning.constants import ConstantsReport
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.validation import Validation
from fedcell.simulation.summary import RunResult

from .figures import exchanges as exchange_figures
from .figures import paper, partitions, plans, rounds, runs, style, sweeps
from .figures import testbeds as testbed_figures
from .figures.curves import RunsDrawing
from .tables import exchanges as exchange_tables
from .tables import pilots as pilot_tables
from .tables import plans as plan_tables
from .tables import rounds as round_tables
from .tables import runs as run_tables
from .tables import sweeps as sweep_tables
from .tables import testbeds as testbed_tables
from .tables.console import WIDTH

TABLES: Mapping[type, Callable[..., None]] = {
    ScheduledRound: round_tables.print_schedule,
    Comparison: round_tables.print_comparison,
    CostSweep: round_tables.print_sweep,
    Ledger: round_tables.print_ledger,
    RunResult: run_tables.print_run,
    SeedsResult: run_tables.print_seeds,
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
    ExchangeReport: exchange_tables.print_exchanges,
    TestbedReport: testbed_tables.print_testbed,
}


def _ledger_figure(ledger: Ledger, **options: Any) -> Any:
    if not ledger.trained:
        return rounds.ledger_figure(ledger)
    return runs.run_figure({"this run": ledger}, **options)


def _run_figure(result: RunResult, **options: Any) -> Any:
    if not result.ledgers:
        raise BadInput("no round was done: there is nothing to draw")
    if changes := _run_drawing(result).changes:
        options["changes"] = changes
    judged = result.outcome.deliver
    return runs.run_figure(result.ledgers, result.outcome.target, deliver=judged, **options)


def _run_drawing(result: RunResult) -> RunsDrawing:
    changes = [change.round for change in result.outcome.changes]
    return RunsDrawing([result.ledgers], result.outcome.target, changes, result.outcome.deliver)


def _seeds_drawing(result: SeedsResult) -> RunsDrawing:
    deliver = next((found.outcome.deliver for found in result.finished), None)
    return RunsDrawing([found.ledgers for found in result.finished], result.target, deliver=deliver)


def _pilot_checks(pilot: Pilot) -> tuple[Any, str]:
    return pilot.report.checks, f"{pilot.report.name}: the law and the pilot's own runs"


def _validation_checks(validation: Validation) -> tuple[Any, str]:
    title = f"{validation.name}: {len(validation.checks)} settings that the pilot has not seen"
    return validation.checks, title


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
    SeedsResult: lambda result, **options: runs.runs_figure(_seeds_drawing(result), **options),
    PartitionReport: _partition_figure,
    Pilot: lambda pilot: plans.checks_figure(*_pilot_checks(pilot)),
    FittedLaw: plans.law_figure,
    Validation: lambda validation: plans.checks_figure(*_validation_checks(validation)),
    TrainingPlan: plans.plan_figure,
    PlanOutcome: plans.outcome_figure,
    ConstantsReport: plans.constants_figure,
    SweepResult: lambda result, **options: sweeps.sweep_figure(result.table, **options),
    SweepTable: sweeps.sweep_figure,
    Reproduction: paper.panel_figure,
    ExchangeReport: exchange_figures.exchanges_figure,
    TestbedReport: testbed_figures.testbed_figure,
}


Panel = Callable[..., None]  # draws a result on axes


def _panels(result: Showable) -> Mapping[str, Panel]:
    """What can be drawn on axes of one's own, by name; the first is drawn where none is named."""
    if isinstance(result, Ledger) and result.trained:
        return _of_runs(lambda ledger: RunsDrawing([{"this run": ledger}]))
    return PANELS[type(result)]


def _of_runs(drawing: Callable[[Any], RunsDrawing]) -> dict[str, Panel]:
    return {
        name: lambda ax, result, draw=draw: draw(ax, drawing(result))
        for name, draw in runs.PANELS.items()
    }


def _each(draw: Panel, names: Iterable[str]) -> dict[str, Panel]:
    """Panels that differ in the measure that they show."""
    return {name: partial(_named, draw, name) for name in names}


def _named(draw: Panel, name: str, ax: Any, result: Any) -> None:
    draw(ax, result, name)


PANELS: Mapping[type, Mapping[str, Panel]] = {
    ScheduledRound: {"times": rounds.draw_times, "shares": rounds.draw_shares},
    Comparison: _each(rounds.draw_measure, rounds.MEASURES),
    CostSweep: _each(rounds.draw_costs, rounds.TITLES),
    Ledger: _each(rounds.draw_each_round, ("duration", "energy")),
    RunResult: _of_runs(_run_drawing),
    SeedsResult: _of_runs(_seeds_drawing),
    PartitionReport: {
        "labels": lambda ax, report: partitions.draw_labels(ax, report.label_counts, report.names),
        "sizes": lambda ax, report: partitions.draw_sizes(ax, report.label_counts),
    },
    Pilot: {"checks": lambda ax, pilot: plans.draw_checks(ax, *_pilot_checks(pilot))},
    FittedLaw: {"law": plans.draw_law},
    Validation: {"checks": lambda ax, found: plans.draw_checks(ax, *_validation_checks(found))},
    TrainingPlan: {"plan": plans.draw_plan},
    PlanOutcome: {"outcome": plans.draw_outcome},
    ExchangeReport: {
        "uploads": exchange_figures.draw_uploads,
        "devices": exchange_figures.draw_devices,
    },
    TestbedReport: {
        "uploads": testbed_figures.draw_uploads,
        "errors": testbed_figures.draw_errors,
    },
    ConstantsReport: {"diversities": plans.draw_diversities, "pl_ratios": plans.draw_pl_ratios},
    SweepResult: {"sweep": lambda ax, found, **o: sweeps.draw_sweep(ax, found.table, **o)},
    SweepTable: {"sweep": sweeps.draw_sweep},
    Reproduction: {"panel": paper.draw_panel},
}


def print_result(out: Console, result: Showable, **options: Any) -> None:
    """Tells a result on a console."""
    TABLES[type(result)](out, result, **options)


def summary(result: Showable, **options: Any) -> str:
    """A result in words and tables."""
    text = io.StringIO()
    print_result(Console(file=text, width=WIDTH, markup=False, highlight=False), result, **options)
    return text.getvalue().strip("\n")


def plot(
    result: Showable,
    path: str | Path | None = None,
    ax: Any = None,
    panel: str | None = None,
    **options: Any,
) -> Any:
    """A result as a matplotlib Figure, written to `path` if given; or one panel of it on axes of
    one's own, which are given back."""
    if ax is not None:
        if path is not None:
            raise BadInput(
                "what is drawn on axes of your own goes with your figure: leave `path` out"
            )
        _draw_panel(ax, result, panel, options)
        return ax
    with style.drawing():
        if panel is None:
            figure = FIGURES[type(result)](result, **options)
        else:
            figure = style.new_figure(6.4, 4.2)
            _draw_panel(figure.subplots(), result, panel, options)
        if path is not None:
            style.save_figure(figure, path)
    return figure


def _draw_panel(ax: Any, result: Showable, name: str | None, options: dict[str, Any]) -> None:
    """Draws one panel, with the names of its lines inside."""
    panels = _panels(result)
    if name is not None and name not in panels:
        raise BadInput(f"there is no panel {name!r} of this result: choose of {', '.join(panels)}")
    panels[name or next(iter(panels))](ax, result, **options)
    style.legend_inside(ax)
