"""The report of a pilot in typed values, for tables and figures."""

from dataclasses import asdict, dataclass
from typing import Any

from fedcell.planning.law.fitted import FittedLaw
from fedcell.scenario.target import Target

from .pilot import Pilot
from .validation import SettingCheck, check_law, target_exponent

FEW_SEEDS = 3  # fewer say little of how runs differ


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotReport:
    """The law of a pilot, how well it fits, and what else its runs show.

    Attributes
    ----------
    seconds : float
        Wall-clock time of the pilot [s].
    run_seconds, judging_seconds : float
        Time of all runs, and the part of it in which models were judged [s].
    cut : int
        Runs that were cut, or did not reach the target.
    law : FittedLaw
        The fitted law.
    target_exponent : float or None
        How rounds grow towards the target; Theorem 1 says -1.
    checks : tuple of SettingCheck
        Fitted against measured rounds of each setting.
    """

    name: str  # of the scenario
    target: Target
    seconds: float  # that it took
    runs: int
    settings: int
    run_seconds: float  # that its runs took, on as many processors as there were,
    judging_seconds: float  # and of these, in which models were judged
    cut: int  # runs that were cut, or did not reach the target
    law: FittedLaw
    target_exponent: float | None  # how rounds grow towards the target; Theorem 1 says -1
    checks: tuple[SettingCheck, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `fedcell pilot --json` prints them."""
        return {
            "target": self.target.to_dict(),
            "seconds": self.seconds,
            "run_seconds": self.run_seconds,
            "judging_seconds": self.judging_seconds,
            "runs": self.runs,
            "cut": self.cut,
            "settings": self.settings,
            "seeds": self.law.seeds,
            "coefficients": {row["coefficient"]: row["value"] for row in self.law.rows()},
            "deviations": asdict(self.law.residuals.scales),
            "never": [asdict(setting) for setting in self.law.never],
            "target_exponent": self.target_exponent,
            "settings_table": [check.to_dict() for check in self.checks],
            "notes": list(self.notes),
        }


def pilot_report(pilot: Pilot) -> PilotReport:
    """Return the report of a pilot."""
    law = pilot.fit()
    sound = [trial for trial in pilot.trials if trial.setting not in law.never]
    checks = check_law(law, sound, pilot.target)
    notes = [
        f"training diverges with {setting}: lower learning.rate, or leave it out by `steps`"
        for setting in pilot.diverged
    ]
    notes += law.notes
    if guessed := sum(bool(trial.guessing) for trial in pilot.trials):
        notes.append(
            f"{guessed} of the runs met the target with a model no better than always answering "
            "with the most common class: such rounds do not count"
        )
    if law.seeds < FEW_SEEDS:
        notes.append(f"{law.seeds} seeds say little of how runs differ: give a larger `budget`")
    return PilotReport(
        name=pilot.name,
        target=pilot.target,
        seconds=pilot.seconds,
        run_seconds=sum(trial.wall_seconds for trial in pilot.trials),
        judging_seconds=sum(trial.judging_seconds for trial in pilot.trials),
        runs=len(pilot.trials),
        settings=len(pilot.tried),
        cut=sum(t.rounds_to(pilot.target) is None and not t.diverged for t in pilot.trials),
        law=law,
        target_exponent=target_exponent(pilot.trials, pilot.target),
        checks=checks,
        notes=tuple(notes),
    )
