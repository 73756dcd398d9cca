"""Partition your own arrays over clients with skewed labels, and train over the cell."""

import numpy as np

from fedcell import Learning, PartitionSpec, Scenario
from fedcell.learning import Dataset, prepare_training
from fedcell.simulation import simulate

# Three clouds of points; replace x and y by your data.
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 3000)
x = rng.normal(size=(3000, 12)) + 2 * np.eye(3, 12)[y]
data = Dataset.of(x_train=x[:2500], y_train=y[:2500], x_test=x[2500:], y_test=y[2500:])

scenario = Scenario(
    learning=Learning(
        model="logistic",
        rate=0.1,
        partition=PartitionSpec(kind="inner-dirichlet", alpha=0.3, sizes="lognormal"),
    )
).using(clients={"count": 40}, plan={"cohort": 8, "local_steps": 5}, cell={"loss_rate": 0.2})

setup = prepare_training(scenario, seed=1, data=data)
ledger = simulate(setup.scenario, "optimal", setup.learner(), rounds=30, seed=1)

print(f"clients hold {setup.partition.sizes.min()} to {setup.partition.sizes.max()} samples")
print(f"training loss {ledger.train_loss[0]:.3f} -> {ledger.train_loss[-1]:.3f}")
print(f"test accuracy {ledger.accuracy[-1]:.1%} after {ledger.total_duration[-1]:.2f} s")
most = ledger.totals.energy.argmax()
print(f"client {most} paid most: {1e3 * ledger.totals.energy[most]:.2f} mJ")
