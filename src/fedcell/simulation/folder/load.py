"""Load a run from its folder: finished, interrupted, killed, or in progress."""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.checksums import CHECKSUM, check_seal, checksum_of, note_unsealed
from fedcell.core.files.formats import csv_rows, naming, read_tables, read_text
from fedcell.learning.learner import Scores
from fedcell.network.ledger import Ledger
from fedcell.network.spending import Totals
from fedcell.scenario.target import Direction, Target
from fedcell.simulation.state import COLUMNS
from fedcell.simulation.summary import (
    EmptyBattery,
    RunResult,
    RunSummary,
    outcomes_of,
    swing_of,
    target_doubts,
)

from .checkpoint import CHECKPOINT, Checkpoint
from .ledger_file import LEDGER, has_checksums, read_ledgers
from .run_folder import CLIENTS, FILES, IDENTITY, METRICS, SUMMARY, read_identity, seeds_inside

WAY_OUT = "resume the run (`resume`), which writes it again"
NOT_EVALUATED = Scores(math.nan)
IDENTIFYING = ("scenario", "seed", "data", "learner", "server", "adaptive")  # `run_identity`


def load_run(folder: str | Path) -> RunResult:
    """Load the result of a run from its folder: what `run` returned, to the bit.

    Nothing is simulated, and no data is needed. A run that was killed or is in progress gives its
    rounds so far, with `complete` False and empty client `totals` in its ledgers. A ledger from a
    folder cannot be cut (`Ledger.first`).

    Parameters
    ----------
    folder
        Folder that `run` has written.

    Returns
    -------
    RunResult
        Ledgers by policy, the outcome, and the state with the model.

    Raises
    ------
    BadFile
        If the folder holds no run, or a damaged one.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from fedcell import load_scenario, run
    >>> folder = f"{mkdtemp()}/first"
    >>> result = run(load_scenario("digits"), ["even"], rounds=3, folder=folder)
    >>> load_run(folder).outcome == result.outcome
    True
    """
    (result,) = load_runs([Path(folder)])
    return result


def load_runs(folders: Iterable[Path]) -> list[RunResult]:
    """Load the results of several runs; one warning names their files without a checksum.

    Parameters
    ----------
    folders
        Folders that `run` has written.

    Returns
    -------
    list of RunResult
        In the order of the folders.
    """
    read = [read_run(folder) for folder in folders]
    note_unsealed([file for _, files in read for file in files])
    return [result for result, _ in read]


def read_run(place: Path) -> tuple[RunResult, list[Path]]:
    """Return the result of a run, and those of its files that have no checksum."""
    if not (place / IDENTITY).is_file():
        raise BadFile(f"{place}: holds no run: expected {IDENTITY} in it{seeds_inside(place)}")
    content, sealed_identity = read_identity(place, "run it again in another `folder`")
    better = _metrics_of(content, place)
    state = Checkpoint.load(place, metrics=list(better)).state
    if state is None:
        raise BadFile(f"{place}: no round is done yet: {WAY_OUT}")
    stored, known, done, files = _read_summary(place / SUMMARY)
    state = state.with_majority(stored.initial.majority)
    columns = read_ledgers(place)
    if not columns or any(c["duration"].size < state.rounds for c in columns.values()):
        raise BadFile(f"{place / LEDGER}: has fewer rounds than {CHECKPOINT}: {WAY_OUT}")
    written = done == state.rounds and (place / CLIENTS).exists()
    totals, clients_checksum = _read_clients(place / CLIENTS) if written else ({}, None)
    # clients.csv is of these rounds, unless the run was resumed after it was written.
    ended = set(totals) == set(columns) and all(
        own.called.sum() == columns[policy]["called"][: state.rounds].sum()
        for policy, own in totals.items()
    )
    if stored.complete and done == state.rounds and not ended:
        raise BadFile(f"{place / CLIENTS}: is not of the rounds of {LEDGER}: {WAY_OUT}")
    if ended and files is not None and files.get(CLIENTS, clients_checksum) != clients_checksum:
        raise BadFile(f"{place / CLIENTS}: is damaged: {WAY_OUT}")
    learnt = {name: c for name, c in state.history.columns().items() if name in COLUMNS}
    ledgers = {
        policy: Ledger(
            **{n: column[: state.rounds] for n, column in found.items() if n not in better}
            | learnt,
            metrics=dict(state.history.metrics),
            better=better,
            majority=state.history.majority,
            totals=totals[policy] if ended else Totals.none(0),
        )
        for policy, found in columns.items()
    }
    outcome = replace(
        stored,
        complete=stored.complete and ended,
        other=stored.other if ended else NOT_EVALUATED,
        swing=swing_of(state.history.train_loss),
        policies=tuple(
            replace(row, **known.get(row.policy, {}) if ended else {})
            for row in outcomes_of(ledgers, stored.target)
        ),
        notes=tuple(dict.fromkeys((*stored.notes, *target_doubts(ledgers, stored.target)))),
    )
    identity = {name: content.get(name) for name in IDENTIFYING}
    has = {IDENTITY: sealed_identity, SUMMARY: files is not None, LEDGER: has_checksums(place)}
    result = RunResult(ledgers=ledgers, outcome=outcome, state=state, identity=identity)
    return result, [place / name for name, checked in has.items() if not checked]


