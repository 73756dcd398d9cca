"""The file of a pilot: its runs with their loss curves, so that any target can be fitted.

Format 3. Files of older formats are read too: their runs are taken over, to targets that count as
reached at the first passage.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import asdict as table_asdict

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.checksums import CHECKSUM, check_seal, note_unsealed, sealed
from fedcell.core.files.formats import as_json, check_stamp, naming, read_tables, stamp, write_text
from fedcell.core.schema import Count, Fraction, NotNegative, Positive, Table, Text, decode
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Target

from .pilot import Pilot
from .trial import Trial

FORMAT = 3
WAY_OUT = {"pilot": "run `run_pilot` to make one", "validation": "run `validate_pilot` to make one"}

Kind = Literal["independent", "worst-case"]
Seed = Annotated[int, Meta(ge=0, description="a whole number from 0")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Losses = Annotated[
    tuple[float | None, ...],
    Meta(min_length=1, description="a list of numbers, null where not evaluated"),
]


class TargetRow(Table, frozen=True, kw_only=True):
    """A target, as it stands in a file."""

    loss: Positive | None = None
    accuracy: Annotated[float, Meta(gt=0, le=1, description="a number from 0 to 1")] | None = None
    hold: Count

    def faults(self) -> list[str]:
        one = (self.loss is None) != (self.accuracy is None)
        return (
            []
            if one
            else [f"loss = {self.loss} and accuracy = {self.accuracy}: expected one of them"]
        )

    def target(self) -> Target:
        """The target."""
        return Target(loss=self.loss, accuracy=self.accuracy, hold=self.hold)


class TrialRow(Table, frozen=True, kw_only=True):
    """One run, as it stands in the file."""

    cohort: Count
    local_steps: Count
    loss_rate: Fraction
    seed: Seed
    target: TargetRow
    wall_seconds: NotNegative
    judging_seconds: NotNegative = 0.0
    diverged: bool
    losses: Losses
    accuracies: tuple[Share | None, ...] = ()
    guessing: tuple[Count, ...] = ()
    errors: tuple[NotNegative, ...] = ()
    samples: tuple[Count, ...] = ()

    def faults(self) -> list[str]:
        faults = []
        if self.seed >= 2**64:  # beyond what msgspec can be told
            faults.append(f"seed = {self.seed}: expected a whole number below 2^64")
        if max(self.guessing, default=0) > len(self.losses):
            faults.append(f"guessing has round {max(self.guessing)}, of {len(self.losses)} rounds")
        odd = [
            n for n in ("errors", "samples") if len(getattr(self, n)) not in (0, len(self.losses))
        ]
        return faults + [f"{name} are not as many as losses" for name in odd]

    def trial(self) -> Trial:
        """The run."""
        losses = [math.nan if loss is None else loss for loss in self.losses]
        return Trial(
            setting=Setting(self.cohort, self.local_steps, self.loss_rate),
            seed=self.seed,
            losses=tuple([*losses[:-1], math.inf] if self.diverged else losses),
            target=self.target.target(),
            wall_seconds=self.wall_seconds,
            judging_seconds=self.judging_seconds,
            accuracies=tuple(math.nan if a is None else a for a in self.accuracies),
            guessing=self.guessing,
            errors=self.errors,
            samples=self.samples,
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


class PilotFile(Table, frozen=True, kw_only=True):
    """A pilot, as it stands in its file."""

    fedcell: Text
    what: Literal["pilot", "validation"]
    format: int
    name: Text
    identity: Annotated[dict[str, Any], Meta(description="a table")]
    target: TargetRow
    seed: Seed
    kind: Kind
    seconds: NotNegative = 0.0  # that it has taken so far
    sizes: tuple[NotNegative, ...] | None = None  # D_j of a learner of one's own,
    learner: Text | None = None  # its name, and
    server: Text | None = None  # that of a server: for people to give again, never loaded
    code: Annotated[dict[str, dict[str, str]], Meta(description="a table")] = {}  # noqa: RUF012
    checksum: str | None = None
    trials: tuple[TrialRow, ...]


def save_pilot(path: Path, pilot: Pilot) -> None:
    """Writes the file."""
    content = stamp(pilot.what, FORMAT) | {
        "name": pilot.name,
        "identity": pilot.identity,
        "target": asdict(pilot.target),
        "seed": pilot.seed,
        "kind": pilot.kind,
        "seconds": round(pilot.seconds, 1),
        "sizes": None if pilot.sizes is None else list(pilot.sizes),
    }
    own = {"learner": pilot.learner, "server": pilot.server}
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
        "target": asdict(trial.target),
        "wall_seconds": round(trial.wall_seconds, 3),
        **({"judging_seconds": trial.judging_seconds} if trial.judging_seconds else {}),
        "diverged": trial.diverged,
        "losses": _finite(float(f"{x:.9g}") for x in trial.losses),
        **({"accuracies": _finite(trial.accuracies)} if trial.accuracies else {}),
        **({"guessing": list(trial.guessing)} if trial.guessing else {}),
        **({"errors": [float(f"{x:.3g}") for x in trial.errors]} if trial.errors else {}),
        **({"samples": list(trial.samples)} if trial.samples else {}),
    }


def _finite(values: Iterable[float]) -> list[float | None]:
    """Numbers as JSON has them: nothing where a round was not evaluated, or blew up."""
    return [value if math.isfinite(value) else None for value in values]


def load_pilot(path: str | Path, what: str = "pilot") -> Pilot:
    """A pilot, or a validation, from its file.

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
            file = decode(PilotFile, content)
        except BadInput as error:
            raise BadInput(*(f"{fault}; run the pilot again" for fault in error.faults)) from error
        if not check_seal(content, "run the pilot again"):
            note_unsealed([path])
        return Pilot(
            identity=file.identity,
            target=file.target.target(),
            seed=file.seed,
            kind=file.kind,
            name=file.name,
            what=file.what,
            sizes=file.sizes,
            learner=file.learner,
            server=file.server,
            code=file.code,
            trials=tuple(row.trial() for row in file.trials),
            seconds=file.seconds,
            path=path,
        )


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
