"""The shipped digits, and published files in any packing."""

import gzip
import hashlib
import io
import lzma
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.errors import BadInput, DataUnavailable
from fedcell.learning.data import download as fetch
from fedcell.learning.data.dataset import load_data
from fedcell.learning.data.download import data_folder, user_cache
from fedcell.learning.data.sources import PUBLISHED
from support.datasets import Malice, Tiny, as_archive, check_standard, flipped, is_mapped, peak_of
from support.published import content_of, publish

REAL = os.environ.get("FEDCELL_DATA")


def unpacked(tiny: Tiny) -> dict[str, bytes]:
    """Its files as they are when unpacked."""
    return {
        name.removesuffix(".gz"): gzip.decompress(raw) if name.endswith(".gz") else raw
        for name, raw in tiny.files.items()
    }


def packed_as(tiny: Tiny, form: str) -> Tiny:
    """The same content as people have it: packed otherwise, or not at all."""
    ending, pack = {
        "plain": ("", lambda raw: raw),
        "gz": (".gz", lambda raw: gzip.compress(raw, 1, mtime=5)),  # unlike any published file
        "xz": (".xz", lzma.compress),
    }[form]
    return replace(tiny, files={n + ending: pack(raw) for n, raw in unpacked(tiny).items()})


def test_the_digits_are_the_published_ones():
    data = load_data("digits")
    assert (data.name, data.image, data.classes) == ("digits", (8, 8, 1), 10)
    counts = np.array([178, 182, 177, 183, 181, 182, 181, 179, 174, 180])
    assert_array_equal(np.bincount(data.y_test), counts // 6)
    assert_array_equal(np.bincount(data.y_train), counts - counts // 6)
    assert len(data.y_train) == 1501
    images = np.concatenate([data.x_train, data.x_test]).reshape(1797, 64)
    assert len(np.unique(images, axis=0)) == 1797  # so none is both trained and tested with
    check_standard(data)


def test_the_table_of_digits_is_scikit_learn_s():
    """The text of digits.csv.gz, whose checksum the wheel of scikit-learn records."""
    with np.load(Path(fetch.__file__).with_name("digits.npz")) as file:
        table = np.column_stack([file["x"].reshape(1797, 64), file["y"]])
        assert "CC BY 4.0" in str(file["about"])
    text = "".join(",".join(map(str, row)) + "\n" for row in table.tolist())
    published = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
    assert hashlib.sha256(text.encode()).hexdigest() == published


def test_every_sixth_digit_of_a_class_is_a_test():
    with np.load(Path(fetch.__file__).with_name("digits.npz")) as file:
        x, y = file["x"], file["y"]
    data = load_data("digits")
    for label in range(10):
        test = data.x_test[data.y_test == label][..., 0]
        assert_array_equal(test, x[y == label][5::6])


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "raw", "."])
@pytest.mark.parametrize("form", ["plain", "gz", "xz"])
def test_mnist_is_found_and_decoded(mnist, tmp_path, place, form):
    packed_as(mnist, form).put(tmp_path / "data" / place)
    data = load_data("mnist", tmp_path / "data")
    mnist.check(data)
    assert (data.name, data.image, data.classes) == ("mnist", (4, 3, 1), 3)


@pytest.mark.parametrize("place", ["cifar10", "."])
@pytest.mark.parametrize("form", ["plain", "gz", "xz", "archive"])
def test_cifar_is_found_and_decoded(cifar, tmp_path, monkeypatch, place, form):
    archive = form == "archive"
    cifar = as_archive(cifar, tmp_path, monkeypatch) if archive else packed_as(cifar, form)
    cifar.put(tmp_path / "data" / place)
    data = load_data("cifar10", tmp_path / "data")
    cifar.check(data)
    assert (data.image, data.classes) == ((32, 32, 3), 10)


