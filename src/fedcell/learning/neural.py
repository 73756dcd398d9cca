"""Describe sequential networks, and allocate the memory in which one thread trains one."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats
from fedcell.scenario.learning import Layers

Image = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """The sizes of one layer; a dense layer has height, width and kernel 1."""

    conv: bool
    height: int  # of the padded input
    width: int
    channels: int
    kernel: int
    outputs: int
    pooled: tuple[int, int]  # height and width of the output

    @property
    def row(self) -> int:
        """Floats in one row of a kernel."""
        return self.kernel * self.channels

    @property
    def windows(self) -> int:
        """Number of pooling windows."""
        return self.pooled[0] * self.pooled[1]

    @property
    def weights(self) -> int:
        """Number of weights and biases."""
        return (self.kernel**2 * self.channels + 1) * self.outputs

    @property
    def products(self) -> int:
        """Multiply-adds of a forward pass of one sample."""
        pixels = (self.height - self.kernel + 1) * (self.width - self.kernel + 1)
        return pixels * self.kernel**2 * self.channels * self.outputs


@dataclass(frozen=True)
class NeuralNetwork:
    """A sequential network: convolutions with pooling, then dense layers.

    `NeuralNetwork.of` makes one for images of a given size.

    Attributes
    ----------
    image : tuple of int
        Height, width and channels of the input.
    shapes : tuple of Shape
        The sizes of each layer; the last one has an output for each class.

    Examples
    --------
    >>> NeuralNetwork.of(Layers(hidden=(32,)), image=(8, 8, 1), classes=10)
    <NeuralNetwork: 8 x 8 x 1 -> dense 32 -> dense 10, 2410 parameters>
    """

    image: Image  # height, width, channels
    shapes: tuple[Shape, ...]

    def __post_init__(self) -> None:
        """Check that each layer takes what the one before gives: the kernels check nothing."""
        height, width, channels = self.image
        sound = bool(self.shapes) and not self.shapes[-1].conv and min(self.image) > 0
        for i, s in enumerate(self.shapes):
            sizes = (s.height, s.width, s.channels, s.kernel, s.outputs, *s.pooled)
            sound &= all(isinstance(n, int) and n > 0 for n in sizes)
            if s.conv:
                sound &= i == 0 or self.shapes[i - 1].conv
                margin, odd = divmod(s.height - height, 2)
                sound &= margin >= 0 and not odd and s.width == width + 2 * margin
                sound &= s.channels == channels
                sound &= s.pooled == ((s.height - s.kernel + 1) // 2, (s.width - s.kernel + 1) // 2)
                (height, width), channels = s.pooled, s.outputs
            else:
                sound &= (s.height, s.width, s.kernel, s.pooled) == (1, 1, 1, (1, 1))
                sound &= s.channels == height * width * channels
                height, width, channels = 1, 1, s.outputs
        if not sound:
            raise BadInput("the layers of the network do not fit each other: use NeuralNetwork.of")

    @classmethod
    def of(cls, layers: Layers, image: Image, classes: int) -> "NeuralNetwork":
        """Return the network of these layers for images of this size.

        Parameters
        ----------
        layers : Layers
            Convolutions and hidden layers, as in [learning.layers].
        image : tuple of int
            Height, width and channels.
        classes : int
            Outputs of the last layer.

        Raises
        ------
        BadInput
            If the images are too small for the convolutions.
        """
        height, width, channels = image
        shapes = []
        for i, conv in enumerate(layers.convs):
            height, width, k = height + 2 * conv.padding, width + 2 * conv.padding, conv.kernel
            pooled = (height - k + 1) // 2, (width - k + 1) // 2
            if min(pooled) < 1:
                raise BadInput(
                    f"convolution {i} with kernel {k} is given {height} x {width} pixels, padding "
                    f"included, and needs {k + 1}: use fewer or smaller ones, or more padding"
                )
            shapes.append(Shape(True, height, width, channels, k, conv.channels, pooled))
            (height, width), channels = pooled, conv.channels
        inputs = height * width * channels
        for outputs in (*layers.hidden, classes):
            shapes.append(Shape(False, 1, 1, inputs, 1, outputs, (1, 1)))
            inputs = outputs
        return cls(image, tuple(shapes))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(shape.weights for shape in self.shapes)

    @property
    def bits(self) -> float:
        """z_m: size of an upload in 32-bit floats [bit]."""
        return 32.0 * self.size

    @property
    def cycles(self) -> float:
        """alpha_0: cycles of a training step for one sample.

        One multiply-add takes a cycle, and the backward pass takes twice the forward pass
        (DECISIONS.md, 11).
        """
        return 3.0 * sum(shape.products for shape in self.shapes)

    def start(self, rng: Generator) -> Floats:
        """Draw weights and biases uniformly within 1 / sqrt(inputs), as PyTorch does."""
        parts = []
        for shape in self.shapes:
            bound = (shape.kernel**2 * shape.channels) ** -0.5
            parts.append(rng.uniform(-bound, bound, shape.weights))
        return np.concatenate(parts).astype(np.float32)

    def __repr__(self) -> str:
        layers = [
            f"conv {s.outputs} ({s.kernel} x {s.kernel})" if s.conv else f"dense {s.outputs}"
            for s in self.shapes
        ]
        chain = " -> ".join([" x ".join(map(str, self.image)), *layers])
        return f"<NeuralNetwork: {chain}, {self.size} parameters>"


class Workspace:
    """The network as the kernels read it, with arrays for batches of up to `batch` samples.

    Attributes
    ----------
    layers : array of Layer
        A row for each layer: sizes, and offsets in the flat arrays.
    scratch : tuple of arrays
        Activations, gradients and other memory that the kernels write to.
    weights, velocity : array of float32, (parameter,)
        The model and the memory of its optimiser.
    """

    def __init__(self, network: NeuralNetwork, batch: int) -> None:
        from .kernels.layer import Layer
        from .kernels.vector import SLACK

        rows, taken = _layer_rows(network, batch)
        self.layers = np.array(rows, dtype=Layer)
        self.scratch = _scratch(network, taken, batch * int(self.layers["y_row"].max()))
        self.weights = zeros(network.size + SLACK)[: network.size]
        self.velocity = zeros(network.size + SLACK)[: network.size]


def _layer_rows(network: NeuralNetwork, batch: int) -> tuple[list[tuple[int, ...]], Counter[str]]:
    """Return a row of `Layer` for each layer, and the sizes of the flat arrays."""
    from .kernels.registers import LANES
    from .kernels.vector import SLACK

    taken: Counter[str] = Counter()

    def take(array: str, count: int) -> int:
        taken[array] += count
        return taken[array] - count

    shapes = network.shapes
    margins = [(s.height - h) // 2 for s, h in zip(shapes, _heights(network), strict=True)]
    row = shapes[0].height * shapes[0].width * shapes[0].channels
    room = batch * row + SLACK
    x, dx = take("arena", room), take("arena", room)
    rows: list[tuple[int, ...]] = []
    for i, shape in enumerate(shapes):
        conv, k, C, O, (P, Q) = (
            shape.conv,
            shape.kernel,
            shape.channels,
            shape.outputs,
            shape.pooled,
        )
        margin = margins[i + 1] if conv and shapes[i + 1].conv else 0
        y_row = (P + 2 * margin) * (Q + 2 * margin) * O if conv else -(-O // LANES) * LANES
        room = -(-(batch * y_row + SLACK) // LANES) * LANES
        y, dy = take("arena", room), take("arena", room)
        w, b = take("weights", k * k * C * O), take("weights", O)
        winner = take("winner", batch * P * Q * O if conv else 0)
        relu, first = conv or i + 1 < len(shapes), i == 0
        sizes = (conv, shape.height, shape.width, C, k, O, P, Q, margin)
        rows.append((*sizes, x, dx, y, dy, row, y_row, w, b, winner, relu, first))
        x, dx, row = y, dy, y_row
    return rows, taken


def _scratch(network: NeuralNetwork, taken: Counter[str], outputs: int) -> tuple[Any, ...]:
    """Return the arrays that the kernels write to; `outputs` floats hold the largest output."""
    from .kernels.convolution import MOST
    from .kernels.registers import LANES
    from .kernels.vector import ABREAST, SLACK, WIDEST

    convs = [shape for shape in network.shapes if shape.conv]

    def largest(room: Callable[[Shape], int]) -> int:
        return max(map(room, convs), default=0)

    def vectors(floats: int) -> int:  # whole vectors that hold these floats, and some more
        return (-(-floats // LANES) + MOST) * LANES

    lists = largest(lambda s: s.windows * s.outputs + (s.windows + s.outputs + 1) * ABREAST)
    frames = largest(
        lambda s: s.outputs * (s.kernel + 2) * (s.channels + vectors(s.row + s.channels))
    )
    return (
        zeros(taken["arena"] + SLACK),
        zeros(taken["winner"] + SLACK, np.uint8),
        zeros(largest(lambda s: (1 + s.kernel * s.row) * WIDEST * LANES) + SLACK),  # kernels
        zeros(frames + SLACK),
        zeros(largest(lambda s: s.outputs * s.kernel * vectors(s.row)) + SLACK),  # dw
        zeros(lists, np.int64),  # where
        zeros(lists),  # value
        zeros(largest(lambda s: max(s.outputs, s.windows)), np.int64),  # ends
        zeros(PIXEL_CODES, np.int64),
        zeros(outputs + SLACK),  # scaled dy
    )


PIXEL_CODES = 8  # more than the codes of a pooling window's pixels


def _heights(network: NeuralNetwork) -> list[int]:
    """Return the height of the input of each layer, before padding."""
    coming = [network.image[0], *(shape.pooled[0] for shape in network.shapes)]
    return [h if s.conv else 1 for s, h in zip(network.shapes, coming, strict=False)]


def zeros(count: int, kind: Any = np.float32) -> Any:
    """Return zeros that begin on a cache line, where whole vectors are read fastest."""
    size = count * np.dtype(kind).itemsize
    raw = np.zeros(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size].view(kind)
