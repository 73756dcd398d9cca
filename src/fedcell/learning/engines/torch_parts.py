"""Which tensors of a PyTorch module travel: those that training changes (the extra `torch`)."""

import hashlib
from collections.abc import Iterable

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.modules.batchnorm import _NormBase
except ImportError as error:  # pragma: no cover
    raise BadInput("TorchLearner needs PyTorch: pip install 'fedcell[torch]'") from error


class Travelling:
    """The tensors of a module that clients download, train and upload, in order: parameters with
    requires_grad, then floating-point buffers that training changes."""

    def __init__(self, module: nn.Module, changed: Iterable[str] = ()) -> None:
        self.module = module
        named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        # By the order of `parameters`, which a module may define.
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        if not self.parameters:
            raise BadInput("nothing trains: no parameter of the module has requires_grad")
        names = {id(p): name for name, p in named.items()}
        known = {*changed, *running_statistics(module)}
        self.buffers = {
            name: b for name, b in module.named_buffers() if b.is_floating_point() and name in known
        }
        self.names = [names.get(id(p), str(i)) for i, p in enumerate(self.parameters)]
        self.names += list(self.buffers)
        self.sizes = [tensor.numel() for tensor in self.tensors]
        # Integers, such as BatchNorm's count of batches, begin again in each round.
        self._counts = [(b, b.clone()) for b in module.buffers() if not b.is_floating_point()]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors, with the values that they have now."""
        return [*(p.data for p in self.parameters), *self.buffers.values()]

    @property
    def trained(self) -> int:
        """Number of trained parameters, which come first."""
        return sum(p.numel() for p in self.parameters)

    @property
    def size(self) -> int:
        """Number of all numbers that travel."""
        return sum(self.sizes)

    def vector(self) -> Floats:
        """Return the tensors as one vector of 32-bit floats."""
        flat = [tensor.detach().reshape(-1).float().cpu() for tensor in self.tensors]
        vector: Floats = torch.cat(flat).numpy()  # new memory
        return vector

    @torch.no_grad()
    def load(self, model: Floats) -> None:
        """Put a vector into the module."""
        if np.shape(model) != (self.size,):
            raise BadInput(f"the module has {self.size} numbers, and the model {np.shape(model)}")
        for tensor, part in zip(
            self.tensors, torch.split(torch.tensor(model), self.sizes), strict=True
        ):
            tensor.copy_(part.reshape(tensor.shape))
        for count, first in self._counts:
            count.copy_(first)

    @property
    def frozen(self) -> dict[str, Tensor]:
        """Parameters and buffers that stay on the device, by name."""
        travelling = {tensor.data_ptr() for tensor in self.tensors}
        state = self.module.state_dict(keep_vars=False)
        return {
            name: tensor
            for name, tensor in state.items()
            if tensor.is_floating_point() and tensor.data_ptr() not in travelling
        }

    def frozen_digest(self) -> str | None:
        """Return a short checksum of what stays on the device; None if all travels."""
        frozen = self.frozen
        if not frozen:
            return None
        total = hashlib.sha256()
        for name, tensor in frozen.items():
            total.update(name.encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            total.update(flat.view(torch.uint8).numpy().data)
        return total.hexdigest()[:16]


def running_statistics(module: nn.Module) -> set[str]:
    """Return the names of buffers that normalisation changes in training."""
    return {
        f"{name}.{buffer}" if name else buffer
        for name, part in module.named_modules()
        if isinstance(part, _NormBase) and part.track_running_stats
        if part.training or not module.training  # all of it, or the parts that are in training mode
        for buffer, _ in part.named_buffers(recurse=False)
    }


def travelling(module: nn.Module) -> list[Tensor]:
    """Return the tensors of a model: parameters that train, then running statistics."""
    return Travelling(module).tensors


def load_weights(module: nn.Module, weights: Floats) -> None:
    """Load a model, such as `load_model(folder).weights`, into its module: into the parameters with
    requires_grad and the buffers that training changes."""
    own = Travelling(module)
    if np.shape(weights) != (own.size,):  # training may change more buffers than these
        floats = [name for name, b in module.named_buffers() if b.is_floating_point()]
        every = Travelling(module, floats)
        own = every if np.shape(weights) == (every.size,) else own
    own.load(weights)
