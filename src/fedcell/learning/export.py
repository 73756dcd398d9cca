"""Export a trained network as layers of PyTorch, in plain values; PyTorch is not needed for it.

The module takes (sample, channel, row, column) in the numbers of the data, as float32, and returns
logits. Its first layer standardises them: a convolution of one pixel, channel by channel.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcell.core.types import Floats

from .classifier import Classifier


@dataclass(frozen=True)
class PlainLayer:
    """A layer of torch.nn: its name, arguments and arrays."""

    name: str
    sizes: tuple[int, ...] = ()
    options: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, Floats] = field(default_factory=dict)  # weight and bias
    comment: str = ""

    def __repr__(self) -> str:
        return f"<PlainLayer {self}>"

    def __str__(self) -> str:
        named = (f"{name}={value}" for name, value in self.options.items())
        return f"nn.{self.name}({', '.join([*map(str, self.sizes), *named])})"


def plain_layers(model: Classifier) -> list[PlainLayer]:
    """Return the layers of nn.Sequential, in order."""
    height, width, channels = model.network.image
    standard = {"weight": model.scale.reshape(-1, 1, 1, 1), "bias": model.shift}
    options = {"groups": channels}
    layers = [PlainLayer("Conv2d", (channels, channels, 1), options, standard, "standardises")]
    rest = model.weights
    for shape in model.network.shapes:
        k, inputs, outputs = shape.kernel, shape.channels, shape.outputs
        weight, bias, rest = np.split(rest, [shape.weights - outputs, shape.weights])
        if shape.conv:
            padding = (shape.height - height) // 2
            kernels: Floats = weight.reshape(outputs, k, k, inputs).transpose(0, 3, 1, 2)
            arrays = {"weight": kernels, "bias": bias}
            sizes, options = (inputs, outputs, k), {"padding": padding}
            layers.append(PlainLayer("Conv2d", sizes, options, arrays))
            layers += [PlainLayer("MaxPool2d", (2,)), PlainLayer("ReLU")]
            (height, width), channels = shape.pooled, outputs
            continue
        flat = layers[-1].name != "Linear"
        layers.append(PlainLayer("Flatten") if flat else PlainLayer("ReLU"))
        # fedcell flattens with channels last, PyTorch with channels first.
        by_channel: Floats = weight.reshape(height, width, channels, outputs).transpose(3, 2, 0, 1)
        arrays = {"weight": by_channel.reshape(outputs, inputs), "bias": bias}
        layers.append(PlainLayer("Linear", (inputs, outputs), {}, arrays))
        height, width, channels = 1, 1, outputs
    return layers


def state_of(layers: list[PlainLayer]) -> dict[str, Floats]:
    """Return the state_dict of nn.Sequential, as arrays."""
    return {
        f"{i}.{name}": np.ascontiguousarray(values, np.float32)
        for i, layer in enumerate(layers)
        for name, values in layer.arrays.items()
    }


def constructor(layers: list[PlainLayer]) -> str:
    """Return the Python expression that makes the module."""
    lines: list[Any] = [
        f"    {layer}," + (f"  # {layer.comment}" if layer.comment else "") for layer in layers
    ]
    return "\n".join(["nn.Sequential(", *lines, ")"])
