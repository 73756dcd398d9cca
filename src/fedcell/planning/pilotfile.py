"""The file of a pilot: its runs with their loss curves, so that any target can be fitted."""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell import __version__
from fedcell.core.errors import BadInput
from fedcell.network.compare import Row
from fedcell.scenario.load import as_json, naming, read_tables, write_text

from .fit import FORMS, Fit, fit, unseen_error
from .pilot import Setting, Trial, observe
from .theory import TERMS, Bound
from .validate import against, failures, target_exponent

FORMAT = 1
KINDS = ("independent", "worst-case")
COMMAND = {"pilot": "pilot", "validation": "validate"}
MOST = 10**7  # clients, steps or rounds of a run


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """Runs, and what they are runs of."""

    identity: dict[str, Any]
    target: float
    seed: int
    kind: str  # cell.loss_kind
    what: str = "pilot"  # or "validation": runs that judge one
    trials: tuple[Trial, ...] = ()
    laws: tuple[Fit, ...] = ()  # for the target: the best, and the paper's

    def fit(self, target: float | None = None, form: str | None = None) -> Fit:
        """The law for a target: that of the pilot, or another, from the same runs."""
        target = self.target if target is None else target
        ready = [law for law in self.laws if form in (None, law.form)]
        if ready and target == self.target:
            return ready[0]
        if not 0 < target < math.inf:
            raise BadInput(f"the target loss {target}: expected a finite number above 0")
        if form not in (None, *FORMS):
            raise BadInput(f"form = {form}: expected one of {', '.join(FORMS)}")
        runs = self.serving(target)
        lowest = min((x for run in runs for x in run.losses if x == x), default=math.inf)
        if runs and lowest > target:
            raise BadInput(
                f"no run reached the loss {target:g}, the lowest was {lowest:.4g}: take a higher "
                "--target-loss, or longer runs (--rounds, plan.rounds)"
            )
        return fit(observe(runs, target, self.kind), form, self.seed)

    def serving(self, target: float) -> list[Trial]:
        """The runs of all seeds that were not stopped before they could say of this target."""
        short = {trial.seed for trial in self.trials if not trial.serves(target)}
        if self.trials and len(short) == len({trial.seed for trial in self.trials}):
            stopped = max(trial.target for trial in self.trials)
            raise BadInput(
                f"the runs of the pilot stopped at the loss {stopped:g}: run it with "
                f"--target-loss {target:g} for this target"
            )
        return [trial for trial in self.trials if trial.seed not in short]

    def with_trial(self, trial: Trial) -> "Pilot":
        """With one run more, in place of an older one of the same setting and seed."""
        others = (t for t in self.trials if (t.setting, t.seed) != (trial.setting, trial.seed))
        return replace(self, trials=(*others, trial), laws=())

    def fitted(self) -> "Pilot":
        """With the laws that its runs come to, so that they need not be fitted again."""
        best = replace(self, laws=()).fit()
        paper = best if best.form == "paper" else replace(self, laws=()).fit(form="paper")
        return replace(self, laws=(best, paper))

    @property
    def steps(self) -> int:
        """The most local steps of a setting of which no run diverged."""
        sound = {trial.setting for trial in self.trials} - set(self.diverged)
        return max((setting.local_steps for setting in sound), default=1)

    @property
    def diverged(self) -> list[Setting]:
        return sorted({trial.setting for trial in self.trials if trial.diverged})


def save_pilot(path: Path, pilot: Pilot, said: Row | None = None) -> None:
    """Writes the file; `said` is what people and programs read there, and we do not."""
    content = {
        "fedcell": __version__,
        "format": FORMAT,
        "what": pilot.what,
        "identity": pilot.identity,
        "target": pilot.target,
        "seed": pilot.seed,
        "kind": pilot.kind,
        "said": said,
    }
    lists = {
        "laws": [_law_row(law) for law in pilot.laws],
        "trials": [_row(trial) for trial in pilot.trials],
    }
    parts = [as_json(content).removesuffix("\n}\n")]  # and then a line for each law and each run
    parts += [
        f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in lists.items()
    ]
    write_text(path, ",\n".join(parts) + "\n}\n")


def _law_row(law: Fit) -> Row:
    row = {f.name: getattr(law, f.name) for f in fields(law)}
    row["bound"] = asdict(law.bound)
    row["replicates"] = [[float(f"{x:.6g}") for x in line] for line in law.replicates.tolist()]
    return row


