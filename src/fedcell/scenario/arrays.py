"""Arrays that a user gives to a scenario: real clients, measured channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL
from fedcell.core.showing import client_title, shortened, value_range
from fedcell.core.types import Array, Bools, real_numbers

from .hardware.levels import LevelList, check_levels

MAX_NAME_LENGTH = 100  # characters of a client's name, a heading or a label


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Arrays that are part of a scenario; equal if their values are."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            _same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )


@dataclass(frozen=True, eq=False)
class Gains(ArrayTable):
    """Measured or ray-traced channel power gains.

    Parameters
    ----------
    values : array_like, shape (rounds, clients)
        Channel power gains h_j, linear (not dB), from 0 to 1.

    Examples
    --------
    >>> Gains([[1e-13, 2e-13], [3e-13, 4e-13]]).values.shape
    (2, 2)
    """

    values: Array

    def __post_init__(self) -> None:
        values = real_numbers("cell.gains", self.values)
        if values.ndim != 2 or values.size == 0:
            raise BadInput(f"cell.gains has shape {values.shape}: expected (rounds, clients)")
        wrong = ~((values >= 0) & (values <= 1))
        if wrong.any():
            t, j = np.argwhere(wrong)[0]
            raise BadInput(
                f"cell.gains[{t}, {j}] = {values[t, j]}: expected 0 to 1 (power, linear, not dB)"
            )
        object.__setattr__(self, "values", values)

    @cached_property
    def mean(self) -> float:
        """Return the mean over all rounds and clients."""
        return float(self.values.mean())

    def __repr__(self) -> str:
        rounds, clients = self.values.shape
        gains = value_range(self.values)
        return f"<Gains, {rounds} rounds of {clients} clients: power gain {gains} (linear)>"


@dataclass(frozen=True, eq=False)
class Sizes(ArrayTable):
    """D_j of every client, where they are known and not drawn; 0: it is never called."""

    values: Array

    def __post_init__(self) -> None:
        values = real_numbers("clients.sizes", self.values)
        sound = (values == 0) | ((values >= SMALL) & (values <= LARGE))
        if values.ndim != 1 or not sound.all() or not values.any():
            raise BadInput(
                "clients.sizes: expected one number for each client, above 0, or 0 for a client "
                "without data"
            )
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"<Sizes, {self.values.size} clients: {value_range(self.values)} samples>"


@dataclass(frozen=True, eq=False)
class ClientTable(ArrayTable):
    """Real clients, one entry each.

    A column that is left out, or a cell that is None, takes the value of [clients], [cell] or
    [task], and is NaN in the array.

    Parameters
    ----------
    name : sequence of str, optional
        Names of the clients, all different.
    samples : array_like, shape (clients,), optional
        D_j, samples that a client holds.
    kappa : array_like, optional
        kappa_j [J s^2]: a cycle at frequency f costs kappa_j f^2 joules.
    power, power_w : array_like, optional
        Transmit power: p_j^0 per hertz [W/Hz], or p_j^0 B over the whole band [W].
    distance, gain : array_like, optional
        d_j [m], or the mean channel power gain (linear) instead.
    rate : array_like, optional
        Rate over the whole band [bit/s], constant, instead of either; of all clients.
    freq_min, freq_max : array_like, optional
        Bounds of the CPU frequency [cycle/s].
    cycles_per_sample : array_like, optional
        alpha_0 of each client [cycle].
    loss_rate : array_like, optional
        gamma of each client, from 0 to below 1.
    battery : array_like, optional
        Energy that a client may spend in all [J]; no limit where left out.
    power_max, efficiency, circuit_power, receive_power, tail_energy, spectral_cap : array_like, \
            optional
        As the keys of [radio] of these names.
    idle_power, busy_power, sleep_power, power_exponent, energy_per_cycle, cycles_per_step, \
            memory_time : array_like, optional
        As the keys of [device] of these names.
    levels : sequence, optional
        Clocks that each client has, rising [cycle/s]; None for any from freq_min to freq_max.
    labels : mapping of str to sequence of str, optional
        Other columns of texts, such as a site.

    Examples
    --------
    >>> table = ClientTable(name=["pump", "gate"], samples=[120, 300], loss_rate=[None, 0.2])
    >>> table.count, table.filled("loss_rate", 0.1).tolist()
    (2, [0.1, 0.2])
    """

    name: tuple[str, ...] | None = None  # of each client
    samples: Array | None = None  # D_j
    kappa: Array | None = None  # kappa_j [J s^2]
    power: Array | None = None  # p_j^0 [W/Hz]; or
    power_w: Array | None = None  # p_j^0 B, its transmit power over the whole band [W]
    distance: Array | None = None  # d_j [m]
    gain: Array | None = None  # mean channel power gain, instead of a distance; or
    rate: Array | None = None  # B r_j, its rate over the whole band, without fading [bit/s]
    freq_min: Array | None = None  # [cycle/s]
    freq_max: Array | None = None  # [cycle/s]
    cycles_per_sample: Array | None = None  # alpha_0 of this client [cycle]
    loss_rate: Array | None = None  # gamma of this client
    battery: Array | None = None  # energy that it may spend in all [J]; left out: no limit
    power_max: Array | None = None  # highest transmit power [W]
    efficiency: Array | None = None  # of the power amplifier
    circuit_power: Array | None = None  # while sending, beside the amplifier [W]
    receive_power: Array | None = None  # while downloading [W]
    tail_energy: Array | None = None  # of each round [J]
    spectral_cap: Array | None = None  # [bit/s/Hz]
    idle_power: Array | None = None  # [W]
    busy_power: Array | None = None  # while training, beside kappa f^alpha [W]
    sleep_power: Array | None = None  # [W]
    power_exponent: Array | None = None  # alpha of kappa f^alpha
    energy_per_cycle: Array | None = None  # instead of kappa [J]
    cycles_per_step: Array | None = None  # beside those of samples [cycle]
    memory_time: Array | None = None  # of a sample, at any clock [s]
    levels: tuple[LevelList | None, ...] | None = None  # clocks of each, rising [cycle/s]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # other columns of texts

    def __post_init__(self) -> None:
        faults: list[str] = []
        sizes: dict[str, int] = {}
        if self.name is not None:
            object.__setattr__(self, "name", tuple(self.name))
            faults += _name_faults(self.name)
            sizes["name"] = len(self.name)
        for column in NUMBERS:
            if (given := getattr(self, column)) is None:
                continue
            blank, values = _with_blanks(f"clients.table.{column}", given)
            object.__setattr__(self, column, values)
            sizes[column] = values.size
            if values.ndim != 1:
                faults.append(f"clients.table.{column} has {values.ndim} axes: expected one")
            elif (wrong := ~(in_range(column, values) | blank)).any():
                j = int(np.argmax(wrong))
                faults.append(
                    f"clients.table.{column}: {self.name_of(j)} has {values[j]}: expected "
                    f"{EXPECTED.get(column, f'above 0, to {LARGE:g}')}"
                )
        if self.levels is not None:
            levels, wrong_levels = self._checked_levels(self.levels)
            object.__setattr__(self, "levels", levels)
            faults += wrong_levels
            sizes["levels"] = len(levels)
        labels = {name: tuple(texts) for name, texts in self.labels.items()}
        object.__setattr__(self, "labels", labels)
        for name, texts in labels.items():
            faults += _label_faults(name, texts)
            sizes[name] = len(texts)
        if not sizes or 0 in sizes.values():
            faults.append("clients.table is empty: give at least one client")
        elif len(set(sizes.values())) > 1:
            faults.append(f"clients.table has columns of different lengths: {sizes}")
        elif not faults:
            faults += [fault for pair in EITHER if (fault := self._both(*pair))]
        if faults:
            raise BadInput(*faults)

    def _checked_levels(
        self, given: Sequence[Any]
    ) -> tuple[tuple[LevelList | None, ...], list[str]]:
        """Return the levels of each client, and the fault of the first client with wrong ones."""
        checked: list[LevelList | None] = []
        for j, levels in enumerate(given):
            try:
                checked.append(None if levels is None else check_levels(levels))
            except BadInput as error:
                return tuple(given), [f"clients.table.levels: {self.name_of(j)}: {error}"]
        return tuple(checked), []

    def _both(self, one: str, other: str) -> str:
        """Return the fault if a client has both of two columns with the same meaning, or ""."""
        columns = self.columns()
        if one not in columns or other not in columns:
            return ""
        both = ~np.isnan(columns[one]) & ~np.isnan(columns[other])
        if not both.any():
            return ""
        client = self.name_of(int(np.argmax(both)))
        return f"clients.table: {client} has both {one} and {other}: give one of them"

    def power_density(self, bandwidth: float) -> Array | None:
        """Return p_j^0 of each client in a band [W/Hz], NaN where left out; None without powers.

        A power over the whole band [W] is independent of the band, a density [W/Hz] as declared.

        >>> ClientTable(power=[4e-7, None], power_w=[None, 2.0]).power_density(2e7).tolist()
        [4e-07, 1e-07]
        """
        if self.power_w is None:
            return self.power
        over_the_band = self.power_w / bandwidth  # p_j = p_j^0 a_j B at a_j = 1
        if self.power is None:
            return over_the_band
        return np.where(np.isnan(self.power), over_the_band, self.power)

    def columns(self) -> dict[str, Array]:
        """Return the given columns of numbers by name; NaN where a cell is blank."""
        values = {name: getattr(self, name) for name in NUMBERS}
        return {name: value for name, value in values.items() if value is not None}

    def filled(self, column: str, default: Any) -> Any:
        """Return a column with a default, a number or an array, where it is left out."""
        values = getattr(self, column)
        return default if values is None else np.where(np.isnan(values), default, values)

    def in_band(self, bandwidth: float) -> ClientTable:
        """Return this table with all powers as densities in a band [Hz]."""
        if self.power_w is None:
            return self
        density = np.asarray(self.power_density(bandwidth)).tolist()
        return self.having(power=[None if np.isnan(p) else p for p in density], power_w=None)

    def remembered(self, what: Any, compute: Callable[[], float]) -> float:
        """Return a number that depends on this table and on `what`; compute it once."""
        if what not in self._remembered:
            self._remembered[what] = compute()
        return self._remembered[what]

    @cached_property
    def _remembered(self) -> dict[Any, float]:
        return {}

    def having(self, **columns: Any) -> ClientTable:
        """Return this table with other columns."""
        kept: dict[str, Any] = {"name": self.name, "labels": self.labels, "levels": self.levels}
        for name, values in self.columns().items():
            kept[name] = [None if np.isnan(x) else x for x in values.tolist()]
        return ClientTable(**kept | columns)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each client, without blank cells: NaN, which equals nothing, and ""."""
        columns: dict[str, Any] = {} if self.name is None else {"name": self.name}
        columns |= {name: values.tolist() for name, values in self.columns().items()}
        if self.levels is not None:
            columns["levels"] = ["" if own is None else list(own) for own in self.levels]
        columns |= self.labels
        return [
            {name: cell for name, cell in zip(columns, row, strict=True) if cell == cell != ""}
            for row in zip(*columns.values(), strict=True)
        ]

    def name_of(self, client: int) -> str:
        """Return the name of a client, or its number where it has none."""
        names = self.name or ()
        return client_title(client, names[client] if client < len(names) else None)

    @property
    def count(self) -> int:
        """Return N, the number of clients."""
        columns = (self.name, *self.columns().values(), self.levels, *self.labels.values())
        return len(next(column for column in columns if column is not None))

    def __repr__(self) -> str:
        parts = [] if self.name is None else [f"names ({shortened(', '.join(self.name[:9]), 40)})"]
        for column, values in self.columns().items():
            blank = int(np.isnan(values).sum())
            gaps = f" ({blank} left out)" if blank else ""
            parts.append(f"{column} {value_range(values, COLUMN_UNITS.get(column, ''))}{gaps}")
        if self.levels is not None:
            parts.append(f"levels of {sum(own is not None for own in self.levels)} clients")
        if self.labels:
            parts.append(f"labels ({shortened(', '.join(self.labels), 60)})")
        lines = [", ".join(parts[i : i + 4]) for i in range(0, len(parts), 4)]
        return f"<ClientTable, {self.count} clients: " + ",\n  ".join(lines) + ">"


