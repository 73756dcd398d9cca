"""What a PyTorch module costs: cycles of a sample, seconds, memory (the extra `torch`)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.quantities import readable_duration

try:
    import torch
    from torch import Tensor, nn
    from torch.utils.flop_counter import FlopCounterMode
except ImportError as error:  # pragma: no cover
    raise BadInput("TorchLearner needs PyTorch: pip install 'fedcell[torch]'") from error

SMALL_STEP = 2e7  # multiply-adds of a step below which one thread is faster than several
LARGE_SECONDS = 60.0  # of a round on this machine, and
LARGE_BYTES = 2.0**30  # of memory, above which a run is announced as large


@dataclass(frozen=True)
class Forecast:
    """What a run takes on this machine, before its first round.

    Attributes
    ----------
    seconds : float
        Of a round, from one measured step; without evaluation [s].
    memory : float
        Of weights, gradients, the optimiser and kept states, without activations [byte].
    checkpoint : float
        Of a checkpoint in the folder of a run [byte].
    states : float
        Of these kept states of clients: each of its optimiser [byte].
    numbers : int
        Weights of the module, those that do not travel among them.
    """

    seconds: float
    memory: float
    checkpoint: float
    states: float
    numbers: int

    @property
    def large(self) -> bool:
        """Whether a round takes more than a minute, or the memory is above 1 GiB."""
        return self.seconds > LARGE_SECONDS or self.memory > LARGE_BYTES

    def __str__(self) -> str:
        states = f" ({_size(self.states)} of kept states)" if self.states else ""
        return (
            f"{self.numbers:.3g} weights: a round takes about {readable_duration(self.seconds)} "
            f"here, the run {_size(self.memory)} of memory{states}, and a checkpoint "
            f"{_size(self.checkpoint)}"
        )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


@dataclass(frozen=True)
class Probe:
    """What one pass over a few samples shows of a module."""

    cycles: float | None  # of a training step for one sample; None: they could not be counted
    changed: frozenset[str]  # buffers that training changes
    failed: Exception | None = None  # of a pass that fails also where nothing is counted


def probe(module: nn.Module, samples: int, loss: Callable[[], Tensor]) -> Probe:
    """Pass a few samples forward and back, and leave the module as it was.

    A multiply-add takes a cycle (DECISIONS.md, 11). If all parameters train, the backward pass
    takes two more forward passes. If some are frozen, the multiply-adds that the backward pass
    makes are counted: none before the first layer that trains, one pass through frozen layers
    after it.
    """
    buffers = {name: b.detach().clone() for name, b in module.named_buffers()}
    kept = {p: p.grad for p in module.parameters()}
    forward, backward = FlopCounterMode(display=False), FlopCounterMode(display=False)
    failed = None
    try:
        with torch.random.fork_rng(devices=[]):
            with forward:
                value = loss()
            with backward:
                value.backward()  # type: ignore[no-untyped-call]
        ahead, back = forward.get_total_flops() / 2, backward.get_total_flops() / 2
        if all(p.requires_grad for p in module.parameters()):
            back = 2 * ahead
        cycles = (ahead + back) / samples or None
    except Exception:  # of the module, of its loss, or of the counter
        cycles, failed = None, _failure(loss)
    changed = set()
    with torch.no_grad():
        for name, now in module.named_buffers():
            before = buffers[name]
            if not torch.equal(now, before):
                changed.add(name)
                now.copy_(before)
    for p, grad in kept.items():
        p.grad = grad
    return Probe(cycles, frozenset(changed), failed)


def _failure(loss: Callable[[], Tensor]) -> Exception | None:
    """Return how a pass forward fails where nothing is counted; None if it does not."""
    try:
        with torch.random.fork_rng(devices=[]):
            loss()
    except Exception as error:
        return error
    return None


@contextmanager
def threads_of(count: int) -> Iterator[None]:
    """Compute on at most this number of threads meanwhile."""
    before = torch.get_num_threads()
    if before <= count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(module: nn.Module, seed: int) -> Iterator[None]:
    """Draw from a seed meanwhile, and go on as before afterwards."""
    if any(p.device.type != "cpu" for p in module.parameters()):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield
        return
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)  # `manual_seed` also keeps a stack for each device
    try:
        yield
    finally:
        torch.set_rng_state(before)


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that work takes, after once to warm up."""
    work()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def state_bytes(optimiser: torch.optim.Optimizer) -> int:
    """Return the size of what an optimiser remembers [byte]."""
    return sum(
        value.numel() * value.element_size()
        for state in optimiser.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    )
