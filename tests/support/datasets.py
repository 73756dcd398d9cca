"""Published files in small, and a server that has them."""

import hashlib
import tracemalloc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.learning.data.dataset import Dataset
from fedcell.learning.data.sources import PUBLISHED, Download, Source

NOWHERE = "http://127.0.0.1:9"  # where no server is


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass
class Tiny:
    """A published dataset of a few samples, in the format of the real one."""

    source: Source
    files: dict[str, bytes]
    arrays: dict[str, np.ndarray]

    def put(self, folder: Path) -> Path:
        for name, content in self.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return folder

    def check(self, data: Dataset) -> None:
        for name, expected in self.arrays.items():
            array = getattr(data, name)
            assert_array_equal(array, expected)
            assert array.dtype == (np.uint8 if name[0] == "x" else np.int64)
            assert not array.flags.writeable
        assert data.fingerprint == self.source.fingerprint
        check_standard(data)


def check_standard(data: Dataset) -> None:
    fed = data.x_train * data.scale + data.shift
    assert data.x_train.dtype == np.uint8
    assert fed.dtype == np.float32
    assert_allclose(fed.mean((0, 1, 2), float), 0, atol=1e-6)
    assert_allclose(fed.std((0, 1, 2), float), 1, rtol=1e-6)


def download_of(packed: bytes) -> Download:
    return Download(len(packed), md5(packed))


def as_archive(tiny: Tiny, tmp_path: Path, monkeypatch) -> Tiny:
    content = (tmp_path / "cifar.tar.gz").read_bytes()
    source = replace(tiny.source, downloads={"cifar-10-python.tar.gz": download_of(content)})
    monkeypatch.setitem(PUBLISHED, "cifar10", source)
    return Tiny(source, {"cifar-10-python.tar.gz": content}, tiny.arrays)


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def peak_of(work) -> int:
    """Bytes that a piece of work held at once, beyond what was there before."""
    tracemalloc.start()
    try:
        work()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


class Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def is_mapped(array: Any) -> bool:
    """Whether an array is a view of a view of a file in memory."""
    return isinstance(array.base.base, np.memmap)


def mine(**changes) -> dict[str, np.ndarray]:
    """Four samples to train with and two to test with."""
    x = np.linspace(0, 1, 24).reshape(4, 2, 3)
    given = {"x_train": x, "y_train": [0, 1, 2, 1], "x_test": x[:2] + 1, "y_test": [2, 0]}
    return {name: np.asarray(value) for name, value in (given | changes).items()}
