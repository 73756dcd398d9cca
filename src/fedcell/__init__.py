"""Plan, simulate and run federated learning over wireless networks."""

from .certificate import certify
from .draw import draw_fleet, draw_trace
from .errors import BadInput, FedcellError
from .files import load_scenario
from .ledger import Interval, Ledger, interval, price_trace, simulate_network
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
    "Distributed",
    "EqualFinish",
    "Even",
    "FedcellError",
    "Fleet",
    "Gains",
    "Interval",
    "Ledger",
    "Optimal",
    "OptimalStaged",
    "Plan",
    "Policy",
    "Problem",
    "Scenario",
    "Schedule",
    "Task",
    "Trace",
    "broadcast",
    "certify",
    "compare",
    "draw_fleet",
    "draw_trace",
    "interval",
    "load_round",
    "load_scenario",
    "mean_freq",
    "named",
    "pose",
    "price",
    "price_trace",
    "simulate_network",
]
