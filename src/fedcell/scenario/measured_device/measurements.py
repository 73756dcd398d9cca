"""Measurements of a device: a table of seconds, joules or watts by clock and batch."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import naming, read_text
from fedcell.core.schema import suggestion
from fedcell.core.types import Array, Bools

COLUMNS: Mapping[str, tuple[str, float]] = {  # heading: quantity, and its unit in SI
    "clock_hz": ("clock", 1.0),
    "clock_mhz": ("clock", 1e6),
    "clock_ghz": ("clock", 1e9),
    "batch": ("batch", 1.0),
    "steps": ("steps", 1.0),
    "samples": ("samples", 1.0),
    "seconds": ("seconds", 1.0),
    "milliseconds": ("seconds", 1e-3),
    "joules": ("joules", 1.0),
    "millijoules": ("joules", 1e-3),
    "watts": ("watts", 1.0),
    "milliwatts": ("watts", 1e-3),
}
QUANTITIES = ("clock", "batch", "steps", "samples", "seconds", "joules", "watts")
NOTE = "note"  # a column of texts, not used
SLOWEST, FASTEST = 1e5, 2e10  # clocks of processors [cycle/s]; others are errors of unit
MAX_ROWS = 100_000
SAME_CLOCK = 0.01  # relative distance up to which two clocks are one that wavers


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurements:
    """Measurements of one device, one entry each; NaN where a quantity was not measured.

    Attributes
    ----------
    clock : ndarray
        f of the processor [cycle/s]; NaN in rows of the idle device.
    batch, steps : ndarray
        Samples of a step, and steps of the measurement.
    seconds : ndarray
        Time of all steps [s].
    watts : ndarray
        Mean power of the whole device [W].
    lines : tuple of int
        Lines of the file.

    Examples
    --------
    >>> found = Measurements.of({"clock_ghz": [1.5, None], "watts": [6.1, 2.7]})
    >>> found.clock.tolist(), found.idle.tolist()
    ([1500000000.0, nan], [False, True])
    """

    clock: Array
    batch: Array
    steps: Array
    seconds: Array
    watts: Array
    lines: tuple[int, ...]

    @classmethod
    def load(cls, path: str | Path) -> Measurements:
        """Return the measurements of a CSV file; lines that begin with # are comments."""
        path = Path(path)
        with naming(path):
            try:
                return cls._parse(read_text(path))
            except csv.Error as error:
                raise BadInput(f"is not a table of commas: {error}") from error

    @classmethod
    def _parse(cls, text: str) -> Measurements:
        rows = [
            (n, next(csv.reader([line], skipinitialspace=True)))
            for n, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if len(rows) < 2:
            raise BadInput("needs a line of column names, and one for each measurement")
        (_, names), *rest = rows
        headings = [name.strip().lower() for name in names]
        if len(headings) == 1 and any(mark in headings[0] for mark in ";\t|"):
            raise BadInput(f"{headings[0]!r} is no column: are they separated by commas?")
        if len(rest) > MAX_ROWS:
            raise BadInput(f"has {len(rest)} measurements: expected at most {MAX_ROWS}")
        for n, row in rest:
            if len(row) != len(headings):
                raise BadInput(f"line {n} has {len(row)} values for {len(headings)} columns")
        cells = {h: [row[i].strip() for _, row in rest] for i, h in enumerate(headings)}
        if len(cells) < len(headings):
            twice = next(h for h in headings if headings.count(h) > 1)
            raise BadInput(f"the column {twice!r} stands twice")
        return cls.of(cells, [n for n, _ in rest])

    @classmethod
    def of(
        cls, columns: Mapping[str, Sequence[Any]], lines: Sequence[int] | None = None
    ) -> Measurements:
        """Return the measurements of columns by heading, None or "" where a cell is blank."""
        columns = {name: cells for name, cells in columns.items() if name != NOTE}
        if unknown := [name for name in columns if name not in COLUMNS]:
            hint = suggestion(unknown[0], [*COLUMNS, NOTE])
            raise BadInput(f"{unknown[0]!r} is not a column of measurements; {hint}")
        sizes = {name: len(cells) for name, cells in columns.items()}
        if len(set(sizes.values())) != 1 or not next(iter(sizes.values())):
            raise BadInput(f"columns of different lengths, or empty: {sizes}")
        count = next(iter(sizes.values()))
        numbers = list(range(1, count + 1)) if lines is None else list(lines)
        found = {name: np.full(count, np.nan) for name in QUANTITIES}
        for heading, cells in columns.items():
            quantity, unit = COLUMNS[heading]
            values = unit * np.array(
                [_number(heading, cell, n) for cell, n in zip(cells, numbers, strict=True)]
            )
            if twice := np.flatnonzero(~np.isnan(values) & ~np.isnan(found[quantity])).tolist():
                raise BadInput(
                    f"line {numbers[twice[0]]} has two values of {quantity}: give one of them"
                )
            if quantity == "clock":
                _check_clock(heading, values / unit, values, numbers)
            found[quantity] = np.where(np.isnan(values), found[quantity], values)
        batch, steps = _steps(found, numbers)
        watts = _watts(found, numbers)
        rest = {"clock": found["clock"], "seconds": found["seconds"], "watts": watts}
        made = cls(**rest, batch=batch, steps=steps, lines=tuple(numbers))
        made._check(found["joules"])
        return made

    @property
    def idle(self) -> Bools:
        """Return which rows are of the idle device: those without a clock."""
        return np.isnan(self.clock)

    @property
    def timed(self) -> Bools:
        """Return which rows say how long steps take."""
        return ~self.idle & ~np.isnan(self.step_time) & ~np.isnan(self.batch)

    @property
    def powered(self) -> Bools:
        """Return which rows say what the working device draws."""
        return ~self.idle & ~np.isnan(self.watts)

    @property
    def step_time(self) -> Array:
        """Return the seconds of a step."""
        return self.seconds / self.steps

    def __getitem__(self, where: Bools) -> Measurements:
        """Return some of the rows."""
        arrays = {f.name: getattr(self, f.name)[where] for f in fields(self) if f.name != "lines"}
        lines = tuple(n for n, kept in zip(self.lines, where, strict=True) if kept)
        return Measurements(**arrays, lines=lines)

    def __repr__(self) -> str:
        clocks = distinct(self.clock[~self.idle]).size
        batches = np.unique(self.batch[self.timed]).size
        words = f"{len(self.lines)} rows, {clocks} clocks, {batches} batch sizes"
        return f"<Measurements, {words}, {int(self.idle.sum())} rows idle>"

    def _check(self, joules: Array) -> None:
        """Refuse rows that say nothing, and files without any clock."""
        if self.idle.all():
            raise BadInput(
                "no row has a clock: give a column clock_hz, clock_mhz or clock_ghz; seconds alone "
                "do not tell cycles from waiting"
            )
        for j, n in enumerate(self.lines):
            if not np.isnan(joules[j]) and np.isnan(self.seconds[j]):
                raise BadInput(f"line {n} has joules without seconds: give both, or watts")
            if self.idle[j] and np.isnan(self.watts[j]):
                raise BadInput(
                    f"line {n} has no clock, so it is of the idle device: give its watts"
                )
            if not (self.idle[j] or self.timed[j] or self.powered[j]):
                raise BadInput(
                    f"line {n} has a clock, but neither watts nor seconds with two of batch, steps "
                    "and samples"
                )
        some = self.powered & np.isnan(self.batch)
        if some.any() and self.timed.any():
            raise BadInput(
                f"line {self.lines[int(np.argmax(some))]} has watts and no batch, as other lines "
                "have: give two of batch, steps and samples"
            )


def distinct(clock: Array) -> Array:
    """Return the lowest of each group of clocks that are the same, rising [cycle/s].

    >>> distinct(np.array([1.5e9, 1.0e9, 1.501e9])).tolist()
    [1000000000.0, 1500000000.0]
    """
    rising = np.unique(clock)
    return rising[np.concatenate(([True], rising[1:] > rising[:-1] * (1 + SAME_CLOCK)))]


def _number(heading: str, cell: Any, line: int) -> float:
    if cell is None or cell == "":
        return float("nan")
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(cell, bool) or not np.isfinite(value):
        raise BadInput(f"line {line}: {heading} = {cell!r}: expected a number, or nothing")
    if value <= 0:
        raise BadInput(f"line {line}: {heading} = {cell}: expected a number above 0, or nothing")
    return value


def _check_clock(heading: str, given: Array, clock: Array, lines: Sequence[int]) -> None:
    """Refuse clocks that no processor has: they are in another unit."""
    wrong = (clock < SLOWEST) | (clock > FASTEST)
    if wrong.any():
        j = int(np.argmax(wrong))
        fits = [
            name
            for name, (quantity, unit) in COLUMNS.items()
            if quantity == "clock" and SLOWEST <= given[j] * unit <= FASTEST
        ]
        way = f"call the column {fits[-1]}" if fits else "check its unit"
        raise BadInput(
            f"line {lines[j]}: {heading} = {given[j]:g}: clocks are from 0.1 MHz to 20 GHz; {way}"
        )


def _steps(found: Mapping[str, Array], lines: Sequence[int]) -> tuple[Array, Array]:
    """Return batch and steps from any two of batch, steps and samples."""
    batch, steps, samples = found["batch"], found["steps"], found["samples"]
    wrong = np.abs(batch * steps / samples - 1) > 1e-6
    if wrong.any():
        j = int(np.argmax(wrong))
        raise BadInput(
            f"line {lines[j]}: batch x steps = {batch[j] * steps[j]:g}, and samples = "
            f"{samples[j]:g}: give two of them"
        )
    return (
        np.where(np.isnan(batch), samples / steps, batch),
        np.where(np.isnan(steps), samples / batch, steps),
    )


def _watts(found: Mapping[str, Array], lines: Sequence[int]) -> Array:
    """Return the mean power of each row, measured or from joules."""
    watts, mean = found["watts"], found["joules"] / found["seconds"]
    both = np.flatnonzero(~np.isnan(watts) & ~np.isnan(found["joules"]))
    if both.size:
        raise BadInput(f"line {lines[both[0]]} has joules and watts: give one of them")
    return np.where(np.isnan(watts), mean, watts)
