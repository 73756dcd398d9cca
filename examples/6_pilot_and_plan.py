"""Plan clients and steps for your own learner: its pilot, its law, and the plan.

The learner is that of example 4, linear regression in NumPy. A pilot makes one for every K, E_l
and seed that it tries.
"""

import runpy
from pathlib import Path
from typing import Any

from fedcell import Compute, GivenLaw, Region, RoundPlan, Scenario, plan_training, run_pilot

Regression: Any = runpy.run_path(str(Path(__file__).with_name("4_own_learner.py")))["Regression"]
scenario = Scenario(plan=RoundPlan(cohort=5, local_steps=10)).using(
    clients={"count": 30},
    cell={"broadcast_time": 0.01},
    task={"model_bits": 160, "cycles_per_sample": 30, "samples_per_step": "batch"},
)


def learner(world: Scenario, seed: int) -> Any:
    return Regression(30, steps=world.plan.local_steps, rate=0.005, seed=seed)


pilot = run_pilot(
    scenario,
    budget="5s",
    target=0.1,
    region=Region(steps=(1, 40)),
    compute=Compute(learner=learner),
)
law = pilot.fit()
print(f"{len(pilot.trials)} runs of {law.settings} settings; the law on the whole:")
for row in law.rows():
    print(f"{row['coefficient']}: {row['value']:.3g}")

plan = plan_training(scenario, pilot)
print(f"plan: K = {plan.cohort}, E_l = {plan.local_steps}, {plan.rounds} rounds")

by_hand = plan_training(
    scenario, GivenLaw(mixing=5, drift=0.1, start=100), region=Region(steps=(1, 40))
)
print(f"with a law by hand: K = {by_hand.cohort}, E_l = {by_hand.local_steps}")
