"""Published datasets of a few samples, in the formats of the real ones."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from fedcell.learning.data.checks import PARTS
from fedcell.learning.data.sources import PUBLISHED, Content, Source

Made = tuple[dict[str, np.ndarray], dict[str, bytes]]  # arrays, and files as they are unpacked


def idx(array: np.ndarray) -> bytes:
    lengths = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + lengths + array.tobytes()


def batch(rows: np.ndarray, labels: list[int]) -> bytes:
    """A pickle as Python 2 wrote it for CIFAR-10."""
    size = rows.size.to_bytes(4, "little")
    return b"".join(
        [
            b"\x80\x02}(U\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels),
            b"eU\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R",
            b"(K\x01K" + bytes([len(rows)]) + b"M\0\x0c\x86cnumpy\ndtype\nU\x02u1K\0K\x01\x87R",
            b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T" + size,
            rows.tobytes() + b"tbu.",
        ]
    )


def publish(monkeypatch, name: str, files: dict[str, bytes], **changes) -> Source:
    """Makes these files, unpacked, what was published."""
    contents = {file: content_of(raw) for file, raw in files.items()}
    source = replace(PUBLISHED[name], contents=contents, **changes)
    monkeypatch.setitem(PUBLISHED, name, source)
    return source


def content_of(raw: bytes) -> Content:
    return Content(len(raw), hashlib.sha256(raw).hexdigest())


def tiny_mnist() -> Made:
    """Six images of 4 x 3 to train with and two to test with."""
    rng = np.random.default_rng(1)
    arrays = {
        "x_train": rng.integers(0, 256, (6, 4, 3, 1), np.uint8),
        "y_train": np.arange(6) % 3,
        "x_test": rng.integers(0, 256, (2, 4, 3, 1), np.uint8),
        "y_test": np.array([2, 0]),
    }
    contents = (
        idx(array[..., 0] if name[0] == "x" else array.astype(np.uint8))
        for name, array in arrays.items()
    )
    return arrays, dict(zip(PUBLISHED["mnist"].contents, contents, strict=True))


def tiny_cifar() -> Made:
    """Six batches of two images, the last to test with."""
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (12, 32, 32, 3), np.uint8)
    labels = np.arange(12) % 10
    rows = images.transpose(0, 3, 1, 2).reshape(12, 3072)
    contents = (batch(rows[i : i + 2], labels[i : i + 2].tolist()) for i in range(0, 12, 2))
    parts = (images[:10], labels[:10], images[10:], labels[10:])
    arrays = dict(zip(PARTS, parts, strict=True))
    return arrays, dict(zip(PUBLISHED["cifar10"].contents, contents, strict=True))


def publish_tiny(monkeypatch: Any, name: str) -> dict[str, bytes]:
    """Makes a tiny dataset the published one; its files, unpacked."""
    _, files = tiny_mnist() if name == "mnist" else tiny_cifar()
    shape = {"image": (4, 3, 1), "sizes": (6, 2)} if name == "mnist" else {"sizes": (10, 2)}
    publish(monkeypatch, name, files, **shape)
    return files
