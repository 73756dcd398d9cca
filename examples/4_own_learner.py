"""Train your own learner over the cell: here linear regression in NumPy.

A learner has the data size of each client, a first model, training for the clients
of a round, and an evaluation. Models are flat vectors of 32-bit floats; randomness comes from the
round and the client, so that a run can be cut and resumed.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fedcell import RoundPlan, Scenario
from fedcell.core.streams import Purpose, stream
from fedcell.learning.learner import Scores
from fedcell.simulation import simulate


class Regression:
    """Least squares: client j has its own points, some clients far from the others."""

    def __init__(
        self, clients: int, samples: int = 60, rate: float = 0.05, steps: int = 10, seed: int = 0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(clients, samples, 5)) + rng.normal(size=(clients, 1, 5))
        noise = 0.1 * rng.normal(size=(clients, samples))
        self.y = self.x @ np.array([1.0, -2.0, 0.5, 3.0, 0.0]) + noise
        self.sizes = np.full(clients, samples)
        self.rate, self.steps = rate, steps

    def start(self) -> np.ndarray:
        return np.zeros(5, np.float32)

    def train(self, model: np.ndarray, clients: Sequence[int], round: int) -> Iterator[np.ndarray]:
        for client in clients:
            rng = stream(Purpose.BATCHES, 0, client, round)
            w = model.astype(float)
            for _ in range(self.steps):
                some = rng.integers(0, len(self.y[client]), 10)
                x, y = self.x[client, some], self.y[client, some]
                w -= self.rate * x.T @ (x @ w - y) / len(some)
            yield w.astype(np.float32)

    def evaluate(self, model: np.ndarray) -> Scores:
        return Scores(float(((self.x @ model - self.y) ** 2).mean() / 2))


scenario = Scenario(plan=RoundPlan(cohort=5, local_steps=10)).using(
    clients={"count": 30},
    task={"model_bits": 160, "cycles_per_sample": 30, "samples_per_step": "batch"},
)
ledger = simulate(scenario, "distributed", Regression(30), rounds=25, seed=0)
print(f"loss {ledger.train_loss[0]:.4f} -> {ledger.train_loss[-1]:.4f} in 25 rounds")
print(f"loss 0.01 after {ledger.rounds_to(0.01)} rounds, {ledger.duration.sum():.4f} s in all")
