"""List run folders: what each trains, its progress, and its cost."""

import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.checksums import note_unsealed
from fedcell.core.files.formats import read_tables
from fedcell.core.files.locks import read_holder
from fedcell.simulation.summary import PolicyOutcome, RunSummary

from .load import read_run
from .run_folder import IDENTITY, LOCK, SCENARIO

MAX_DEPTH = 3  # levels of folders that are searched


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run folder; `outcome` is None where it cannot be read, and `fault` says why."""

    folder: Path
    trained: str = ""  # dataset and model
    rounds: int = 0  # done
    most_rounds: int = 0  # at most
    status: str = "damaged"  # or complete, running, stopped
    outcome: RunSummary | None = None
    fault: str | None = None

    def under(self, policy: str | None) -> PolicyOutcome | None:
        """Return its outcome under a policy; default: its first."""
        every = () if self.outcome is None else self.outcome.policies
        return next((one for one in every if policy in (None, one.policy)), None)

    def to_dict(self, policy: str | None = None) -> dict[str, Any]:
        """Return plain values."""
        run, taken = self.outcome, self.under(policy)
        return {
            "folder": str(self.folder),
            "status": self.status,
            "fault": self.fault,
            "trained": self.trained,
            "seed": run and run.seed,
            "cohort": run and run.cohort,
            "local_steps": run and run.local_steps,
            "local_epochs": run and run.local_epochs,
            "rounds": self.rounds,
            "most_rounds": self.most_rounds,
            "train_loss": taken and taken.scores.train_loss,
            "accuracy": taken and taken.scores.accuracy,
            **(taken.scores.metrics if taken else {}),
            "target": run.target.to_dict() if run and run.target else None,
            "policy": taken and taken.policy,
            "duration": taken and taken.total.duration,
            "energy": taken and taken.total.energy,
            "to_target": asdict(taken.to_target) if taken and taken.to_target else None,
        }


def list_runs(folders: Iterable[str | Path]) -> list[RunEntry]:
    """Return the runs in folders that are runs or contain some.

    Parameters
    ----------
    folders : iterable of str or Path
        Folders of runs, or folders above them.

    Returns
    -------
    list of RunEntry
        Settings, progress and costs of each run, in the order found.
    """
    found: dict[Path, None] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise BadFile(f"{folder}: is not a folder: name a run, or a folder that holds runs")
        inside = list(_runs_in(folder, MAX_DEPTH))
        if not inside:
            raise BadFile(f"{folder}: holds no run: expected {IDENTITY} in it, or in one inside")
        found |= dict.fromkeys(inside)
    entries = [_entry(folder) for folder in found]
    note_unsealed([file for _, files in entries for file in files])
    return [entry for entry, _ in entries]


def _runs_in(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / IDENTITY).is_file():
        yield folder
    elif depth:
        with os.scandir(folder) as entries:
            inside = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        for name in sorted(inside, key=_in_order):
            try:
                yield from _runs_in(folder / name, depth - 1)
            except OSError:
                continue  # not readable


def _in_order(name: str) -> tuple[str, int, str]:
    """Return a sort key with seed2 before seed10."""
    text = name.rstrip("0123456789")
    return text, int(name[len(text) :] or 0), name


def _entry(folder: Path) -> tuple[RunEntry, list[Path]]:
    """Return a run, and its files without a checksum."""
    try:
        tables = read_tables(folder / SCENARIO)
        own, most = read_tables(folder / IDENTITY).get("learner"), int(tables["plan"]["rounds"])
        trained = _trained(tables["learning"]) if own is None else str(own["name"])
        result, unsealed = read_run(folder)
    except (BadInput, KeyError, TypeError, ValueError, AttributeError) as error:
        fault = str(error) if isinstance(error, BadInput) else f"{folder / SCENARIO}: is damaged"
        return RunEntry(folder=folder, fault=fault), []
    running = _is_running(folder / LOCK)
    status = "running" if running else "complete" if result.complete else "stopped"
    entry = RunEntry(
        folder=folder,
        trained=trained,
        rounds=result.state.rounds,
        most_rounds=most,
        status=status,
        outcome=result.outcome,
    )
    return entry, unsealed


def _trained(learning: dict[str, Any]) -> str:
    """Return dataset and model in a few words."""
    model = "own layers" if "layers" in learning else str(learning.get("model", ""))
    dataset = Path(str(learning.get("dataset", ""))).stem
    return model if model.startswith("quadratic") else f"{dataset}, {model}"


def _is_running(lock: Path) -> bool:
    """Return whether the process that a lock names exists; assume so for another machine.

    The lock is only read: taking it, even for a moment, could keep out another process.
    """
    try:
        _, number, _, host = read_holder(lock).split(" ", 3)
        if host == socket.gethostname():
            os.kill(int(number), 0)
    except PermissionError:
        return True  # the process of another user
    except (OSError, ValueError, OverflowError):
        return False
    return True
