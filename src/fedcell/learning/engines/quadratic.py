"""Quadratic losses, for which every constant of the theory is known (DECISIONS.md, 17)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array, Floats, Ints
from fedcell.learning.learner import BETA1, BETA2, EPSILON, LocalTraining, Scores
from fedcell.scenario.learning import Quadratic


@dataclass(frozen=True, eq=False)
class Quadratics:
    """A learner with losses f_j(w) = c_j |w - h_j|^2 / 2 and noisy gradients.

    A gradient of b samples has noise of variance noise^2 / b in every coordinate.

    Attributes
    ----------
    curvature : array, (client,)
        c_j.
    home : array, (client, coordinate)
        h_j, the minimiser of each client.
    sizes : array of int, (client,)
        D_j.
    noise : float
        Standard deviation of the gradient of one sample.
    training : LocalTraining
        Batch size, steps or epochs, rate and optimiser.
    """

    curvature: Array
    home: Array
    sizes: Ints
    noise: float
    training: LocalTraining

    @classmethod
    def draw(
        cls, how: Quadratic, apart: bool, sizes: Ints, training: LocalTraining
    ) -> "Quadratics":
        """Draw clients with evenly spread curvatures, and common or separate minimisers."""
        rng, count = stream(Purpose.MODEL, training.seed, client=1), len(sizes)
        curvature = np.linspace(how.curvature_min, how.curvature_max, count)
        home = np.zeros((count, how.dimension))
        if apart:
            home = rng.standard_normal(home.shape)
            home *= how.distance / np.linalg.norm(home, axis=1, keepdims=True)
        return cls(rng.permutation(curvature), home, sizes, how.noise, training)

    def __repr__(self) -> str:
        count, dimension = self.home.shape
        return f"<Quadratics: {count} clients, dimension {dimension}, noise {self.noise:g}>"

    @property
    def shares(self) -> Array:
        """q_j, the share of each client's samples."""
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def smoothness(self) -> float:
        """L, the smoothness of every f_j."""
        return float(self.curvature.max())

    @property
    def convexity(self) -> float:
        """mu, the Polyak-Lojasiewicz constant of the global loss."""
        return float(self.shares @ self.curvature)

    @property
    def optimum(self) -> Array:
        """The minimiser of the global loss, (coordinate,)."""
        weight = self.shares * self.curvature
        return np.asarray(weight @ self.home / weight.sum())

    @property
    def least_loss(self) -> float:
        """f*, the loss (2) at the optimum."""
        return self.loss(self.optimum)

    @property
    def gradient_diversity(self) -> float:
        """lambda of Definition 1: sum q c^2 / (sum q c)^2 at every w if the minimisers are common.

        Otherwise it is unbounded near the optimum.
        """
        if np.ptp(self.home, axis=0).any():
            return float("inf")
        return float(self.shares @ self.curvature**2 / (self.shares @ self.curvature) ** 2)

    def loss(self, model: Array) -> float:
        """Return sum_j q_j f_j(w) (2)."""
        distance = ((model - self.home) ** 2).sum(1)
        return float(self.shares @ (self.curvature * distance / 2))

    def start(self) -> Floats:
        rng = stream(Purpose.MODEL, self.training.seed)
        return np.asarray(rng.standard_normal(self.home.shape[1]), np.float32)

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        how = self.training
        for client in clients:
            rng = stream(Purpose.NOISE, how.seed, client, round)
            sizes = how.sizes(int(self.sizes[client]))
            rates = how.rates(round, sizes.size).astype(float)
            w = start = model.astype(float)
            m, v = np.zeros((2, model.size))  # velocity; or the means of Adam
            for step, (batch, rate) in enumerate(zip(sizes, rates, strict=True), 1):
                noise = self.noise / np.sqrt(batch) * rng.standard_normal(w.size)
                gradient = self.curvature[client] * (w - self.home[client]) + noise
                gradient += how.proximal * (w - start)
                if how.optimiser == "adam":
                    m = BETA1 * m + (1 - BETA1) * gradient
                    v = BETA2 * v + (1 - BETA2) * gradient**2
                    unbiased = np.sqrt(v / (1 - BETA2**step))
                    w = w - rate * m / (1 - BETA1**step) / (unbiased + EPSILON)
                else:
                    m = how.momentum * m + gradient
                    w = w - rate * m  # (3)
            yield w.astype(np.float32)

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        for client, places in batches:
            gradient = self.curvature[client] * (model.astype(float) - self.home[client])
            if places is not None:
                drawn = crc32(np.asarray(places, np.int64).tobytes())  # other places, other noise
                rng = stream(Purpose.NOISE, self.training.seed, client, 2**40 + drawn)
                noise = rng.standard_normal(model.size)
                gradient = gradient + self.noise / np.sqrt(len(places)) * noise
            yield gradient.astype(np.float32)

    def client_losses(self, model: Floats, clients: Sequence[int]) -> Iterator[tuple[float, float]]:
        for client in clients:
            far = float(((model.astype(float) - self.home[client]) ** 2).sum())
            loss = float(self.curvature[client]) * far / 2
            yield loss, loss  # all samples of a client have the same loss

    def evaluate(self, model: Floats) -> Scores:
        return Scores(self.loss(model.astype(float)))
