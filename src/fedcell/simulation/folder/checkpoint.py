"""What a run has done so far, on disk: the model after the last round, and a line for each before.

Before a checkpoint is replaced, the rounds that come before its own are in history.csv, each with
a checksum; the checkpoint tells how many they are, and has its own round itself. A kill leaves at
most a line too many, or a part of one, which the next line is written over. So a round costs the
same however many there were.
"""

import os
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import write_file
from fedcell.core.files.npz import Arrays, read_npz
from fedcell.core.files.regular import NO_LINKS, open_handle, open_regular
from fedcell.scenario.learning import Deliver
from fedcell.simulation.state import COLUMNS, History, State

DELIVERIES: tuple[Deliver, ...] = ("last", "average")  # by their numbers in a checkpoint
HISTORY, CHECKPOINT = "history.csv", "checkpoint.npz"
HEADER = (",".join(["round", *COLUMNS, "checksum"]) + "\n").encode()
ENDING = b",%08x\n"  # of a line: its checksum
LONGEST = 1000  # [byte] of a line
MOST_UPLOADS = 10**9  # of a round


def delivery_of(checkpoint: Arrays) -> Deliver:
    """Which of its models a checkpoint delivers; fedcell 0.2 knew only the last."""
    return DELIVERIES[int(checkpoint.get("deliver", 0))]


def knows_delivery(folder: Path) -> bool:
    """Whether the checkpoint of a folder says which model it delivers, as all since fedcell 0.3 do;
    also where there is none, or none that can be read."""
    try:
        return "deliver" in read_npz(folder / CHECKPOINT, (), lambda _: None, ("deliver",))
    except BadInput:
        return True


class Records:
    """The rounds of a run in its folder: those that were found there, and those that come."""

    def __init__(self, folder: Path) -> None:
        self.state: State | None = None  # as it was found
        self._path = folder
        self._lines = 0  # rounds that history.csv has,
        self._size = 0  # bytes that they take with the header,
        self._checksum = 0  # and the checksum of the last, which the next begins with

    @classmethod
    def load(cls, folder: Path, start: State | None = None, most: int | None = None) -> "Records":
        """The records of a run that is gone on with, of at most `most` rounds; it is one that
        began with the state `start`, where that is known."""
        records, path = cls(folder), folder / CHECKPOINT
        if not path.exists():
            return records
        found = _read_checkpoint(path, start)
        rounds = int(found["rounds"])
        if most is not None and rounds > most:
            raise BadFile(
                f"{folder}: has done {rounds} rounds already: give `rounds` {rounds} or more"
            )
        rows = records._read_lines(rounds - 1, int(found["checksum"]))
        rows.append(_checked(tuple(found["last"].tolist())))
        columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
        history, server = History.of(columns), found.get("server")
        records.state = State(
            *(found["model"], history, found["average"], server), deliver=delivery_of(found)
        )
        return records

    def save(self, state: State) -> None:
        """Adds the rounds before the last of a state, then replaces the checkpoint."""
        rows = state.history.rows(self._lines)
        self._add(state, rows[:-1])
        arrays: dict[str, Any] = {
            "model": state.model,
            "average": state.average,
            "deliver": np.int64(DELIVERIES.index(state.deliver)),
            "rounds": np.int64(state.rounds),
            "last": np.array(rows[-1], float),
            "checksum": np.int64(self._checksum),
        }
        if state.server is not None:
            arrays["server"] = state.server
        write_file(self._path / CHECKPOINT, lambda path: _save(path, arrays))

    def finish(self, state: State) -> None:
        """Adds the last round as well, for people who read the file; it is saved once more, for an
        interrupt may have come before it was, and it may have been evaluated since."""
        self.save(state)
        self._add(state, state.history.rows(self._lines))

    def _add(self, state: State, rows: list[tuple[Any, ...]]) -> None:
        """Adds rounds of a state to history.csv; where it was removed or changed meanwhile, writes
        those before them again."""
        path = self._path / HISTORY
        if self._lines and not self._ends_as_left(path):
            before = state.history.rows()[: self._lines]
            text, checksum = _lines_of(before, 0, 0)
            write_file(path, lambda aside: _write(aside, HEADER + text))
            self._size, self._checksum = len(HEADER) + len(text), checksum
        if not rows:
            return
        text, checksum = _lines_of(rows, self._lines, self._checksum)
        text = text if self._size else HEADER + text
        try:
            handle = open_handle(path, os.O_WRONLY | os.O_CREAT | NO_LINKS)
            try:
                os.ftruncate(handle, self._size)  # what a kill may have left
                os.lseek(handle, self._size, os.SEEK_SET)
                rest = memoryview(text)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from error
        # An interrupt before this leaves what is not counted, and is written over.
        self._lines, self._checksum = self._lines + len(rows), checksum
        self._size += len(text)

    def _ends_as_left(self, path: Path) -> bool:
        """Whether the checksum of the last line is where it was written; each checksum follows from
        all lines before."""
        try:
            with open_regular(path) as file:
                file.seek(self._size - len(ENDING % 0))
                return file.read(len(ENDING % 0)) == ENDING % self._checksum
        except OSError:
            return False

    def _read_lines(self, count: int, checksum: int) -> list[tuple[Any, ...]]:
        """The first lines of history.csv, if they are the rounds that the checkpoint knows."""
        rows: list[tuple[Any, ...]] = []
        path = self._path / HISTORY
        try:
            if count:
                with open_regular(path) as file:
                    self._size = len(HEADER)
                    if file.read(len(HEADER)) != HEADER:
                        raise ValueError
                    rows += [self._parse(file.readline(LONGEST)) for _ in range(count)]
            if self._checksum != checksum:
                raise ValueError
        except (OSError, ValueError) as error:
            raise _damaged(path) from error
        return rows

    def _parse(self, line: bytes) -> tuple[Any, ...]:
        content, _, checksum = line.removesuffix(b"\n").rpartition(b",")
        self._lines += 1
        self._checksum = crc32(content, self._checksum)
        if not line.endswith(b"\n") or checksum != b"%08x" % self._checksum:
            raise ValueError
        number, *row = content.split(b",")
        if int(number) != self._lines or len(row) != len(COLUMNS):
            raise ValueError
        self._size += len(line)
        return _checked((int(row[0]), *map(float, row[1:])))


