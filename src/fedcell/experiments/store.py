"""Curves on disk: one file for each training, named by its key, written whole or not at all.

So finished trainings are known after a kill, are shared by all that ask for them, and two stores
are merged by copying.
"""

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files import as_json, check_stamp, naming, read_tables, stamp, write_text

from .training import Curve

FORMAT = 1
ANEW = "delete it, and it is made anew"
TIMES = "times.csv"  # what each training took


@dataclass(frozen=True)
class Store:
    """A folder of curves, and of what failed."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    def _path(self, key: str, ending: str = "") -> Path:
        return self.folder / key[:2] / f"{key}{ending}.json"  # 256 folders, lest one grow large

    def get(self, key: str, seed: int) -> Curve | None:
        """The curve of a training on a seed, if it was made."""
        path = self._path(key)
        if not path.exists():
            return None
        content = _read(path)
        with naming(path):
            check_stamp(content, "training", [FORMAT], ANEW)
            return _curve(content, key, seed)

    def put(self, curve: Curve, seconds: float | None = None) -> None:
        """Keeps a curve and what it took to make, and forgets that the training failed before.

        Of two of one training the longer stays, with what either knows.
        """
        path = self._path(curve.key)
        self._make(path.parent)
        with contextlib.suppress(BadInput):  # a damaged one is no loss
            before = self.get(curve.key, curve.seed)
            if before is not None:
                curve = curve.joined(before)
        write_text(path, as_json(stamp("training", FORMAT) | curve.to_dict()))
        self._path(curve.key, "-failed").unlink(missing_ok=True)
        if seconds is not None:
            with (self.folder / TIMES).open("a", encoding="utf-8") as file:
                file.write(f"{curve.key},{curve.rounds},{seconds:.3f}\n")

    def seconds(self, keys: Iterable[str]) -> float:
        """What some trainings took to make, on one processor each; unknown ones count nothing."""
        path = self.folder / TIMES
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        cells = [line.split(",") for line in lines]
        known = {cell[0]: float(cell[2]) for cell in cells if len(cell) == 3}
        return sum(known.get(key, 0.0) for key in set(keys))

    def fail(self, key: str, error: str) -> None:
        """Remembers why a training failed."""
        path = self._path(key, "-failed")
        self._make(path.parent)
        write_text(path, as_json(stamp("failure", FORMAT) | {"key": key, "error": error}))

    def failure(self, key: str) -> str | None:
        """Why a training failed; None if it did not."""
        path = self._path(key, "-failed")
        return str(_read(path).get("error", "")) if path.exists() else None

    def keep(self, kind: str, key: str, content: Mapping[str, Any]) -> None:
        """Keeps another result under its kind."""
        path = self._path(key, f"-{kind}")
        self._make(path.parent)
        write_text(path, as_json(stamp(kind, FORMAT) | dict(content)))

    def kept(self, kind: str, key: str) -> dict[str, Any] | None:
        """Another result, if it is there."""
        path = self._path(key, f"-{kind}")
        if not path.exists():
            return None
        content = _read(path)
        with naming(path):
            check_stamp(content, kind, [FORMAT], ANEW)
        return content

    @staticmethod
    def _make(folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(f"{folder}: cannot be made: {error.strerror or error}") from error


def _read(path: Path) -> dict[str, Any]:
    """A file of the store; of one that cannot be read the message says the way out."""
    try:
        return read_tables(path)
    except BadInput as error:
        raise BadFile(*(f"{fault}: {ANEW}" for fault in error.faults)) from error


def _curve(content: Mapping[str, Any], key: str, seed: int) -> Curve:
    losses, diverged = content.get("train_loss"), content.get("diverged")
    last = {name: content.get(name) for name in ("test_loss", "accuracy")}
    sound = (content.get("key"), content.get("seed")) == (key, seed) and isinstance(diverged, bool)
    numbers = [x for x in (*_listed(losses), *last.values()) if x is not None]
    sound = sound and bool(_listed(losses))
    judged = content.get("accuracies", [])
    numbers += _listed(judged)
    ends = content.get("ends", [])
    sound = sound and all(isinstance(e, list) and len(e) == 3 for e in _listed(ends))
    numbers += [n for end in _listed(ends) if sound for n in end if n is not None]
    if not sound or not all(type(x) in (float, int) and 0 <= x <= 1e300 for x in numbers):
        raise BadInput(f"is damaged: {ANEW}")
    return Curve(
        key=key,
        seed=seed,
        train_loss=tuple(math.nan if x is None else float(x) for x in _listed(losses)),
        diverged=bool(diverged),
        ends={int(n): (loss, accuracy) for n, loss, accuracy in _listed(ends)},
        vector_width=content.get("vector_width"),
        accuracies=tuple(map(float, _listed(judged))),
        **last,
    )


def _listed(losses: Any) -> list[Any]:
    return losses if isinstance(losses, list) else []
