"""Datasets: the shipped digits, published files with their possible damage, and custom data."""

import gzip
import hashlib
import io
import lzma
import os
import pickle
import shutil
import socket
import tarfile
import threading
import time
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.core.files import atomic as asides
from fedcell.errors import BadInput, DataUnavailable
from fedcell.learning.data import cache
from fedcell.learning.data import download as fetch
from fedcell.learning.data.dataset import NAMES, Dataset, load_data
from fedcell.learning.data.decode import FORMATS
from fedcell.learning.data.download import data_folder, user_cache
from fedcell.learning.data.sources import PUBLISHED, Download, Source
from support.published import content_of, publish, tiny_cifar, tiny_mnist

REAL = os.environ.get("FEDCELL_DATA")
NOWHERE = "http://127.0.0.1:9"  # where no server is


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Neither the user's files nor the network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCELL_MIRROR", NOWHERE)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("FEDCELL_DATA", raising=False)


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


def as_archive(tiny: Tiny, tmp_path: Path, monkeypatch) -> Tiny:
    content = (tmp_path / "cifar.tar.gz").read_bytes()
    source = replace(tiny.source, downloads={"cifar-10-python.tar.gz": download_of(content)})
    monkeypatch.setitem(PUBLISHED, "cifar10", source)
    return Tiny(source, {"cifar-10-python.tar.gz": content}, tiny.arrays)


