"""ledger.csv of a run: a line for each round and policy, there as soon as the round is done.

It follows from the trace, the policies and the history, so it is written whole when a run begins
or is gone on with, which heals whatever a kill has left; a round is then one write of whole lines
at its end, however many there were.
"""

import csv
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile
from fedcell.core.files import append_text, csv_lines, naming, write_csv
from fedcell.network.ledger import Ledger
from fedcell.network.policies.names import NAMED

from .history import COLUMNS, State

LEDGER = "ledger.csv"
TOTALS = ("total_duration", "total_energy")
COUNTS = {"called", "draws", "received", "excluded_by_channel", "excluded_by_data"}
COUNTS |= {"discarded_uploads"}

Columns = dict[str, Any]  # arrays of equal length, by name


class LedgerFile:
    """The ledgers of a run in its folder, which grow by a round at a time."""

    def __init__(self, folder: Path, networks: Mapping[str, Ledger]) -> None:
        self._path = folder / LEDGER
        self.price(networks)
        names = next(iter(networks.values())).column_names()
        self._names = ["policy", "round", *names, *COLUMNS, *TOTALS]
        self._rounds: int | None = None  # that the file has; None: it is not known to be whole

    def price(self, networks: Mapping[str, Ledger]) -> None:
        """Other prices of the rounds to come, where a run changes under way."""
        self._networks = {  # all rounds of the trace, and what is spent by the end of each
            policy: [getattr(network, name) for name in (*network.column_names(), *TOTALS)]
            for policy, network in networks.items()
        }

    def begin(self, state: State) -> None:
        """Writes the rounds that are done, whole or not at all."""
        done = enumerate(state.history.rows())
        write_csv(
            self._path, self._names, (line for t, row in done for line in self._round(t, row))
        )
        self._rounds = state.rounds

    def add(self, state: State) -> None:
        """Adds the last round of a state."""
        self._rounds = None
        t = state.rounds - 1
        try:
            append_text(self._path, csv_lines(self._round(t, state.history.rows(t)[0])))
        except FileNotFoundError:
            return  # somebody took it away: it comes back at the end
        self._rounds = state.rounds

    def finish(self, state: State) -> None:
        """Makes sure of all rounds: an interrupt may have come while one was added."""
        if self._rounds != state.rounds:
            self.begin(state)

    def _round(self, t: int, learnt: tuple[Any, ...]) -> Iterator[list[Any]]:
        """The lines of a round, counted from 0."""
        for policy, columns in self._networks.items():
            *priced, duration, energy = (column[t].item() for column in columns)
            yield [policy, t + 1, *priced, *learnt, duration, energy]


def read_ledgers(folder: Path) -> dict[str, Columns]:
    """The columns of ledger.csv by policy, in order of appearance: the rounds that all have.

    A last line without an end is passed over: a run may be under way.
    """
    path = folder / LEDGER
    try:
        with path.open(newline="", encoding="utf-8") as file, naming(path):
            return _read(csv.reader(line for line in file if line.endswith("\n")))
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(lines: Iterator[list[str]]) -> dict[str, Columns]:
    wanted = [f.name for f in fields(Ledger) if f.name not in ("totals", "spending")]
    numbers: dict[str, array[float]] = {}  # row after row
    try:
        names = next(lines)
        if names[:2] != ["policy", "round"] or sorted(names[2:]) != sorted([*wanted, *TOTALS]):
            raise ValueError
        for policy, number, *values in lines:
            mine = numbers.setdefault(policy, array("d"))
            if len(values) != len(names) - 2 or int(number) != 1 + len(mine) // len(values):
                raise ValueError
            mine.extend(map(float, values))
        tables = {p: np.array(mine).reshape(-1, len(names) - 2) for p, mine in numbers.items()}
        counts = [names.index(name) - 2 for name in COUNTS]
        if not all(np.isfinite(table[:, counts]).all() for table in tables.values()):
            raise ValueError
    except (ValueError, StopIteration, csv.Error, UnicodeDecodeError) as error:
        raise BadFile("is damaged: delete it, and the run with `resume` writes it anew") from error
    done = min(map(len, tables.values()), default=0)
    return {
        policy: {
            name: table[:done, names.index(name) - 2].astype(np.int64 if name in COUNTS else float)
            for name in wanted
        }
        for policy, table in tables.items()
    }


def policies_before(folder: Path) -> dict[str, Columns]:
    """What a folder that is gone on with was priced under; nothing where no ledger is there."""
    return read_ledgers(folder) if (folder / LEDGER).exists() else {}


def check_known(before: Mapping[str, Columns], given: Mapping[str, Any], folder: Path) -> None:
    """Refuses to go on without a policy that only its owner can name: its lines would end here."""
    own = [name for name in before if name not in given and name not in NAMED]
    if own:
        raise BadFile(
            f"{folder}: was priced under {', '.join(own)} before, which is not one of ours: name "
            "it, too (`policies`), so that its lines go on"
        )


def check_same_prices(
    before: Mapping[str, Columns], networks: Mapping[str, Ledger], folder: Path
) -> None:
    """Refuses a policy that has the name of another one that the folder was priced under."""
    for name, columns in before.items():
        for measure in ("duration", "energy"):
            then, now = columns[measure], getattr(networks[name], measure)
            rounds = min(then.size, now.size)
            if not np.array_equal(then[:rounds], now[:rounds]):
                raise BadFile(
                    f"{folder}: was priced under another policy that is called {name}: give this "
                    "one another name (`policies`)"
                )
