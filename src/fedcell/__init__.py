"""Plan, simulate and run federated learning over wireless networks."""

__version__ = "0.1.0"

from .bound import Bound, Constants, UnitCosts, effective_cohort
from .certificate import certify
from .chart import Chart, chart
from .draw import draw_fleet, draw_trace
from .errors import BadInput, FedcellError
from .files import load_scenario
from .fit import Fit
from .learning.data import Dataset, load_data
from .learning.gradients import diversity
from .learning.learner import Learner, Scores
from .learning.partition import Partition, Split, split
from .learning.prepare import Material, gather_material, prepare
from .learning.settings import Learning
from .ledger import Interval, Ledger, Totals, interval, price_trace, simulate_network
from .limits import Limits, NoPlan
from .measured import ClientTable, Gains
from .optimal import Optimal
from .pilotfile import Pilot, load_pilot
from .plan import Proposal, propose
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