class Server(ThreadingHTTPServer):
    """Serves `pages`; one that is a tuple claims a length that its content has not."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/data/"

    def offer(self, folder: str, files: dict[str, bytes]) -> None:
        self.pages |= {f"/data/{folder}/{name}": content for name, content in files.items()}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.asked.append(self.path)
        page = server.pages.get(self.path)
        if page is None:
            self.send_error(404)
            return
        length, content = page if isinstance(page, tuple) else (len(page), page)
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("FEDCELL_MIRROR", running.url)
        yield running
        running.shutdown()
        thread.join()


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


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


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


def peak_of(work) -> int:
    """Bytes that a piece of work held at once, beyond what was there before."""
    tracemalloc.start()
    try:
        work()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


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


class Malice:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


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


def test_what_is_missing_is_downloaded(mnist, server, tmp_path):
    server.offer("mnist", mnist.files)
    names = list(mnist.files)
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    (folder / names[0]).write_bytes(mnist.files[names[0]])
    said = []
    mnist.check(load_data("mnist", tmp_path / "data", report=lambda *args: said.append(args)))
    assert server.asked == [f"/data/mnist/{name}" for name in names[1:]]
    assert said == [(name, len(mnist.files[name]), len(mnist.files[name])) for name in names[1:]]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == mnist.files


def test_progress_is_reported_by_block(mnist, server, monkeypatch, tmp_path):
    monkeypatch.setattr(fetch, "BLOCK", 16)
    monkeypatch.setenv("FEDCELL_MIRROR", NOWHERE)
    server.offer("mnist", mnist.files)
    said = []
    load_data("mnist", tmp_path, mirror=server.url, report=lambda _, *counts: said.append(counts))
    assert said[0] == (16, len(next(iter(mnist.files.values()))))
    assert sum(done == total for done, total in said) == 4


def test_an_archive_is_downloaded_once(cifar, server, tmp_path, monkeypatch):
    cifar = as_archive(cifar, tmp_path, monkeypatch)
    server.offer("cifar10", cifar.files)
    for _ in range(2):
        cifar.check(load_data("cifar10", tmp_path / "data"))
        shutil.rmtree(tmp_path / "cache")  # so that it is decoded again
    assert server.asked == ["/data/cifar10/cifar-10-python.tar.gz"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (None, "cannot be downloaded: HTTP Error 404: Not Found"),
        (lambda content: (len(content), content[:-5]), r"broke off after \d+ of \d+ bytes"),
        (lambda content: (None, content[:-5]), r"broke off after \d+ of \d+ bytes"),
        (lambda content: (None, content * 9), r"is not the published file: it has more than \d+ b"),
        (lambda content: content[:-5], r"is not the published file: it has \d+ bytes, not \d+"),
        (flipped, "is not the published file: its md5 is"),
        (lambda _: b"<html>Please log in</html>", "the published file: it has 26 bytes, not"),
        (lambda content: ("2 MB\x1b[2J", content), r"invalid literal.*2 MB\\x1b\[2J"),
    ],
)
def test_a_bad_download_leaves_nothing_and_says_what_to_do(mnist, server, tmp_path, page, message):
    server.offer("mnist", mnist.files)
    second = "/data/mnist/train-labels-idx1-ubyte.gz"
    server.pages[second] = page and page(server.pages[second])
    with pytest.raises(DataUnavailable, match=message) as caught:
        load_data("mnist", tmp_path / "data")
    folder = tmp_path / "data" / "mnist"
    words = (
        "; try again, or put train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
        f"t10k-labels-idx1-ubyte.gz from {mnist.source.url} into {folder}"
    )
    assert str(caught.value).startswith(server.url + "mnist/train-labels-idx1-ubyte.gz")
    assert str(caught.value).endswith(words)
    assert [file.name for file in folder.iterdir()] == ["train-images-idx3-ubyte.gz"]


def test_without_a_network_it_says_what_to_put_where(mnist, tmp_path, monkeypatch):
    with pytest.raises(DataUnavailable) as caught:
        load_data("mnist", tmp_path)
    assert f"put {', '.join(mnist.files)} from {mnist.source.url} into {tmp_path / 'mnist'}" in str(
        caught.value
    )
    with pytest.raises(
        DataUnavailable, match=r"put cifar-10-python\.tar\.gz from https://www\.cs\.tor"
    ):
        load_data("cifar10", tmp_path)
    assert not list(tmp_path.iterdir())  # not even the folders that were made for them
    with pytest.raises(DataUnavailable, match=r"nonsense/mnist/train-.* cannot be .*: unknown url"):
        load_data("mnist", tmp_path, mirror="nonsense")
    monkeypatch.setattr(fetch, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DataUnavailable, match="cannot be downloaded: timed out"):
            load_data("mnist", tmp_path, mirror=mirror)


@pytest.mark.usefixtures("mnist")
@pytest.mark.parametrize("slow", ["headers", "content"])
def test_a_download_has_an_end(tmp_path, monkeypatch, slow):
    """A server that sends a byte now and then, for ever."""
    monkeypatch.setattr(fetch, "PATIENCE", 0.3)
    stop = threading.Event()

    def drip(server: socket.socket) -> None:
        with suppress(OSError), server.accept()[0] as peer:
            peer.sendall(b"HTTP/1.0 200 OK\r\n" + b"\r\n" * (slow == "content"))
            while not stop.wait(0.02):
                peer.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        mirror = f"http://127.0.0.1:{server.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(DataUnavailable, match="cannot be downloaded: it takes too long"):
            load_data("mnist", tmp_path / "data", mirror=mirror)
        assert time.monotonic() - begin < 20
        stop.set()
        thread.join()
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("mnist")
def test_what_a_server_says_does_nothing_to_a_terminal(tmp_path):
    def answer(server: socket.socket) -> None:
        with server.accept()[0] as peer:
            peer.recv(10_000)
            peer.sendall(b"HTTP/1.0 500 \x1b]0;owned\x07\x1b[2J\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with pytest.raises(DataUnavailable) as caught:
            load_data("mnist", tmp_path, mirror=f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert r"HTTP Error 500: \x1b]0;owned\x07\x1b[2J" in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_folder_that_cannot_be_written_is_only_read(mnist, server, tmp_path, monkeypatch):
    server.offer("mnist", mnist.files)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "mnist").touch()  # in the way, also of a superuser
    mnist.check(load_data("mnist", folder))
    assert len(server.asked) == 4
    shutil.rmtree(user_cache() / "decoded")
    mnist.check(load_data("mnist", folder))  # and found there again
    assert len(server.asked) == 4
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "mnist"))
    with pytest.raises(
        DataUnavailable, match=r"t10k-labels\S+: missing, and .* into .*: not writable"
    ):
        load_data("mnist", folder)


def test_a_second_start_needs_no_sources(mnist, tmp_path):
    folder = mnist.put(tmp_path / "data" / "mnist")
    mnist.check(load_data("mnist", tmp_path / "data"))
    shutil.rmtree(folder)
    data = load_data("mnist", tmp_path / "data")
    mnist.check(data)
    home = user_cache() / "decoded" / f"mnist-{mnist.source.fingerprint}"
    assert [file.name for file in home.parent.iterdir()] == [home.name]
    assert is_mapped(data.x_train)


def is_mapped(array: Any) -> bool:
    """Whether an array is a view of a view of a file in memory."""
    return isinstance(array.base.base, np.memmap)


DAMAGE: dict[str, Any] = {
    "cut off": lambda home: os.truncate(home / "x_train.npy", 150),
    "empty": lambda home: os.truncate(home / "y_train.npy", 0),
    "longer": lambda home: os.truncate(home / "x_test.npy", 4096),
    "no array": lambda home: (home / "scale.npy").write_bytes(b"nonsense"),
    "gone": lambda home: (home / "shift.npy").unlink(),
    "shape": lambda home: np.save(home / "x_train.npy", np.zeros((6, 4, 3, 2), np.uint8)),
    "type": lambda home: np.save(home / "x_train.npy", np.zeros((6, 4, 3, 1))),
    "pickle": lambda home: np.save(home / "y_test.npy", np.array([2, 0], object)),
    "a file": lambda home: shutil.rmtree(home) or home.touch(),  # type: ignore[func-returns-value]
    "bare": lambda home: shutil.rmtree(home) or home.mkdir(),  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_rebuilt(mnist, tmp_path, damage):
    folder = mnist.put(tmp_path / "data" / "mnist")
    load_data("mnist", tmp_path / "data")
    home = user_cache() / "decoded" / f"mnist-{mnist.source.fingerprint}"
    DAMAGE[damage](home)
    mnist.check(load_data("mnist", tmp_path / "data"))
    shutil.rmtree(folder)
    mnist.check(load_data("mnist", tmp_path / "data"))
    assert [file.name for file in home.parent.iterdir()] == [home.name]


def test_without_a_cache_it_works_from_memory(mnist, tmp_path, monkeypatch):
    mnist.put(tmp_path / "data" / "mnist")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    mnist.check(load_data("mnist", tmp_path / "data"))


def test_a_pipe_in_the_cache_is_not_waited_for(mnist, tmp_path):
    mnist.put(tmp_path / "data" / "mnist")
    load_data("mnist", tmp_path / "data")
    home = user_cache() / "decoded" / f"mnist-{mnist.source.fingerprint}"
    (home / "x_train.npy").unlink()
    os.mkfifo(home / "x_train.npy")
    mnist.check(load_data("mnist", tmp_path / "data"))


@pytest.mark.usefixtures("mnist")
def test_the_password_of_a_mirror_is_hidden(tmp_path):
    with pytest.raises(DataUnavailable) as caught:
        load_data("mnist", tmp_path, mirror="http://user:secret@127.0.0.1:9")
    assert "secret" not in str(caught.value)


def test_a_flipped_byte_in_the_cache_is_noticed(mnist, tmp_path):
    folder = mnist.put(tmp_path / "data" / "mnist")
    load_data("mnist", tmp_path / "data")
    home = user_cache() / "decoded" / f"mnist-{mnist.source.fingerprint}"
    for file in sorted(home.iterdir()):
        whole = file.read_bytes()
        for place in {len(whole) - 1, len(whole) // 2, 130 % len(whole)}:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            mnist.check(load_data("mnist", tmp_path / "data"))
    shutil.rmtree(folder)
    mnist.check(load_data("mnist", tmp_path / "data"))


def test_what_killed_processes_left_in_the_cache_is_taken_away(mnist, tmp_path):
    mnist.put(tmp_path / "mnist")
    decoded = user_cache() / "decoded"
    (decoded / ".fedcell-1-0123456789abcdef-mnist" / "fresh").mkdir(parents=True)
    (decoded / ".fedcell-1-0123456789abcdef-mnist" / "fresh" / "x_train.npy").write_bytes(b"half")
    asides._swept.discard(decoded)
    mnist.check(load_data("mnist", tmp_path))
    assert [file.name for file in decoded.iterdir()] == [f"mnist-{mnist.source.fingerprint}"]


@pytest.mark.parametrize("damaged", [False, True])
def test_many_first_starts_at_once(mnist, tmp_path, monkeypatch, damaged):
    together = threading.Barrier(6)

    def decode(files):
        arrays = FORMATS["idx"](files)
        together.wait(10)  # all have found no cache, and now all write it
        return arrays

    mnist.put(tmp_path / "mnist")
    monkeypatch.setattr(cache, "FORMATS", {"idx": decode})
    home = user_cache() / "decoded" / f"mnist-{mnist.source.fingerprint}"
    if damaged:
        home.mkdir(parents=True)
    with ThreadPoolExecutor(6) as pool:
        for data in pool.map(lambda _: load_data("mnist", tmp_path), range(6)):
            mnist.check(data)
    assert [file.name for file in home.parent.iterdir()] == [home.name]
    mnist.check(load_data("mnist", tmp_path / "empty"))


def mine(**changes) -> dict[str, np.ndarray]:
    """Four samples to train with and two to test with."""
    x = np.linspace(0, 1, 24).reshape(4, 2, 3)
    given = {"x_train": x, "y_train": [0, 1, 2, 1], "x_test": x[:2] + 1, "y_test": [2, 0]}
    return {name: np.asarray(value) for name, value in (given | changes).items()}


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
