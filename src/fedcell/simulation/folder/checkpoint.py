"""The progress of a run on disk: the model after the last round, and a line for each round before.

Before checkpoint.npz is replaced, all rounds before its own are in history.csv, each with a
checksum; checkpoint.npz has their number, and its own round. A kill leaves at most one line too
many, or a part of one, which the next line overwrites. So a round takes the same time however many
came before.
"""

import os
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import write_file
from fedcell.core.files.npz import Arrays, read_npz
from fedcell.core.files.regular import NO_LINKS, open_handle, open_regular
from fedcell.network.selectors.history import Selected
from fedcell.scenario.learning import Deliver
from fedcell.simulation.state import COLUMNS, History, State

from .client_states import STATES, ClientStates

SELECTED = "selected"  # in checkpoint.npz: rounds that a rule has chosen
DELIVERIES: tuple[Deliver, ...] = ("last", "average")  # by their number in checkpoint.npz
HISTORY, CHECKPOINT = "history.csv", "checkpoint.npz"
ENDING = b",%08x\n"  # of a line: its checksum
MAX_VALUE = 40  # [byte] of a number in a line
MAX_UPLOADS = 10**9  # of a round


def delivery_of(checkpoint: Arrays) -> Deliver:
    """Return which of its models a checkpoint delivers; fedcell 0.2 had only the last."""
    return DELIVERIES[int(checkpoint.get("deliver", 0))]


def knows_delivery(folder: Path) -> bool:
    """Return whether the checkpoint of a folder names the model that it delivers, as all since
    fedcell 0.3 do; True also where no checkpoint can be read."""
    try:
        return "deliver" in read_npz(folder / CHECKPOINT, (), lambda _: None, ("deliver",))
    except BadInput:
        return True


class Checkpoint:
    """The saved rounds of a run: checkpoint.npz and history.csv in its folder."""

    def __init__(self, folder: Path, metrics: Sequence[str] = ()) -> None:
        self.state: State | None = None  # as loaded; None: no round was saved
        self._names = (*COLUMNS, *metrics)
        self._header = (",".join(["round", *self._names, "checksum"]) + "\n").encode()
        self._path, self._clients = folder, ClientStates(folder)
        self._lines = 0  # rounds in history.csv
        self._size = 0  # [byte] of these lines with the header
        self._checksum = 0  # of the last line; the next is chained to it

    @classmethod
    def load(
        cls,
        folder: Path,
        start: State | None = None,
        most: int | None = None,
        metrics: Sequence[str] = (),
    ) -> "Checkpoint":
        """Load the checkpoint of a run to resume, of at most `most` rounds, that began with the
        state `start`, where that is known; `metrics` are names of those of its learner."""
        checkpoint, path = cls(folder, metrics), folder / CHECKPOINT
        if not path.exists():
            return checkpoint
        arrays = _read_checkpoint(path, start, len(checkpoint._names))
        rounds = int(arrays["rounds"])
        if most is not None and rounds > most:
            raise BadFile(
                f"{folder}: has done {rounds} rounds already: give `rounds` {rounds} or more"
            )
        rows = checkpoint._read_lines(rounds - 1, int(arrays["checksum"]))
        rows.append(_check_row(tuple(arrays["last"].tolist())))
        columns = dict(zip(checkpoint._names, zip(*rows, strict=True), strict=True))
        history, server = History.of(columns), arrays.get("server")
        checkpoint.state = State(
            *(arrays["model"], history, arrays["average"], server),
            clients=checkpoint._clients.load(arrays[STATES]) if STATES in arrays else None,
            selected=_selected(path, arrays),
            deliver=delivery_of(arrays),
        )
        return checkpoint

    def save(self, state: State) -> None:
        """Append the rounds before the last of a state, then replace checkpoint.npz."""
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
        if state.clients is not None:
            arrays[STATES] = self._clients.save(state.clients, state.rounds)
        if state.selected is not None:
            arrays[SELECTED] = state.selected.to_bytes()
        write_file(self._path / CHECKPOINT, lambda path: _save(path, arrays))
        if state.clients is not None:
            self._clients.tidy()

    def finish(self, state: State) -> None:
        """Save a state once more, as an interrupt may have come before it was saved or evaluated,
        and append its last round to history.csv for readers."""
        self.save(state)
        self._add(state, state.history.rows(self._lines))

    def _add(self, state: State, rows: list[tuple[Any, ...]]) -> None:
        """Append rounds of a state to history.csv; write all of it again where it was removed or
        changed."""
        path = self._path / HISTORY
        if self._lines and not self._ends_as_left(path):
            before = state.history.rows()[: self._lines]
            text, checksum = _lines_of(before, 0, 0)
            write_file(path, lambda aside: _write(aside, self._header + text))
            self._size, self._checksum = len(self._header) + len(text), checksum
        if not rows:
            return
        text, checksum = _lines_of(rows, self._lines, self._checksum)
        text = text if self._size else self._header + text
        try:
            handle = open_handle(path, os.O_WRONLY | os.O_CREAT | NO_LINKS)
            try:
                os.ftruncate(handle, self._size)  # removes what a kill may have left
                os.lseek(handle, self._size, os.SEEK_SET)
                rest = memoryview(text)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise BadFile(f"{path}: cannot be written: {error.strerror or error}") from error
        # Lines that an interrupt leaves before this are not counted, and are overwritten.
        self._lines, self._checksum = self._lines + len(rows), checksum
        self._size += len(text)

    def _ends_as_left(self, path: Path) -> bool:
        """Return whether history.csv ends with the checksum of its last line; a checksum depends
        on all lines before."""
        try:
            with open_regular(path) as file:
                file.seek(self._size - len(ENDING % 0))
                return file.read(len(ENDING % 0)) == ENDING % self._checksum
        except OSError:
            return False

    def _read_lines(self, count: int, checksum: int) -> list[tuple[Any, ...]]:
        """Read the first lines of history.csv; refuse others than those of checkpoint.npz."""
        rows: list[tuple[Any, ...]] = []
        path = self._path / HISTORY
        try:
            if count:
                with open_regular(path) as file:
                    self._size = len(self._header)
                    longest = MAX_VALUE * (len(self._names) + 2)  # round, and checksum
                    if file.read(len(self._header)) != self._header:
                        raise ValueError
                    rows += [self._parse(file.readline(longest)) for _ in range(count)]
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
        if int(number) != self._lines or len(row) != len(self._names):
            raise ValueError
        self._size += len(line)
        return _check_row((int(row[0]), *map(float, row[1:])))


