"""The folder of a run: the scenario used, a checkpoint after every round, and its results."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile, FedcellWarning
from fedcell.core.files.atomic import ASIDE, made_folder
from fedcell.core.files.checksums import check_seal, checksum_of, note_unsealed, sealed
from fedcell.core.files.formats import (
    as_json,
    check_stamp,
    naming,
    read_tables,
    stamp,
    write_csv,
    write_file,
    write_text,
)
from fedcell.core.files.locks import locked
from fedcell.core.version import __version__
from fedcell.learning.custom import Sources, changed_sources
from fedcell.network.ledger import Ledger
from fedcell.scenario.arrays import ClientTable
from fedcell.scenario.identity import differences
from fedcell.scenario.save import GAINS, to_tables
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.state import State
from fedcell.simulation.summary import RunSummary

from .checkpoint import Checkpoint, knows_delivery

FORMAT = 3
IDENTITY, SCENARIO, LOCK = "run.json", "scenario.json", ".lock"
SUMMARY, CLIENTS, CHANGES = "summary.json", "clients.csv", "changes.csv"
METRICS = "metrics"  # in run.json: of the learner, and which values are better
FILES = "files"  # in summary.json: checksums of other files


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run. Every file is written aside and renamed, so that it is complete or
    absent; only history.csv and ledger.csv grow, by whole lines."""

    path: Path
    identity: dict[str, Any]
    vector_width: int | None = None  # of the machine code that trains; None: it has none
    code: Mapping[str, Sources] = field(default_factory=dict)  # of a custom learner or server

    def validated(self, resume: bool) -> "RunFolder":
        """Return the folder if it is new, or of the same run to resume; it is not changed yet."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise BadFile(f"{path}: is not a folder: choose another `folder`")
        if path.is_dir() and any(not _is_temporary(file.name) for file in path.iterdir()):
            if not (path / IDENTITY).is_file():
                raise BadFile(f"{path}: holds other things than a run: choose another `folder`")
            content, checked = self._check_same()
            if not resume:
                raise BadFile(
                    f"{path}: holds this run already: give `resume` to continue it, or remove it"
                )
            note_unsealed([] if checked else [path / IDENTITY])
            return self._resumed(content)
        if resume and not path.is_dir():
            raise BadFile(f"{path}: there is no run to resume; leave `resume` out to start one")
        return self

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Make and lock the folder. Yield a function that does so again where the folder or its
        lock was removed."""
        with ExitStack() as stack:
            try:
                stack.enter_context(made_folder(self.path))
                renew = stack.enter_context(locked(self.path / LOCK, str(self.path)))
            except OSError as error:
                reason = error.strerror or error
                raise BadFile(
                    f"{self.path}: cannot be made: {reason}: choose another `folder`"
                ) from error

            def hold_again() -> None:
                try:
                    self.path.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    reason = error.strerror or error
                    raise BadFile(f"{self.path}: cannot be made again: {reason}") from error
                renew()

            yield hold_again

    def checkpoint(self, start: State, rounds: int, resume: bool) -> Checkpoint:
        """Return the checkpoint to resume, of at most `rounds` rounds and of a run that began with
        the state `start`; an empty one for a new run."""
        metrics = list(start.history.metrics)
        if not resume:
            return Checkpoint(self.path, metrics)
        return Checkpoint.load(self.path, start, rounds, metrics)

    def begin(
        self,
        scenario: Scenario,
        model_input: dict[str, Any] | None = None,
        *,
        missing: bool = False,
    ) -> None:
        """Write run.json and scenario.json, which a run needs to be resumed and its model to be
        used; with `missing`, only those files that do not exist."""

        def wanted(name: str) -> bool:
            return not missing or self.lacks(name)

        if wanted(IDENTITY):
            written = stamp("run", FORMAT) | self.identity | {"vector_width": self.vector_width}
            written |= {} if model_input is None else {"input": model_input}
            written |= {"code": self.code} if self.code else {}
            self.write_text(IDENTITY, as_json(sealed(written)))
        if (recorded := scenario.cell.recorded) is not None and wanted(GAINS):
            values = recorded.values
            self.write(GAINS, lambda path: np.save(path, values))
        if wanted(SCENARIO):
            self.write_text(SCENARIO, as_json(to_tables(scenario)))

    def lacks(self, name: str) -> bool:
        """Return whether a file of the folder does not exist, or is no regular file."""
        return not (self.path / name).is_file()

    def write_outcome(self, outcome: RunSummary, files: Mapping[str, str] | None = None) -> None:
        """Write summary.json, also before the end, so that the run can be read meanwhile. `files`
        are checksums of other files."""
        beside = {FILES: files} if files else {}
        self.write_text(SUMMARY, as_json(sealed(outcome.to_dict() | beside)))

    def _resumed(self, content: Mapping[str, Any]) -> "RunFolder":
        """Return the folder of a resumed run with the code that it began with; warn where fedcell
        or that code has changed."""
        if (version := content["fedcell"]) != __version__:
            _note(
                f"{self.path}: was begun by fedcell {version}, and this is {__version__}: rounds "
                "from here on may be trained to other bits"
            )
        before = content.get("code")
        if changed := changed_sources(before, self.code):
            _note(
                f"{self.path}: {' and '.join(changed)} changed since the run began: rounds from "
                "here on are of the new code"
            )
        return replace(self, code=before) if before and isinstance(before, dict) else self

    def _check_same(self) -> tuple[dict[str, Any], bool]:
        """Return the content of run.json and whether it has a checksum; refuse another run, and
        one of another kind of processor."""
        path = self.path / IDENTITY
        try:
            read_tables(path)
        except BadFile as error:
            raise BadFile(f"{path}: is damaged: choose another `folder`") from error
        content, checked = read_identity(self.path, "choose another `folder` and run it again")
        then = {key: content.get(key) for key in self.identity}
        if changed := differences(then, self.identity):
            verb = "differ" if "," in changed else "differs"
            raise BadFile(
                f"{self.path}: already holds a different run ({changed} {verb}): choose another "
                "`folder`, or remove it"
            )
        if (width := content.get("vector_width")) != self.vector_width:
            raise BadFile(
                f"{self.path}: was trained on a processor that takes {width} numbers at a time, "
                f"and this one takes {self.vector_width}: sums would be rounded otherwise; set "
                f"FEDCELL_LANES={width} to continue to the same bits"
            )
        return content, checked

    def write(self, name: str, write: Callable[[Path], None]) -> None:
        """Write a file of the folder, atomically."""
        write_file(self.path / name, write)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file of the folder, atomically."""
        write_text(self.path / name, text)

    def finish(
        self,
        ledgers: Mapping[str, Ledger],
        outcome: RunSummary,
        names: Sequence[str] | None,
        table: ClientTable | None,
    ) -> None:
        """Write clients.csv, a line for each client, and summary.json at the end of a run."""
        tables = {p: _client_columns(ledger, names, table) for p, ledger in ledgers.items()}
        rows = (
            (policy, client, *line)
            for policy, columns in tables.items()
            for client, line in enumerate(zip(*map(_plain, columns.values()), strict=True))
        )
        names = ["policy", "client", *next(iter(tables.values()))]
        write_csv(self.path / CLIENTS, names, rows)
        self.write_outcome(outcome, {CLIENTS: checksum_of((self.path / CLIENTS).read_bytes())})


def read_identity(folder: Path, way_out: str) -> tuple[dict[str, Any], bool]:
    """Return the content of run.json of a folder, and whether it has a checksum."""
    content = read_tables(folder / IDENTITY)
    with naming(folder):
        check_stamp(content, "run", [FORMAT], way_out)
    with naming(folder / IDENTITY):
        return content, check_seal(content, way_out)


def resumable(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario to resume the run of a folder with: one of fedcell 0.2, which had no
    learning.deliver, delivers the last model."""
    if scenario.learning is None or not (folder / IDENTITY).is_file() or knows_delivery(folder):
        return scenario
    content, _ = read_identity(folder, "run it again in another `folder`")
    own = content.get("scenario")
    began = own.get("learning") if isinstance(own, dict) else None
    if not isinstance(began, dict) or "deliver" in began:
        return scenario
    return scenario.using(learning={"deliver": "last"})


