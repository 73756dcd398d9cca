"""Decode published datasets once, then map them from the user's cache directory.

Each array is stored with its checksum, which is checked at each use.
"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcell.core.files.atomic import aside, made_folder, sync, sync_folder
from fedcell.core.files.npz import Arrays, map_npy
from fedcell.core.files.regular import open_regular

from .decode import FORMATS, standard
from .download import Report, contents, user_cache
from .sources import Source

CHECKSUMS = "sha256.json"  # by the name of an array


def decoded(
    source: Source, folder: Path | None, mirror: str | None, report: Report | None
) -> Arrays:
    """Return x_train, y_train, x_test, y_test, scale and shift of a published dataset."""
    home = user_cache() / "decoded" / f"{source.name}-{source.fingerprint}"
    if (arrays := _recall(home, source)) is None:
        arrays = FORMATS[source.format](contents(source, folder, mirror, report))
        arrays |= standard(arrays["x_train"])
        with suppress(OSError):  # without a cache it works as well, from memory
            _remember(home, source, arrays)
            arrays = _recall(home, source) or arrays
    return arrays


def _recall(home: Path, source: Source) -> Arrays | None:
    """Return the arrays in the cache, mapped; None if they are absent or damaged."""
    (train, test), image = source.sizes, source.image
    shapes = {"x_train": (train, *image), "y_train": (train,), "x_test": (test, *image)}
    shapes |= {"y_test": (test,), "scale": image[2:], "shift": image[2:]}
    kinds = {"x": np.uint8, "y": np.int64, "s": np.float32}
    arrays = {}
    try:
        with open_regular(home / CHECKSUMS) as file:
            checksums = json.load(file)
        for name, shape in shapes.items():
            array = map_npy(home / f"{name}.npy")
            if array.shape != shape or array.dtype != kinds[name[0]]:
                return None
            if _checksum(array) != checksums[name]:
                return None
            arrays[name] = array
    except Exception:  # absent, cut off, or a header in which much can be wrong
        return None
    return arrays


def _checksum(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _remember(home: Path, source: Source, arrays: Arrays) -> None:
    """Write the arrays into the cache, all at once, safely beside other processes."""
    with made_folder(home.parent), aside(home, folder=True) as folder:
        fresh = folder / "fresh"
        fresh.mkdir()
        for name, array in arrays.items():
            np.save(fresh / f"{name}.npy", array)
        checksums = {name: _checksum(array) for name, array in arrays.items()}
        (fresh / CHECKSUMS).write_text(json.dumps(checksums), "utf-8")
        for file in fresh.iterdir():
            sync(file)
        if os.path.lexists(home) and _recall(home, source) is None:  # damaged
            os.rename(home, folder / "old")
        with suppress(OSError):  # another process was faster: what it wrote is as good
            os.rename(fresh, home)
        sync_folder(home.parent)
