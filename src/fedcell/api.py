"""What most people need, from where it lives. `fedcell` hands it on."""

from fedcell.core.errors import (
    BadFile,
    BadInput,
    DataUnavailable,
    Diverged,
    FedcellError,
    FedcellWarning,
    NoPlan,
    NotReached,
)
from fedcell.core.estimates import Estimate
from fedcell.experiments.seeds import run_seeds
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.learner import Learner
from fedcell.learning.setup import prepare_training
from fedcell.network.certificate import certify
from fedcell.network.compare import compare, sweep_costs
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.ledger import Ledger
from fedcell.network.policies.base import Broadcast, Policy
from fedcell.network.policies.exact import EqualFinish, OptimalStaged
from fedcell.network.policies.names import policy_by_name
from fedcell.network.policies.optimal import Optimal
from fedcell.network.policies.paper import Distributed, Even
from fedcell.network.policies.testing import check_policy
from fedcell.network.round import Cost, Problem, Schedule, make_problem, price
from fedcell.network.schedule import load_round, schedule_round
from fedcell.network.simulate import simulate_network
from fedcell.network.trace import Fleet, Trace
from fedcell.planning.adaptive.run import run_adaptive
from fedcell.planning.choice.limits import Limits
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.run import run_pilot
from fedcell.planning.planner import plan_training
from fedcell.scenario.arrays import ClientTable, Gains
from fedcell.scenario.learning import Learning
from fedcell.scenario.load import load_scenario
from fedcell.scenario.partition import PartitionSpec
from fedcell.scenario.save import save_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.tables import Cell, Clients, RoundPlan, Task
from fedcell.scenario.target import Target
from fedcell.simulation.folder.load import load_run
from fedcell.simulation.model import load_model
from fedcell.simulation.run import run
from fedcell.simulation.train import simulate

__all__ = [
    "BadFile",
    "BadInput",
    "Broadcast",
    "Cell",
    "ClientTable",
    "Clients",
    "Cost",
    "DataUnavailable",
    "Dataset",
    "Distributed",
    "Diverged",
    "EqualFinish",
    "Estimate",
    "Even",
    "FedcellError",
    "FedcellWarning",
    "Fleet",
    "Gains",
    "GivenLaw",
    "Learner",
    "Learning",
    "Ledger",
    "Limits",
    "NoPlan",
    "NotReached",
    "Optimal",
    "OptimalStaged",
    "PartitionSpec",
    "Policy",
    "Problem",
    "RoundPlan",
    "Scenario",
    "Schedule",
    "Target",
    "Task",
    "Trace",
    "TrainingPlan",
    "certify",
    "check_policy",
    "compare",
    "draw_fleet",
    "draw_trace",
    "load_model",
    "load_pilot",
    "load_round",
    "load_run",
    "load_scenario",
    "make_problem",
    "plan_training",
    "policy_by_name",
    "prepare_training",
    "price",
    "run",
    "run_adaptive",
    "run_pilot",
    "run_seeds",
    "save_scenario",
    "schedule_round",
    "simulate",
    "simulate_network",
    "sweep_costs",
]
