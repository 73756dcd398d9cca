"""Adapters of linear and embedding layers, put into any PyTorch module and merged again (the extra
`torch`).

W + (alpha / R) B A takes the place of a frozen matrix W, with A (R, n) random and B (m, R) zero at
first, so a module begins as it was (Hu et al., LoRA, arXiv 2106.09685, Section 4.1).
"""

import copy
from collections.abc import Collection, Iterator
from math import sqrt
from typing import Any

from fedcell.core.errors import BadInput

from .sizes import Matrix, check_rank

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:  # pragma: no cover
    raise BadInput("LoRA needs PyTorch: pip install 'fedcell[torch]'") from error


class LowRank(nn.Module):
    """(alpha / R) B A: what an adapter adds to a matrix.

    Parameters
    ----------
    inputs, outputs : int
        n and m.
    rank : int
        R, the rank of the server's model.
    alpha : float
        Scale; an adapter counts alpha / R.
    like : Tensor
        The frozen matrix, whose type and device the factors take.

    Attributes
    ----------
    used : int
        r, the rank that counts now: the first r rows of A and columns of B. The scale stays
        alpha / R.
    """

    def __init__(self, inputs: int, outputs: int, rank: int, alpha: float, like: Tensor) -> None:
        super().__init__()
        self.down = nn.Parameter(like.new_empty(rank, inputs))  # A
        self.up = nn.Parameter(like.new_zeros(outputs, rank))  # B
        nn.init.kaiming_uniform_(self.down, a=sqrt(5))  # as a linear layer of torch begins
        self.rank, self.used, self.scale = rank, rank, alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        """Return what is added to the outputs for inputs (..., n)."""
        return self.widen(functional.linear(x, self.down[: self.used]))

    def rows(self, index: Tensor, padding: int | None = None) -> Tensor:
        """Return what is added to the outputs for inputs of which one is 1, the others 0; an input
        for padding is not trained."""
        columns = self.down[: self.used].T
        return self.widen(functional.embedding(index, columns, padding_idx=padding))

    def widen(self, inner: Tensor) -> Tensor:
        """Return the outputs for products with A, (..., r)."""
        return self.scale * functional.linear(inner, self.up[:, : self.used])

    def matrix(self) -> Tensor:
        """Return (alpha / R) B A, (m, n)."""
        return self.scale * self.up[:, : self.used] @ self.down[: self.used]

    def extra_repr(self) -> str:
        """Return what a printed module says of it."""
        return f"rank={self.rank}, scale={self.scale:g}"


