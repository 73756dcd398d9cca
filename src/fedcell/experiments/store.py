"""Curves on disk: one file for each training, named by its key and written atomically.

So finished trainings survive a kill, sweeps and pilots share them, and stores are merged by
copying. Files have checksums, which are verified. One warning each names curves without a checksum,
and curves that this machine or this version would train to other bits.
"""

import contextlib
import math
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput, FedcellWarning
from fedcell.core.files.checksums import CHECKSUM, check_seal, sealed
from fedcell.core.files.formats import (
    append_text,
    as_json,
    check_stamp,
    naming,
    read_tables,
    read_text,
    stamp,
    write_text,
)
from fedcell.core.version import __version__
from fedcell.learning.engines.engine import vector_width
from fedcell.network.selectors.history import Row
from fedcell.scenario.target import Target

from .training import Curve, Sampled, target_digest

FORMAT = 1
WAY_OUT = "delete it, and it is trained again"
MAX_LOSS = 1e300  # in a file
TIMES = "times.csv"  # seconds of each training
TIME = re.compile(r"(\w+),\d+,(\d+\.\d+)")  # a line of it: key, rounds, seconds


@dataclass(frozen=True)
class Store:
    """A folder of curves and failures of trainings, by key.

    Parameters
    ----------
    folder
        Created when the first curve is stored.
    """

    folder: Path
    _warned: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    def _path(self, key: str, ending: str = "") -> Path:
        return (
            self.folder / key[:2] / f"{key}{ending}.json"
        )  # 256 folders, so that none grows large

    def get(self, key: str, seed: int, target: Target | None = None) -> Curve | None:
        """Return the curve of a training, or None.

        Parameters
        ----------
        key, seed
            Those of the `Training`.
        target
            Return the curve with models evaluated on the samples that this target needs;
            default: the one with all samples.
        """
        path = self._path(key, _ending(target))
        if not path.exists():
            return None
        content, checked = _read(path, "training")
        with naming(path):
            curve = _curve(content, key, seed)
        self._note_unless(checked)
        if curve.vector_width is not None and curve.vector_width != (now := vector_width()):
            self._note(
                f"has trainings of a processor that takes {curve.vector_width} numbers at a time, "
                f"and this one takes {now}: trained here, their last bits would differ "
                f"(FEDCELL_LANES={curve.vector_width} gives the same)"
            )
        if curve.version != __version__:
            self._note(
                f"has trainings of fedcell {curve.version}, and this is {__version__}, which may "
                "train to other bits: delete them to train them again"
            )
        return curve

    def put(self, curve: Curve, seconds: float | None = None) -> None:
        """Store a curve, and remove a stored failure of its training.

        Of two curves of one training the longer stays, with the scores of both; one with other
        bits, of another vector width or version, is replaced.

        Parameters
        ----------
        curve
            The curve.
        seconds
            Wall-clock time of the training [s].
        """
        path = self._path(
            curve.key, _ending(None if curve.sampled is None else curve.sampled.target)
        )
        self._make(path.parent)
        with contextlib.suppress(BadInput):  # a damaged one is replaced
            if path.exists():
                before = _curve(_read(path, "training")[0], curve.key, curve.seed)
                curve = curve.joined(before) if curve.same_bits(before) else curve
        self._write(path, "training", curve.to_dict())
        self._path(curve.key, "-failed").unlink(missing_ok=True)
        if seconds is not None:
            line = f"{curve.key},{curve.rounds},{seconds:.3f}\n"
            append_text(self.folder / TIMES, line, create=True)

    def seconds(self, keys: Iterable[str]) -> float:
        """Return the seconds of trainings on one processor each; unknown ones count as 0."""
        path = self.folder / TIMES
        lines = read_text(path).splitlines() if path.exists() else []
        known = {found[1]: float(found[2]) for found in map(TIME.fullmatch, lines) if found}
        return sum(known.get(key, 0.0) for key in set(keys))

    def fail(self, key: str, error: str) -> None:
        """Store why a training failed."""
        path = self._path(key, "-failed")
        self._make(path.parent)
        self._write(path, "failure", {"key": key, "error": error})

    def failure(self, key: str) -> str | None:
        """Return why a training failed; None if it did not."""
        path = self._path(key, "-failed")
        return str(self._read(path, "failure").get("error", "")) if path.exists() else None

    def keep(self, kind: str, key: str, content: Mapping[str, Any]) -> None:
        """Store another result under its kind."""
        path = self._path(key, f"-{kind}")
        self._make(path.parent)
        self._write(path, kind, content)

    def kept(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return another result, or None."""
        path = self._path(key, f"-{kind}")
        return self._read(path, kind) if path.exists() else None

    def _read(self, path: Path, what: str) -> dict[str, Any]:
        """Return the verified content of a file."""
        content, checked = _read(path, what)
        self._note_unless(checked)
        return content

    def _note_unless(self, checked: bool) -> None:
        if not checked:
            self._note(
                "has files without a checksum (an older fedcell wrote them): changed numbers in "
                "them are not noticed; delete them to train them again"
            )

    def _note(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            warnings.warn(f"{self.folder}: {sentence}", FedcellWarning, stacklevel=4)

    @staticmethod
    def _write(path: Path, what: str, content: Mapping[str, Any]) -> None:
        write_text(path, as_json(sealed(stamp(what, FORMAT) | dict(content))))

    @staticmethod
    def _make(folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(f"{folder}: cannot be made: {error.strerror or error}") from error


def _ending(target: Target | None) -> str:
    """Return the part of a file name that names the target of a sampled curve."""
    return "" if target is None else f"-to-{target_digest(target)}"


def _read(path: Path, what: str) -> tuple[dict[str, Any], bool]:
    """Return the content of a file, and whether it has a checksum; refuse a damaged one."""
    try:
        content = read_tables(path)
    except BadInput as error:
        raise BadFile(*(f"{fault}: {WAY_OUT}" for fault in error.faults)) from error
    with naming(path):
        check_stamp(content, what, [FORMAT], WAY_OUT)
        checked = check_seal(content, WAY_OUT)
    return {name: value for name, value in content.items() if name != CHECKSUM}, checked


def _curve(content: Mapping[str, Any], key: str, seed: int) -> Curve:
    """Return the curve of a file; refuse values that no curve has."""
    losses, judged, ends = (content.get(n, []) for n in ("train_loss", "accuracies", "ends"))
    last = {name: content.get(name) for name in ("test_loss", "accuracy")}
    metrics = content.get("metrics", {})
    width, baseline = content.get("vector_width"), content.get("guessing", [])
    sound = (
        (content.get("key"), content.get("seed")) == (key, seed)
        and isinstance(content.get("diverged"), bool)
        and isinstance(content["fedcell"], str)
        and (width is None or _is_count(width))
        and isinstance(losses, list)
        and losses != []
        and all(x is None or _is_score(x) for x in (*losses, *last.values()))
        and isinstance(judged, list)
        and all(map(_is_score, judged))
        and isinstance(metrics, dict)
        and all(isinstance(m, list) and all(map(_is_score, m)) for m in metrics.values())
        and isinstance(baseline, list)
        and all(_is_count(n) and n <= len(losses) for n in baseline)
        and isinstance(ends, list)
        and all(map(_is_end, ends))
        and _is_sampled(content.get("sampled"), len(losses))
    )
    if not sound:
        raise BadInput(f"is damaged: {WAY_OUT}")
    return Curve(
        key=key,
        seed=seed,
        train_loss=tuple(math.nan if x is None else float(x) for x in losses),
        diverged=bool(content["diverged"]),
        ends={n: (loss, accuracy) for n, loss, accuracy in ends},
        vector_width=width,
        version=content["fedcell"],
        accuracies=tuple(map(float, judged)),
        metrics={name: tuple(map(float, column)) for name, column in metrics.items()},
        baseline_rounds=tuple(baseline),
        sampled=_sampled(content.get("sampled")),
        chosen=_chosen(content.get("chosen", []), len(losses)),
        **last,
    )


def _sampled(content: Any) -> Sampled | None:
    if content is None:
        return None
    errors, samples = (tuple(content[name]) for name in ("errors", "samples"))
    return Sampled(Target(**content["target"]), errors, samples)


def _chosen(content: Any, rounds: int) -> tuple[Row, ...]:
    """Return the clients of each round, where the file has them."""
    try:
        rows = tuple(map(Row.of, content))
    except (TypeError, ValueError) as error:
        raise BadInput(f"is damaged: {WAY_OUT}") from error
    if rows and len(rows) != rounds:
        raise BadInput(f"is damaged: {WAY_OUT}")
    return rows


def _is_sampled(content: Any, rounds: int) -> bool:
    """Return whether it holds errors and samples of each round, or nothing."""
    if content is None:
        return True
    try:
        found = _sampled(content)
    except (BadInput, KeyError, TypeError):
        return False
    return (
        found is not None
        and len(found.errors) == len(found.samples) == rounds
        and all(map(_is_score, found.errors))
        and all(map(_is_count, found.samples))
    )


def _is_score(value: Any) -> bool:
    return type(value) in (float, int) and 0 <= value <= MAX_LOSS


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_end(value: Any) -> bool:
    """Return whether it holds rounds, loss and accuracy of a shorter training."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    rounds, *scores = value
    return _is_count(rounds) and all(x is None or _is_score(x) for x in scores)
