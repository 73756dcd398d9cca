"""Quadratic clients to a target, in cells where one thing is dear."""

from fedcell import GivenLaw, Scenario

QUADRATICS = Scenario().using(
    clients={"count": 20},
    plan={"cohort": 10, "local_steps": 2, "rounds": 200},
    task={"batch_size": 10, "samples_per_step": "batch"},
    learning={"model": "quadratic-common", "rate": 0.02, "target": 0.6},
)
SLOW = QUADRATICS.using(cell={"broadcast_time": 30.0})  # a round costs as much, whatever is done
NARROW = QUADRATICS.using(cell={"bandwidth": 2e5})  # every upload counts

# Steps are dear, and a law says that they are worth nothing: a change to few of them is expected to
# save half of the cost, and would multiply it.
MISLED = QUADRATICS.using(
    plan={"cohort": 10, "local_steps": 16},
    task={"cycles_per_sample": 1e6},
    cell={"broadcast_time": 0.3},
    learning={"rate": 0.0025},
)
STEPS_ARE_WORTHLESS = GivenLaw(mixing=0.0, drift=0.5, start=0.0, floor=30.0)