def _law(row: dict[str, Any]) -> Fit:
    values = {f.name: row[f.name] for f in fields(Fit)}
    values["bound"] = Bound(**row["bound"])
    values["replicates"] = np.array(row["replicates"], float).reshape(-1, len(TERMS))
    errors = [values[name] for name in ("luck", "noise", "misfit", "student")]
    counts = [values[name] for name in ("blocks", "settings", "runs")]
    if row["form"] not in FORMS or row["kind"] not in KINDS or not len(values["replicates"]):
        raise ValueError("a law")
    if not np.isfinite(values["replicates"]).all():
        raise ValueError("the replicates of a law")
    if not all(isinstance(x, float | int) and 0 <= x < 100 for x in errors):
        raise ValueError("the errors of a law")
    if not all(isinstance(x, int) and x >= 2 for x in counts):
        raise ValueError("the counts of a law")
    return Fit(**values)


def _row(trial: Trial) -> dict[str, Any]:
    s = trial.setting
    return {
        "cohort": s.cohort,
        "local_steps": s.local_steps,
        "loss_rate": s.loss_rate,
        "seed": trial.seed,
        "target": trial.target,
        "seconds": round(trial.seconds, 3),
        "diverged": trial.diverged,
        "losses": [float(f"{x:.9g}") if math.isfinite(x) else None for x in trial.losses],
        "diversity": [[t, float(f"{x:.6g}")] for t, x in trial.diversity],
    }


def load_pilot(path: str | Path, what: str = "pilot") -> Pilot:
    """A pilot, or a validation, from its file."""
    path = Path(path)
    content = read_tables(path)
    with naming(path):
        if content.get("format") != FORMAT or not isinstance(content.get("trials"), list):
            raise BadInput(
                f"is not a {what} of this version of fedcell: run fedcell {COMMAND[what]}"
            )
        if (held := content.get("what", "pilot")) != what:
            raise BadInput(f"holds a {held}, not a {what}: name another file")
        try:
            trials = tuple(_trial(row) for row in content["trials"])
            pilot = Pilot(
                identity=dict(content["identity"]),
                target=float(content["target"]),
                seed=int(content["seed"]),
                kind=str(content["kind"]),
                what=what,
                trials=trials,
                laws=tuple(_law(row) for row in content["laws"]),
            )
            if pilot.kind not in KINDS or not 0 < pilot.target < math.inf:
                raise ValueError(f"{pilot.kind}, target {pilot.target}")
            if pilot.laws and not pilot.trials:
                raise ValueError("laws without runs")
        except BadInput:
            raise
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise BadInput(
                f"is damaged ({type(error).__name__}: {error}): delete it and run the pilot again"
            ) from error
    return pilot


def _trial(row: dict[str, Any]) -> Trial:
    setting = Setting(int(row["cohort"]), int(row["local_steps"]), float(row["loss_rate"]))
    losses = [math.nan if x is None else float(x) for x in row["losses"]]
    counts = setting.cohort, setting.local_steps, len(losses)
    if min(counts) < 1 or max(counts) > MOST or not 0 <= setting.loss_rate < 1:
        raise ValueError(f"a run with {setting}")
    if not 0 <= int(row["seed"]) < 2**63:
        raise ValueError(f"a run with seed {row['seed']}")
    if row["diverged"]:
        losses[-1] = math.inf
    return Trial(
        setting=setting,
        seed=int(row["seed"]),
        losses=tuple(losses),
        target=float(row["target"]),
        seconds=float(row["seconds"]),
        diversity=tuple((int(t), float(x)) for t, x in row["diversity"]),
    )


def pilot_row(pilot: Pilot) -> Row:
    """What a pilot found, in plain values."""
    trials = pilot.serving(pilot.target)
    law, observed = pilot.fit(), observe(trials, pilot.target, pilot.kind)
    rows = against(law, trials, pilot.target)
    notes = failures(rows) + law.notes
    if law.blocks < 4:
        notes.append(
            f"{law.blocks} seeds say little of how runs differ, so intervals are wide: give a "
            "larger --budget"
        )
    watched = max((trial.diversity for trial in pilot.trials), key=len, default=())
    return {
        "target": pilot.target,
        "form": law.form,
        "coefficients": law.coefficients(),
        "best_steps": law.bound.best_steps(),
        **{name: getattr(law, name) for name in ("luck", "noise", "misfit", "blocks", "runs")},
        **{name: getattr(law, name) for name in ("settings", "censored")},
        "unseen": {name: unseen_error(observed, name) for name in FORMS},
        "target_exponent": target_exponent(trials, pilot.target),
        "diversity": [[t, float(f"{x:.6g}")] for t, x in watched],
        "table": rows,
        "notes": notes,
    }
