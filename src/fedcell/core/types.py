"""Array types by their numbers, and the conversion and checks of given numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput
from .schema import LARGE, SMALL

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]  # weights of a model, images


def real_numbers(name: str, given: Any) -> Array:
    """Return `given` as a read-only array of real numbers: a copy, unless mapped from a file."""
    if isinstance(given, np.ma.MaskedArray):
        raise BadInput(f"{name} has masked values: fill them in first")
    if np.iscomplexobj(given):
        raise BadInput(f"{name} holds complex numbers: give real ones (power gains are |h|^2)")
    try:
        values = np.asarray(given)
        if values.dtype.kind not in "fiu":
            raise TypeError(f"its type is {values.dtype}")
        values = values.astype(float, copy=not isinstance(given, np.memmap))
        values.flags.writeable = False  # values stay as they were checked
        return values
    except (ValueError, TypeError) as error:
        raise BadInput(f"{name} is not an array of numbers: {error}") from error


def check_number(name: str, given: Any, least: float) -> None:
    """Refuse what is not one number between `least` and the largest that is computed with."""
    value = real_numbers(name, given)
    if value.ndim != 0 or not least <= value <= LARGE:
        raise BadInput(f"{name} = {value}: expected one number, {least:g} to {LARGE:g}")


def range_faults(vectors: Mapping[str, Array]) -> list[str]:
    """Return a sentence for each vector with a number that is not above 0, or too far from 1."""
    return [
        f"{name} has a client with {values[wrong][0]:g}: expected {SMALL:g} to {LARGE:g}"
        for name, values in vectors.items()
        if (wrong := ~((values >= SMALL) & (values <= LARGE))).any()  # NaN is wrong too
    ]


def same_shape(vectors: Mapping[str, Array]) -> tuple[dict[str, Array], list[str]]:
    """Return vectors broadcast to one shape, (..., client), and what is wrong with their shapes."""
    try:
        arrays = np.broadcast_arrays(*vectors.values())
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in vectors.items())
        return dict(vectors), [f"the vectors have shapes that do not go together: {shapes}"]
    empty = arrays[0].ndim == 0 or arrays[0].size == 0
    faults = ["there are no clients: the last axis must hold at least one"] if empty else []
    return dict(zip(vectors, arrays, strict=True)), faults
