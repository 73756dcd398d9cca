"""Datasets of users: arrays and .npz files."""

import gzip
import tarfile
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.errors import BadInput
from fedcell.learning.data.dataset import NAMES, Dataset, load_data
from support.datasets import Malice, check_standard, flipped, mine, peak_of


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


@pytest.mark.parametrize(
    ("shape", "image"),
    [((4, 6), (1, 6, 1)), ((4, 2, 3), (2, 3, 1)), ((4, 1, 2, 3), (1, 2, 3))],
)
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float16, np.float64, ">f4"])
def test_own_data_of_any_shape_and_kind(tmp_path, shape, image, kind):
    x = (np.arange(24) % 9).astype(kind).reshape(shape)
    y = np.array([[0.0], [1], [2], [1]])
    given = mine(x_train=x, y_train=y, x_test=x[:2])
    data = load_data(saved(tmp_path, given))
    assert (data.name, data.image, data.classes) == ("mine", image, 3)
    assert_array_equal(data.x_train, x.reshape(4, *image))
    assert_array_equal(data.y_train, [0, 1, 2, 1])
    assert data.y_train.dtype == np.int64
    if kind == np.uint8:
        check_standard(data)
    else:
        assert data.x_train.dtype == np.float32
        assert_array_equal(data.x_train * data.scale + data.shift, data.x_train)
    again = Dataset.of(**given)
    assert again.fingerprint == data.fingerprint
    other = Dataset.of(**given | {"y_test": np.array([2, 1])})
    assert other.fingerprint != data.fingerprint


def test_own_arrays_are_neither_copied_nor_locked():
    x = np.eye(4, 5, dtype=np.float32)
    data = Dataset.of(x_train=x, y_train=[0, 1, 2, 3], x_test=x, y_test=[0, 0, 0, 0], name="x")
    assert np.shares_memory(data.x_train, x)
    assert x.flags.writeable
    assert not data.x_train.flags.writeable
    assert data.name == "x"


def test_a_channel_that_never_changes_stays_finite():
    x = np.full((2, 1, 1, 2), 7, np.uint8)
    x[0, 0, 0, 1] = 9
    data = Dataset.of(x_train=x, y_train=[0, 1], x_test=x, y_test=[0, 1])
    assert_allclose(data.x_train * data.scale + data.shift, [[[[0, 1]]], [[[0, -1]]]], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.zeros(4)}, r"x_train has shape \(4,\): expected \(sample, feature\)"),
        ({"x_train": np.zeros((4, 1, 1, 1, 1))}, r"x_train has shape .* \(sample, height, wi"),
        ({"x_test": np.zeros((0, 2, 3))}, r"x_test has shape \(0, 2, 3\): expected at least one"),
        ({"x_test": np.zeros((2, 3, 2))}, r"x_test has samples of shape \(3, 2, 1\), x_train"),
        ({"x_test": np.zeros((2, 2, 3), np.uint8)}, "x_test is uint8 and x_train float32"),
        ({"x_train": np.zeros((4, 2, 3), complex)}, "x_train holds complex128: expected real"),
        ({"x_train": np.full((4, 2, 3), "a")}, "x_train holds <U1: expected real numbers"),
        ({"y_test": np.array([True, False])}, "y_test holds bool: expected real numbers"),
        ({"y_train": [0, 1, 2]}, "y_train has 3 labels for the 4 samples of x_train"),
        ({"y_test": [0, 1, 2]}, "y_test has 3 labels for the 2 samples of x_test"),
        ({"y_train": np.zeros((4, 2))}, r"y_train has shape \(4, 2\): expected \(sample,\)"),
        ({"y_train": [0, 1, 2, -1]}, "y_train: sample 3 has the label -1: expected a whole"),
        ({"y_train": [0, 1, 0.5, 1]}, r"y_train: sample 2 has the label 0\.5: expected a whole"),
        ({"y_train": [0, np.nan, 0.5, 1]}, "y_train: sample 1 has the label nan: expected"),
        ({"y_test": [0, 10_000]}, "y_test: sample 1 has the label 10000: .* from 0 to 9999"),
        ({"x_test": np.full((2, 2, 3), np.inf)}, "x_test: sample 0 has a value that is not"),
        ({"x_test": np.full((2, 2, 3), 1e300)}, "x_test: sample 0 has .* a finite float32"),
    ],
)
def test_faults_of_own_data_in_one_sentence(tmp_path, changes, message):
    given = mine(**changes)
    with pytest.raises(BadInput, match=message) as caught:
        Dataset.of(**given)
    file = saved(tmp_path, given)
    with pytest.raises(BadInput) as from_file:
        load_data(str(file))
    assert str(from_file.value) == f"{file}: {caught.value}"
    assert len(caught.value.faults) == 1