def _lines_of(rows: list[tuple[Any, ...]], before: int, checksum: int) -> tuple[bytes, int]:
    """Lines of rounds that follow so many others, and the checksum of the last."""
    text = []
    for number, row in enumerate(rows, before + 1):
        line = ",".join(map(repr, (number, *row))).encode()
        checksum = crc32(line, checksum)
        text.append(line + ENDING % checksum)
    return b"".join(text), checksum


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _save(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _read_checkpoint(path: Path, start: State | None) -> Arrays:
    def expected(model: Any, server: Any) -> dict[str, Any]:
        found: dict[str, Any] = {
            "model": (np.float32, model.shape),
            "average": (np.float32, model.shape),
            "rounds": (np.int64, ()),
            "last": (np.float64, (len(COLUMNS),)),
            "checksum": (np.int64, ()),
        }
        return found if server is None else found | {"server": (np.float32, server.shape)}

    def check(announced: Arrays) -> None:
        if start is not None:
            wanted = expected(start.model, start.server)
        else:  # whatever was trained
            wanted = expected(announced["model"].ravel(), announced.get("server"))
        if "deliver" in announced:
            wanted |= {"deliver": (np.int64, ())}
        if {n: (a.dtype, a.shape) for n, a in announced.items()} != wanted:
            raise BadFile(f"{path}: does not fit this run: delete it to start anew")

    try:
        nothing = np.empty(0)
        names = expected(nothing, None if start is None else start.server)
        optional = ("deliver", "server") if start is None else ("deliver",)
        found = read_npz(path, names, check, optional=optional)
    except BadFile:
        raise
    except BadInput as error:
        raise _damaged(path) from error
    try:
        _checked(tuple(found["last"].tolist()))
    except ValueError as error:
        raise _damaged(path) from error
    models = [found[name] for name in ("model", "average", "server") if name in found]
    sound = all(np.isfinite(values).all() for values in models)
    known = found.get("deliver", 0) in range(len(DELIVERIES))
    if found["rounds"] < 1 or not sound or not known:
        raise _damaged(path)
    return found


def _checked(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A round's count and scores, if they can be: NaN where it was not evaluated."""
    discarded, train_loss, test_loss, accuracy = row
    counts = 0 <= discarded <= MOST_UPLOADS and discarded == int(discarded)
    if not counts or train_loss < 0 or test_loss < 0 or accuracy < 0 or accuracy > 1:
        raise ValueError
    return (int(discarded), train_loss, test_loss, accuracy)


def _damaged(path: Path) -> BadFile:
    which = "it" if path.name == CHECKPOINT else CHECKPOINT
    return BadFile(f"{path}: is damaged: delete {which} to start the run anew")
