"""Which of our policies a plan is made with: the one that makes least what the plan makes least."""

from fedcell.network.draw import draw_fleet
from fedcell.network.policies.names import NAMED
from fedcell.network.simulate import simulate_columns
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

from .unit_costs import priced_rounds

AIMS = ("cost", "duration", "energy")
SAME = 5e-3  # policies that differ by less are equally good: costs are known so well
STAGED = "optimal-staged"  # minimises C_u + C_n of every round, which is what (12) adds up


def best_policy(scenario: Scenario, aim: str, seed: int = 0, fleet: Fleet | None = None) -> str:
    """The policy that takes least at the scenario's K and E_l.

    The cost (12) is that of uploading and computing one after the other, so the policy that
    minimises it is the staged optimum and not the joint one; time and energy are looked at.
    """
    if aim == "cost":
        return STAGED
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    rounds = priced_rounds(scenario, 50)
    taken = {
        name: float(simulate_columns(scenario, fleet, name, rounds, seed)[aim].mean())
        for name in NAMED
    }
    return min(taken, key=lambda name: taken[name])