def _read_summary(
    path: Path,
) -> tuple[RunSummary, dict[str, dict[str, Any]], int, dict[str, Any] | None]:
    """Return the outcome without policies; names and batteries by policy, which no other file has;
    its number of rounds; and the checksums of other files, None where it is not sealed."""
    content = read_tables(path)
    with naming(path):
        checked = check_seal(content, WAY_OUT)
    try:
        content.pop(CHECKSUM, None)
        files = dict(content.pop(FILES, {}))
        policies = content.pop("policies")
        done = max((row["rounds"] for row in policies), default=0)
        if "average" in content:  # of fedcell 0.2, which evaluated the last model
            content |= {"deliver": "last", "other": content.pop("average")}
        for name in ("initial", "other"):
            content[name] = _known(content[name])
        target = content.pop("target")
        known: dict[str, Any] = {"partition": None, "target": None} | content | {"policies": ()}
        own = {row["policy"]: _names_and_batteries(row) for row in policies}
        stored = msgspec.convert(known, RunSummary)
        stored = replace(stored, target=None if target is None else Target(**target))
        return stored, own, int(done), files if checked else None
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
        raise BadFile(f"{path}: is damaged: {WAY_OUT}") from error


def _known(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores of a file with NaN for null, which JSON has in its place."""
    values: dict[str, Any] = {k: math.nan if v is None else v for k, v in scores.items()}
    if "metrics" in values:
        values["metrics"] = _known(values["metrics"])
    return values


def _metrics_of(identity: Mapping[str, Any], place: Path) -> dict[str, Direction]:
    """Return the metrics of a run's learner, and which values are better."""
    try:
        return msgspec.convert(identity.get(METRICS, {}), dict[str, Direction])
    except msgspec.ValidationError as error:
        raise BadFile(f"{place / IDENTITY}: is damaged: choose another `folder`") from error


def _names_and_batteries(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "highest_client_name": row["energy_per_client"]["name"],
        "empty_batteries": msgspec.convert(row["empty_batteries"], tuple[EmptyBattery, ...]),
    }


def _read_clients(path: Path) -> tuple[Mapping[str, Totals], str]:
    """Return the totals of clients by policy, and the checksum of the file."""
    text = read_text(path)
    columns: dict[str, dict[str, list[str]]] = {}
    try:
        heads, *rows = csv_rows(io.StringIO(text))
        for line in (dict(zip(heads, row, strict=True)) for row in rows):
            mine = columns.setdefault(line["policy"], {})
            for name in ("called", "arrived", "duration", "energy"):
                mine.setdefault(name, []).append(line[name])
        totals = {
            policy: Totals(
                called=np.array(mine["called"]).astype(np.int64),
                arrived=np.array(mine["arrived"]).astype(np.int64),
                duration=np.array(mine["duration"]).astype(float),
                energy=np.array(mine["energy"]).astype(float),
            )
            for policy, mine in columns.items()
        }
        return totals, checksum_of(text.encode())
    except (KeyError, TypeError, ValueError, OverflowError, csv.Error, BadInput) as error:
        raise BadFile(f"{path}: is damaged: {WAY_OUT}") from error