NUMBERS = tuple(f.name for f in fields(ClientTable) if f.name not in ("name", "levels", "labels"))
COLUMN_UNITS = {
    "kappa": "J s^2",
    "power": "W/Hz",
    "power_w": "W",
    "distance": "m",
    "rate": "bit/s",
    "freq_min": "cycle/s",
    "freq_max": "cycle/s",
    "cycles_per_sample": "cycle",
    "battery": "J",
    "power_max": "W",
    "circuit_power": "W",
    "receive_power": "W",
    "tail_energy": "J",
    "spectral_cap": "bit/s/Hz",
    "idle_power": "W",
    "busy_power": "W",
    "sleep_power": "W",
    "energy_per_cycle": "J",
    "cycles_per_step": "cycle",
    "memory_time": "s",
}
MAY_BE_ZERO = (
    *("circuit_power", "receive_power", "tail_energy", "idle_power", "busy_power"),
    *("sleep_power", "cycles_per_step", "memory_time"),
)
EITHER = (
    ("distance", "gain"),
    ("distance", "rate"),
    ("gain", "rate"),
    ("power", "power_w"),
)  # columns of which a client may have one
EXPECTED = {  # of columns that do not take any number above 0
    "gain": "above 0, to 1 (linear; a path loss of 90 dB is -90 in gain_db)",
    "loss_rate": "0 to below 1",
    "efficiency": "above 0, to 1",
    "power_exponent": "1 to 6",
} | dict.fromkeys(MAY_BE_ZERO, f"0 to {LARGE:g}")


