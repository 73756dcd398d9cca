"""Plan, simulate and run federated learning over wireless networks."""

__version__ = "0.1.0"

from fedcell.core.errors import BadInput, FedcellError
from fedcell.learning.data.dataset import Dataset, load_data
from fedcell.learning.gradients import diversity
from fedcell.learning.learner import Learner, Scores
from fedcell.learning.partition import Partition, Split, split
from fedcell.learning.setup import Material, gather_material, prepare
from fedcell.network.certificate import certify
from fedcell.network.compare import compare
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.ledger import Interval, Ledger, Totals, interval, price_trace, simulate_network
from fedcell.network.policies.base import (
    Broadcast,
    Distributed,
    EqualFinish,
    Even,
    OptimalStaged,
    Policy,
    broadcast,
    mean_freq,
)
from fedcell.network.policies.names import named
from fedcell.network.policies.optimal import Optimal
from fedcell.network.round import Certificate, Cost, Problem, Schedule, pose, price
from fedcell.network.roundfile import load_round
from fedcell.network.trace import Fleet, Trace
from fedcell.planning.fit import Fit
from fedcell.planning.grid import Chart, chart
from fedcell.planning.limits import Limits, NoPlan
from fedcell.planning.pilotfile import Pilot, load_pilot
from fedcell.planning.plan import Proposal, propose
from fedcell.planning.theory import Bound, Constants, UnitCosts, effective_cohort
from fedcell.scenario.arrays import ClientTable, Gains
from fedcell.scenario.learning import Learning
from fedcell.scenario.load import load_scenario
from fedcell.scenario.tables import Cell, Clients, Plan, Scenario, Task
from fedcell.simulation.train import State, simulate

__all__ = [
    "BadInput",
    "Bound",
    "Broadcast",
    "Cell",
    "Certificate",
    "Chart",
    "ClientTable",
    "Clients",
    "Constants",
    "Cost",
    "Dataset",
    "Distributed",
    "EqualFinish",
    "Even",
    "FedcellError",
    "Fit",
    "Fleet",
    "Gains",
    "Interval",
    "Learner",
    "Learning",
    "Ledger",
    "Limits",
    "Material",
    "NoPlan",
    "Optimal",
    "OptimalStaged",
    "Partition",
    "Pilot",
    "Plan",
    "Policy",
    "Problem",
    "Proposal",
    "Scenario",
    "Schedule",
    "Scores",
    "Split",
    "State",
    "Task",
    "Totals",
    "Trace",
    "UnitCosts",
    "broadcast",
    "certify",
    "chart",
    "compare",
    "diversity",
    "draw_fleet",
    "draw_trace",
    "effective_cohort",
    "gather_material",
    "interval",
    "load_data",
    "load_pilot",
    "load_round",
    "load_scenario",
    "mean_freq",
    "named",
    "pose",
    "prepare",
    "price",
    "price_trace",
    "propose",
    "simulate",
    "simulate_network",
    "split",
]
