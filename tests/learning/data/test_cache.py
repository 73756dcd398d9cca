"""Decoded datasets in the cache."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fedcell.core.files import atomic as asides
from fedcell.learning.data import cache
from fedcell.learning.data.dataset import load_data
from fedcell.learning.data.decode import FORMATS
from fedcell.learning.data.download import user_cache
from support.datasets import is_mapped


def test_a_second_start_needs_no_sources(mnist, tmp_path):
    folder = mnist.put(tmp_path / "data" / "mnist")
    mnist.check(load_data("mnist", tmp_path / "data"))
    shutil.rmtree(folder)
    data = load_data("mnist", tmp_path / "data")
    mnist.check(data)
    home = user_cache() / "decoded" / f"mnist-{mnist.source.fingerprint}"
    assert [file.name for file in home.parent.iterdir()] == [home.name]
    assert is_mapped(data.x_train)


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
