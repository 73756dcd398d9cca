"""Check and convert the arrays of labelled samples."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcell.core.errors import BadInput, FedcellWarning, printable
from fedcell.core.files.npz import Arrays
from fedcell.core.schema import suggestion

PARTS = ("x_train", "y_train", "x_test", "y_test")
MAX_CLASSES = 10_000  # a larger label is a mistake

Labels = NDArray[np.int64]


def as_numbers(name: str, given: Any) -> NDArray[Any]:
    """Return an array of real numbers with at least one sample."""
    if isinstance(given, np.ma.MaskedArray):
        raise BadInput(f"{name} has masked values: fill them in first")
    try:
        values = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise BadInput(f"{name} is not an array: {error}") from error
    if values.dtype.kind not in "fiu":
        raise BadInput(f"{name} holds {values.dtype}: expected real numbers")
    if values.ndim == 0:
        raise BadInput(f"{name} is one number: expected one for each sample")
    if values.size == 0:
        raise BadInput(f"{name} has shape {values.shape}: expected at least one sample")
    return values


def check_shapes(arrays: Arrays) -> None:
    """Refuse arrays that cannot be labelled samples, by their shapes and types."""
    each({part: partial(_check_shape, part, values) for part, values in arrays.items()})
    x, x_test = image_of(arrays["x_train"]), image_of(arrays["x_test"])
    faults = [
        f"{b} has {len(arrays[b])} labels for the {len(arrays[a])} samples of {a}"
        for a, b in (PARTS[:2], PARTS[2:])
        if len(arrays[a]) != len(arrays[b])
    ]
    if x != x_test:
        faults.append(f"x_test has samples of shape {x_test}, x_train {x}")
    if faults:
        raise BadInput(*faults)


def check_pair(arrays: Arrays) -> None:
    """Refuse an x and a y that cannot be the labelled samples of a client."""
    each({part: partial(_check_shape, part, values) for part, values in arrays.items()})
    if len(arrays["x"]) != len(arrays["y"]):
        raise BadInput(f"y has {len(arrays['y'])} labels for the {len(arrays['x'])} samples of x")


def note_unused(path: Path, held: Iterable[str], known: Iterable[str]) -> None:
    """Warn of arrays in a file that are not read: one may be misspelt."""
    known = list(known)
    if unused := sorted(name for name in held if name not in known):
        note = f"{path}: {', '.join(unused)}: not used; {suggestion(unused[0], known)}"
        warnings.warn(printable(note), FedcellWarning, stacklevel=3)


def _check_shape(name: str, given: NDArray[Any]) -> None:
    as_numbers(name, given)
    if name[0] == "y" and given.shape != (len(given),) and given.shape != (len(given), 1):
        raise BadInput(f"{name} has shape {given.shape}: expected (sample,)")
    if name[0] == "x" and given.ndim not in (2, 3, 4):
        raise BadInput(
            f"{name} has shape {given.shape}: expected (sample, feature), "
            "(sample, height, width) or (sample, height, width, channel)"
        )


def image_of(x: NDArray[Any]) -> tuple[int, ...]:
    """Return height, width and channels of samples, with 1 for axes they lack."""
    return {2: (1, *x.shape[1:], 1), 3: (*x.shape[1:], 1)}.get(x.ndim, x.shape[1:])


def as_images(name: str, x: NDArray[Any]) -> NDArray[Any]:
    """Return samples as (sample, height, width, channel) in uint8 or finite float32."""
    x = np.ascontiguousarray(x.reshape(len(x), *image_of(x)))  # as the engine is compiled for
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):  # values that are too large become infinite and are refused
        x = x.astype(np.float32, copy=False)
    sound = np.isfinite(x).all(axis=(1, 2, 3))
    if not sound.all():
        raise BadInput(
            f"{name}: sample {np.argmin(sound)} has a value that is not a finite float32"
        )
    return x


def as_labels(name: str, y: NDArray[Any]) -> Labels:
    """Return labels as a new array of whole numbers from 0: the kernels index by them."""
    y = y.reshape(len(y))
    sound = (y >= 0) & (y < MAX_CLASSES) & (y == np.floor(y))
    if not sound.all():
        i = np.argmin(sound)
        raise BadInput(
            f"{name}: sample {i} has the label {y[i]}: "
            f"expected a whole number from 0 to {MAX_CLASSES - 1}"
        )
    return y.astype(np.int64)


def each(makers: Mapping[str, Callable[[], Any]]) -> Arrays:
    """Return the result of each maker, by name; report the faults of all of them together."""
    made: Arrays = {}
    faults: list[str] = []
    for part, make in makers.items():
        try:
            made[part] = make()
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(*faults)
    return made


LARGE_INPUT = 10.0  # root mean square of inputs, beyond which a network learns badly
MAX_LABELS = 5  # named in a sentence


def doubts(x: NDArray[Any], y: Labels, y_test: Labels) -> list[str]:
    """Return reasons against training on samples x, y; empty where there are none."""
    reasons = []
    low, high = x.min(), x.max()
    size = float(np.linalg.norm(x.ravel())) / sqrt(x.size) if x.dtype != np.uint8 else 0.0
    if low == high:
        reasons.append(f"all values of x_train are {low:g}: there is nothing to learn from")
    elif size > LARGE_INPUT:
        reasons.append(
            f"x_train has values from {low:g} to {high:g}, which go into the network as they are: "
            "standardise them, or it will hardly learn (images of uint8 are standardised)"
        )
    classes = int(max(y.max(), y_test.max())) + 1
    absent = np.flatnonzero(np.bincount(y, minlength=classes) == 0).tolist()
    if absent == [0]:
        reasons.append("no training sample has the label 0: labels count from 0, so subtract 1")
    elif absent:
        some = ", ".join(map(str, absent[:MAX_LABELS])) + (", ..." if absent[MAX_LABELS:] else "")
        reasons.append(
            f"no training sample has the label {some}: the network has an output for each up to "
            f"{classes - 1}; number the classes without gaps"
        )
    return reasons
