"""A pilot: short runs from which the rounds of training are fitted, near the likely plan."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec import Meta

from fedcell.core.errors import BadInput, NotReached
from fedcell.core.quantities import readable_duration
from fedcell.core.schema import NotNegative, Positive, Text
from fedcell.core.showing import Showable
from fedcell.learning.custom import Sources
from fedcell.planning.law.base import LossKind
from fedcell.planning.law.fit import fit_form, fit_law
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.records import FileTable, Seed, Stored
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Target, as_target
from fedcell.simulation.extrapolation import likely_rounds

from .trial import Trial, nearest_to, observe, settled

if TYPE_CHECKING:
    from .summary import PilotReport


T = TypeVar("T")

Code = Annotated[dict[str, dict[str, str]], Meta(description="a table")]

# A pilot runs most often the settings whose first runs were lucky, so less is known of a setting
# than its runs alone say, by this factor (DECISIONS.md, 76).
CHOSEN_DOUBT = 2.0
MOST_KNOWN = 48  # laws and settings that are kept, for one target after the other
FORESEEABLE = 20.0  # times the rounds of a run, beyond which its curve is not continued


@dataclass(frozen=True, kw_only=True)
class Pilot(Showable):
    """The runs of a pilot, from which laws of rounds are fitted (`run_pilot` makes one).

    Attributes
    ----------
    identity : dict
        What of the scenario the rounds depend on.
    target : Target
        At which the runs stopped.
    seed : int
        From which the seeds of the runs follow.
    kind : {"independent", "worst-case"}
        How uploads were lost (cell.loss_kind).
    trials : tuple of Trial
        The runs, each with its setting, its seed and its loss after each round.
    seconds : float
        Wall-clock time so far [s].
    sizes : tuple of float, optional
        D_j of a user's learner.
    """

    identity: FileTable
    target: Target
    seed: Seed
    kind: Annotated[LossKind, Stored(Literal["independent", "worst-case"])]  # cell.loss_kind
    name: Text = "pilot"  # of the scenario
    what: Literal["pilot", "validation"] = "pilot"  # or "validation": runs that judge one
    trials: tuple[Trial, ...] = ()
    seconds: NotNegative = 0.0  # that it has taken so far
    sizes: tuple[NotNegative, ...] | None = None  # D_j of a user's learner; None: from the data
    learner: Text | None = None  # the name of that learner, and
    server: Text | None = None  # of a user's server; a name is not loaded
    # Sources of both, as they were when the pilot began.
    code: Annotated[Mapping[str, Sources], Stored(Code)] = field(default_factory=dict)
    # z_m [bit] and alpha_0 [cycle] of a user's learner that knows them.
    model_bits: Positive | None = None
    cycles_per_sample: Positive | None = None
    path: Path | None = None  # where it was read from

    def fit(self, target: Target | float | None = None) -> FittedLaw:
        """Fit the law of rounds.

        Parameters
        ----------
        target : Target or float, optional
            Target that is no harder than that of the runs; default: that of the pilot.

        Returns
        -------
        FittedLaw

        Raises
        ------
        NotReached
            If no run reached the target, or runs stopped at an easier one.
        """
        goal = self.with_direction(as_target(target, self.target, self.target.hold))
        return self._remembered("law", goal, lambda: self._fit(goal))

    def with_direction(self, target: Target | None) -> Target:
        """Return a target with the direction of its metric, which the runs know; default: that of
        the pilot."""
        if target is None:
            return self.target
        known = {
            each.metric: each.better for each in (self.target, *(t.target for t in self.trials))
        }
        if target.better is not None:
            if known.get(target.metric, target.better) != target.better:
                raise BadInput(
                    f"`better` = {target.better}: the runs of the pilot have "
                    f"{known[target.metric]} values of {target.metric} as the better ones"
                )
            return target
        if (better := known.get(target.metric)) is None:
            raise NotReached(
                f"the runs of the pilot watched {', '.join(known)}, and not {target.metric}: run "
                f"it to {target} for this target"
            )
        return replace(target, better=better)

    @cached_property
    def _known(self) -> dict[tuple[str, Target], Any]:
        """Return what was found for the last targets."""
        return {}

    def _remembered(self, what: str, target: Target, find: Callable[[], T]) -> T:
        """Return what follows from the runs for a target, which is found once."""
        if (what, target) not in self._known:
            while len(self._known) >= MOST_KNOWN:
                self._known.pop(next(iter(self._known)), None)
            self._known[what, target] = find()
        found: T = self._known[what, target]
        return found

    def _fit(self, target: Target) -> FittedLaw:
        self._check_reached(target)
        law = fit_law(observe(self.trials, target, self.kind))
        return replace(law, never=self.never(target), least=target.hold, doubt=CHOSEN_DOUBT)

    def fit_paper(self, target: Target | None = None) -> GivenLaw:
        """Return a law of the paper's own three terms, from the same runs."""
        goal = self.with_direction(target)
        return self._remembered("paper", goal, lambda: self._fit_paper(goal))

    def _fit_paper(self, goal: Target) -> GivenLaw:
        self._check_reached(goal)
        return fit_form(observe(self.trials, goal, self.kind), "paper")

    def _check_reached(self, target: Target) -> None:
        sound = [run for run in self.trials if not run.diverged]
        made_for = [self.target, *(run.target for run in self.trials)]
        if not any(goal.at_least_as_hard_as(target) for goal in made_for):
            raise NotReached(  # only lucky runs went beyond their target
                f"the runs of the pilot stopped at {self.target}, {self.target.definition}: run it "
                f"to {target}, {target.definition}, for this target"
            )
        if not sound or any(run.rounds_to(target) for run in sound):
            return
        raise NotReached(
            f"no run reached {target} {target.definition}, the nearest was "
            f"{nearest_to(target, sound):.4g}{self._nearest(target, sound)}: take an easier "
            f"{target.argument}, a larger `budget`, or longer runs (`rounds`)"
            f"{self._served_instead(target)}"
        )

    def _nearest(self, target: Target, sound: Sequence[Trial]) -> str:
        """Say which run came nearest to a target and, by its curve, when it would reach it; nothing
        where no run was judged for such a target."""
        judged = [run for run in sound if len(run.values(target))]
        if not judged:
            return ""
        sign = target.sign
        nearest = min(judged, key=lambda run: sign * nearest_to(target, [run]))
        words = f" ({nearest.setting}, after {len(nearest.losses)} rounds"
        rounds = likely_rounds(nearest.values(target), target)
        if not math.isfinite(rounds) or rounds > FORESEEABLE * len(nearest.losses):
            return f"{words})"
        seconds = nearest.wall_seconds / len(nearest.losses) * rounds
        return (
            f"{words}; by its curve it takes about {rounds:.0f}, which run in "
            f"{readable_duration(seconds)} here)"
        )

    def _served_instead(self, target: Target) -> str:
        """Say an easier target that the runs in the file have reached; nothing where there is
        none."""
        steady = [run for run in self.trials if run.setting not in self.diverged]
        value = nearest_to(target, steady)
        if self.path is None or not 0 < value < math.inf:
            return ""
        if target.accuracy is not None and value < 0.01:
            return ""
        easier = target.eased_to(value)
        if not self.reached(easier):
            return ""
        return (
            f"; {self.path} already holds runs to {easier}: give it to `plan_training` with "
            f"{target.argument} {easier.value:g}"
        )

    def with_trial(self, trial: Trial) -> "Pilot":
        """Return the pilot with one more run, in place of an older one of its setting and seed."""
        others = (t for t in self.trials if (t.setting, t.seed) != (trial.setting, trial.seed))
        return replace(self, trials=(*others, trial))

    @property
    def tried(self) -> tuple[Setting, ...]:
        """Return the settings that were run, in order."""
        return tuple(dict.fromkeys(trial.setting for trial in self.trials))

    def reached(self, target: Target) -> tuple[Setting, ...]:
        """Return the settings that a plan may use: a run reached the target and none diverged."""
        return self._remembered("reached", target, lambda: self._reached(target))

    def _reached(self, target: Target) -> tuple[Setting, ...]:
        there = {trial.setting for trial in self.trials if trial.rounds_to(target)}
        return tuple(s for s in self.tried if s in there and s not in self.diverged)

    def settled(self, target: Target) -> tuple[Setting, ...]:
        """Return the settings whose loss settled short of a target."""
        return settled(self.trials, target)

    def never(self, target: Target) -> tuple[Setting, ...]:
        """Return the settings that cannot reach a target: they settled short of it, or diverged and
        no harder setting reached it."""
        reached = {trial.setting for trial in self.trials if trial.rounds_to(target)}
        diverged = [s for s in self.diverged if not any(s.no_harder_than(r) for r in reached)]
        return tuple(sorted({*self.settled(target), *diverged}))

    @property
    def diverged(self) -> list[Setting]:
        """Return the settings at which training diverged."""
        return sorted({trial.setting for trial in self.trials if trial.diverged})

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each run."""
        return [
            {
                **vars(trial.setting),
                "seed": trial.seed,
                "rounds": trial.rounds_to(self.target),
                "reached": trial.rounds_to(self.target) is not None,
                "least_rounds": _least(trial, self.target),
                "diverged": trial.diverged,
                "wall_seconds": trial.wall_seconds,
            }
            for trial in self.trials
        ]

    @cached_property
    def report(self) -> "PilotReport":
        """Return the law, how well it fits, and what else the runs show."""
        from .summary import pilot_report

        return pilot_report(self)

    def save(self, path: str | Path) -> None:
        """Write the runs with their loss curves, so that any easier target can be fitted."""
        from .pilotfile import save_pilot

        save_pilot(Path(path), self)

    def __repr__(self) -> str:
        return f"<Pilot: {len(self.trials)} runs of {len(self.tried)} settings to {self.target}>"


def _least(trial: Trial, target: Target) -> int | None:
    """Return the least rounds of a run that did not reach the target, where that is known."""
    rounds = trial.least_rounds(target)
    known = trial.rounds_to(target) is None and not trial.diverged and math.isfinite(rounds)
    return math.ceil(rounds) if known else None