def test_fashion_mnist_is_distinguished_from_mnist(mnist, tmp_path, monkeypatch):
    """Its files have the names of MNIST's."""
    other = {name: flipped(raw) for name, raw in unpacked(mnist).items()}  # of the same lengths
    publish(monkeypatch, "fashion-mnist", other, image=(4, 3, 1), sizes=(6, 2))
    mnist.put(tmp_path)
    with pytest.raises(DataUnavailable, match=r"fashion-mnist/train-images.*cannot be downloaded"):
        load_data("fashion-mnist", tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(mnist.files)
    damaged = tmp_path / "t10k-labels-idx1-ubyte.gz"
    damaged.write_bytes(gzip.compress(b"neither"))
    with pytest.raises(BadInput, match=r"t10k-labels-idx1-ubyte\.gz: is not the published file"):
        load_data("fashion-mnist", tmp_path)


def test_a_good_copy_counts_where_another_is_damaged(mnist, tmp_path):
    folder = mnist.put(tmp_path / "mnist")
    packed_as(mnist, "plain").put(tmp_path / "MNIST" / "raw")
    (folder / "train-images-idx3-ubyte.gz").write_bytes(b"")
    mnist.check(load_data("mnist", tmp_path))


def test_where_data_are_looked_for(mnist, tmp_path, monkeypatch):
    assert user_cache() == data_folder() == tmp_path / "cache" / "fedcell"
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path / "mine"))
    assert data_folder() == tmp_path / "mine"
    assert data_folder(tmp_path / "other") == tmp_path / "other"
    mnist.put(tmp_path / "mine" / "mnist")
    mnist.check(load_data("mnist"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert user_cache() == Path("/home/someone/.cache/fedcell")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="file: is not a folder"):
        data_folder(tmp_path / "file")


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("damage", [flipped, halved, lambda _: b""])
@pytest.mark.parametrize("form", ["idx", "plain", "xz", "archive"])
def test_a_damaged_file_is_named_and_not_used(mnist, cifar, tmp_path, monkeypatch, form, damage):
    tiny = mnist if form == "idx" else cifar
    if form in ("xz", "archive"):
        archive = form == "archive"
        tiny = as_archive(cifar, tmp_path, monkeypatch) if archive else packed_as(cifar, "xz")
    folder = tiny.put(tmp_path / "data" / tiny.source.folders[0])
    file = folder / list(tiny.files)[-1]
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(BadInput, match=r"is not the published file.*delete it") as caught:
        load_data(tiny.source.name, tmp_path / "data")
    assert str(caught.value).startswith(f"{file}: ")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("form", ["xz", "gz", "archive", "longname"])
def test_a_small_file_that_unpacks_to_much_is_given_up(cifar, tmp_path, form):
    """30 MB out of some kilobytes, where the content should be 6 kB."""
    folder, name = tmp_path / "data", "cifar-10-batches-py/data_batch_1"
    cifar.put(folder)
    (folder / name).unlink()
    bomb = bytes(30_000_000)
    if form == "xz":
        (folder / f"{name}.xz").write_bytes(lzma.compress(bomb))
    elif form == "gz":
        (folder / f"{name}.gz").write_bytes(gzip.compress(bomb))
    else:
        with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo(name if form == "archive" else "x" * 30_000_000)
            member.size = len(bomb) if form == "archive" else 0
            archive.addfile(member, io.BytesIO(bomb))

    def load() -> None:
        with pytest.raises(
            BadInput, match=r"is not the published file \(it (holds|unpacks to) more"
        ):
            load_data("cifar10", folder)

    assert peak_of(load) < 20_000_000


def test_a_foreign_pickle_never_runs(cifar, tmp_path, monkeypatch):
    folder = cifar.put(tmp_path / "data")
    bad = pickle.dumps(Malice(tmp_path / "ran"), protocol=2)
    file = folder / "cifar-10-batches-py" / "data_batch_1"
    file.write_bytes(bad)
    with pytest.raises(BadInput, match=r"data_batch_1: is not the published file"):
        load_data("cifar10", folder)
    # Even with the right checksum there is nothing that it could call.
    sums = dict(cifar.source.contents) | {"cifar-10-batches-py/data_batch_1": content_of(bad)}
    monkeypatch.setitem(PUBLISHED, "cifar10", replace(cifar.source, contents=sums))
    with pytest.raises(pickle.UnpicklingError, match="has no place in a batch"):
        load_data("cifar10", folder)
    assert not (tmp_path / "ran").exists()


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.mark.long
@pytest.mark.skipif(not REAL, reason="needs FEDCELL_DATA, a folder with the published files")
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_real_datasets_match_published_statistics(name, kept, monkeypatch):
    """Counts per class and pixel statistics, as their authors and common use state them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))
    data = load_data(name, Path(REAL))
    if name == "mnist":
        train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        mean, deviation, image = [0.1307], [0.3081], (28, 28, 1)
    else:
        train, test, image = [5000] * 10, [1000] * 10, (32, 32, 3)
        mean, deviation = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
    assert_array_equal(np.bincount(data.y_train), train)
    assert_array_equal(np.bincount(data.y_test), test)
    assert (data.image, data.classes) == (image, 10)
    assert_allclose(1 / data.scale / 255, deviation, atol=1e-4)
    assert_allclose(-data.shift / data.scale / 255, mean, atol=1e-4)
    assert is_mapped(load_data(name, kept / "none").x_train)
