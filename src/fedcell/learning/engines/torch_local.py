"""Local steps of a PyTorch module with any optimiser, and what it remembers (the extra `torch`)."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.learning.learner import BETA1, BETA2, EPSILON, LocalTraining

try:
    import torch
    from torch import nn
except ImportError as error:  # pragma: no cover
    raise BadInput("TorchLearner needs PyTorch: pip install 'fedcell[torch]'") from error

Memory = NDArray[np.uint8]  # what an optimiser and a scheduler remember, as bytes


@dataclass(frozen=True, eq=False)
class LocalOptimizer:
    """How clients take their steps.

    Parameters
    ----------
    make : callable
        From the parameters that train to an optimiser of torch; it sets the rate.
    scheduler : callable, optional
        From the optimiser to a scheduler of torch, which is stepped after each local step.
    clip : float, optional
        Longest norm of a gradient; longer ones are shortened to it.
    keep_state : bool
        Each client keeps what optimiser and scheduler remember from one of its rounds to the next.
        Otherwise they begin again in each round.

    Examples
    --------
    >>> import torch
    >>> LocalOptimizer(lambda params: torch.optim.AdamW(params, lr=1e-3), clip=1.0).keep_state
    False
    """

    make: Callable[[list[Any]], Any]
    scheduler: Callable[[Any], Any] | None = None
    clip: float | None = None
    keep_state: bool = False

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise BadInput(
                f"`optimizer` = {self.make!r}: expected a function of the parameters, as "
                "lambda params: torch.optim.AdamW(params, lr=1e-3)"
            )
        if self.clip is not None and not self.clip > 0:
            raise BadInput(f"`clip` = {self.clip}: expected a number above 0")


class LocalSteps:
    """The optimiser of one client in one round."""

    def __init__(
        self,
        parameters: list[nn.Parameter],
        training: LocalTraining,
        own: LocalOptimizer | None,
        memory: Memory | None = None,
        usual: Any = None,  # the optimiser of [learning], to be used again
    ) -> None:
        self.parameters, self.training, self.own = parameters, training, own
        self.scheduler: Any = None
        # Plain SGD is one addition: an optimiser around it takes a fifth of a small step.
        self._plain = own is None and training.optimiser == "sgd" and not training.momentum
        if own is None:
            self.optimiser = usual_optimizer(parameters, training) if usual is None else usual
            self.optimiser.state.clear()
        else:
            self.optimiser = own.make(parameters)
            if not isinstance(self.optimiser, torch.optim.Optimizer):
                raise BadInput(
                    f"`optimizer` makes a {type(self.optimiser).__name__}: expected an optimiser "
                    "of torch"
                )
            self.scheduler = own.scheduler(self.optimiser) if own.scheduler else None
        if memory is not None:
            self._recall(memory)
        self._first = [group["lr"] for group in self.optimiser.param_groups]
        proximal = training.proximal
        self._start = [p.detach().clone() for p in parameters] if proximal else []

    def set_rate(self, rate: float) -> None:
        """Set the rate of the next step: that of [learning], or for an own optimiser its decay."""
        if self.own is None:
            self.optimiser.param_groups[0]["lr"] = rate
        elif self.training.rate_decay:
            for group, first in zip(self.optimiser.param_groups, self._first, strict=True):
                group["lr"] = first * rate / self.training.rate

    def zero(self) -> None:
        """Forget the gradient of the step before."""
        for p in self.parameters:
            p.grad = None

    def step(self) -> None:
        """Take a step along the gradient (3)."""
        for p, begun in zip(self.parameters, self._start, strict=bool(self._start)):
            if p.grad is not None:
                p.grad.add_(p.detach() - begun, alpha=self.training.proximal)
        if self.own is not None and self.own.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.own.clip)
        if self._plain:
            trained: list[torch.Tensor] = [p for p in self.parameters if p.grad is not None]
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            with torch.no_grad():
                torch._foreach_add_(trained, gradients, alpha=-self.optimiser.param_groups[0]["lr"])
        else:
            self.optimiser.step()
        if self.scheduler is not None:
            self.scheduler.step()

    def memory(self) -> Memory:
        """Return what optimiser and scheduler remember."""
        states = {"optimiser": self.optimiser.state_dict()}
        if self.training.rate_decay:  # steps set the rate from that of the optimiser
            for group, first in zip(states["optimiser"]["param_groups"], self._first, strict=True):
                group["lr"] = first
        if self.scheduler is not None:
            states["scheduler"] = self.scheduler.state_dict()
        file = io.BytesIO()
        torch.save(states, file)
        return np.frombuffer(file.getvalue(), np.uint8)

    def _recall(self, memory: Memory) -> None:
        try:
            states = torch.load(io.BytesIO(memory.tobytes()), weights_only=True)
            self.optimiser.load_state_dict(states["optimiser"])
            if self.scheduler is not None:
                self.scheduler.load_state_dict(states["scheduler"])
        except (ValueError, KeyError, RuntimeError) as error:
            raise BadInput(
                f"a client's optimiser does not fit what it remembers ({error}): run it again "
                "without `resume`"
            ) from error


def usual_optimizer(parameters: list[nn.Parameter], how: LocalTraining) -> torch.optim.Optimizer:
    """Return the optimiser of [learning], without memory."""
    fused = all(p.dtype == torch.float32 and p.device.type == "cpu" for p in parameters)
    if how.optimiser == "adam":
        return torch.optim.Adam(parameters, how.rate, (BETA1, BETA2), EPSILON, fused=fused)
    return torch.optim.SGD(parameters, how.rate, how.momentum, fused=fused)


def as_optimizer(given: Any, training: LocalTraining) -> LocalOptimizer | None:
    """Return how clients step, of a function of parameters too; None: as [learning] says."""
    if given is None:
        return None
    own = given if isinstance(given, LocalOptimizer) else LocalOptimizer(given)
    if training.momentum or training.optimiser != "sgd":
        raise BadInput(
            "learning.optimiser and learning.momentum: leave them out beside an optimizer of your "
            "own"
        )
    if own.scheduler is not None and training.rate_decay:
        raise BadInput("learning.rate_decay: leave it out beside a scheduler of your own")
    return own