class Adapted(nn.Module):
    """A frozen layer with an adapter: what `LoRALinear` and `LoRAEmbedding` share.

    Parameters
    ----------
    base : torch.nn.Module
        The layer; its parameters are frozen.
    rank : int
        R.
    alpha : float
        Scale; an adapter counts alpha / R.
    """

    transposed = False  # whether the weight is (n, m)

    def __init__(self, base: Any, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = base.weight.shape
        inputs, outputs = (rows, columns) if self.transposed else (columns, rows)
        check_rank(rank, inputs, outputs, type(base).__name__)
        self.base = base.requires_grad_(False)
        self.adapter = LowRank(inputs, outputs, rank, alpha, base.weight)

    @property
    def weight(self) -> Tensor:
        """The frozen weight with the adapter: modules that read it, as nn.MultiheadAttention does
        of its out_proj, train the adapter too."""
        added = self.adapter.matrix()
        whole: Tensor = self.base.weight + (added.T if self.transposed else added)
        return whole

    def merged(self) -> nn.Module:
        """Return a plain layer with the adapter in its weight; of a shared weight, a copy."""
        plain: nn.Module = copy.copy(self.base)
        plain._parameters = dict(plain._parameters)
        plain._parameters["weight"] = nn.Parameter(self.weight.detach().clone())
        return plain


class LoRALinear(Adapted):
    """A frozen nn.Linear with an adapter."""

    @property
    def bias(self) -> Tensor | None:
        """The frozen bias."""
        bias: Tensor | None = self.base.bias
        return bias

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs (..., m) for inputs (..., n)."""
        outputs: Tensor = self.base(x) + self.adapter(x)
        return outputs


class LoRAEmbedding(Adapted):
    """A frozen nn.Embedding with an adapter."""

    transposed = True

    def __init__(self, base: nn.Embedding, rank: int, alpha: float) -> None:
        super().__init__(base, rank, alpha)
        if base.padding_idx is not None:  # the vector of padding stays as it is
            with torch.no_grad():
                self.adapter.down[:, base.padding_idx] = 0

    def forward(self, index: Tensor) -> Tensor:
        """Return vectors (..., m) for whole numbers (...)."""
        added = self.adapter.rows(index, self.base.padding_idx)
        outputs: Tensor = self.base(index) + added
        return outputs


LAYERS: dict[type[nn.Module], type[Adapted]] = {
    nn.Linear: LoRALinear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: LoRALinear,  # of nn.MultiheadAttention
    nn.Embedding: LoRAEmbedding,
}


def apply_lora(
    module: nn.Module,
    rank: int,
    alpha: float | None = None,
    targets: Collection[str] | None = None,
    train: Collection[str] = (),
) -> nn.Module:
    """Freeze a module and put adapters beside some of its layers, in place.

    Only adapters have requires_grad then, and so only they travel (`learner_from_torch`). Their
    first values come from torch's generator: call `torch.manual_seed` before.

    Parameters
    ----------
    module : torch.nn.Module
        The pretrained module.
    rank : int
        R, the rank of every adapter.
    alpha : float, optional
        Scale; an adapter counts alpha / R. Default: 2 R.
    targets : collection of str, optional
        Names of nn.Linear and nn.Embedding layers, or ends of them after a dot: "q_proj" is every
        layer of that name. Default: all nn.Linear.
    train : collection of str, optional
        Names, or ends of them, of further parts that train as a whole, such as a new head.

    Returns
    -------
    torch.nn.Module
        The same module.

    Raises
    ------
    BadInput
        If a target matches nothing, or a layer of another kind, or the rank is too large.
    """
    chosen = _targets(module, targets, train)
    whole = [part for name in train for part in _matching(module, name)]
    for name, layer in chosen.items():  # all are checked before the first is replaced
        rows, columns = layer.weight.shape
        check_rank(rank, columns, rows, name)
    scale = 2.0 * rank if alpha is None else float(alpha)
    module.requires_grad_(False)
    for name, layer in chosen.items():
        _replace(module, name, LAYERS[type(layer)](layer, rank, scale).train(layer.training))
    for name in whole:
        module.get_submodule(name).requires_grad_(True)
    return module


def _matching(module: nn.Module, target: str) -> list[str]:
    """Return the names of submodules that a target names; refuse one that names none."""
    names = [name for name, _ in module.named_modules() if name]
    found = [name for name in names if name == target or name.endswith(f".{target}")]
    if not found:
        some = ", ".join(sorted({name.rpartition(".")[2] for name in names})[:12])
        raise BadInput(f"target {target!r} is no layer of the module: it has {some}")
    return found


def _targets(
    module: nn.Module, targets: Collection[str] | None, train: Collection[str]
) -> dict[str, Any]:
    """Return the layers that get an adapter, by name."""
    if isinstance(targets, str) or isinstance(train, str):
        raise BadInput("targets and train are lists of names: put a single one in brackets")
    if any(isinstance(part, LowRank) for part in module.modules()):
        raise BadInput("the module has adapters: merge_lora them first")
    whole = tuple(f"{name}." for one in train for name in _matching(module, one))
    if targets is None:
        names = [n for n, part in module.named_modules() if type(part) is nn.Linear and n]
        names = [name for name in names if not f"{name}.".startswith(whole or ("\0",))]
    else:
        names = list(dict.fromkeys(n for target in targets for n in _matching(module, target)))
    found = {name: module.get_submodule(name) for name in names}
    for name, layer in found.items():
        if type(layer) not in LAYERS:
            raise BadInput(
                f"target {name} is a {type(layer).__name__}: adapters are for nn.Linear and "
                "nn.Embedding"
            )
        if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
            raise BadInput(f"target {name} has max_norm, which changes its frozen weight: leave it")
        if f"{name}.".startswith(whole or ("\0",)):
            raise BadInput(f"target {name} trains as a whole: leave it out of one of both")
    if not found:
        raise BadInput("no layer gets an adapter: the module has no nn.Linear, name targets")
    return found


def _replace(module: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(module.get_submodule(parent), own, layer)


def adapted_layers(module: nn.Module) -> Iterator[tuple[str, Adapted]]:
    """Yield the layers with an adapter, by name."""
    for name, part in module.named_modules():
        if isinstance(part, Adapted):
            yield name, part


def adapted_matrices(module: nn.Module) -> list[Matrix]:
    """Return the matrices of a module that have adapters, for `adapter_bits`.

    Parameters
    ----------
    module : torch.nn.Module
        After `apply_lora`.
    """
    return [
        Matrix(name, layer.adapter.down.shape[1], layer.adapter.up.shape[0])
        for name, layer in adapted_layers(module)
    ]


def merge_lora(module: nn.Module) -> nn.Module:
    """Return a copy of a module with its adapters merged into plain layers, for export.

    Parameters
    ----------
    module : torch.nn.Module
        After `apply_lora`; it is not changed.

    Returns
    -------
    torch.nn.Module
        With the names and shapes of the module before `apply_lora`; all parameters have
        requires_grad.
    """
    merged = copy.deepcopy(module)
    for name, layer in list(adapted_layers(merged)):
        _replace(merged, name, layer.merged().train(layer.training))
    return merged.requires_grad_(True)
