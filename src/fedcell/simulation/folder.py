"""The folder of a run: the scenario used, a checkpoint after every round, and its results."""

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile
from fedcell.core.files import ASIDE, as_json, check_stamp, naming, stamp, write_file, write_text
from fedcell.network.ledger import Ledger
from fedcell.scenario.identity import differences
from fedcell.scenario.save import GAINS, to_tables
from fedcell.scenario.scenario import Scenario

from .train import History, State

FORMAT = 2
CHECKPOINT, IDENTITY, SCENARIO = "checkpoint.npz", "run.json", "scenario.json"


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
            raise BadFile(f"{path}: is not a folder: choose another `folder`")
        if path.is_dir() and any(not file.name.startswith(ASIDE) for file in path.iterdir()):
            if not (path / IDENTITY).is_file():
                raise BadFile(f"{path}: holds other things than a run: choose another `folder`")
            if changed := folder._changed():
                verb = "differ" if "," in changed else "differs"
                raise BadFile(
                    f"{path}: already holds a different run ({changed} {verb}): choose another "
                    "`folder`, or remove it"
                )
            if not resume:
                raise BadFile(
                    f"{path}: holds this run already: give `resume` to go on, or remove it"
                )
        elif resume and not path.is_dir():
            raise BadFile(f"{path}: there is no run to resume; leave `resume` out to start one")
        return folder

    def begin(self, scenario: Scenario) -> None:
        """Makes the folder. What the run is comes first: with it, it can be resumed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise BadFile(
                f"{self.path}: cannot be made: {reason}: choose another `folder`"
            ) from error
        for left in self.path.glob(f"{ASIDE}*"):
            left.unlink(missing_ok=True)
        self.write_text(IDENTITY, as_json(stamp("run", FORMAT) | self.identity))
        if scenario.cell.gains is not None:
            values = scenario.cell.gains.values
            self.write(GAINS, lambda path: np.save(path, values))
        self.write_text(SCENARIO, as_json(to_tables(scenario)))

    def _changed(self) -> str:
        """In what the run that is there is another one, in words."""
        path = self.path / IDENTITY
        try:
            content = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise BadFile(f"{path}: is damaged: choose another `folder`") from error
        with naming(self.path):
            way_out = "choose another `folder` and run it anew"
            check_stamp(content if isinstance(content, dict) else {}, "run", [FORMAT], way_out)
        return differences({key: content.get(key) for key in self.identity}, self.identity)

    def save(self, state: State) -> None:
        """The checkpoint: one file, so that model and history always belong together."""
        columns = {"model": state.model, **state.history.columns()}
        self.write(CHECKPOINT, lambda path: np.savez(path, **columns))

    def load(self, model_size: int, rounds: int) -> State | None:
        """Where the run stopped, of at most `rounds` rounds; None if it had not done a round."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        expected = {name: column.dtype for name, column in History.none().columns().items()}
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                model, columns = saved["model"], {name: saved[name] for name in expected}
        except Exception as error:  # numpy and zipfile have many ways to fail
            raise BadFile(f"{path}: is damaged: delete it to start the run anew") from error
        kinds = {name: column.dtype for name, column in columns.items()} == expected
        shapes = {column.shape for column in columns.values()}
        sound = kinds and len(shapes) == 1 and len(next(iter(shapes))) == 1
        if not sound or (model.dtype, model.shape) != (np.float32, (model_size,)):
            raise BadFile(f"{path}: does not fit this run: delete it to start anew")
        history = History(**columns)
        if history.rounds > rounds:
            raise BadFile(
                f"{self.path}: has done {history.rounds} rounds already: "
                f"give `rounds` {history.rounds} or more"
            )
        return State(model, history)

    def write(self, name: str, write: Callable[[Path], None]) -> None:
        """Writes a file of the folder, whole or not at all."""
        write_file(self.path / name, write)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file of the folder, whole or not at all."""
        write_text(self.path / name, text)

    def write_ledgers(self, ledgers: Mapping[str, Ledger]) -> None:
        """ledger.csv with a line for each round, clients.csv with one for each client."""
        rounds = {policy: ledger.columns() for policy, ledger in ledgers.items()}
        self._write_csv("ledger.csv", "round", 1, rounds)
        clients = {policy: vars(ledger.totals) for policy, ledger in ledgers.items()}
        self._write_csv("clients.csv", "client", 0, clients)

    def _write_csv(
        self, name: str, row: str, first: int, tables: Mapping[str, Mapping[str, Any]]
    ) -> None:
        def write(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["policy", row, *next(iter(tables.values()))])
                for policy, columns in tables.items():
                    lists = [column.tolist() for column in columns.values()]
                    for i, line in enumerate(zip(*lists, strict=True)):
                        writer.writerow([policy, first + i, *line])

        self.write(name, write)
