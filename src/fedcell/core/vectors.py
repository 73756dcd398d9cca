"""Checks of vectors over clients: every number in range, and all of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import BadInput
from .schema import LARGE, SMALL
from .types import Array, real_numbers


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
