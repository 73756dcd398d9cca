"""Network and learning joined: one training, priced under every policy."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.simulation.compute import Compute as Compute
    from fedcell.simulation.compute import Observer as Observer
    from fedcell.simulation.folder.listing import RunEntry as RunEntry
    from fedcell.simulation.folder.listing import list_runs as list_runs
    from fedcell.simulation.folder.load import load_run as load_run
    from fedcell.simulation.folder.load import load_runs as load_runs
    from fedcell.simulation.model import TrainedModel as TrainedModel
    from fedcell.simulation.model import load_model as load_model
    from fedcell.simulation.summary import PlanChange as PlanChange
    from fedcell.simulation.summary import PolicyOutcome as PolicyOutcome
    from fedcell.simulation.summary import RoundReport as RoundReport
    from fedcell.simulation.summary import RunResult as RunResult
    from fedcell.simulation.summary import RunSummary as RunSummary
    from fedcell.simulation.summary import RunTotals as RunTotals
    from fedcell.simulation.trackers import Tracker as Tracker
    from fedcell.simulation.trackers import TrackerBackend as TrackerBackend
    from fedcell.simulation.trackers import check_tracker as check_tracker
    from fedcell.simulation.trackers import measures as measures
    from fedcell.simulation.train import simulate as simulate

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.simulation.compute": ["Compute", "Observer"],
        "fedcell.simulation.folder.listing": ["RunEntry", "list_runs"],
        "fedcell.simulation.folder.load": ["load_run", "load_runs"],
        "fedcell.simulation.model": ["TrainedModel", "load_model"],
        "fedcell.simulation.summary": [
            "PlanChange",
            "PolicyOutcome",
            "RoundReport",
            "RunResult",
            "RunSummary",
            "RunTotals",
        ],
        "fedcell.simulation.trackers": [
            "Tracker",
            "TrackerBackend",
            "check_tracker",
            "measures",
        ],
        "fedcell.simulation.train": ["simulate"],
    },
)
