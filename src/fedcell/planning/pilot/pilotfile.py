"""The file of a pilot: its runs with their loss curves, so that any target can be fitted.

Format 3. Files of older formats are read too: their runs are taken over, to targets that count as
reached at the first passage.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.checksums import CHECKSUM, check_seal, note_unsealed, sealed
from fedcell.core.files.formats import as_json, check_stamp, naming, read_tables, stamp, write_text
from fedcell.planning.records import Record, Stored, record, tuple_of
from fedcell.planning.targets import TARGET

from .pilot import Pilot
from .trial import Trial

FORMAT = 3
WAY_OUT = {"pilot": "run `run_pilot` to make one", "validation": "run `validate_pilot` to make one"}

STAMP = ("fedcell", "format", CHECKSUM)  # of the file, not of the pilot


@cache
def pilot_record() -> Record[Pilot]:
    """Return how a pilot stands in its file."""
    trial = record(Trial, make=_trial, check=_check_trial, also={"diverged": bool}, target=TARGET)
    return record(
        Pilot,
        leave=("path",),
        target=TARGET,
        trials=Stored(tuple_of(trial.table), lambda rows: tuple(trial.value(row) for row in rows)),
    )


def _trial(*, losses: Sequence[float], diverged: bool, **fields: Any) -> Trial:
    """Return a run: a file has no infinity for the loss of its last round."""
    return Trial(losses=(*losses[:-1], math.inf) if diverged else tuple(losses), **fields)


def _check_trial(row: Any) -> list[str]:
    """Return the faults between fields of a run."""
    faults = []
    if row.seed >= 2**64:  # beyond what msgspec can check
        faults.append(f"seed = {row.seed}: expected a whole number below 2^64")
    if max(row.guessing, default=0) > len(row.losses):
        faults.append(f"guessing has round {max(row.guessing)}, of {len(row.losses)} rounds")
    odd = [n for n in ("errors", "samples") if len(getattr(row, n)) not in (0, len(row.losses))]
    return faults + [f"{name} are not as many as losses" for name in odd]


def save_pilot(path: Path, pilot: Pilot) -> None:
    """Writes the file."""
    content = stamp(pilot.what, FORMAT) | {
        "name": pilot.name,
        "identity": pilot.identity,
        "target": pilot.target.to_dict(),
        "seed": pilot.seed,
        "kind": pilot.kind,
        "seconds": round(pilot.seconds, 1),
        "sizes": None if pilot.sizes is None else list(pilot.sizes),
    }
    own: dict[str, Any] = {"learner": pilot.learner, "server": pilot.server}
    own |= {"model_bits": pilot.model_bits, "cycles_per_sample": pilot.cycles_per_sample}
    content |= {what: name for what, name in own.items() if name is not None}
    content |= {"code": pilot.code} if pilot.code else {}
    trials = [_trial_row(trial) for trial in pilot.trials]
    content |= {CHECKSUM: sealed(content | {"trials": trials})[CHECKSUM]}
    head = as_json(content).removesuffix("\n}\n")  # and then a line for each run
    rows = ",\n".join(map(json.dumps, trials))
    write_text(path, f'{head},\n"trials": [\n{rows}\n]\n}}\n')


def _trial_row(trial: Trial) -> dict[str, Any]:
    return {
        **asdict(trial.setting),
        "seed": trial.seed,
        "target": trial.target.to_dict(),
        "wall_seconds": round(trial.wall_seconds, 3),
        **({"judging_seconds": trial.judging_seconds} if trial.judging_seconds else {}),
        "diverged": trial.diverged,
        "losses": _finite(float(f"{x:.9g}") for x in trial.losses),
        **({"accuracies": _finite(trial.accuracies)} if trial.accuracies else {}),
        **({"measured": _finite(trial.measured)} if trial.measured else {}),
        **({"guessing": list(trial.guessing)} if trial.guessing else {}),
        **({"errors": [float(f"{x:.3g}") for x in trial.errors]} if trial.errors else {}),
        **({"samples": list(trial.samples)} if trial.samples else {}),
    }


def _finite(values: Iterable[float]) -> list[float | None]:
    """Return numbers as JSON has them: None where a round was not evaluated, or diverged."""
    return [value if math.isfinite(value) else None for value in values]


def load_pilot(path: str | Path, what: str = "pilot") -> Pilot:
    """Read a pilot, or a validation, from its file.

    Parameters
    ----------
    path : str or Path
        File that `run_pilot`, or `fedcell pilot --out`, has written; formats 1 to 3.
    what : {"pilot", "validation"}, optional
        Which of the two the file must hold.

    Returns
    -------
    Pilot
        The trials.

    Examples
    --------
    >>> print(load_pilot("benchmarks/results/planning/pilot-digits.json").target)
    training loss 0.2
    """
    path = Path(path)
    try:
        content = read_tables(path)
    except BadFile as error:
        raise BadFile(f"{error}; {WAY_OUT[what]}") from error
    with naming(path):
        if check_stamp(content, what, (1, 2, FORMAT), WAY_OUT[what]) < FORMAT:
            content = _from_older(content, what, path.stem)
        try:
            pilot = pilot_record().decode({n: v for n, v in content.items() if n not in STAMP})
        except BadInput as error:
            raise BadInput(*(f"{fault}; run the pilot again" for fault in error.faults)) from error
        if not check_seal(content, "run the pilot again"):
            note_unsealed([path])
        return replace(pilot, path=path)


def _from_older(content: Mapping[str, Any], what: str, name: str) -> dict[str, Any]:
    """A file of an older format as one of today: its runs, each to a loss at its first passage."""

    def passed(table: Mapping[str, Any]) -> dict[str, Any]:
        renamed = {("wall_seconds" if key == "seconds" else key): v for key, v in table.items()}
        renamed.pop("diversity", None)
        return renamed | {"target": {"loss": table.get("target"), "hold": 1}}

    trials = content.get("trials")
    rows = [
        passed(row) if isinstance(row, dict) else row
        for row in (trials if isinstance(trials, list) else [])
    ]
    kept = {key: content.get(key) for key in ("fedcell", "identity", "target", "seed", "kind")}
    kept |= {"name": content.get("name", name), "sizes": content.get("sizes")}
    return passed(kept) | {"what": what, "format": FORMAT, "trials": rows}
