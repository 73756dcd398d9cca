"""Check what any policy must satisfy: call `check_policy(policy)` in your tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcell.core.streams import Purpose, uniform
from fedcell.network.certificate import check_schedule
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.round import Problem, Schedule, make_problem, price
from fedcell.scenario.scenario import Scenario

from .base import Broadcast, Policy
from .names import as_policy
from .optimal import Optimal
from .optimal_power import OptimalPower


def check_policy(policy: Policy, rounds: int = 20, seed: int = 0) -> None:
    """Check a policy on rounds of several kinds.

    Shares are positive and sum to at most one, frequencies are within bounds, permuting the
    clients permutes the schedule, a round alone is scheduled as in a batch, and the objective (22)
    is not below the optimum.

    Parameters
    ----------
    policy : Policy
        A callable from a Problem to a Schedule, or a class of one.
    rounds : int
        Rounds of each kind.
    seed : int
        Random seed of the rounds.

    Raises
    ------
    AssertionError, BadInput
        With the broken property, and the kind of rounds.

    Examples
    --------
    >>> check_policy(OptimalStaged())
    """
    for name, problem in sample_problems(rounds, seed).items():
        answer = as_policy(policy, Broadcast.among(problem))
        schedule = answer(problem)
        check_schedule(problem, schedule)

        shuffled = (..., uniform(Purpose.SELECTION, seed, range(1), problem.clients)[0].argsort())
        if not _same(answer(problem[shuffled]), schedule, shuffled):
            raise AssertionError(f"{name}: the order of the clients changes their schedule")
        for t in range(min(3, rounds)):
            if not _same(answer(problem[t]), schedule, t):
                raise AssertionError(f"{name}: round {t} alone is not scheduled as in a batch")
        reached = price(problem, schedule).objective
        optimum = (Optimal() if schedule.power is None else OptimalPower())(problem)
        best = price(problem, optimum).objective
        if not (reached >= best * (1 - 1e-9)).all():
            raise AssertionError(f"{name}: an objective below the optimum of (22) cannot be")


def sample_problems(rounds: int = 20, seed: int = 0) -> dict[str, Problem]:
    """Return rounds of several kinds by name: light and heavy uploads, tight bounds, one client."""
    settings: dict[str, dict[str, dict[str, Any]]] = {
        "the paper's numbers": {},
        "a heavy upload": {"task": {"model_bits": 3e7}, "clients": {"spread": 0.5}},
        "tight frequency bounds": {"clients": {"freq_min": 4e8, "freq_max": 5e8, "spread": 0.5}},
        "fixed frequencies": {"clients": {"freq_min": 4e8, "freq_max": 4e8}},
        "clients near and far": {"cell": {"distance": (20.0, 400.0)}},
        "free energy": {"task": {"energy_weight": 0.0}},
        "alike clients": {"clients": {"spread": 0.0}},
        "one client": {"plan": {"cohort": 1}},
        "many clients": {"plan": {"cohort": 60}},
    }
    problems = {}
    for name, changes in settings.items():
        scenario = Scenario().using(**changes)
        fleet = draw_fleet(scenario, seed)
        problems[name] = make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds, seed))
    return problems


def _same(one: Schedule, other: Schedule, where: Any) -> bool:
    return bool(
        np.allclose(one.share, other.share[where], rtol=1e-6, atol=0)
        and np.allclose(one.freq, other.freq[where], rtol=1e-6, atol=0)
    )
