"""Built-in networks as PyTorch modules (the extra `torch`)."""

from collections.abc import Iterator
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats
from fedcell.learning.export import PlainLayer, constructor, state_of
from fedcell.learning.neural import NeuralNetwork

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:  # pragma: no cover
    raise BadInput("this needs PyTorch: pip install 'fedcell[torch]'") from error


def plain_module(layers: list[PlainLayer]) -> nn.Sequential:
    """Return a network as nn.Sequential: `plain_module(load_model(folder).plain_layers())`."""
    module = nn.Sequential(*(getattr(nn, x.name)(*x.sizes, **x.options) for x in layers))
    module.load_state_dict(_state(layers))
    return module


def save_module(path: Path, layers: list[PlainLayer]) -> None:
    """Write the text of an nn.Sequential and its state_dict, for torch.load."""
    torch.save({"module": constructor(layers), "state_dict": _state(layers)}, path)


def _state(layers: list[PlainLayer]) -> dict[str, Tensor]:
    return {name: torch.tensor(values) for name, values in state_of(layers).items()}


class Module(nn.Module):
    """A built-in network as a module with the same weights in the same order."""

    def __init__(self, network: NeuralNetwork, weights: Floats) -> None:
        super().__init__()
        self.shapes, rest = network.shapes, torch.tensor(weights)
        self.weight, self.bias = nn.ParameterList(), nn.ParameterList()
        for shape in self.shapes:
            k, inputs, outputs = shape.kernel, shape.channels, shape.outputs
            size = (outputs, k, k, inputs) if shape.conv else (inputs, outputs)
            weight, bias, rest = rest.split(
                [shape.weights - outputs, outputs, rest.numel() - shape.weights]
            )
            self.weight.append(nn.Parameter(weight.reshape(size).clone()))
            self.bias.append(nn.Parameter(bias.clone()))

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:  # noqa: ARG002
        """Yield parameters layer by layer, in the order of a model's weights."""
        for weight, bias in zip(self.weight, self.bias, strict=True):
            yield weight
            yield bias

    def forward(self, x: Tensor) -> Tensor:
        for shape, w, b in zip(self.shapes, self.weight, self.bias, strict=True):
            if shape.conv:
                padding = (shape.height - x.shape[2]) // 2
                x = nn.functional.conv2d(x, w.permute(0, 3, 1, 2), b, padding=padding)
                x = nn.functional.max_pool2d(x, 2).relu()
                continue
            x = x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x
            x = x @ w + b
            x = x if shape is self.shapes[-1] else x.relu()
        return x
