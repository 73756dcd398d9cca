"""Read a .csv of owners: client, first and last training sample, a line for each range."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import naming, read_text
from fedcell.core.schema import suggestion

from .owners import UNOWNED, Owner, check_name

COLUMNS = ("client", "first", "last")
MAX_FAULTS = 20  # that are reported


@dataclass(frozen=True)
class _Range:
    """A line of the table: the samples from the first to the last, both included."""

    line: int
    client: str
    first: int
    last: int


def read_owners(path: Path, samples: int, names: Sequence[str] | None = None) -> Owner:
    """Return the owner of each sample; samples in no range have none.

    A client is given by its name in `names`, if there are any, or by its number. Without `names`,
    clients that are not all whole numbers are names.
    """
    text = read_text(path)
    with naming(path):
        ranges = _ranges(text, samples)
        by_name = set(names or ())
        numbers = [number for r in ranges if (number := _whole(r.client)) is not None]
        if len(numbers) == len(ranges) and not all(r.client in by_name for r in ranges):
            return _spread(ranges, samples, numbers, UNOWNED)
        _check_names(ranges, names)
        return _spread(ranges, samples, [r.client for r in ranges], "")


def _ranges(text: str, samples: int) -> list[_Range]:
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise BadInput(f"line {reader.line_num}: {error}") from error
    heads = lines[0][1] if lines else []
    if sorted(heads) != sorted(COLUMNS):
        columns = ", ".join(heads) or "nothing"
        raise BadInput(f"expected a first line with the columns client, first, last, not {columns}")
    if len(lines) < 2:
        raise BadInput("has no owners: give a line for each range of samples")
    ranges: list[_Range] = []
    faults: list[str] = []
    for number, row in lines[1:]:
        if len(row) != len(COLUMNS):
            faults.append(f"line {number} has {len(row)} values for {len(COLUMNS)} columns")
            continue
        cell = dict(zip(heads, row, strict=True))
        whole = {end: _whole(cell[end]) for end in ("first", "last")}
        wrong = [end for end, value in whole.items() if value is None]
        first, last = whole["first"] or 0, whole["last"] or 0
        if re.fullmatch(r"[+-]\d+", cell["client"]):
            faults.append(
                f"line {number}: client = {cell['client']}: clients count from 0; samples in no "
                "line belong to no client"
            )
        elif not cell["client"]:
            faults.append(f"line {number}: client is empty: name one, or leave the line out")
        elif wrong:
            value = cell[wrong[0]]
            faults.append(f"line {number}: {wrong[0]} = {value!r}: expected a whole number from 0")
        elif first > last:
            faults.append(f"line {number}: first = {first} is after last = {last}")
        elif last >= samples:
            faults.append(
                f"line {number}: last = {last}, and there are {samples} training samples, counted "
                f"from 0 to {samples - 1}"
            )
        ranges.append(_Range(number, cell["client"], first, last))
    if faults:
        raise BadInput(*faults[:MAX_FAULTS])
    _check_overlaps(ranges)
    return ranges


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _check_overlaps(ranges: list[_Range]) -> None:
    """Refuse a sample that stands in two ranges."""
    reached: _Range | None = None
    for r in sorted(ranges, key=lambda r: (r.first, r.line)):
        if reached is not None and r.first <= reached.last:
            lines = sorted((reached.line, r.line))
            raise BadInput(f"sample {r.first} stands in line {lines[0]} and in line {lines[1]}")
        reached = r


def _check_names(ranges: list[_Range], names: Sequence[str] | None) -> None:
    for r in ranges:
        check_name(r.client, f"line {r.line}: client is")
        if names is not None and r.client not in names:
            raise BadInput(
                f"line {r.line}: no client has the name {r.client!r}: {suggestion(r.client, names)}"
            )


def _spread(
    ranges: list[_Range], samples: int, owners: Sequence[int | str], unowned: int | str
) -> Owner:
    kind = np.asarray([*owners, unowned]).dtype
    owner = np.full(samples, unowned, kind)
    for r, client in zip(ranges, owners, strict=True):
        owner[r.first : r.last + 1] = client
    return owner
