"""Plan, simulate and run federated learning over wireless networks.

Declare a world (`Scenario`, `load_scenario`), plan (`run_pilot`, `plan_training`), run (`run`,
`run_seeds`, `run_adaptive`) and compare (`compare`, `run_sweep`). The rest is in namespaces:
`fedcell.policies`, `selectors`, `network`, `learning`, `simulation`, `experiments`, `planning`,
`deploy`, `errors`.
"""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach
from fedcell.core.version import __version__ as __version__

if TYPE_CHECKING:
    from fedcell import deploy as deploy
    from fedcell import errors as errors
    from fedcell import experiments as experiments
    from fedcell import learning as learning
    from fedcell import network as network
    from fedcell import planning as planning
    from fedcell import policies as policies
    from fedcell import selectors as selectors
    from fedcell import simulation as simulation
    from fedcell.core.errors import FedcellError as FedcellError
    from fedcell.core.errors import FedcellWarning as FedcellWarning
    from fedcell.experiments.experiment import load_experiment as load_experiment
    from fedcell.experiments.seeds import load_seeds as load_seeds
    from fedcell.experiments.seeds import run_seeds as run_seeds
    from fedcell.experiments.sweep import run_sweep as run_sweep
    from fedcell.experiments.table import load_sweep as load_sweep
    from fedcell.network.compare import compare as compare
    from fedcell.network.schedule import schedule_round as schedule_round
    from fedcell.planning.adaptive.run import Adaptation as Adaptation
    from fedcell.planning.adaptive.run import run_adaptive as run_adaptive
    from fedcell.planning.choice.limits import Limits as Limits
    from fedcell.planning.choice.plan import TrainingPlan as TrainingPlan
    from fedcell.planning.choice.planfile import load_plan as load_plan
    from fedcell.planning.law.given import GivenLaw as GivenLaw
    from fedcell.planning.pilot.pilotfile import load_pilot as load_pilot
    from fedcell.planning.pilot.run import run_pilot as run_pilot
    from fedcell.planning.planner import plan_training as plan_training
    from fedcell.planning.setting import Region as Region
    from fedcell.scenario.arrays import ClientTable as ClientTable
    from fedcell.scenario.arrays import Gains as Gains
    from fedcell.scenario.learning import Learning as Learning
    from fedcell.scenario.load import load_scenario as load_scenario
    from fedcell.scenario.partition import PartitionSpec as PartitionSpec
    from fedcell.scenario.save import save_scenario as save_scenario
    from fedcell.scenario.scenario import Scenario as Scenario
    from fedcell.scenario.tables import Cell as Cell
    from fedcell.scenario.tables import Clients as Clients
    from fedcell.scenario.tables import RoundPlan as RoundPlan
    from fedcell.scenario.tables import Task as Task
    from fedcell.scenario.target import Target as Target
    from fedcell.simulation.compute import Compute as Compute
    from fedcell.simulation.compute import Observer as Observer
    from fedcell.simulation.folder.load import load_run as load_run
    from fedcell.simulation.model import load_model as load_model
    from fedcell.simulation.run import run as run

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.core.errors": ["FedcellError", "FedcellWarning"],
        "fedcell.experiments.experiment": ["load_experiment"],
        "fedcell.experiments.seeds": ["load_seeds", "run_seeds"],
        "fedcell.experiments.sweep": ["run_sweep"],
        "fedcell.experiments.table": ["load_sweep"],
        "fedcell.network.compare": ["compare"],
        "fedcell.network.schedule": ["schedule_round"],
        "fedcell.planning.adaptive.run": ["Adaptation", "run_adaptive"],
        "fedcell.planning.choice.limits": ["Limits"],
        "fedcell.planning.choice.plan": ["TrainingPlan"],
        "fedcell.planning.choice.planfile": ["load_plan"],
        "fedcell.planning.law.given": ["GivenLaw"],
        "fedcell.planning.pilot.pilotfile": ["load_pilot"],
        "fedcell.planning.pilot.run": ["run_pilot"],
        "fedcell.planning.planner": ["plan_training"],
        "fedcell.planning.setting": ["Region"],
        "fedcell.scenario.arrays": ["ClientTable", "Gains"],
        "fedcell.scenario.learning": ["Learning"],
        "fedcell.scenario.load": ["load_scenario"],
        "fedcell.scenario.partition": ["PartitionSpec"],
        "fedcell.scenario.save": ["save_scenario"],
        "fedcell.scenario.scenario": ["Scenario"],
        "fedcell.scenario.tables": ["Cell", "Clients", "RoundPlan", "Task"],
        "fedcell.scenario.target": ["Target"],
        "fedcell.simulation.compute": ["Compute", "Observer"],
        "fedcell.simulation.folder.load": ["load_run"],
        "fedcell.simulation.model": ["load_model"],
        "fedcell.simulation.run": ["run"],
    },
    namespaces=[
        "deploy",
        "errors",
        "experiments",
        "learning",
        "network",
        "planning",
        "policies",
        "selectors",
        "simulation",
    ],
)
