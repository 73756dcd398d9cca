"""Sequential networks described by data, and the memory that one thread needs to train one."""

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
    """One layer with its sizes. A dense layer is one of height, width and kernel 1."""

    conv: bool
    height: int  # of the padded input
    width: int
    channels: int
    kernel: int
    outputs: int
    pooled: tuple[int, int]  # height and width of the output

    @property
    def row(self) -> int:
        """Floats in a row of a kernel."""
        return self.kernel * self.channels

    @property
    def windows(self) -> int:
        """Pooling windows."""
        return self.pooled[0] * self.pooled[1]

    @property
    def weights(self) -> int:
        """Weights and biases."""
        return (self.kernel**2 * self.channels + 1) * self.outputs

    @property
    def products(self) -> int:
        """Multiply-adds of a forward pass of one sample."""
        pixels = (self.height - self.kernel + 1) * (self.width - self.kernel + 1)
        return pixels * self.kernel**2 * self.channels * self.outputs


@dataclass(frozen=True)
class NeuralNetwork:
    """Layers with the sizes that images and classes give them."""

    image: Image  # height, width, channels
    shapes: tuple[Shape, ...]

    def __post_init__(self) -> None:
        """Machine code takes the sizes at their word: each layer must take what the one before
        gives."""
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
        """The network, or the reason why images of this size do not go through it."""
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
        """Parameters."""
        return sum(shape.weights for shape in self.shapes)

    @property
    def bits(self) -> float:
        """z_m: an upload in 32-bit floats [bit]."""
        return 32.0 * self.size

    @property
    def cycles(self) -> float:
        """alpha_0: cycles of a training step for one sample, at one multiply-add a cycle and
        three times the forward pass, as the backward pass takes two (DECISIONS.md, 11)."""
        return 3.0 * sum(shape.products for shape in self.shapes)

    def start(self, rng: Generator) -> Floats:
        """Weights and biases drawn evenly within 1 / sqrt(inputs), as PyTorch does."""
        parts = []
        for shape in self.shapes:
            bound = (shape.kernel**2 * shape.channels) ** -0.5
            parts.append(rng.uniform(-bound, bound, shape.weights))
        return np.concatenate(parts).astype(np.float32)


class Workspace:
    """The network as the kernels read it, with arrays for batches of up to `batch` samples."""

    def __init__(self, network: NeuralNetwork, batch: int) -> None:
        from .kernels.convolution import MOST
        from .kernels.layer import Layer
        from .kernels.registers import LANES
        from .kernels.vector import ABREAST, SLACK, WIDEST

        def vectors(floats: int) -> int:  # whole vectors that hold so many, and some more
            return (-(-floats // LANES) + MOST) * LANES

        place = dict.fromkeys(("arena", "weights", "winner"), 0)

        def take(where: str, count: int) -> int:
            place[where] += count
            return place[where] - count

        shapes = network.shapes
        margins = [(s.height - h) // 2 for s, h in zip(shapes, _heights(network), strict=True)]
        row = shapes[0].height * shapes[0].width * shapes[0].channels
        room = batch * row + SLACK
        x, dx = take("arena", room), take("arena", room)
        rows = []
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
        self.layers = np.array(rows, dtype=Layer)
        convs = [shape for shape in shapes if shape.conv]

        def most(room: Callable[[Shape], int]) -> int:
            return max(map(room, convs), default=0)

        lists = most(lambda s: s.windows * s.outputs + (s.windows + s.outputs + 1) * ABREAST)
        frames = most(
            lambda s: s.outputs * (s.kernel + 2) * (s.channels + vectors(s.row + s.channels))
        )
        self.scratch = (
            zeros(place["arena"] + SLACK),
            zeros(place["winner"] + SLACK, np.uint8),
            zeros(most(lambda s: (1 + s.kernel * s.row) * WIDEST * LANES) + SLACK),  # kernels
            zeros(frames + SLACK),
            zeros(most(lambda s: s.outputs * s.kernel * vectors(s.row)) + SLACK),  # dw
            zeros(lists, np.int64),  # where
            zeros(lists),  # value
            zeros(most(lambda s: max(s.outputs, s.windows)), np.int64),  # ends
            zeros(PIXEL_CODES, np.int64),
            zeros(batch * max(row[14] for row in rows) + SLACK),  # scaled dy
        )
        self.weights = zeros(network.size + SLACK)[: network.size]
        self.velocity = zeros(network.size + SLACK)[: network.size]


PIXEL_CODES = 8  # more than the codes of a pooling window's pixels


def _heights(network: NeuralNetwork) -> list[int]:
    """The height of what comes to each layer, before padding."""
    coming = [network.image[0], *(shape.pooled[0] for shape in network.shapes)]
    return [h if s.conv else 1 for s, h in zip(network.shapes, coming, strict=False)]


def zeros(count: int, kind: Any = np.float32) -> Any:
    """Zeros that begin on a cache line, where whole vectors are read fastest."""
    size = count * np.dtype(kind).itemsize
    raw = np.zeros(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size].view(kind)
