"""Tables in the folder of a run that grow by a round at a time: a frozen value for each line."""

import csv
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from fedcell.core.errors import BadFile
from fedcell.core.files.formats import (
    append_text,
    csv_lines,
    csv_rows,
    is_intact,
    open_csv,
    write_csv,
)
from fedcell.core.schema import LARGE


class Line(Protocol):
    """What stands in a line."""

    @property
    def round(self) -> int:
        """Counted from 1; 0: before the first."""
        ...


T = TypeVar("T", bound=Line)


class LineFile(Generic[T]):
    """A table of lines of one kind; `parse` makes one of its cells by name, or says that they are
    damaged by a ValueError."""

    def __init__(self, path: Path, kind: type[T], parse: Callable[[dict[str, str]], T]) -> None:
        self._path, self._parse, self._columns = path, parse, columns_of(kind)
        self._lines: list[T] = []  # that the file has,
        self._size = 0  # and the bytes that they take

    def begin(self, rounds: int) -> list[T]:
        """Keeps what is there of the rounds that are done, and gives it."""
        kept = [line for line in self.past() if line.round <= rounds]
        self._write(kept)
        return list(kept)

    def add(self, lines: Iterable[T]) -> None:
        """Adds lines at the end; writes all of them where the file was removed or changed."""
        added = list(lines)
        if not is_intact(self._path, self._size):
            return self._write([*self._lines, *added])
        text = csv_lines(map(_cells, added))
        append_text(self._path, text)
        self._lines += added
        self._size += len(text.encode())
        return None

    def _write(self, lines: list[T]) -> None:
        with suppress(OSError):  # what cannot be made cannot be written to, which is said
            self._path.parent.mkdir(parents=True, exist_ok=True)
        write_csv(self._path, self._columns, map(_cells, lines))
        self._lines, self._size = lines, self._path.stat().st_size

    def past(self) -> list[T]:
        """All lines; none where there is no such file."""
        return self.read() if self._path.exists() else []

    def read(self) -> list[T]:
        """All lines; a last one without an end is passed over."""
        try:
            with open_csv(self._path) as file:
                rows = csv_rows(line for line in file if line.endswith("\n"))
                if tuple(next(rows, ())) != self._columns:
                    raise ValueError
                return [self._parse(dict(zip(self._columns, row, strict=True))) for row in rows]
        except OSError as error:
            raise BadFile(f"{self._path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, csv.Error) as error:
            raise BadFile(
                f"{self._path}: is damaged: delete it, and its past rounds are gone"
            ) from error


def columns_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of the columns."""
    return tuple(field.name for field in fields(kind))


def number_in(text: str, whole: bool = False) -> float | None:
    """The number in a cell, None where it is blank. Nothing here writes one below 0 or beyond what
    a scenario may have."""
    if text == "":
        return None
    value = int(text) if whole else float(text)
    if not 0 <= value <= LARGE:
        raise ValueError
    return value


def _cells(line: Any) -> Sequence[Any]:
    return ["" if value is None else value for value in astuple(line)]
