"""How many clients and steps for a learner of your own: a pilot of it, its law, and the plan.

The learner is that of example 4, linear regression in NumPy. A pilot asks for one at every K, E_l
and seed that it tries.
"""

import runpy
from pathlib import Path

from fedcell import Bound, Plan, Scenario, chart, propose
from fedcell.planning.fit import fit
from fedcell.planning.pilot import Conductor, conduct, design, observe, seeds_of

Regression = runpy.run_path(str(Path(__file__).with_name("4_own_learner.py")))["Regression"]
scenario = Scenario(plan=Plan(cohort=5, local_steps=10)).using(
    clients={"count": 30},
    cell={"broadcast_time": 0.01},
    task={"model_bits": 160, "cycles_per_sample": 30, "samples_per_step": "batch"},
)


def learner(world: Scenario, seed: int) -> Regression:
    return Regression(30, steps=world.plan.local_steps, rate=0.005, seed=seed)


conductor = Conductor(scenario=scenario, target=0.1, rounds=200, learner=learner)
trials = list(conduct(conductor, design(scenario), seeds_of(0)[:4], budget=60))
law = fit(observe(trials, target=0.1, kind="independent"))
print(f"{law.runs} runs, {law.blocks} seeds; the law that predicts best: {law.form}")
for name, part in law.coefficients().items():
    print(f"{name}: {part['value']:.3g} ({part['low']:.3g} to {part['high']:.3g})")

plan = propose(chart(scenario, law, policy="optimal", most_steps=40))
k, e, rounds = int(plan.cohort.value), int(plan.local_steps.value), plan.rounds
print(
    f"plan: K = {k}, E_l = {e}, {rounds.value:.0f} rounds ({rounds.low:.0f} to {rounds.high:.0f})"
)

by_hand = propose(chart(scenario, Bound(mixing=5, drift=0.1, start=100), most_steps=40))
print(f"with a law by hand: K = {by_hand.cohort.value}, E_l = {by_hand.local_steps.value}")
