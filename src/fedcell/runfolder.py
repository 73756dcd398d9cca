"""The folder of a run: the scenario used, a checkpoint after every round, and its results."""

import csv
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from . import __version__
from .errors import BadInput
from .files import write_atomically
from .learning.prepare import Material
from .ledger import Ledger, Totals
from .measured import Measured
from .scenario import Scenario
from .simulate import State

FORMAT = 1
CHECKPOINT, IDENTITY, SCENARIO = "checkpoint.npz", "run.json", "scenario.json"


@dataclass(frozen=True)
class RunFolder:
    """Where a run lives. Every file is written aside and renamed, so none is ever half there."""

    path: Path

    @classmethod
    def open(
        cls, path: Path, identity: dict[str, Any], scenario: Scenario, resume: bool
    ) -> "RunFolder":
        """A new folder, or that of the same run if it is to be resumed."""
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path}: is not a folder: choose another --out")
        there = path.is_dir() and any(path.iterdir())
        if there and not (path / IDENTITY).is_file():
            raise BadInput(f"{path}: holds other things than a run: choose another --out")
        if there:
            before = folder._identity()
            if changed := sorted(key for key in identity if before.get(key) != identity[key]):
                raise BadInput(
                    f"{path}: is of another run (other {', '.join(changed)}): choose another --out"
                )
            if not resume:
                raise BadInput(f"{path}: holds this run already: give --resume to go on with it")
        elif resume and not there and not path.is_dir():
            raise BadInput(f"{path}: there is no run to resume; leave --resume out to start one")
        path.mkdir(parents=True, exist_ok=True)
        folder.write_text(SCENARIO, as_json(declared(scenario, path)))
        folder.write_text(IDENTITY, as_json(identity | {"fedcell": __version__, "format": FORMAT}))
        return folder

    def _identity(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / IDENTITY).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.path / IDENTITY}: cannot be read: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise BadInput(f"{self.path}: is of another version of fedcell: choose another --out")
        return found

    def save(self, state: State) -> None:
        """The checkpoint: one file, so that model and records always belong together."""
        target, aside = self.path / CHECKPOINT, self.path / f".{CHECKPOINT}"
        with open(aside, "wb") as file:
            np.savez(file, model=state.model, records=state.records)
        os.replace(aside, target)

    def load(self, model_size: int) -> State | None:
        """Where the run stopped; None if it had not done a round."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as saved:
                state = State(saved["model"], saved["records"])
        except Exception as error:  # numpy and zipfile have many ways to fail
            raise BadInput(f"{path}: is damaged: delete it to start the run anew") from error
        if state.model.shape != (model_size,) or state.records.shape != (state.rounds, 4):
            raise BadInput(f"{path}: does not fit this run: delete it to start anew")
        return state

    def write_text(self, name: str, text: str) -> None:
        write_atomically(self.path / name, lambda path: _write(path, text))

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
                writer = csv.writer(file)
                writer.writerow(["policy", row, *columns])
                for policy, value in values.items():
                    lists = [getattr(value, column).tolist() for column in columns]
                    for i, line in enumerate(zip(*lists, strict=True)):
                        writer.writerow([policy, first + i, *line])

        write_atomically(self.path / name, write)


def declared_identity(material: Material, seed: int) -> dict[str, Any]:
    """What makes a run this run and no other: a resumed one must agree in all of it."""
    tables = _plain(material.scenario)
    for name, arrays in (
        ("gains", material.scenario.cell.gains),
        ("table", material.scenario.clients.table),
    ):
        if arrays is not None:
            held = [getattr(arrays, f.name) for f in fields(arrays)]
            parts = [
                b"" if column is None else np.ascontiguousarray(column).tobytes() for column in held
            ]
            tables[name] = hashlib.sha256(b"|".join(parts)).hexdigest()
    for key in ("rounds",):
        tables["plan"].pop(key)  # how long it runs may change
    tables["learning"].pop("target", None)
    data = "none" if material.data is None else material.data.fingerprint
    return {"scenario": tables, "seed": seed, "data": data}


def declared(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """A scenario as plain tables that load_scenario reads back; measured gains go to a file."""
    tables: dict[str, Any] = _plain(scenario)
    if scenario.cell.gains is not None:
        values = scenario.cell.gains.values
        write_atomically(folder / "gains.npy", lambda path: np.save(path, values))
        tables["cell"]["gains"] = "gains.npy"
    if scenario.clients.table is not None:
        columns = {name: c.tolist() for name, c in scenario.clients.table.columns().items()}
        rows = zip(*columns.values(), strict=True)
        tables["clients"]["table"] = [dict(zip(columns, row, strict=True)) for row in rows]
    return tables


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        named = {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        return {name: item for name, item in named.items() if item is not None}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, Measured) else value


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=False) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
