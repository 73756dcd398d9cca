"""What the server makes of the mean of the uploads: the next model, or a direction to step in.

With Delta = mean - old, what all clients together would change (Reddi et al., Adaptive Federated
Optimization, ICLR 2021; "momentum" is FedAvgM of Hsu et al. 2019):

    average     new = mean
    momentum    m = beta_1 m + Delta                   new = old + rate m
    adam        m = beta_1 m + (1 - beta_1) Delta      new = old + rate m / (sqrt(v) + tau)
                v = beta_2 v + (1 - beta_2) Delta^2
    yogi        as adam, but v = v - (1 - beta_2) Delta^2 sign(v - Delta^2)

m begins at 0 and v at tau^2. A function of one's own, `server(old, mean) -> new`, keeps nothing
from round to round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Floats
from fedcell.scenario.learning import Learning

from .learner import Buffered, Learner

OwnServer = Callable[[Floats, Floats], Floats]  # (old, mean) -> new, flat vectors
RATES = {"momentum": 1.0, "adam": 0.01, "yogi": 0.01}  # where a scenario leaves them out
VECTORS = {"momentum": 1, "adam": 2, "yogi": 2}  # that are remembered: m, or m and v


@dataclass(frozen=True)
class Server:
    """A rule from the old model and the mean of the uploads to the new model."""

    kind: str = "average"
    rate: float = 1.0
    momentum: float = 0.9  # beta_1
    beta2: float = 0.99
    tau: float = 1e-3
    own: OwnServer | None = None  # instead of all of that

    @classmethod
    def of(cls, learning: Learning | None, own: OwnServer | None = None) -> "Server":
        """That of a scenario; or one's own, beside which a scenario may not name another."""
        if own is not None and not callable(own):
            raise BadInput(f"`server` = {own!r}: expected a function, (old, mean) -> new")
        if own is not None and learning is not None and learning.server != "average":
            raise BadInput(f'`server` and learning.server = "{learning.server}": give one of them')
        if own is not None or learning is None:
            return cls(own=own)
        rate = learning.server_rate or RATES.get(learning.server, 1.0)
        adaptive = learning.server_momentum, learning.server_beta2, learning.server_tau
        return cls(learning.server, rate, *adaptive)

    def start(self, learner: Learner, size: int) -> Floats | None:
        """What it remembers before the first round of a model of so many numbers: (vector,
        number), or nothing. Numbers that are not trained have no part in it."""
        if self.own is not None or self.kind == "average":
            return None
        trained = learner.trained if isinstance(learner, Buffered) else size
        memory = np.zeros((VECTORS[self.kind], trained), np.float32)
        memory[1:] = self.tau**2
        return memory

    def step(self, old: Floats, mean: Floats, memory: Floats | None) -> tuple[Floats, Any]:
        """The new model, and what is remembered for the next round. A step that leaves the range
        of 32-bit floats is not made."""
        if self.own is not None:
            return _checked(self.own(old, mean), old), None
        if memory is None:
            return mean, None
        trained = memory.shape[1]  # numbers after these are averaged
        with np.errstate(all="ignore"):
            moved, kept = self._moved(
                old[:trained].astype(float), mean[:trained].astype(float), memory.astype(float)
            )
            new = np.concatenate([moved.astype(np.float32), mean[trained:]])
            after = kept.astype(np.float32)
        if not (np.isfinite(new).all() and np.isfinite(after).all()):
            return old, memory
        return new, after

    def _moved(self, old: Array, mean: Array, memory: Array) -> tuple[Array, Array]:
        beta1, beta2, delta = self.momentum, self.beta2, mean - old
        if self.kind == "momentum":
            m = beta1 * memory[0] + delta
            return old + self.rate * m, m[None]
        m, v, square = beta1 * memory[0] + (1 - beta1) * delta, memory[1], delta**2
        if self.kind == "adam":
            v = beta2 * v + (1 - beta2) * square
        else:
            v = v - (1 - beta2) * square * np.sign(v - square)
        return old + self.rate * m / (np.sqrt(v) + self.tau), np.stack([m, v])


def _checked(given: Any, old: Floats) -> Floats:
    """What a server of one's own gave, if it is a model."""
    try:
        new = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(f"the server gave a {type(given).__name__}: expected a model") from error
    if new.shape != old.shape:
        raise BadInput(f"the server gave an array of shape {new.shape}: expected {old.shape}")
    if not np.isfinite(new).all():
        raise BadInput("the server gave a model with numbers that are not finite")
    return new
