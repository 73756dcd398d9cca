"""Curves on disk: one file for each training, named by its key, written whole or not at all.

So finished trainings are known after a kill, are shared by all that ask for them, and two stores
are merged by copying.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files import as_json, check_stamp, naming, read_tables, stamp, write_text

from .training import Curve

FORMAT = 1


@dataclass(frozen=True)
class Store:
    """A folder of curves, and of what failed."""

    folder: Path

    def _path(self, key: str, ending: str = "") -> Path:
        return self.folder / key[:2] / f"{key}{ending}.json"  # 256 folders, lest one grow large

    def get(self, key: str) -> Curve | None:
        """The curve of a training, if it was made."""
        path = self._path(key)
        if not path.exists():
            return None
        content = read_tables(path)
        with naming(path):
            check_stamp(content, "training", [FORMAT], "delete it, and it is made anew")
            return _curve(content, key)

    def put(self, curve: Curve) -> None:
        """Keeps a curve, and forgets that the training failed before."""
        path = self._path(curve.key)
        self._make(path.parent)
        write_text(path, as_json(stamp("training", FORMAT) | curve.to_dict()))
        self._path(curve.key, "-failed").unlink(missing_ok=True)

    def fail(self, key: str, error: str) -> None:
        """Remembers why a training failed."""
        path = self._path(key, "-failed")
        self._make(path.parent)
        write_text(path, as_json(stamp("failure", FORMAT) | {"key": key, "error": error}))

    def failure(self, key: str) -> str | None:
        """Why a training failed; None if it did not."""
        path = self._path(key, "-failed")
        return str(read_tables(path).get("error", "")) if path.exists() else None

    @staticmethod
    def _make(folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(f"{folder}: cannot be made: {error.strerror or error}") from error


def _curve(content: Mapping[str, Any], key: str) -> Curve:
    losses, seed, diverged = (content.get(n) for n in ("train_loss", "seed", "diverged"))
    last = {name: content.get(name) for name in ("test_loss", "accuracy")}
    sound = content.get("key") == key and isinstance(losses, list)
    sound = sound and type(seed) is int and isinstance(diverged, bool)
    numbers = [x for x in (*(losses or ()), *last.values()) if x is not None]
    if not sound or not all(type(x) in (float, int) and x >= 0 for x in numbers):
        raise BadInput("is damaged: delete it, and it is made anew")
    return Curve(
        key=key,
        seed=int(seed or 0),
        train_loss=tuple(math.nan if x is None else float(x) for x in losses or ()),
        diverged=bool(diverged),
        vector_width=content.get("vector_width"),
        **last,
    )