def _note(sentence: str) -> None:
    warnings.warn(sentence, FedcellWarning, stacklevel=2)


def _client_columns(
    ledger: Ledger, names: Sequence[str] | None, table: ClientTable | None
) -> dict[str, Any]:
    """Return the columns of clients.csv: name, labels, energy and time spent, battery."""
    called = {} if names is None else {"name": names}
    totals = vars(ledger.totals)
    if table is None:
        return {**called, **totals}
    taken = {"policy", "client", "battery", "battery_empty_in_round", *called, *totals}
    labels = {f"{n} (label)" if n in taken else n: texts for n, texts in table.labels.items()}
    columns = {**called, **labels, **totals}
    if table.battery is not None and ledger.spending is not None:
        battery = table.filled("battery", np.inf)
        when = ledger.spending.emptied(battery).tolist()
        columns["battery"] = [b if np.isfinite(b) else "" for b in battery.tolist()]
        columns["battery_empty_in_round"] = [round or "" for round in when]
    return columns


def _plain(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def is_unstarted(path: Path) -> bool:
    """Return whether a folder has only temporary files, as of a run killed before it began."""
    return path.is_dir() and all(_is_temporary(file.name) for file in path.iterdir())


def seeds_inside(path: Path) -> str:
    """Return how to name one of the runs inside a folder; empty where it has none."""
    inside = sorted(file.parent.name for file in path.glob(f"*/{IDENTITY}"))
    return f"; name one of those inside, as {path / inside[0]}" if inside else ""


def _is_temporary(name: str) -> bool:
    """Return whether a file is a lock, or one that a running or killed process wrote aside."""
    return ASIDE.match(name) is not None or name == LOCK