def test_faults_of_own_data_are_named_together():
    with pytest.raises(BadInput) as caught:
        Dataset.of(**mine(x_train=np.zeros(3), y_test=np.zeros((2, 2))))
    assert [fault[:6] for fault in caught.value.faults] == ["x_trai", "y_test"]
    with pytest.raises(BadInput) as caught:
        Dataset.of(**mine(y_train=[0, 1, -2, 1], y_test=[-1, 0]))
    assert [fault[:7] for fault in caught.value.faults] == ["y_train", "y_test:"]
    with pytest.raises(BadInput, match="x_train is not an array"):
        Dataset.of(**mine() | {"x_train": [[1, 2], [3]]})
    with pytest.raises(BadInput, match="x_train has masked values"):
        Dataset.of(**mine() | {"x_train": np.ma.masked_array(np.zeros((4, 6)))})


def test_what_an_npz_file_will_be_is_known_before_it_is_unpacked(tmp_path):
    """Forty megabytes of zeros in a file of forty kilobytes, in shapes that do not fit."""
    file = tmp_path / "mine.npz"
    np.savez_compressed(file, **mine(x_train=np.zeros((4_000_000, 10), np.uint8)))
    assert file.stat().st_size < 100_000

    def load() -> None:
        with pytest.raises(BadInput, match="y_train has 4 labels for the 4000000 samples"):
            load_data(file)

    load()
    assert peak_of(load) < 1_000_000


@pytest.mark.parametrize("count", [3, 4 * 10**12])
def test_an_npz_header_that_lies_is_refused(tmp_path, count):
    file = saved(tmp_path, mine())
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in ("y_train.npy", "x_train.npy"):
        old = members[name]
        shape = old[old.index(b"(") : old.index(b")") + 1]
        new = b"(" + str(count).encode() + shape[2:]
        spare = b" " * (len(new) - len(shape))
        members[name] = old.replace(spare + b"\n", b"\n", 1).replace(shape, new, 1)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(BadInput, match=r"is not a sound \.npz file.*bytes for a shape of \(\d+,"):
        load_data(file)


@pytest.mark.parametrize("how", ["bz2", "header"])
def test_an_npz_file_is_refused_before_a_large_member_is_unpacked(tmp_path, how):
    file = saved(tmp_path, mine())
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    pack = zipfile.ZIP_BZIP2 if how == "bz2" else zipfile.ZIP_DEFLATED
    if how == "header":
        length = 40_000_000
        members["x_train.npy"] = b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little") + bytes(length)
    else:
        members["x_train.npy"] += bytes(40_000_000)
    with zipfile.ZipFile(file, "w", pack) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    members.clear()

    def load() -> None:
        with pytest.raises(
            BadInput, match=r"is not a sound \.npz file.*(packed|compressed|header of more)"
        ):
            load_data(file)

    assert peak_of(load) < 2_000_000


def test_an_archive_of_headers_upon_headers_is_refused(cifar, tmp_path):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    block = header.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(gzip.compress(block * 3000))
    with pytest.raises(BadInput, match="is not the published file"):
        load_data(cifar.source.name, tmp_path)


