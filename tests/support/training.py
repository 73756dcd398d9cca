"""Trainings over rounds that are drawn for them."""

from collections.abc import Iterator
from typing import Any

from fedcell import Scenario
from fedcell.learning import Learner, prepare_training
from fedcell.learning.engines.quadratic import Quadratics
from fedcell.network import draw_fleet, draw_trace
from fedcell.simulation.state import State
from fedcell.simulation.train import train_rounds


def states(
    scenario: Scenario, learner: Learner, rounds: int, seed: int = 0, **options: Any
) -> Iterator[State]:
    """The state before the first round, and after each."""
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, rounds, seed)
    return train_rounds(scenario, learner, fleet, trace, **options)


def quadratics_of(scenario: Scenario, seed: int = 0) -> Quadratics:
    """The learner of a scenario that has quadratic clients."""
    learner = prepare_training(scenario, seed).learner()
    assert isinstance(learner, Quadratics)
    return learner
