"""Measure gradients of the clients at a model, for Definition 1 and Assumption 3."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array, Floats, Ints

from .learner import Differentiable


def diversity(gradients: Array, weights: Array) -> float:
    """Return lambda of Definition 1 (15): 1 if all gradients are equal, infinite if they cancel.

    Parameters
    ----------
    gradients : array, (client, coordinate)
        The gradient of each client.
    weights : array, (client,)
        pi_j from 0, with sum 1.
    """
    g, pi = np.asarray(gradients, float), np.asarray(weights, float)
    if g.ndim != 2 or pi.shape != (len(g),) or (pi < 0).any() or not np.isclose(pi.sum(), 1):
        raise BadInput(
            f"gradients of shape {g.shape} with weights of shape {pi.shape}: expected "
            "(client, coordinate), and a weight from 0 for each client, with sum 1"
        )
    if not np.isfinite(g).all():
        raise BadInput("some gradients are not finite")
    return _diversity(float(pi @ (g**2).sum(1)), float(((pi @ g) ** 2).sum()))


def _diversity(mean_square: float, square_of_mean: float) -> float:
    if square_of_mean == 0:
        return float("inf") if mean_square > 0 else 1.0
    return float(np.maximum(1.0, mean_square / square_of_mean))  # (15); below 1 by rounding only


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """Statistics of the gradients at one model, from which the theory's constants follow."""

    round: int
    model: Floats
    loss: float  # f (2)
    gradient: Floats  # of f: sum_j q_j g_j
    even: float  # |sum_j q_j l_j g_j|^2, which is that of the plain mean over clients with data
    squares: Array  # |g_j|^2 of each client
    shares: Array  # q_j
    clients: Ints  # some of them, and
    variances: Array  # E |g~_j - g_j|^2 of their batches

    def __repr__(self) -> str:
        return f"<Probe: round {self.round}, loss {self.loss:.4g}, diversity {self.diversity:.4g}>"

    @property
    def square(self) -> float:
        """|grad f|^2."""
        return float((self.gradient.astype(float) ** 2).sum())

    @property
    def diversity(self) -> float:
        """lambda at this model (15)."""
        return _diversity(float(self.shares @ self.squares), self.square)


def probe(
    learner: Differentiable,
    model: Floats,
    round: int,
    batch: int,
    clients: int = 0,
    draws: int = 8,
) -> Probe:
    """Measure the full gradients of all clients, and those of `draws` batches of some clients."""
    sizes = np.asarray(learner.sizes)
    holders = np.flatnonzero(sizes)  # clients with data
    shares, count = sizes / sizes.sum(), holders.size
    weighted, plain = np.zeros(model.size), np.zeros(model.size)
    squares = np.zeros(sizes.size)
    picked = stream(Purpose.PROBE, 0).choice(count, min(clients, count), replace=False)
    chosen = holders[np.sort(picked)]
    whole: dict[int, Array] = {}
    every = learner.gradients(model, ((j, None) for j in holders.tolist()))
    for j, gradient in zip(holders.tolist(), every, strict=True):
        g = gradient.astype(float)
        squares[j] = (g**2).sum()
        weighted += shares[j] * g
        plain += g / count
        if j in chosen:
            whole[j] = g
    errors = np.zeros(sizes.size)
    asked = [j for j in chosen.tolist() for _ in range(draws)]
    for j, gradient in zip(
        asked, learner.gradients(model, _batches(asked, sizes, batch, round)), strict=True
    ):
        errors[j] += ((gradient - whole[j]) ** 2).sum() / draws
    return Probe(
        round=round,
        model=model.copy(),
        loss=learner.evaluate(model).train_loss,
        gradient=weighted.astype(np.float32),
        even=float((plain**2).sum()),
        squares=squares,
        shares=shares,
        clients=chosen,
        variances=errors[chosen],
    )


def _batches(
    asked: list[int], sizes: Ints, batch: int, round: int
) -> Iterator[tuple[int, Ints | None]]:
    for i, j in enumerate(asked):
        rng = stream(Purpose.PROBE, i + 1, j, round)
        yield j, rng.choice(int(sizes[j]), min(batch, int(sizes[j])), replace=False)
