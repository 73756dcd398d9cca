"""Read a dataset from a folder with an .npz for each client, and test.npz."""

from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import naming
from fedcell.core.files.npz import Arrays, array_names, read_npz

from .checks import as_images, as_labels, check_pair, note_unused
from .owners import check_name, in_order

PAIR = ("x", "y")
TEST = "test"  # the stem of the file with the test data


def read_folder(path: Path) -> dict[str, Any]:
    """Return the parts of a dataset and its owners: the stem of a file is the client's name.

    Files of other kinds are ignored.
    """
    files = client_files(path)
    tests = [name for name in files if name.lower() == TEST]
    clients = [name for name in files if name not in tests]
    if not clients:
        raise BadInput("has no .npz files of clients: expected one for each, with x and y")
    if not tests:
        raise BadInput("has no test.npz, with x and y of the test data")
    if len(tests) > 1:
        both = " and ".join(files[name].name for name in tests)
        raise BadInput(f"{both} are both test data: keep one")
    parts = {name: _read(files[name]) for name in [*clients, *tests]}
    first = parts[clients[0]]["x"]
    for name, arrays in parts.items():
        x = arrays["x"]
        with naming(Path(files[name].name)):
            if x.shape[1:] != first.shape[1:]:
                raise BadInput(
                    f"x has samples of shape {x.shape[1:]}, and those of "
                    f"{files[clients[0]].name} have {first.shape[1:]}"
                )
            if x.dtype != first.dtype:  # they would be fed at two scales
                raise BadInput(
                    f"x is {x.dtype}, and that of {files[clients[0]].name} {first.dtype}: give "
                    "all alike"
                )
    note_unused(path, {n for file in files.values() for n in array_names(file)}, PAIR)
    return {
        "x_train": np.concatenate([parts[name]["x"] for name in clients]),
        "y_train": np.concatenate([parts[name]["y"] for name in clients]),
        "x_test": parts[tests[0]]["x"],
        "y_test": parts[tests[0]]["y"],
        "owner": np.repeat(clients, [len(parts[name]["y"]) for name in clients]),
    }


def client_files(path: Path) -> dict[str, Path]:
    """Return the .npz files of a folder by name, in natural order; hidden files are ignored."""
    try:
        files = [file for file in path.iterdir() if file.suffix.lower() == ".npz"]
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror or error}") from error
    named: dict[str, Path] = {}
    for file in sorted(files):
        if file.name.startswith(".") or not file.is_file():
            continue
        name = file.stem.strip()
        check_name(name, f"{file.name} is called")
        if name in named:
            raise BadInput(f"{named[name].name} and {file.name} are both of client {name!r}")
        named[name] = file
    return {name: named[name] for name in in_order(named)}


def _read(file: Path) -> Arrays:
    with naming(Path(file.name)):  # the folder stands before it
        arrays = read_npz(file, PAIR, check_pair)
        return {"x": as_images("x", arrays["x"]), "y": as_labels("y", arrays["y"])}
