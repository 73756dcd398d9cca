"""Tables in the folder of a run that grow with every round: a frozen value for each row."""

import csv
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
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


class RoundRow(Protocol):
    """A row that belongs to a round."""

    @property
    def round(self) -> int:
        """Counted from 1; 0: before the first."""
        ...


T = TypeVar("T", bound=RoundRow)


class RoundTable(Generic[T]):
    """A CSV file with rows of one kind. `parse` makes a row of its cells by name, and raises
    ValueError where they are damaged."""

    def __init__(
        self,
        path: Path,
        kind: type[T],
        parse: Callable[[dict[str, str]], T],
        leave: Sequence[str] = (),
    ) -> None:
        self._path, self._parse, self._columns = path, parse, columns_of(kind, leave)
        self._rows: list[T] = []  # in the file
        self._size = 0  # of the file [byte]

    def begin(self, rounds: int) -> list[T]:
        """Keep the rows of the first `rounds` rounds, and return them."""
        kept = [row for row in self.past() if row.round <= rounds]
        self._write(kept)
        return list(kept)

    def add(self, rows: Iterable[T]) -> None:
        """Append rows; write all of them where the file was removed or changed."""
        added = list(rows)
        if not is_intact(self._path, self._size):
            return self._write([*self._rows, *added])
        text = csv_lines(map(self._cells, added))
        append_text(self._path, text)
        self._rows += added
        self._size += len(text.encode())
        return None

    def _write(self, rows: list[T]) -> None:
        with suppress(OSError):  # write_csv reports a folder that cannot be made
            self._path.parent.mkdir(parents=True, exist_ok=True)
        write_csv(self._path, self._columns, map(self._cells, rows))
        self._rows, self._size = rows, self._path.stat().st_size

    def _cells(self, row: T) -> list[Any]:
        values = (getattr(row, name) for name in self._columns)
        return ["" if value is None else value for value in values]

    def past(self) -> list[T]:
        """Read all rows; return none where the file does not exist."""
        return self.read() if self._path.exists() else []

    def read(self) -> list[T]:
        """Read all rows; skip a last line without an end."""
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
                f"{self._path}: is damaged: delete it to continue without its past rounds"
            ) from error


def columns_of(kind: type[Any], leave: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the columns: the fields, but for those to `leave` out."""
    return tuple(field.name for field in fields(kind) if field.name not in leave)


def number_in(text: str, whole: bool = False) -> float | None:
    """Return the number in a cell, None where it is blank. Refuse one below 0 or above what a
    scenario may have: fedcell writes none."""
    if text == "":
        return None
    value = int(text) if whole else float(text)
    if not 0 <= value <= LARGE:
        raise ValueError
    return value
