"""The file of a pilot: its runs with their loss curves, so that any target can be fitted.

Format 2. Files of format 1 (fedcell 0.1) are read too: their runs are taken over, and the laws
fitted again.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from msgspec.structs import asdict as table_asdict

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files import as_json, check_stamp, naming, read_tables, stamp, write_text
from fedcell.core.schema import Count, Fraction, NotNegative, Positive, Table, Text, Whole, decode

from .design import Setting
from .fitted import FittedLaw
from .law import GivenLaw
from .pilot import Pilot
from .report import PilotReport
from .trials import Trial

FORMAT = 2
WAY_OUT = {"pilot": "run `run_pilot` to make one", "validation": "run `validate_pilot` to make one"}

Kind = Literal["independent", "worst-case"]
Seed = Annotated[int, Meta(ge=0, description="a whole number from 0")]
SmallNumber = Annotated[float, Meta(ge=0, lt=100, description="a number from 0 to below 100")]
Several = Annotated[int, Meta(ge=2, le=10**7, description="a whole number from 2")]
Losses = Annotated[
    tuple[float | None, ...],
    Meta(min_length=1, description="a list of numbers, null where not evaluated"),
]


class TrialRow(Table, frozen=True, kw_only=True):
    """One run, as it stands in the file."""

    cohort: Count
    local_steps: Count
    loss_rate: Fraction
    seed: Seed
    target: Positive
    wall_seconds: NotNegative
    diverged: bool
    losses: Losses
    diversity: tuple[tuple[Whole, float], ...] = ()

    def faults(self) -> list[str]:
        known = self.seed < 2**64  # beyond what msgspec can be told
        return [] if known else [f"seed = {self.seed}: expected a whole number below 2^64"]

    def trial(self) -> Trial:
        """The run."""
        losses = [math.nan if loss is None else loss for loss in self.losses]
        return Trial(
            setting=Setting(self.cohort, self.local_steps, self.loss_rate),
            seed=self.seed,
            losses=tuple([*losses[:-1], math.inf] if self.diverged else losses),
            target=self.target,
            wall_seconds=self.wall_seconds,
            diversity=self.diversity,
        )


class LawCoefficients(Table, frozen=True, kw_only=True):
    """The coefficients of a law, as they stand in a file."""

    mixing: NotNegative
    drift: NotNegative
    start: NotNegative
    dropped: NotNegative = 0.0
    floor: NotNegative = 0.0

    def law(self) -> GivenLaw:
        """The law."""
        return GivenLaw(**table_asdict(self))


class LawRow(Table, frozen=True, kw_only=True):
    """A law that was fitted, as it stands in the file."""

    form: Literal["paper", "dropped", "floor"]
    law: LawCoefficients
    bootstrap: Annotated[
        tuple[tuple[float, float, float, float, float], ...],
        Meta(min_length=1, description="lists of five numbers"),
    ]
    seed_sd: SmallNumber
    run_sd: SmallNumber
    lack_of_fit_sd: SmallNumber
    t_factor: SmallNumber
    seeds: Several
    settings: Several
    runs: Several
    censored: Whole
    kind: Kind

    def fitted(self) -> FittedLaw:
        """The law."""
        values = {f.name: getattr(self, f.name) for f in fields(FittedLaw)}
        return FittedLaw(**values | {"law": self.law.law(), "bootstrap": np.array(self.bootstrap)})


class PilotFile(Table, frozen=True, kw_only=True):
    """A pilot, as it stands in its file."""

    fedcell: Text
    what: Literal["pilot", "validation"]
    format: int
    name: Text
    identity: Annotated[dict[str, Any], Meta(description="a table")]
    target: Positive
    seed: Seed
    kind: Kind
    sizes: tuple[Positive, ...] | None = None  # D_j of a learner of one's own
    report: Any = None  # for people and other programs
    laws: tuple[LawRow, ...] = ()
    trials: tuple[TrialRow, ...]

    def faults(self) -> list[str]:
        return ["laws: there are some, and no runs"] if self.laws and not self.trials else []


def save_pilot(path: Path, pilot: Pilot, report: PilotReport | None = None) -> None:
    """Writes the file; the report is what people and programs read there, and we do not."""
    content = stamp(pilot.what, FORMAT) | {
        "name": pilot.name,
        "identity": pilot.identity,
        "target": pilot.target,
        "seed": pilot.seed,
        "kind": pilot.kind,
        "sizes": None if pilot.sizes is None else list(pilot.sizes),
        "report": None if report is None else report.to_dict(),
    }
    lists = {
        "laws": [_law_row(law) for law in pilot.laws],
        "trials": [_trial_row(trial) for trial in pilot.trials],
    }
    parts = [as_json(content).removesuffix("\n}\n")]  # and then a line for each law and each run
    parts += [
        f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in lists.items()
    ]
    write_text(path, ",\n".join(parts) + "\n}\n")


def _law_row(law: FittedLaw) -> dict[str, Any]:
    row = {f.name: getattr(law, f.name) for f in fields(law)}
    row["law"] = asdict(law.law)
    row["bootstrap"] = [[float(f"{x:.6g}") for x in line] for line in law.bootstrap.tolist()]
    return row


def _trial_row(trial: Trial) -> dict[str, Any]:
    return {
        **asdict(trial.setting),
        "seed": trial.seed,
        "target": trial.target,
        "wall_seconds": round(trial.wall_seconds, 3),
        "diverged": trial.diverged,
        "losses": [float(f"{x:.9g}") if math.isfinite(x) else None for x in trial.losses],
        "diversity": [[t, float(f"{x:.6g}")] for t, x in trial.diversity],
    }


def load_pilot(path: str | Path, what: str = "pilot") -> Pilot:
    """A pilot, or a validation, from its file.

    >>> load_pilot("benchmarks/results/planning/pilot-digits.json").target
    0.2
    """
    path = Path(path)
    try:
        content = read_tables(path)
    except BadFile as error:
        raise BadFile(f"{error}; {WAY_OUT[what]}") from error
    with naming(path):
        if check_stamp(content, what, (1, FORMAT), WAY_OUT[what]) == 1:
            content = _from_format_1(content, what, path.stem)
        try:
            file = decode(PilotFile, content)
        except BadInput as error:
            raise BadInput(*(f"{fault}; run the pilot again" for fault in error.faults)) from error
        return Pilot(
            identity=file.identity,
            target=file.target,
            seed=file.seed,
            kind=file.kind,
            name=file.name,
            what=file.what,
            sizes=file.sizes,
            trials=tuple(row.trial() for row in file.trials),
            laws=tuple(row.fitted() for row in file.laws),
            path=path,
        )


def _from_format_1(content: Mapping[str, Any], what: str, name: str) -> dict[str, Any]:
    """A file of fedcell 0.1 as one of today: its runs, without the laws."""
    trials = content.get("trials")
    rows = [
        {("wall_seconds" if key == "seconds" else key): value for key, value in row.items()}
        if isinstance(row, dict)
        else row
        for row in (trials if isinstance(trials, list) else [])
    ]
    kept = {key: content.get(key) for key in ("fedcell", "identity", "target", "seed", "kind")}
    return {**kept, "what": what, "format": FORMAT, "name": name, "trials": rows}
