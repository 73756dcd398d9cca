"""Plan, simulate and run federated learning over wireless networks."""

from .certificate import certify
from .draw import draw_fleet, draw_trace
from .errors import BadInput, FedcellError
from .files import load_scenario
from .learning.data import Dataset, load_data
from .learning.learner import Learner, Scores
from .learning.partition import Partition, Split, split
from .learning.prepare import Material, gather_material, prepare
from .learning.settings import Learning
from .ledger import Interval, Ledger, Totals, interval, price_trace, simulate_network
from .measured import ClientTable, Gains
from .optimal import Optimal
from .policies import named
from .policy import (
    Broadcast,
    Distributed,
    EqualFinish,
    Even,
    OptimalStaged,
    Policy,
    broadcast,
    mean_freq,
)
from .round import Certificate, Cost, Problem, Schedule, pose, price
from .roundfile import load_round
from .scenario import Cell, Clients, Plan, Scenario, Task
from .simulate import State, simulate
from .survey import compare
from .trace import Fleet, Trace

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "Broadcast",
    "Cell",
    "Certificate",
    "ClientTable",
    "Clients",
    "Cost",
    "Dataset",
    "Distributed",
    "EqualFinish",
    "Even",
    "FedcellError",
    "Fleet",
    "Gains",
    "Interval",
    "Learner",
    "Learning",
    "Ledger",
    "Material",
    "Optimal",
    "OptimalStaged",
    "Partition",
    "Plan",
    "Policy",
    "Problem",
    "Scenario",
    "Schedule",
    "Scores",
    "Split",
    "State",
    "Task",
    "Totals",
    "Trace",
    "broadcast",
    "certify",
    "compare",
    "draw_fleet",
    "draw_trace",
    "gather_material",
    "interval",
    "load_data",
    "load_round",
    "load_scenario",
    "mean_freq",
    "named",
    "pose",
    "prepare",
    "price",
    "price_trace",
    "simulate",
    "simulate_network",
    "split",
]
