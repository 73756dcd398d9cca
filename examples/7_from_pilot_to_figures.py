"""Pilot, plan, run and compare from Python, with every result as table and figure.

The same as the commands `fedcell pilot`, `plan`, `run` and `cost --figure`. Results print
themselves, have `.summary()`, `.plot(path)`, `.rows()` and, with pandas, `.to_pandas()`.
"""

from pathlib import Path
from tempfile import mkdtemp

from fedcell import Limits, TrainingPlan, load_scenario, plan_training, run, run_pilot
from fedcell.network import sweep_costs

scenario = load_scenario("digits")
folder = Path(mkdtemp(prefix="fedcell-"))  # or your own folder

pilot = run_pilot(scenario, budget="5s", path=folder / "pilot.json", name="digits")
print(pilot)

plan = plan_training(scenario, pilot, limits=Limits(deadline=120.0)).named("digits")
plan.save(folder / "plan.json")
plan.plot(folder / "plan.png")
print(plan)

plan = TrainingPlan.load(folder / "plan.json")  # later, or on another machine
result = run(plan.apply_to(), ["optimal", "even"], folder=folder / "run")
result.plot(folder / "loss.png")
print(result.ledgers["optimal"])
print(plan.compare(result).summary())

sweep = sweep_costs(load_scenario("cnn"), ["even", "optimal"], rounds=20)
sweep.plot(folder / "cost.png")
print(sweep)
print(sorted(file.name for file in folder.rglob("*.png")))
