"""Decode the published formats into arrays; checksums were checked before."""

import io
import pickle
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcell.core.files.npz import Arrays


def standard(x: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """Return scale and shift that give each channel of x, uint8 (..., channel), mean 0, variance 1.

    By counting, so exact in any order; in blocks, as bincount needs eight bytes for each value.
    """
    pixels = x.reshape(-1, x.shape[-1])
    counts = np.zeros((x.shape[-1], 256))
    for start in range(0, len(pixels), 1 << 20):
        for channel, count in enumerate(counts):
            count += np.bincount(pixels[start : start + (1 << 20), channel], minlength=256)
    value = np.arange(256)
    mean = counts @ value / len(pixels)
    deviation = np.sqrt((counts * (value - mean[:, None]) ** 2).sum(-1) / len(pixels))
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return {"scale": scale.astype(np.float32), "shift": (-mean * scale).astype(np.float32)}


def idx(files: Iterable[bytes]) -> Arrays:
    """Decode IDX, the format of MNIST: a header with type, axes and lengths, then the values."""
    arrays = []
    for raw in files:
        shape = np.frombuffer(raw, ">u4", raw[3], offset=4).tolist()
        arrays.append(np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape))
    x_train, y_train, x_test, y_test = arrays
    return _named(x_train[..., None], y_train, x_test[..., None], y_test)


def cifar(files: Iterable[bytes]) -> Arrays:
    """Decode CIFAR-10: pickles of rows of 1024 red, green and blue values; the last is the test."""
    batches = [_Batch(io.BytesIO(raw), encoding="latin1").load() for raw in files]
    x = [b["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) for b in batches]
    y = [b["labels"] for b in batches]
    return _named(np.concatenate(x[:-1]), np.concatenate(y[:-1]), x[-1], y[-1])


def _named(x_train: Any, y_train: Any, x_test: Any, y_test: Any) -> Arrays:
    return {
        "x_train": np.ascontiguousarray(x_train),
        "y_train": np.asarray(y_train, np.int64),
        "x_test": np.ascontiguousarray(x_test),
        "y_test": np.asarray(y_test, np.int64),
    }


class _Batch(pickle.Unpickler):
    """An unpickler that makes arrays of bytes only, so it can run no other code."""

    known: ClassVar[dict[str, Any]] = {
        "numpy.core.multiarray._reconstruct": lambda *_: np.ndarray(0, np.uint8),
        "numpy.ndarray": None,  # only named, never made
        "numpy.dtype": lambda kind, *_: np.dtype(kind, copy=True),
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.known[f"{module}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a batch") from None


FORMATS = {"idx": idx, "cifar": cifar}
