"""Published datasets as arrays: decoded once, then mapped from the user's cache directory."""

import gzip
import io
import os
import pickle
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .download import Arrays, Report, Source, contents, user_cache


def standard(x: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """What makes each channel of x, uint8 (..., channel), of mean 0 and variance 1.

    Counted, so exact in any order; in blocks, as bincount needs eight bytes for each.
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


def decoded(
    source: Source, folder: Path | None, mirror: str | None, report: Report | None
) -> Arrays:
    """x_train, y_train, x_test, y_test, scale and shift of a published dataset."""
    home = user_cache() / "decoded" / f"{source.name}-{source.fingerprint}"
    if (arrays := _recall(home, source)) is None:
        arrays = source.decode(contents(source, folder, mirror, report))
        arrays |= standard(arrays["x_train"])
        with suppress(OSError):  # without a cache it works as well, from memory
            _remember(home, source, arrays)
            arrays = _recall(home, source) or arrays
    return arrays


def _recall(home: Path, source: Source) -> Arrays | None:
    """The arrays in the cache, mapped; None if they are not there, or not as they should be."""
    (train, test), image = source.sizes, source.image
    shapes = {"x_train": (train, *image), "y_train": (train,), "x_test": (test, *image)}
    shapes |= {"y_test": (test,), "scale": image[2:], "shift": image[2:]}
    kinds = {"x": np.uint8, "y": np.int64, "s": np.float32}
    arrays = {}
    for name, shape in shapes.items():
        path = home / f"{name}.npy"
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            whole = path.stat().st_size == array.offset + array.nbytes
        except Exception:  # absent, cut off, or a header in which much can be wrong
            return None
        if array.shape != shape or array.dtype != kinds[name[0]] or not whole:
            return None
        arrays[name] = array
    return arrays


def _remember(home: Path, source: Source, arrays: Arrays) -> None:
    """Puts the arrays into the cache, all at once, whoever else is doing so now."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home.parent, prefix=f".{home.name}-") as folder:
        fresh = Path(folder) / "fresh"
        fresh.mkdir()
        for name, array in arrays.items():
            np.save(fresh / f"{name}.npy", array)
        if os.path.lexists(home) and _recall(home, source) is None:  # damaged
            os.rename(home, Path(folder) / "old")
        with suppress(OSError):  # another process was faster: what it wrote is as good
            os.rename(fresh, home)


def idx(files: Iterable[bytes]) -> Arrays:
    """MNIST and its kin: gzipped IDX, whose header is a type, the axes and their lengths."""
    arrays = []
    for raw in map(gzip.decompress, files):
        shape = np.frombuffer(raw, ">u4", raw[3], offset=4).tolist()
        arrays.append(np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape))
    x_train, y_train, x_test, y_test = arrays
    return _named(x_train[..., None], y_train, x_test[..., None], y_test)


def cifar(files: Iterable[bytes]) -> Arrays:
    """CIFAR-10: pickles of rows of 1024 red, 1024 green and 1024 blue; the last is the test."""
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
    """Knows what a pickled array of bytes needs and nothing else, so it can run nothing else."""

    known: ClassVar[dict[str, Any]] = {
        "numpy.core.multiarray._reconstruct": lambda *_: np.ndarray(0, np.uint8),
        "numpy.ndarray": np.ndarray,
        "numpy.dtype": lambda kind, *_: np.dtype(kind, copy=True),
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.known[f"{module}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a batch") from None


PUBLISHED = {
    source.name: source
    for source in (
        Source(
            name="mnist",
            url="https://ossci-datasets.s3.amazonaws.com/mnist/",
            folders=("mnist", "MNIST/raw", ""),
            files={
                "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
                "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
                "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
            },
            image=(28, 28, 1),
            sizes=(60_000, 10_000),
            decode=idx,
        ),
        Source(
            name="fashion-mnist",
            url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            folders=("fashion-mnist", "FashionMNIST/raw"),
            files={
                "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
            },
            image=(28, 28, 1),
            sizes=(60_000, 10_000),
            decode=idx,
        ),
        Source(
            name="cifar10",
            url="https://www.cs.toronto.edu/~kriz/",
            folders=("cifar10", ""),
            files={
                "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
                "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
                "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
            },
            archive={"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"},
            image=(32, 32, 3),
            sizes=(50_000, 10_000),
            decode=cifar,
        ),
    )
}
