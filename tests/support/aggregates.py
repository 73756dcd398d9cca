"""Quadratic clients."""

import numpy as np

from fedcell import Clients, RoundPlan, Scenario
from fedcell.learning.engines.quadratic import Quadratics
from fedcell.learning.learner import LocalTraining
from fedcell.network import draw_fleet, draw_trace
from fedcell.scenario.learning import Quadratic

SIZES = np.array([50, 100, 150, 200, 500])


SHARES = SIZES / SIZES.sum()


def quadratics(apart=True, count=8, noise=0.0, **training):
    given = {"batch": 10, "steps": 5, "epochs": None, "rate": 0.1} | training
    sizes = np.arange(1, count + 1) * 40
    how = Quadratic(dimension=4, noise=noise)
    return Quadratics.draw(how, apart, sizes, LocalTraining(**given))


def world(selection, **more):
    return Scenario(
        clients=Clients(count=5, sizes=SIZES.astype(float)),
        plan=RoundPlan(cohort=3, rounds=20_000, selection=selection),
        **more,
    )


def arrivals(scenario, rounds=20_000):
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, rounds)
    for i in range(rounds):
        here = (trace.cohort[i] >= 0) & ~trace.lost[i]
        yield trace.cohort[i][here].tolist(), trace.count[i][here].tolist()


def in_the_mean(models):
    """A mean over rounds, and the error that it may have."""
    models = np.array(models, float)
    return models.mean(0), 4 * models.std(0).max() / np.sqrt(len(models))
