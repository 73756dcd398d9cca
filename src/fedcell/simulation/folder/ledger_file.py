"""ledger.csv of a run: a line for each round and policy, written when the round ends.

It follows from the trace, the policies and the history, so it is written whole when a run begins or
is resumed, which repairs it after a kill. A round then appends whole lines in one write, however
many came before. The last column is a checksum, chained from line to line.
"""

import csv
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile
from fedcell.core.files.checksums import CHECKSUM, Chain
from fedcell.core.files.formats import (
    append_text,
    csv_lines,
    csv_rows,
    is_intact,
    naming,
    open_csv,
    write_lines,
)
from fedcell.core.files.regular import open_regular
from fedcell.network.ledger import Ledger
from fedcell.network.physics.timeline import PARTS
from fedcell.network.policies.names import BUILT_IN
from fedcell.scenario.target import NAME
from fedcell.simulation.state import COLUMNS, State

LEDGER = "ledger.csv"
NOT_COLUMNS = ("totals", "spending", "majority", "metrics", "better")  # of a Ledger
MAX_HEADER = 10_000  # [byte] of a header
TOTALS = ("total_duration", "total_energy")
COUNTS = {"called", "draws", "received", "excluded_by_channel", "excluded_by_data"}
COUNTS |= {"discarded_uploads"}
BY_PART = {f"{part}_energy" for part in PARTS}  # only where radios or devices are declared
OPTIONAL = BY_PART | {"vain_duration", "vain_energy"}  # the last two of a selector

Columns = dict[str, Any]  # arrays of equal length, by name


class LedgerFile:
    """Write the ledgers of a run to its folder, round by round."""

    def __init__(
        self, folder: Path, networks: Mapping[str, Ledger], metrics: Iterable[str] = ()
    ) -> None:
        self._path = folder / LEDGER
        self.price(networks)
        names = [*next(iter(networks.values())).column_names(), *COLUMNS, *metrics]
        self._header = ",".join(["policy", "round", *names, *TOTALS, CHECKSUM])
        self._chain = Chain(self._header)
        self._rounds: int | None = None  # in the file; None: it may be incomplete
        self._size = 0  # [byte] of the file after the last write

    def price(self, networks: Mapping[str, Ledger]) -> None:
        """Set the costs of all rounds; again where a run changes its plan."""
        self._networks = {  # columns of all rounds of the trace, and running totals
            policy: [getattr(network, name) for name in (*network.column_names(), *TOTALS)]
            for policy, network in networks.items()
        }

    def begin(self, state: State) -> None:
        """Write all rounds of a state, atomically."""
        self._chain = Chain(self._header)
        done = (self._round(t, row) for t, row in enumerate(state.history.rows()))
        write_lines(self._path, chain([f"{self._header}\n"], done))
        self._size = self._path.stat().st_size
        self._rounds = state.rounds

    def add(self, state: State) -> None:
        """Append the last round of a state; write all rounds where the file was removed or
        changed."""
        self._rounds = None
        if not is_intact(self._path, self._size):
            return self.begin(state)
        t = state.rounds - 1
        lines = self._round(t, state.history.rows(t)[0])
        append_text(self._path, lines)
        self._size += len(lines.encode())
        self._rounds = state.rounds
        return None

    def finish(self, state: State) -> None:
        """Write all rounds again where an interrupt came while one was appended."""
        if self._rounds != state.rounds or not is_intact(self._path, self._size):
            self.begin(state)

    def _round(self, t: int, learnt: tuple[Any, ...]) -> str:
        """Return the lines of a round, counted from 0, chained to those before."""
        rows = (
            [policy, t + 1, *priced, *learnt, duration, energy]
            for policy, columns in self._networks.items()
            for *priced, duration, energy in [[column[t].item() for column in columns]]
        )
        lines = csv_lines(rows).removesuffix("\n").split("\n")
        return "".join(f"{self._chain.line(line)}\n" for line in lines)


def read_ledgers(folder: Path) -> dict[str, Columns]:
    """Read the columns of ledger.csv by policy, in order of appearance: the rounds that all have.

    An incomplete last line is ignored: the run may be in progress.
    """
    path = folder / LEDGER
    try:
        with open_csv(path) as file, naming(path):
            return _read(line.removesuffix("\n") for line in file if line.endswith("\n"))
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error


def has_checksums(folder: Path) -> bool:
    """Return whether the lines of ledger.csv have checksums; older ones of fedcell have none."""
    with open_regular(folder / LEDGER) as file:
        return file.readline(MAX_HEADER).rstrip(b"\n").endswith(f",{CHECKSUM}".encode())


def _read(texts: Iterator[str]) -> dict[str, Columns]:
    known = [f.name for f in fields(Ledger) if f.name not in NOT_COLUMNS]
    numbers: dict[str, array[float]] = {}  # row after row
    try:
        header = next(texts)
        names = header.split(",")
        if names[-1] == CHECKSUM:
            names.pop()
            texts = map(Chain(header).checked, texts)
        wanted = [n for n in known if n in names or n not in OPTIONAL]
        lines = csv_rows(texts)
        metrics = [name for name in names[2:] if name not in (*wanted, *TOTALS)]
        wanted += metrics
        if names[:2] != ["policy", "round"] or sorted(names[2:]) != sorted([*wanted, *TOTALS]):
            raise ValueError
        if not all(map(NAME.fullmatch, metrics)):
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
        raise BadFile(
            "is damaged: delete it, and resume the run (`resume`), which writes it again"
        ) from error
    done = min(map(len, tables.values()), default=0)
    return {
        policy: {
            name: table[:done, names.index(name) - 2].astype(np.int64 if name in COUNTS else float)
            for name in wanted
        }
        for policy, table in tables.items()
    }


def policies_before(folder: Path) -> dict[str, Columns]:
    """Return the columns by policy of a run to resume; empty where it has no ledger."""
    return read_ledgers(folder) if (folder / LEDGER).exists() else {}


def check_known(before: Mapping[str, Columns], given: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume without a custom policy of the folder: its lines would end here."""
    own = [name for name in before if name not in given and name not in BUILT_IN]
    if own:
        raise BadFile(
            f"{folder}: was priced under {', '.join(own)} before, which is not built in: name it, "
            "too (`policies`), so that its lines continue"
        )


def check_same_prices(
    before: Mapping[str, Columns], networks: Mapping[str, Ledger], folder: Path
) -> None:
    """Refuse a policy with the name of another one of the folder."""
    for name, columns in before.items():
        for measure in ("duration", "energy"):
            then, now = columns[measure], getattr(networks[name], measure)
            rounds = min(then.size, now.size)
            if not np.array_equal(then[:rounds], now[:rounds]):
                raise BadFile(
                    f"{folder}: was priced under another policy that is called {name}: give this "
                    "one another name (`policies`)"
                )
