"""Arrays that a user brings into a scenario: real clients, measured channels."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL, suggestion
from fedcell.core.types import Array, real_numbers


LONGEST_NAME = 100  # characters


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Arrays that stand in a scenario; equal when their values are."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )


@dataclass(frozen=True, eq=False)
class Gains(ArrayTable):
    """Measured or ray-traced channel power gains, linear: (round, client).

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
        """Over all rounds and clients."""
        return float(self.values.mean())


@dataclass(frozen=True, eq=False)
class Sizes(ArrayTable):
    """D_j of every client, where they are known and not drawn; 0: it sits all rounds out."""

    values: Array

    def __post_init__(self) -> None:
        values = real_numbers("clients.sizes", self.values)
        sound = (values == 0) | ((values >= SMALL) & (values <= LARGE))
        if values.ndim != 1 or not sound.all() or not values.any():
            raise BadInput(
                "clients.sizes: expected one number for each client, above 0 or, for who has no "
                "data, 0"
            )
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, eq=False)
class ClientTable(ArrayTable):
    """Real clients, one entry each; a column left out takes the value of [clients] or [cell].

    >>> ClientTable(samples=[120, 300, 500], distance=[50, 80, 200]).count
    3
    """

    name: tuple[str, ...] | None = None  # of each client, where it is known by one
    samples: Array | None = None  # D_j
    kappa: Array | None = None  # kappa_j [J s^2]
    power: Array | None = None  # p_j^0 [W/Hz]
    distance: Array | None = None  # d_j [m]
    gain: Array | None = None  # mean channel power gain, instead of a distance
    freq_min: Array | None = None  # [cycle/s]
    freq_max: Array | None = None  # [cycle/s]

    def __post_init__(self) -> None:
        faults, sizes = [], {}
        if self.name is not None:
            object.__setattr__(self, "name", tuple(self.name))
            faults += _name_faults(self.name)
            sizes["name"] = len(self.name)
        for column in fields(self):
            if column.name == "name" or (values := getattr(self, column.name)) is None:
                continue
            name = f"clients.table.{column.name}"
            values = real_numbers(name, values)
            object.__setattr__(self, column.name, values)
            sizes[column.name] = values.size
            most = 1 if column.name == "gain" else LARGE
            wrong = ~((values >= SMALL) & (values <= most))
            if values.ndim != 1:
                faults.append(f"{name} has {values.ndim} axes: expected one")
            elif wrong.any():
                j = int(np.argmax(wrong))
                faults.append(f"{name}: client {j} has {values[j]}: expected above 0, to {most:g}")
        if not sizes or 0 in sizes.values():
            faults.append("clients.table is empty: give at least one client")
        elif len(set(sizes.values())) > 1:
            faults.append(f"clients.table has columns of different lengths: {sizes}")
        if self.distance is not None and self.gain is not None:
            faults.append("clients.table has both distance and gain: give one of them")
        if faults:
            raise BadInput(*faults)

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Self:
        """From columns by name; names that are not columns are refused."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in columns if name not in known]:
            raise BadInput(
                *(
                    f"clients.table: {name!r} is not a column; {suggestion(name, known)}"
                    for name in unknown
                )
            )
        return cls(**columns)

    def columns(self) -> dict[str, Array]:
        """The columns of numbers that are there, by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "name"}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def count(self) -> int:
        if self.name is not None:
            return len(self.name)
        return next(iter(self.columns().values())).size


def _name_faults(names: tuple[Any, ...]) -> list[str]:
    """What is wrong with the names of clients: each is a text of its own."""
    seen: dict[str, int] = {}
    for j, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            return [f"clients.table.name: client {j} has {name!r}: expected a name"]
        if not name.isprintable() or len(name) > LONGEST_NAME:
            return [
                f"clients.table.name: client {j} has {name!r}: expected at most {LONGEST_NAME} "
                "characters that can be printed"
            ]
        if name in seen:
            return [f"clients.table.name: clients {seen[name]} and {j} are both called {name!r}"]
        seen[name] = j
    return []
