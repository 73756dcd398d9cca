"""Array types by their numbers, and the conversion of given numbers to such an array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput

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
