"""Allocation policies: band shares a_j, CPU frequencies f_j and transmit powers p_j of a round.

A policy is any callable from a `Problem` to a `Schedule`; `check_policy` tests one.
"""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.network.certificate import certify as certify
    from fedcell.network.policies.base import Broadcast as Broadcast
    from fedcell.network.policies.base import Policy as Policy
    from fedcell.network.policies.exact import EqualFinish as EqualFinish
    from fedcell.network.policies.exact import OptimalStaged as OptimalStaged
    from fedcell.network.policies.names import policy_by_name as policy_by_name
    from fedcell.network.policies.optimal import Optimal as Optimal
    from fedcell.network.policies.optimal_power import OptimalPower as OptimalPower
    from fedcell.network.policies.paper import Distributed as Distributed
    from fedcell.network.policies.paper import Even as Even
    from fedcell.network.policies.testing import check_policy as check_policy
    from fedcell.network.round import Certificate as Certificate
    from fedcell.network.round import Cost as Cost
    from fedcell.network.round import Problem as Problem
    from fedcell.network.round import Schedule as Schedule
    from fedcell.network.round import make_problem as make_problem
    from fedcell.network.round import price as price

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.network.certificate": ["certify"],
        "fedcell.network.policies.base": ["Broadcast", "Policy"],
        "fedcell.network.policies.exact": ["EqualFinish", "OptimalStaged"],
        "fedcell.network.policies.names": ["policy_by_name"],
        "fedcell.network.policies.optimal": ["Optimal"],
        "fedcell.network.policies.optimal_power": ["OptimalPower"],
        "fedcell.network.policies.paper": ["Distributed", "Even"],
        "fedcell.network.policies.testing": ["check_policy"],
        "fedcell.network.round": [
            "Certificate",
            "Cost",
            "Problem",
            "Schedule",
            "make_problem",
            "price",
        ],
    },
)
