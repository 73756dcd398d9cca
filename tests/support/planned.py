"""A small world, its grid of plans, and brute force over it."""

import json

from fedcell import Clients, RoundPlan, Scenario
from fedcell.planning.law.given import GivenLaw

SMALL = Scenario(clients=Clients(count=8, spread=0.5), plan=RoundPlan(cohort=4)).using(
    task={"model_bits": 2e7, "samples_per_step": "batch"},
    cell={"broadcast_time": 2.0, "loss_rate": 0.2},
)


FAST = ("--policy", "even", "--steps", "1..6")


LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)


def plan_of(fedcell, *words):
    said = fedcell("plan", "paper", "--mixing", 30, "--drift", 0.5, "--start", 40, *words, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)
