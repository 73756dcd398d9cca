"""A run back out of its folder: finished, interrupted, killed, or still under way."""

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
from fedcell.simulation.summary import (
    EmptyBattery,
    RunResult,
    RunSummary,
    outcomes_of,
    swing_of,
    target_doubts,
)

from .checkpoint import CHECKPOINT, Records
from .ledger_file import LEDGER, has_checksums, read_ledgers
from .run_folder import CLIENTS, FILES, IDENTITY, SUMMARY, read_identity, seeds_inside

WAY_OUT = "go on with the run (`resume`), and it is written anew"
UNKNOWN = Scores(math.nan)
IDENTIFYING = ("scenario", "seed", "data", "learner", "server", "adaptive")  # `run_identity`


def load_run(folder: str | Path) -> RunResult:
    """The result of a run from its folder: what `run` returned, to the bit.

    Nothing is simulated, and no data is needed. A run that was killed, or is under way, is given as
    far as it has come, its `complete` False; who pays is known at the end only, so until then the
    `totals` of its ledgers are empty. A ledger from a folder cannot be cut (`Ledger.first`).

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
    """The results of several runs; one note says which of their files have no checksum."""
    read = [read_run(folder) for folder in folders]
    note_unsealed([file for _, files in read for file in files])
    return [result for result, _ in read]


def read_run(place: Path) -> tuple[RunResult, list[Path]]:
    """The result of a run, and the files that it was read from which have no checksum."""
    if not (place / IDENTITY).is_file():
        raise BadFile(f"{place}: holds no run: expected {IDENTITY} in it{seeds_inside(place)}")
    content, sealed_identity = read_identity(place, "run it anew in another `folder`")
    state = Records.load(place).state
    if state is None:
        raise BadFile(f"{place}: no round is done yet: {WAY_OUT}")
    stored, known, done, files = _read_summary(place / SUMMARY)
    state = state.judged_beside(stored.initial.majority)
    columns = read_ledgers(place)
    if not columns or any(c["duration"].size < state.rounds for c in columns.values()):
        raise BadFile(f"{place / LEDGER}: has fewer rounds than {CHECKPOINT}: {WAY_OUT}")
    written = done == state.rounds and (place / CLIENTS).exists()
    totals, clients_checksum = _read_clients(place / CLIENTS) if written else ({}, None)
    # What was written at an end is of these rounds, unless the run is gone on with since.
    ended = set(totals) == set(columns) and all(
        own.called.sum() == columns[policy]["called"][: state.rounds].sum()
        for policy, own in totals.items()
    )
    if stored.complete and done == state.rounds and not ended:
        raise BadFile(f"{place / CLIENTS}: is not of the rounds of {LEDGER}: {WAY_OUT}")
    if ended and files is not None and files.get(CLIENTS, clients_checksum) != clients_checksum:
        raise BadFile(f"{place / CLIENTS}: is damaged: {WAY_OUT}")
    learnt = state.history.columns()
    ledgers = {
        policy: Ledger(
            **{name: column[: state.rounds] for name, column in found.items()} | learnt,
            majority=state.history.majority,
            totals=totals[policy] if ended else Totals.none(0),
        )
        for policy, found in columns.items()
    }
    outcome = replace(
        stored,
        complete=stored.complete and ended,
        other=stored.other if ended else UNKNOWN,
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
    """The outcome as it was written, without the policies'; what only it knows of these: names and
    batteries; the rounds that it is of; and the checksums that it has of other files, None where
    it has none itself."""
    content = read_tables(path)
    with naming(path):
        checked = check_seal(content, WAY_OUT)
    try:
        content.pop(CHECKSUM, None)
        files = dict(content.pop(FILES, {}))
        policies = content.pop("policies")
        done = max((row["rounds"] for row in policies), default=0)
        if "average" in content:  # of fedcell 0.2, which judged the last model
            content |= {"deliver": "last", "other": content.pop("average")}
        for name in ("initial", "other"):
            content[name] = {k: math.nan if v is None else v for k, v in content[name].items()}
        known: dict[str, Any] = {"partition": None} | content | {"policies": ()}
        own = {row["policy"]: _names_and_batteries(row) for row in policies}
        return msgspec.convert(known, RunSummary), own, int(done), files if checked else None
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
        raise BadFile(f"{path}: is damaged: {WAY_OUT}") from error


def _names_and_batteries(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "highest_client_name": row["energy_per_client"]["name"],
        "empty_batteries": msgspec.convert(row["empty_batteries"], tuple[EmptyBattery, ...]),
    }


def _read_clients(path: Path) -> tuple[Mapping[str, Totals], str]:
    """Who pays, by policy, and the checksum of the file."""
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
