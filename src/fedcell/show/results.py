"""Map each class of result to its table, and print it as text or HTML.

A subclass of a result is shown like the class that it inherits from. A `Showable` of another
package is printed as a table of its `rows()`. Figures are in `show.drawing`: importing what draws
them would double the time of printing a table.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rich.console import Console

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
from fedcell.network.schedule import ScheduledRound
from fedcell.paper.reproduce import Reproduction
from fedcell.planning.choice.plan import PlanOutcome, TrainingPlan
from fedcell.planning.constants import ConstantsReport
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.validation import Validation
from fedcell.simulation.summary import RunResult

from .tables import exchanges as exchange_tables
from .tables import leagues as league_tables
from .tables import pilots as pilot_tables
from .tables import plans as plan_tables
from .tables import rounds as round_tables
from .tables import runs as run_tables
from .tables import sweeps as sweep_tables
from .tables import testbeds as testbed_tables
from .tables.console import WIDTH, HtmlConsole, print_rows

Look = TypeVar("Look")

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
    League: league_tables.print_league,
    Reproduction: sweep_tables.print_reproduction,
    ExchangeReport: exchange_tables.print_exchanges,
    TestbedReport: testbed_tables.print_testbed,
}


def look_up(looks: Mapping[type, Look], result: Showable) -> Look | None:
    """Return the entry of the class of a result, or of the nearest class that it inherits from."""
    return next((looks[kind] for kind in type(result).__mro__ if kind in looks), None)


def print_result(out: Console, result: Showable, **options: Any) -> None:
    """Print a result on a console: its own tables, or else a table of its rows."""
    (look_up(TABLES, result) or print_rows)(out, result, **options)


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