def _lines_of(rows: list[tuple[Any, ...]], before: int, checksum: int) -> tuple[bytes, int]:
    """Return the lines of rounds that follow `before` others, and the last checksum."""
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


def _read_checkpoint(path: Path, start: State | None, columns: int) -> Arrays:
    def expected(model: Any, server: Any) -> dict[str, Any]:
        shapes: dict[str, Any] = {
            "model": (np.float32, model.shape),
            "average": (np.float32, model.shape),
            "rounds": (np.int64, ()),
            "last": (np.float64, (columns,)),
            "checksum": (np.int64, ()),
        }
        return shapes if server is None else shapes | {"server": (np.float32, server.shape)}

    def check(announced: Arrays) -> None:
        if start is not None:
            wanted = expected(start.model, start.server)
        else:  # any model
            wanted = expected(announced["model"].ravel(), announced.get("server"))
        if "deliver" in announced:
            wanted |= {"deliver": (np.int64, ())}
        if STATES in announced:
            wanted |= {STATES: (np.int64, (len(announced[STATES]), 2))}
        if SELECTED in announced:
            wanted |= {SELECTED: (np.uint8, (announced[SELECTED].size,))}
        if {n: (a.dtype, a.shape) for n, a in announced.items()} != wanted:
            raise BadFile(f"{path}: does not fit this run: delete it to start again")

    try:
        nothing = np.empty(0)
        names = expected(nothing, None if start is None else start.server)
        own = ("deliver", STATES, SELECTED)
        optional = (*own, "server") if start is None else own
        arrays = read_npz(path, names, check, optional=optional)
    except BadFile:
        raise
    except BadInput as error:
        raise _damaged(path) from error
    try:
        _check_row(tuple(arrays["last"].tolist()))
    except ValueError as error:
        raise _damaged(path) from error
    models = [arrays[name] for name in ("model", "average", "server") if name in arrays]
    sound = all(np.isfinite(values).all() for values in models)
    known = arrays.get("deliver", 0) in range(len(DELIVERIES))
    if arrays["rounds"] < 1 or not sound or not known:
        raise _damaged(path)
    return arrays


def _selected(path: Path, arrays: Arrays) -> Selected | None:
    """Return the rounds that a rule has chosen; None where they were known before training."""
    if SELECTED not in arrays:
        return None
    try:
        selected = Selected.from_bytes(arrays[SELECTED])
    except BadInput as error:
        raise _damaged(path) from error
    if len(selected.rows) != int(arrays["rounds"]):
        raise _damaged(path)
    return selected


def _check_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the count and scores of a round (NaN: not evaluated); raise if out of range."""
    discarded, train_loss, test_loss, accuracy, *metrics = row
    counts = 0 <= discarded <= MAX_UPLOADS and discarded == int(discarded)
    wrong = train_loss < 0 or test_loss < 0 or accuracy < 0 or accuracy > 1  # not so of NaN
    if not counts or wrong or inf in map(abs, metrics):
        raise ValueError
    return (int(discarded), train_loss, test_loss, accuracy, *metrics)


def _damaged(path: Path) -> BadFile:
    which = "it" if path.name == CHECKPOINT else CHECKPOINT
    return BadFile(f"{path}: is damaged: delete {which} to start the run again")
