"""Map each class of result to its table, and print it as text or HTML.

A subclass of a result is shown like the class that it inherits from. A `Showable` of another
package is printed as a table of its `rows()`. Classes and tables are named here, not imported: who
prints a plan need not load federations. Figures are in `show.drawing`.
"""

import io
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from rich.console import Console

from fedcell.core.showing import Showable

from .tables.console import WIDTH, HtmlConsole, print_rows

# Classes below `fedcell`, and what prints them below `fedcell.show.tables`.
TABLES: Mapping[str, str] = {
    "network.schedule.ScheduledRound": "rounds.print_schedule",
    "network.compare.Comparison": "rounds.print_comparison",
    "network.compare.CostSweep": "rounds.print_sweep",
    "network.ledger.Ledger": "rounds.print_ledger",
    "network.physics.discrete.curve.LinkCurve": "catalogue.print_link",
    "simulation.summary.RunResult": "runs.print_run",
    "experiments.seeds.SeedsResult": "runs.print_seeds",
    "learning.partition_report.PartitionReport": "runs.print_partition",
    "planning.pilot.pilot.Pilot": "pilots.print_pilot",
    "planning.law.fitted.FittedLaw": "pilots.print_law",
    "planning.pilot.validation.Validation": "pilots.print_validation",
    "planning.choice.plan.TrainingPlan": "plans.print_plan",
    "planning.choice.plan.PlanOutcome": "plans.print_outcome",
    "planning.constants.ConstantsReport": "pilots.print_constants",
    "experiments.result.SweepResult": "sweeps.print_sweep_result",
    "experiments.table.SweepTable": "sweeps.print_sweep_table",
    "experiments.league.league.League": "leagues.print_league",
    "paper.reproduce.Reproduction": "sweeps.print_reproduction",
    "deploy.exchanges.ExchangeReport": "exchanges.print_exchanges",
    "deploy.testbed.uploads.TestbedReport": "testbeds.print_testbed",
    "scenario.measured_device.fit.FittedDevice": "devices.print_fitted_device",
}


def _table(kind: type) -> Callable[..., None]:
    """Return what prints a class of results, or the nearest class that it inherits from."""
    for each in kind.__mro__:
        package, _, name = f"{each.__module__}.{each.__qualname__}".partition(".")
        if package == "fedcell" and name in TABLES:
            module, _, function = TABLES[name].rpartition(".")
            found: Callable[..., None] = getattr(
                import_module(f"fedcell.show.tables.{module}"), function
            )
            return found
    return print_rows


def print_result(out: Console, result: Showable, **options: Any) -> None:
    """Print a result on a console: its own tables, or else a table of its rows."""
    _table(type(result))(out, result, **options)


def summary(result: Showable, **options: Any) -> str:
    """Return a result as text: sentences and tables.

    Parameters
    ----------
    result : Showable
        Any result of fedcell, a subclass of one, or a class of yours with `rows()`.
    **options
        Those of the class of the result, such as `name` or `details`.

    Returns
    -------
    str
        Lines of at most 80 characters.
    """
    text = io.StringIO()
    print_result(Console(file=text, width=WIDTH, markup=False, highlight=False), result, **options)
    return text.getvalue().strip("\n")


def html(result: Showable) -> str:
    """Return the summary of a result as HTML, for notebooks; all text in it is escaped.

    A class that defines `summary` itself is shown as preformatted text.
    """
    out = HtmlConsole()
    if type(result).summary is not Showable.summary:
        out.print_preformatted(result.summary())
    else:
        print_result(out, result)
    return out.html
