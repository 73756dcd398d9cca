"""Arrays as Flower sends them, and back: no pickle, and nothing is unpacked unseen."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from fedcell.core.errors import BadInput

from .layout import Layout

HEADER = 65536  # [byte] that the head of a .npy may have, and some more
READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class Decoded:
    """Arrays of a message, not unpacked yet."""

    record: ArrayRecord

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(len(array.data) for array in self.record.values())

    def excess(self, layout: Layout) -> str | None:
        """By how much they are larger than a model of this layout can be, in words."""
        most = layout.bits / 8 + HEADER * len(layout.names)
        if self.bytes <= most:
            return None
        return f"{self.bytes} bytes, and a model of this kind has {layout.bits / 8:.0f}"

    def of(self, layout: Layout) -> dict[str, Any]:
        """The arrays, if they are those of a model; else a BadInput that says what is wrong."""
        if set(self.record) != set(layout.names):
            missing = [name for name in layout.names if name not in self.record]
            raise BadInput(f"has no array {missing[0]}" if missing else "has arrays of other names")
        parts = zip(layout.names, layout.shapes, layout.kinds, strict=True)
        return {name: _unpacked(name, self.record[name], s, kind) for name, s, kind in parts}


def _unpacked(name: str, array: Array, shape: tuple[int, ...], kind: str) -> Any:
    """One array. Its head is read first: what it announces is what would be allocated."""
    if array.stype != "numpy.ndarray":
        raise BadInput(f"{name} is packed as {str(array.stype)[:40]!r}: expected numpy.ndarray")
    stream = io.BytesIO(array.data)
    try:
        version = np.lib.format.read_magic(stream)
        found, _, dtype = READERS[version](stream)
        if found != shape:
            raise BadInput(f"{name} has shape {found}, expected {shape}")
        if dtype.name != kind or not dtype.isnative:
            raise BadInput(f"{name} holds {dtype}, expected {kind}")
        if len(array.data) - stream.tell() != dtype.itemsize * prod(shape):
            raise BadInput(f"{name} has fewer or more numbers than it announces")
        return array.numpy()
    except BadInput:
        raise
    except Exception as error:  # whatever a stranger's bytes make of NumPy
        raise BadInput(f"{name} cannot be unpacked ({type(error).__name__})") from error


def array_record(arrays: Mapping[str, Any]) -> ArrayRecord:
    """A record of arrays."""
    return ArrayRecord({name: Array(np.asarray(a, order="C")) for name, a in arrays.items()})
