"""Arrays to Flower records and back: without pickle, and checked before they are unpacked."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from fedcell.core.errors import BadInput

from .layout import Layout

MAX_HEADER = 65536  # [byte] of a .npy, with a margin
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
        """Size of the arrays."""
        return sum(len(array.data) for array in self.record.values())

    def excess(self, layout: Layout) -> str | None:
        """Say by how much the arrays exceed a model of this layout; None where they do not."""
        most = layout.bits / 8 + MAX_HEADER * len(layout.names)
        if self.bytes <= most:
            return None
        return f"{self.bytes} bytes, and a model of this kind has {layout.bits / 8:.0f}"

    def of(self, layout: Layout) -> dict[str, Any]:
        """Return the arrays of a model; raise BadInput where they do not fit its layout."""
        if set(self.record) != set(layout.names):
            missing = [name for name in layout.names if name not in self.record]
            raise BadInput(f"has no array {missing[0]}" if missing else "has arrays of other names")
        parts = zip(layout.names, layout.shapes, layout.kinds, strict=True)
        return {name: _unpacked(name, self.record[name], s, kind) for name, s, kind in parts}


def _unpacked(name: str, array: Array, shape: tuple[int, ...], kind: str) -> Any:
    """Unpack an array. Read its header first: the size in it is what would be allocated."""
    if array.stype != "numpy.ndarray":
        raise BadInput(f"{name} is packed as {str(array.stype)[:40]!r}: expected numpy.ndarray")
    stream = io.BytesIO(array.data)
    try:
        version = np.lib.format.read_magic(stream)
        sent, _, dtype = READERS[version](stream)
        if sent != shape:
            raise BadInput(f"{name} has shape {sent}, expected {shape}")
        if dtype.name != kind or not dtype.isnative:
            raise BadInput(f"{name} holds {dtype}, expected {kind}")
        if len(array.data) - stream.tell() != dtype.itemsize * prod(shape):
            raise BadInput(f"{name} has fewer or more numbers than it announces")
        return array.numpy()
    except BadInput:
        raise
    except Exception as error:  # bytes of a device may raise anything in NumPy
        raise BadInput(f"{name} cannot be unpacked ({type(error).__name__})") from error


def array_record(arrays: Mapping[str, Any]) -> ArrayRecord:
    """Pack arrays into a record."""
    return ArrayRecord({name: Array(np.asarray(a, order="C")) for name, a in arrays.items()})
