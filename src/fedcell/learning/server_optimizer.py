"""Server optimizers: the next model from the old one and the mean of the uploads.

With Delta = mean - old, the mean change of the clients (Reddi et al., Adaptive Federated
Optimization, ICLR 2021; "momentum" is FedAvgM of Hsu et al. 2019):

    average     new = mean
    momentum    m = beta_1 m + Delta                   new = old + rate m
    adam        m = beta_1 m + (1 - beta_1) Delta      new = old + rate m / (sqrt(v) + tau)
                v = beta_2 v + (1 - beta_2) Delta^2
    yogi        as adam, but v = v - (1 - beta_2) Delta^2 sign(v - Delta^2)

m begins at 0 and v at tau^2. A custom function, `server(old, mean) -> new`, has no state between
rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Floats
from fedcell.scenario.learning import Learning

from .learner import Buffered, Learner

CustomServer = Callable[[Floats, Floats], Floats]  # (old, mean) -> new, flat vectors
DEFAULT_RATES = {"momentum": 1.0, "adam": 0.01, "yogi": 0.01}  # without learning.server_rate
STATE_VECTORS = {"momentum": 1, "adam": 2, "yogi": 2}  # m, or m and v


@dataclass(frozen=True)
class ServerOptimizer:
    """A rule from the old model and the mean of the uploads to the new model.

    Attributes
    ----------
    kind : {"average", "momentum", "adam", "yogi"}
        The rule.
    rate : float
        Step size of the server.
    momentum, beta2, tau : float
        beta_1, beta_2 and tau of the rules above.
    custom : callable, optional
        (old, mean) -> new; it replaces all of these.
    """

    kind: str = "average"
    rate: float = 1.0
    momentum: float = 0.9  # beta_1
    beta2: float = 0.99
    tau: float = 1e-3
    custom: CustomServer | None = None

    @classmethod
    def of(cls, learning: Learning | None, custom: CustomServer | None = None) -> "ServerOptimizer":
        """Return the optimizer of a scenario, or a custom one; both together are refused."""
        if custom is not None and not callable(custom):
            raise BadInput(f"`server` = {custom!r}: expected a function, (old, mean) -> new")
        if custom is not None and learning is not None and learning.server != "average":
            raise BadInput(f'`server` and learning.server = "{learning.server}": give one of them')
        if custom is not None or learning is None:
            return cls(custom=custom)
        rate = learning.server_rate or DEFAULT_RATES.get(learning.server, 1.0)
        adaptive = learning.server_momentum, learning.server_beta2, learning.server_tau
        return cls(learning.server, rate, *adaptive)

    def start(self, learner: Learner, size: int) -> Floats | None:
        """Return the state before the first round, (vector, trained parameter), or None.

        Parameters that are not trained, such as buffers of BatchNorm, have no state.
        """
        if self.custom is not None or self.kind == "average":
            return None
        trained = learner.trained if isinstance(learner, Buffered) else size
        memory = np.zeros((STATE_VECTORS[self.kind], trained), np.float32)
        memory[1:] = self.tau**2
        return memory

    def step(self, old: Floats, mean: Floats, memory: Floats | None) -> tuple[Floats, Any]:
        """Return the new model and the state for the next round.

        A step out of the range of 32-bit floats is not made.
        """
        if self.custom is not None:
            return _check_model(self.custom(old, mean), old), None
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


def _check_model(given: Any, old: Floats) -> Floats:
    """Return what a custom server gave; refuse anything but a finite model."""
    try:
        new = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(f"the server gave a {type(given).__name__}: expected a model") from error
    if new.shape != old.shape:
        raise BadInput(f"the server gave an array of shape {new.shape}: expected {old.shape}")
    if not np.isfinite(new).all():
        raise BadInput("the server gave a model with numbers that are not finite")
    return new
