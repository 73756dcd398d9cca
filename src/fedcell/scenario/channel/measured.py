"""Measured channels: a column of a CSV, as gains, SNR or rates of each client in each round."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import read_text
from fedcell.core.files.npz import map_npy
from fedcell.core.schema import LARGE, suggestion
from fedcell.core.showing import value_range
from fedcell.core.types import Array, real_numbers
from fedcell.scenario.arrays import ArrayTable

Quantity = Literal["gain", "snr", "rate"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
UNITS: Mapping[Quantity, str] = {"gain": "", "snr": "", "rate": "bit/s"}
COLUMNS: Mapping[str, Quantity] = {  # key of a file's table: what its column holds
    "gain_db": "gain",
    "rsrp_dbm": "gain",
    "snr_db": "snr",
    "rate_mbps": "rate",
}
BLANK = ("", "-", "nan", "na", "n/a", "none", "null")  # cells without a measurement
KEYS = ("file", *COLUMNS, "device", "devices", "station_dbm", "quantity", "names")
WAYS = 'such as { file = "drive.csv", rate_mbps = "uplink", device = "phone" }'


@dataclass(frozen=True, eq=False)
class Measured(ArrayTable):
    """Measured channels of each client in each round.

    Parameters
    ----------
    quantity : {"gain", "snr", "rate"}
        Channel power gains (linear, up to 1); SNR of an upload over the whole band (linear); or
        rates over the whole band [bit/s].
    values : array_like, shape (rounds, clients)
        0 where a client is in outage.
    names : sequence of str, optional
        Names of the clients in the file.

    Examples
    --------
    >>> Measured("rate", [[20e6, 5e6], [18e6, 0.0]]).values.shape
    (2, 2)
    """

    quantity: Quantity
    values: Array
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise BadInput(
                f"cell.channel.measured: {self.quantity!r} cannot be measured; known: "
                f"{', '.join(QUANTITIES)}"
            )
        values = real_numbers("cell.channel.measured", self.values)
        if values.ndim != 2 or values.size == 0:
            raise BadInput(
                f"cell.channel.measured has shape {values.shape}: expected (rounds, clients)"
            )
        most = 1.0 if self.quantity == "gain" else LARGE
        wrong = ~((values >= 0) & (values <= most))
        if wrong.any():
            t, j = np.argwhere(wrong)[0]
            raise BadInput(
                f"cell.channel.measured: round {t} of client {j} has a {self.quantity} of "
                f"{values[t, j]:g}: expected 0 to {most:g}"
            )
        object.__setattr__(self, "values", values)
        if self.names is not None:
            names = tuple(map(str, self.names))
            if len(set(names)) != values.shape[1] or len(names) != values.shape[1]:
                raise BadInput(
                    f"cell.channel.measured has {len(names)} names for {values.shape[1]} clients: "
                    "expected a name for each, all different"
                )
            object.__setattr__(self, "names", names)

    @cached_property
    def median(self) -> float:
        """Return the median over all rounds and clients that are not in outage."""
        some = self.values[self.values > 0]
        return float(np.median(some)) if some.size else 0.0

    def __repr__(self) -> str:
        rounds, clients = self.values.shape
        values = value_range(self.values, UNITS[self.quantity])
        return f"<Measured, {rounds} rounds of {clients} clients: {self.quantity} {values}>"


def read_measured(given: Any, folder: Path) -> Measured:
    """Return measured channels from the table of a scenario file.

    Parameters
    ----------
    given : mapping
        `file`, one of `gain_db`, `rsrp_dbm`, `snr_db` and `rate_mbps` with the heading of a
        column, and `device` with the heading of the column that names the device of a row, or
        `devices` with the number of stretches into which one series is cut.
    folder : Path
        Folder that the path of the file is relative to.

    Returns
    -------
    Measured
        The channels in SI units.
    """
    if not isinstance(given, Mapping):
        raise BadInput(f"cell.channel.measured: expected a table, {WAYS}")
    if unknown := [name for name in given if name not in KEYS]:
        hint = suggestion(unknown[0], KEYS, "cell.channel.measured")
        raise BadInput(f"cell.channel.measured.{unknown[0]} is not a key; {hint}")
    if not isinstance(given.get("file"), str):
        raise BadInput(f"cell.channel.measured.file is missing: expected a path, {WAYS}")
    path = folder / given["file"]
    if path.suffix.lower() == ".npy":
        if beside := [name for name in given if name not in ("file", "quantity", "names")]:
            raise BadInput(f"cell.channel.measured.{beside[0]} is for .csv files: leave it out")
        return Measured(given.get("quantity", "gain"), _array(path), given.get("names"))
    named = [name for name in COLUMNS if name in given]
    if len(named) != 1:
        raise BadInput(
            f"cell.channel.measured: expected one of {', '.join(COLUMNS)}, with the heading of its "
            f"column in {given['file']}"
        )
    if only := [name for name in ("quantity", "names") if name in given]:
        raise BadInput(f"cell.channel.measured.{only[0]} is for .npy files: leave it out")
    return _read_csv(path, given, named[0])


def _array(path: Path) -> Any:
    try:
        return map_npy(path)
    except Exception as error:
        raise BadInput(f"cell.channel.measured: {path} is not an array: {error}") from error


def _read_csv(path: Path, given: Mapping[str, Any], key: str) -> Measured:
    """Return a column of a CSV by device."""
    text = read_text(path)
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    headings = [cell.strip() for cell in next(rows, [])]

    def place(key: str) -> int:
        if not isinstance(given[key], str) or given[key] not in headings:
            hint = suggestion(str(given[key]), headings)
            raise BadInput(f"cell.channel.measured.{key}: {path} has no {given[key]!r}; {hint}")
        return headings.index(given[key])

    column, device = place(key), place("device") if "device" in given else None
    series: dict[str, list[float]] = {}
    for row in rows:
        cell = row[column].strip() if column < len(row) else ""
        if cell.lower() in BLANK:
            continue
        owner = "" if device is None else row[device].strip() if device < len(row) else ""
        try:
            series.setdefault(owner, []).append(float(cell))
        except ValueError:
            raise BadInput(
                f"{path} line {rows.line_num}: {given[key]} = {cell!r}: expected a number"
            ) from None
    if not series:
        raise BadInput(f"{path}: the column {given[key]!r} holds no numbers")
    length = min(map(len, series.values()))
    values = np.array([numbers[:length] for numbers in series.values()]).T
    names = tuple(series) if device is not None else None
    if "devices" in given:
        values = _cut(values, given["devices"], device is not None)
    return Measured(COLUMNS[key], _in_si(values, given, key), names)


def _cut(values: Array, devices: Any, named: bool) -> Array:
    """Return one series as that of several devices, a stretch for each."""
    if named:
        raise BadInput("cell.channel.measured: give device or devices, not both")
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise BadInput(f"cell.channel.measured.devices = {devices!r}: expected a whole number")
    rounds = len(values) // devices
    if rounds == 0:
        raise BadInput(
            f"cell.channel.measured.devices = {devices}: the column holds {len(values)} numbers, "
            "fewer than one for each"
        )
    return np.asarray(values[: rounds * devices, 0].reshape(devices, rounds).T)


def _in_si(values: Array, given: Mapping[str, Any], key: str) -> Array:
    """Return decibels and megabits per second as linear numbers and bits per second."""
    station = given.get("station_dbm")
    if key == "rsrp_dbm":
        if not isinstance(station, int | float) or isinstance(station, bool):
            raise BadInput(
                "cell.channel.measured.station_dbm is missing: expected the transmit power of the "
                "station per resource element [dBm], which makes a path loss of RSRP"
            )
        values = values - station
    elif station is not None:
        raise BadInput("cell.channel.measured.station_dbm is for rsrp_dbm: leave it out")
    return values * 1e6 if key == "rate_mbps" else np.asarray(10.0 ** (values / 10))
