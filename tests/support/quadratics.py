"""Quadratic clients to a target, in cells where one thing is dear."""

from fedcell import Scenario

QUADRATICS = Scenario().using(
    clients={"count": 20},
    plan={"cohort": 10, "local_steps": 2, "rounds": 200},
    task={"batch_size": 10, "samples_per_step": "batch"},
    learning={"model": "quadratic-common", "rate": 0.02, "target": 0.6},
)
SLOW = QUADRATICS.using(cell={"broadcast_time": 30.0})  # a round costs as much, whatever is done
NARROW = QUADRATICS.using(cell={"bandwidth": 2e5})  # every upload counts
