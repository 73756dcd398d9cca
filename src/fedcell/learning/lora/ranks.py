"""A rank for each client (the extra `torch`).

The server's adapters have rank R; client j downloads, trains and uploads the first r_j rows of A
and columns of B. Its update is padded with zeros and averaged like any other: for a component that
a client does not hold it votes for no change. (Zero padding of the weights themselves would pull
the components that few clients hold to zero.)
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Bools, Floats, Ints

try:
    import torch
except ImportError as error:  # pragma: no cover
    raise BadInput("LoRA needs PyTorch: pip install 'fedcell[torch]'") from error

from fedcell.learning.engines.torch import TorchLearner

from .layers import LowRank


class RankedLearner(TorchLearner):
    """A learner whose clients train adapters of their own ranks. `with_ranks` makes one."""

    ranks: tuple[int, ...]

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        for client in clients:
            with self._using(self.ranks[client]):
                (upload,) = super().train(model, [client], round)
            yield np.where(self.held(self.ranks[client]), upload, model)

    @property
    def upload_bits(self) -> Ints:
        """Bits that each client uploads, (client,), as 32-bit floats; at most `model_bits`."""
        by_rank = {rank: 32 * int(self.held(rank).sum()) for rank in set(self.ranks)}
        return np.array([by_rank[rank] for rank in self.ranks])

    def held(self, rank: int) -> Bools:
        """Return which numbers of the model a client of a rank holds, (parameter,)."""
        axes = {id(low.down): 0 for low in self._low_ranks()}  # A is (R, n),
        axes |= {id(low.up): 1 for low in self._low_ranks()}  # B is (m, R)
        masks = []
        for tensor in [*self.parts.parameters, *self.parts.buffers.values()]:
            mask = torch.ones(tensor.shape, dtype=torch.bool)
            if (axis := axes.get(id(tensor))) is not None:
                mask.transpose(0, axis)[rank:] = False
            masks.append(mask.reshape(-1))  # other parts travel as a whole
        return np.asarray(torch.cat(masks).numpy(), bool)

    def _low_ranks(self) -> list[LowRank]:
        return [part for part in self.module.modules() if isinstance(part, LowRank)]

    @contextmanager
    def _using(self, rank: int) -> Iterator[None]:
        """Let adapters have a rank for a while."""
        parts = self._low_ranks()
        before = [part.used for part in parts]
        try:
            for part in parts:
                part.used = min(rank, part.rank)
            yield
        finally:
            for part, used in zip(parts, before, strict=True):
                part.used = used


def with_ranks(learner: TorchLearner, ranks: Sequence[int]) -> RankedLearner:
    """Return a learner whose client j trains and uploads adapters of rank ranks[j].

    Update of client j, padded with zeros, counts like any other in the server's mean. The cell
    prices every upload as the largest, `model_bits`: uploads of one size are what the system
    model has.

    Parameters
    ----------
    learner : TorchLearner
        Of a module after `apply_lora`.
    ranks : sequence of int
        The rank of each client, from 1 to that of the module.

    Returns
    -------
    RankedLearner
        On the same module.

    Raises
    ------
    BadInput
        If the ranks do not fit clients or module.
    """
    given: Any = list(ranks)
    low = [part for part in learner.module.modules() if isinstance(part, LowRank)]
    if not low:
        raise BadInput("the module has no adapters: call apply_lora first")
    if len(given) != len(learner.sizes):
        raise BadInput(f"{len(given)} ranks for {len(learner.sizes)} clients: give one for each")
    most = max(part.rank for part in low)
    for client, rank in enumerate(given):
        whole = isinstance(rank, int | np.integer) and not isinstance(rank, bool)
        if not whole or not 1 <= rank <= most:
            raise BadInput(
                f"client {client} has rank {rank!r}: expected a whole number from 1 to {most}"
            )
    ranked = copy.copy(learner)
    ranked.__class__ = RankedLearner
    assert isinstance(ranked, RankedLearner)
    ranked.ranks = tuple(map(int, given))
    return ranked
