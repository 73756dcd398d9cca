"""Map each class of result to its figure and its panels, and draw them."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable
from fedcell.deploy.exchanges import ExchangeReport
from fedcell.deploy.testbed.uploads import TestbedReport
from fedcell.experiments.league.league import League
from fedcell.experiments.result import SweepResult
from fedcell.experiments.seeds import SeedsResult
from fedcell.experiments.table import SweepTable
from fedcell.learning.partition_report import PartitionReport
from fedcell.network.compare import Comparison, CostSweep
from fedcell.network.ledger import Ledger
from fedcell.network.physics.discrete.curve import LinkCurve
from fedcell.network.schedule import ScheduledRound
from fedcell.paper.reproduce import Reproduction
from fedcell.planning.choice.plan import PlanOutcome, TrainingPlan
from fedcell.planning.constants import ConstantsReport
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.validation import Validation
from fedcell.scenario.measured_device.fit import FittedDevice
from fedcell.simulation.summary import RunResult

from .figures import devices as device_figures
from .figures import exchanges as exchange_figures
from .figures import links, paper, partitions, plans, rounds, runs, style, sweeps
from .figures import testbeds as testbed_figures
from .figures.curves import RunsDrawing

Look = TypeVar("Look")


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
    runs_done = result.finished
    deliver = next((each.outcome.deliver for each in runs_done), None)
    return RunsDrawing([each.ledgers for each in runs_done], result.target, deliver=deliver)


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
    League: sweeps.league_figure,
    Reproduction: paper.panel_figure,
    ExchangeReport: exchange_figures.exchanges_figure,
    FittedDevice: device_figures.device_figure,
    LinkCurve: links.link_figure,
    TestbedReport: testbed_figures.testbed_figure,
}


Panel = Callable[..., None]  # draws a result on axes


def _panels(result: Showable) -> Mapping[str, Panel]:
    """Return the panels that can be drawn on given axes, by name; the first is the default."""
    if isinstance(result, Ledger) and result.trained:
        return _of_runs(lambda ledger: RunsDrawing([{"this run": ledger}]))
    panels = _look_up(PANELS, result)
    if panels is None:
        raise _no_figure(result)
    return panels


def _look_up(looks: Mapping[type, Look], result: Showable) -> Look | None:
    """Return the entry of the class of a result, or of the nearest class that it inherits from."""
    return next((looks[kind] for kind in type(result).__mro__ if kind in looks), None)


def _of_runs(drawing: Callable[[Any], RunsDrawing]) -> dict[str, Panel]:
    return {
        name: lambda ax, result, draw=draw: draw(ax, drawing(result))
        for name, draw in runs.PANELS.items()
    }


def _each(draw: Panel, names: Iterable[str]) -> dict[str, Panel]:
    """Return a panel for each measure."""
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
    Validation: {"checks": lambda ax, each: plans.draw_checks(ax, *_validation_checks(each))},
    TrainingPlan: {"plan": plans.draw_plan},
    PlanOutcome: {"outcome": plans.draw_outcome},
    ExchangeReport: {
        "uploads": exchange_figures.draw_uploads,
        "devices": exchange_figures.draw_devices,
    },
    FittedDevice: {
        "power": device_figures.draw_powers,
        "seconds": device_figures.draw_time_residuals,
        "watts": device_figures.draw_power_residuals,
    },
    TestbedReport: {
        "uploads": testbed_figures.draw_uploads,
        "errors": testbed_figures.draw_errors,
    },
    ConstantsReport: {"diversities": plans.draw_diversities, "pl_ratios": plans.draw_pl_ratios},
    SweepResult: {"sweep": lambda ax, swept, **o: sweeps.draw_sweep(ax, swept.table, **o)},
    SweepTable: {"sweep": sweeps.draw_sweep},
    League: {"curves": sweeps.draw_curves, "differences": sweeps.draw_differences},
    Reproduction: {"panel": paper.draw_panel},
    LinkCurve: {"link": links.draw_link},
}


def _no_figure(result: Showable) -> BadInput:
    return BadInput(f"fedcell has no figure for a {type(result).__name__}: define its plot method")


def figure(result: Showable, **options: Any) -> Any:
    """Return the matplotlib Figure of a result, in the style that is active."""
    draw = _look_up(FIGURES, result)
    if draw is None:
        raise _no_figure(result)
    return draw(result, **options)


def plot(
    result: Showable,
    path: str | Path | None = None,
    ax: Any = None,
    panel: str | None = None,
    **options: Any,
) -> Any:
    """Return a result as a matplotlib Figure, or draw one panel of it on given axes.

    Parameters
    ----------
    result : Showable
        Any result of fedcell, or a subclass of one.
    path : str or Path, optional
        The file to write: .png, .pdf or .svg. Not with `ax`.
    ax : matplotlib Axes, optional
        The axes to draw one panel on, in your style.
    panel : str, optional
        The name of the panel; the first one where left out.
    **options
        Those of the figure of this class.

    Returns
    -------
    Figure or Axes
        `ax` where given, otherwise a new Figure.

    Raises
    ------
    BadInput
        If the result has no figure or no such panel, or there is nothing to draw.
    """
    if ax is not None:
        if path is not None:
            raise BadInput("`path` is for figures of fedcell: save that of your axes yourself")
        _draw_panel(ax, result, panel, options)
        return ax
    with style.drawing():
        if panel is None:
            drawn = figure(result, **options)
        else:
            drawn = style.new_figure(6.4, 4.2)
            _draw_panel(drawn.subplots(), result, panel, options)
        if path is not None:
            style.save_figure(drawn, path)
    return drawn


def _draw_panel(ax: Any, result: Showable, name: str | None, options: dict[str, Any]) -> None:
    """Draw one panel, with its legend inside."""
    panels = _panels(result)
    if name is not None and name not in panels:
        raise BadInput(f"this result has no panel {name!r}: choose one of {', '.join(panels)}")
    panels[name or next(iter(panels))](ax, result, **options)
    style.legend_inside(ax)
