"""A pilot: short runs, designed to tell the coefficients of the law of rounds apart.

Every setting of the design is run once for each seed (data dealt, model, dice). Settings are
compared on the same luck, and the seeds show how much luck matters.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcell.core.errors import BadInput, NotReached
from fedcell.core.showing import Showable

from .design import Setting
from .fit import fit_law
from .fitted import FORMS, FittedLaw
from .lost_uploads import LossKind
from .trials import Trial, observe

if TYPE_CHECKING:
    from .report import PilotReport


@dataclass(frozen=True, kw_only=True)
class Pilot(Showable):
    """Runs, what they are runs of, and the laws that they come to."""

    identity: dict[str, Any]
    target: float  # training loss
    seed: int
    kind: LossKind  # cell.loss_kind
    name: str = "pilot"  # of the scenario
    what: str = "pilot"  # or "validation": runs that judge one
    trials: tuple[Trial, ...] = ()
    laws: tuple[FittedLaw, ...] = ()  # for the target: the best, and the paper's
    sizes: tuple[float, ...] | None = None  # D_j of a learner of one's own; None for ours
    path: Path | None = None  # where it was read from

    def fit(self, target: float | None = None, form: str | None = None) -> FittedLaw:
        """The law for a target: that of the pilot, or another, from the same runs."""
        target = self.target if target is None else target
        ready = [law for law in self.laws if form in (None, law.form)]
        if ready and target == self.target:
            return ready[0]
        if not 0 < target < math.inf:
            raise BadInput(f"`target` = {target}: expected a finite number above 0")
        if form not in (None, *FORMS):
            raise BadInput(f"`form` = {form}: expected one of {', '.join(FORMS)}")
        runs = self.trials_for(target)
        sound = [run for run in runs if not run.diverged]
        lowest = min((x for run in sound for x in run.losses if x == x), default=math.inf)
        if sound and lowest > target:
            raise NotReached(
                f"no run reached the loss {target:g}, the lowest was {lowest:.4g}: take a higher "
                "`target`, or longer runs (`rounds`, plan.rounds)"
            )
        return fit_law(observe(runs, target, self.kind), form, self.seed)

    def trials_for(self, target: float) -> list[Trial]:
        """The runs of all seeds that were not stopped before they could say of this target."""
        short = {trial.seed for trial in self.trials if not trial.answers_for(target)}
        if self.trials and len(short) == len({trial.seed for trial in self.trials}):
            stopped = max(trial.target for trial in self.trials)
            raise BadInput(
                f"the runs of the pilot stopped at the loss {stopped:g}: run it with `target` "
                f"{target:g} for this target"
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
    def tried(self) -> tuple[Setting, ...]:
        """The settings that were run, in order."""
        return tuple(dict.fromkeys(trial.setting for trial in self.trials))

    @property
    def most_steps(self) -> int:
        """The most local steps of a setting of which no run diverged."""
        sound = set(self.tried) - set(self.diverged)
        return max((setting.local_steps for setting in sound), default=1)

    @property
    def diverged(self) -> list[Setting]:
        """Settings at which training blew up."""
        return sorted({trial.setting for trial in self.trials if trial.diverged})

    def rows(self) -> list[dict[str, Any]]:
        """One row for each run."""
        return [
            {
                **vars(trial.setting),
                "seed": trial.seed,
                "rounds": trial.rounds_to(self.target),
                "reached": trial.rounds_to(self.target) is not None,
                "diverged": trial.diverged,
                "wall_seconds": trial.wall_seconds,
            }
            for trial in self.trials
        ]

    @cached_property
    def report(self) -> "PilotReport":
        """What the pilot found: the law, how well it fits, and what else its runs show."""
        from .report import pilot_report

        return pilot_report(self)

    def save(self, path: str | Path) -> None:
        """Writes the runs with their loss curves, so that any target can be fitted."""
        from .pilotfile import save_pilot

        save_pilot(Path(path), self, self.report if self.laws else None)

    def __repr__(self) -> str:
        return f"<Pilot: {len(self.trials)} runs of {len(self.tried)} settings to {self.target:g}>"
