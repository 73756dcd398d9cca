"""The folder of a run: the scenario used, a checkpoint after every round, and its results."""

import csv
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedcell import __version__
from fedcell.core.errors import BadInput
from fedcell.learning.data.dataset import Dataset
from fedcell.network.ledger import Ledger, Totals
from fedcell.scenario.arrays import Measured
from fedcell.scenario.load import as_json
from fedcell.scenario.tables import Scenario

from .train import State

FORMAT = 1
CHECKPOINT, IDENTITY, SCENARIO, GAINS = "checkpoint.npz", "run.json", "scenario.json", "gains.npy"
MOST_NAMED = 5  # of the values in which a run is another one
ASIDE = ".fedcell-"  # begins the name of a file that is being written; kill -9 may leave one


@dataclass(frozen=True)
class RunFolder:
    """Where a run lives. Every file is written aside and renamed, so none is ever half there."""

    path: Path
    identity: dict[str, Any]

    @classmethod
    def find(cls, path: Path, identity: dict[str, Any], resume: bool) -> "RunFolder":
        """A folder to be made, or that of the same run if it is to be resumed; not touched yet."""
        folder = cls(path, identity)
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path}: is not a folder: choose another --out")
        if path.is_dir() and any(not held.name.startswith(ASIDE) for held in path.iterdir()):
            if not (path / IDENTITY).is_file():
                raise BadInput(f"{path}: holds other things than a run: choose another --out")
            if changed := folder._changed():
                raise BadInput(f"{path}: is of another run (other {changed}): choose another --out")
            if not resume:
                raise BadInput(f"{path}: holds this run already: give --resume to go on with it")
        elif resume and not path.is_dir():
            raise BadInput(f"{path}: there is no run to resume; leave --resume out to start one")
        return folder

    def begin(self, scenario: Scenario) -> None:
        """Makes the folder. What the run is comes first: with it, it can be resumed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            said = error.strerror or error
            raise BadInput(f"{self.path}: cannot be made: {said}: choose another --out") from error
        for left in self.path.glob(f"{ASIDE}*"):
            left.unlink(missing_ok=True)
        about = {"fedcell": __version__, "format": FORMAT}
        self.write_text(IDENTITY, as_json(self.identity | about))
        if scenario.cell.gains is not None:
            values = scenario.cell.gains.values
            self.write(GAINS, lambda path: np.save(path, values))
        self.write_text(SCENARIO, as_json(declared(scenario)))

    def _changed(self) -> str:
        """In what the run that is there is another one, in words."""
        path = self.path / IDENTITY
        try:
            found = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput(f"{path}: is damaged: choose another --out") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise BadInput(f"{self.path}: is of another version of fedcell: choose another --out")
        return differences({key: found.get(key) for key in self.identity}, self.identity)

    def save(self, state: State) -> None:
        """The checkpoint: one file, so that model and records always belong together."""
        model, records = state.model, state.records
        self.write(CHECKPOINT, lambda path: np.savez(path, model=model, records=records))

    def load(self, model_size: int, rounds: int) -> State | None:
        """Where the run stopped, of at most `rounds` rounds; None if it had not done a round."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                model, records = saved["model"], saved["records"]
        except Exception as error:  # numpy and zipfile have many ways to fail
            raise BadInput(f"{path}: is damaged: delete it to start the run anew") from error
        kinds = (model.dtype, records.dtype) == (np.float32, np.float64)
        if not kinds or model.shape != (model_size,) or records.shape[1:] != (4,):
            raise BadInput(f"{path}: does not fit this run: delete it to start anew")
        if len(records) > rounds:
            raise BadInput(
                f"{self.path}: has done {len(records)} rounds already: "
                f"give --rounds {len(records)} or more"
            )
        return State(model, records)

    def write(self, name: str, write: Callable[[Path], None]) -> None:
        """Calls `write` with a path aside and renames what it wrote into place."""
        path, aside = self.path / name, self.path / f"{ASIDE}{os.getpid()}-{name}"
        try:
            write(aside)
            os.replace(aside, path)
        except OSError as error:
            raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from error
        finally:
            aside.unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> None:
        self.write(name, lambda path: _write(path, text))

    def write_ledgers(self, ledgers: Mapping[str, Ledger]) -> None:
        """ledger.csv with a line for each round, clients.csv with one for each client."""
        first = next(iter(ledgers.values()))
        names = [f.name for f in fields(Ledger) if isinstance(getattr(first, f.name), np.ndarray)]
        names += ["seconds", "joules"]
        self._write_csv("ledger.csv", "round", 1, names, ledgers)
        totals = {policy: ledger.totals for policy, ledger in ledgers.items()}
        self._write_csv("clients.csv", "client", 0, [f.name for f in fields(Totals)], totals)

    def _write_csv(
        self, name: str, row: str, first: int, columns: list[str], values: Mapping[str, Any]
    ) -> None:
        def write(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["policy", row, *columns])
                for policy, value in values.items():
                    lists = [getattr(value, column).tolist() for column in columns]
                    for i, line in enumerate(zip(*lists, strict=True)):
                        writer.writerow([policy, first + i, *line])

        self.write(name, write)


def declared_identity(scenario: Scenario, data: Dataset | None, seed: int) -> dict[str, Any]:
    """What makes a run this run and no other: a resumed one must agree in all of it."""
    tables = _plain(scenario)
    for table, name in (("cell", "gains"), ("clients", "table"), ("clients", "sizes")):
        arrays = getattr(getattr(scenario, table), name)
        if arrays is not None:
            held = [getattr(arrays, f.name) for f in fields(arrays)]
            parts = [
                b"" if column is None else np.ascontiguousarray(column).tobytes() for column in held
            ]
            tables[table][name] = hashlib.sha256(b"|".join(parts)).hexdigest()
    tables["plan"].pop("rounds")  # how long it runs may change,
    tables["learning"].pop("target", None)
    tables["learning"].pop("dataset")  # and where the data lies
    return {"scenario": tables, "seed": seed, "data": data and data.fingerprint}


def declared(scenario: Scenario) -> dict[str, Any]:
    """A scenario as plain tables that load_scenario reads back, with measured gains in a file
    beside them."""
    tables: dict[str, Any] = _plain(scenario)
    if scenario.cell.gains is not None:
        tables["cell"]["gains"] = GAINS
    if scenario.clients.table is not None:
        columns = {name: c.tolist() for name, c in scenario.clients.table.columns().items()}
        rows = zip(*columns.values(), strict=True)
        tables["clients"]["table"] = [dict(zip(columns, row, strict=True)) for row in rows]
    if scenario.clients.sizes is not None:
        tables["clients"]["sizes"] = scenario.clients.sizes.values.tolist()
    if (named := tables.get("learning", {}).get("dataset", "")).lower().endswith(".npz"):
        tables["learning"]["dataset"] = os.path.abspath(named)
    return tables


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what two identities differ, in words; empty where they do not."""
    then, here = _flat(before), _flat(now)
    names = sorted(name for name in then | here if then.get(name) != here.get(name))
    more = ["more"] if len(names) > MOST_NAMED else []
    return ", ".join(name.removeprefix("scenario.") for name in names[:MOST_NAMED] + more)


def _flat(tables: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as one, with names as in "learning.rate"."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{above}{name}.") if inner else {above + name: value}
    return flat


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        named = {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        return {name: item for name, item in named.items() if item is not None}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, Measured) else value


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
