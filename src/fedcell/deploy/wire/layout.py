"""A model as named arrays, as federations exchange it, and as a flat vector for averaging."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats

KINDS = "fiu"  # of numbers in a model: floats, and integer counters such as those of BatchNorm


@dataclass(frozen=True)
class Layout:
    """The arrays of a model, in order: name, shape and type of each.

    >>> layout = Layout.of({"w": np.zeros((2, 3), np.float32), "b": np.ones(3, np.float32)})
    >>> layout.size, layout.flat(layout.arrays(np.arange(9, dtype=np.float32))).tolist()[-1]
    (9, 8.0)
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]  # of numbers: "float32"

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> "Layout":
        """Return the layout of a model."""
        if not arrays:
            raise BadInput("the model has no arrays: give those of the first model")
        values = {name: np.asarray(array) for name, array in arrays.items()}
        for name, array in values.items():
            if array.dtype.kind not in KINDS:
                raise BadInput(f"the array {name} holds {array.dtype}: expected numbers")
        return cls(
            names=tuple(values),
            shapes=tuple(array.shape for array in values.values()),
            kinds=tuple(array.dtype.name for array in values.values()),
        )

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(map(prod, self.shapes))

    @property
    def bits(self) -> float:
        """z_m of the uncompressed arrays [bit]."""
        each = (np.dtype(kind).itemsize for kind in self.kinds)
        return 8.0 * sum(n * prod(shape) for n, shape in zip(each, self.shapes, strict=True))

    def flat(self, arrays: Mapping[str, Any]) -> Floats:
        """Concatenate all arrays to a vector of shape (size,), float32."""
        parts = [np.asarray(arrays[name]).ravel().astype(np.float32) for name in self.names]
        return np.concatenate(parts)

    def arrays(self, model: Floats) -> dict[str, Any]:
        """Split a flat model into its arrays; round integers."""
        arrays, begin = {}, 0
        for name, shape, kind in zip(self.names, self.shapes, self.kinds, strict=True):
            part = model[begin : begin + prod(shape)].reshape(shape)
            whole = np.dtype(kind).kind in "iu"
            arrays[name] = (np.rint(part) if whole else part).astype(kind)
            begin += prod(shape)
        return arrays