def _same(one: Any, other: Any) -> bool:
    """Return whether two columns hold the same values; blank cells are equal."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def _with_blanks(name: str, given: Any) -> tuple[Bools, Array]:
    """Return which cells are None, and all cells as numbers with NaN in place of None."""
    if not isinstance(given, list | tuple) or not any(cell is None for cell in given):
        values = real_numbers(name, given)
        return np.zeros(values.shape, bool), values
    blank = np.array([cell is None for cell in given])
    return blank, real_numbers(name, [np.nan if cell is None else cell for cell in given])


def in_range(column: str, values: Array) -> Bools:
    """Return which values are allowed in a column of numbers."""
    if column == "loss_rate":
        return np.asarray((values >= 0) & (values < 1))
    if column == "power_exponent":
        return np.asarray((values >= 1) & (values <= 6))
    least = 0 if column in MAY_BE_ZERO else SMALL
    most = 1 if column in ("gain", "efficiency") else LARGE
    return np.asarray((values >= least) & (values <= most))


def _name_faults(names: tuple[Any, ...]) -> list[str]:
    """Return the faults of client names, which must be texts that differ."""
    seen: dict[str, int] = {}
    for j, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            has = "no name" if name in (None, "") else repr(name)
            return [f"clients.table.name: client {j} has {has}: give each client a name, or none"]
        if name in seen:
            return [f"clients.table.name: clients {seen[name]} and {j} are both called {name!r}"]
        seen[name] = j
    return _label_faults("name", names)


def _label_faults(column: str, texts: tuple[Any, ...]) -> list[str]:
    """Return the faults of a column of texts, which are printed and written to tables."""
    if not column.isprintable() or len(column) > MAX_NAME_LENGTH:
        return [
            f"clients.table: the column {column[:MAX_NAME_LENGTH]!r}: expected a name of at most "
            f"{MAX_NAME_LENGTH} characters that can be printed"
        ]
    for j, text in enumerate(texts):
        if not isinstance(text, str) or not text.isprintable() or len(text) > MAX_NAME_LENGTH:
            return [
                f"clients.table.{column}: client {j} has {text!r}: expected at most "
                f"{MAX_NAME_LENGTH} characters that can be printed"
            ]
    return []