def test_a_dataset_made_directly_is_checked_too():
    """What goes into machine code unchecked reads and writes where it must not."""
    good = Dataset.of(**mine())
    for bad in (-(10**9), -1, 10_000, 2**62):
        labels = np.array([0, 1, bad, 1])
        with pytest.raises(BadInput, match=f"y_train: sample 2 has the label {bad}: expected"):
            replace(good, y_train=labels)
        with pytest.raises(BadInput, match="y_test: sample 1 has the label"):
            replace(good, y_test=labels[1:3])
    for name, value, message in [
        ("x_train", good.x_train[..., 0], "x_train has 3 axes of float32: use Dataset.of"),
        ("x_train", good.x_train[:2], "y_train has 4 labels for the 2 samples"),
        ("x_test", good.x_test[:, :1], "x_test has samples of shape"),
        ("x_test", good.x_test.astype(float), "x_test has 4 axes of float64: use Dataset.of"),
        (
            "scale",
            np.ones(2, np.float32),
            r"scale has shape \(2,\): expected a finite",
        ),
        ("shift", np.array([np.nan], np.float32), "expected a finite number for each channel"),
        ("x_train", np.full_like(good.x_train, np.nan), "x_train: sample 0 has a value that is no"),
        ("y_train", 3, "y_train is one number: expected one for each sample"),
    ]:
        with pytest.raises(BadInput, match=message):
            replace(good, **{name: value})


def test_labels_belong_to_the_dataset_alone():
    labels = np.array([0, 1, 2, 1])
    data = Dataset.of(**mine() | {"y_train": labels})
    made = replace(data, y_train=labels)
    labels[:] = -(10**9)
    for one in (data, made):
        assert one.y_train.tolist() == [0, 1, 2, 1]
        assert not one.y_train.flags.writeable
        base: Any = one.y_train.base
        assert not base.flags.writeable


def test_another_content_by_replace_has_another_fingerprint():
    data = Dataset.of(**mine())
    other = replace(data, y_train=data.y_train[::-1])
    assert other.fingerprint == Dataset.of(**mine() | {"y_train": data.y_train[::-1]}).fingerprint
    assert other.fingerprint != data.fingerprint == replace(data, name="other").fingerprint
    published = Dataset(**{f.name: getattr(data, f.name) for f in fields(data)}, published="known")
    assert published.fingerprint == "known" != replace(published, y_train=data.y_train).fingerprint


def test_files_that_are_no_data(tmp_path):
    file = tmp_path / "mine.npz"
    with pytest.raises(BadInput, match=r"mine\.npz: cannot be read: No such file"):
        load_data(file)
    np.savez(file, X_train=np.zeros(3), y_train=np.zeros(3))
    with pytest.raises(
        BadInput, match=r"has no x_train, x_test, y_test: it holds X_train, y_train"
    ):
        load_data(file)
    whole = saved(tmp_path, mine()).read_bytes()
    for content in (b"", b"nonsense", whole[:-30], flipped(whole[:500]) + whole[500:]):
        file.write_bytes(content)
        with pytest.raises(BadInput, match=r"mine\.npz: is not a sound \.npz file"):
            load_data(file)
    np.savez(file, **mine(y_test=np.array([Malice(tmp_path / "ran"), 0])))
    with pytest.raises(BadInput, match=r"mine\.npz: y_test holds object: expected real numbers"):
        load_data(file)
    assert not (tmp_path / "ran").exists()


def test_unknown_names_are_met_with_a_suggestion():
    assert NAMES == ("digits", "mnist", "fashion-mnist", "cifar10")
    with pytest.raises(BadInput, match=r"cifar-10 is not a dataset: did you mean cifar10\?"):
        load_data("cifar-10")
    with pytest.raises(BadInput, match="known: digits, mnist, fashion-mnist, cifar10; your own"):
        load_data("imagenet")
