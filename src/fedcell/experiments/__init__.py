"""Sweeps: experiments as data, each training made once and kept."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.experiments.executors import DaskCluster as DaskCluster
    from fedcell.experiments.executors import LocalProcesses as LocalProcesses
    from fedcell.experiments.experiment import Experiment as Experiment
    from fedcell.experiments.experiment import load_experiment as load_experiment
    from fedcell.experiments.league.league import League as League
    from fedcell.experiments.league.league import Limit as Limit
    from fedcell.experiments.league.run import Contest as Contest
    from fedcell.experiments.league.run import compare_selectors as compare_selectors
    from fedcell.experiments.result import SweepResult as SweepResult
    from fedcell.experiments.seeds import SeedsEstimate as SeedsEstimate
    from fedcell.experiments.seeds import SeedsResult as SeedsResult
    from fedcell.experiments.seeds import load_seeds as load_seeds
    from fedcell.experiments.seeds import run_seeds as run_seeds
    from fedcell.experiments.statistics import RoundsEstimate as RoundsEstimate
    from fedcell.experiments.store import Store as Store
    from fedcell.experiments.sweep import SweepProgress as SweepProgress
    from fedcell.experiments.sweep import run_sweep as run_sweep
    from fedcell.experiments.sweep import run_until_precise as run_until_precise
    from fedcell.experiments.table import SweepTable as SweepTable
    from fedcell.experiments.table import load_sweep as load_sweep

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.experiments.executors": ["DaskCluster", "LocalProcesses"],
        "fedcell.experiments.experiment": ["Experiment", "load_experiment"],
        "fedcell.experiments.league.league": ["League", "Limit"],
        "fedcell.experiments.league.run": ["Contest", "compare_selectors"],
        "fedcell.experiments.result": ["SweepResult"],
        "fedcell.experiments.seeds": [
            "SeedsEstimate",
            "SeedsResult",
            "load_seeds",
            "run_seeds",
        ],
        "fedcell.experiments.statistics": ["RoundsEstimate"],
        "fedcell.experiments.store": ["Store"],
        "fedcell.experiments.sweep": ["SweepProgress", "run_sweep", "run_until_precise"],
        "fedcell.experiments.table": ["SweepTable", "load_sweep"],
    },
)
