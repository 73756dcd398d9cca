"""Downloads of published files: mirrors, faults, and ends."""

import shutil
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fedcell.errors import DataUnavailable
from fedcell.learning.data import download as fetch
from fedcell.learning.data.dataset import load_data
from fedcell.learning.data.download import user_cache
from support.datasets import NOWHERE, as_archive, flipped


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


@pytest.mark.usefixtures("mnist")
def test_the_password_of_a_mirror_is_hidden(tmp_path):
    with pytest.raises(DataUnavailable) as caught:
        load_data("mnist", tmp_path, mirror="http://user:secret@127.0.0.1:9")
    assert "secret" not in str(caught.value)
