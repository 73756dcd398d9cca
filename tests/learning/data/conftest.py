"""Datasets: the shipped digits, published files with their possible damage, and custom data."""

import gzip
import shutil
import tarfile

import pytest

from support.datasets import NOWHERE, Tiny, download_of
from support.published import publish, tiny_cifar, tiny_mnist


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Neither the user's files nor the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCELL_MIRROR", NOWHERE)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("FEDCELL_DATA", raising=False)


@pytest.fixture
def mnist(monkeypatch) -> Tiny:
    arrays, files = tiny_mnist()
    packed = {f"{name}.gz": gzip.compress(raw) for name, raw in files.items()}
    downloads = {name: download_of(raw) for name, raw in packed.items()}
    changes = {"image": (4, 3, 1), "sizes": (6, 2), "downloads": downloads}
    return Tiny(publish(monkeypatch, "mnist", files, **changes), packed, arrays)


@pytest.fixture
def cifar(monkeypatch, tmp_path) -> Tiny:
    arrays, files = tiny_cifar()
    made = Tiny(publish(monkeypatch, "cifar10", files, sizes=(10, 2)), files, arrays)
    made.put(tmp_path / "made")
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:  # in some other order
        archive.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
    shutil.rmtree(tmp_path / "made")
    return made
