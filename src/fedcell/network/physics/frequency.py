"""The best frequency of an average client, (25), with other processors than the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.round import Problem
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

from .hardware import counted_weight

HALVINGS = 200


def average_freq(kappa: Array, exponent: Array, busy_power: Array, weight: float) -> float:
    """Return the f at which (alpha - 1) l kappa f^alpha = 1 + l P_busy, in means over clients.

    A second more of training of all costs the right side, and saves the left one over f. With
    alpha = 3 and no busy power it is (25). Infinite where a lower clock saves nothing.

    >>> average_freq(np.array([5e-27]), np.array([3.0]), np.array([0.0]), 1.0) / 1e6
    464.15888336127773
    """
    second = 1 + weight * float(busy_power.mean())
    saving = weight * (exponent - 1) * kappa
    if not saving.any():
        return float("inf")
    if (exponent == exponent.flat[0]).all():
        return float((second / saving.mean()) ** (1 / exponent.flat[0]))
    low, high = -20.0, 200.0  # of log f
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        saved = float((saving * np.exp(exponent * middle)).mean())
        low, high = (middle, high) if saved < second else (low, middle)
    return float(np.exp(high))


def average_freq_in(problem: Problem, paper: float) -> float:
    """Return `average_freq` of the clients of a problem with extras, else the `paper`'s (25)."""
    if (extras := problem.extras) is None:
        return paper
    weight = problem.energy_weight * (problem.clients if extras.summed else 1)
    return average_freq(problem.kappa, extras.exponent, extras.busy_power, weight)


def average_freq_of(scenario: Scenario, fleet: Fleet, some: Any, paper: float) -> float:
    """Return `average_freq` of some clients with declared hardware, else the `paper`'s (25)."""
    if fleet.hardware is None:
        return paper
    own = fleet.hardware[some]
    weight = counted_weight(scenario)
    return average_freq(fleet.kappa[some], own.power_exponent, own.busy_power, weight)
