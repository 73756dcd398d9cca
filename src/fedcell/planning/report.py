"""What a pilot found, in typed values: tables, figures and files are made of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .fit import leave_one_setting_out_error
from .fitted import FORMS, FittedLaw
from .pilot import Pilot
from .trials import observe
from .validate import SettingCheck, check_law, target_exponent

FEW_SEEDS = 4  # fewer say little of how runs differ


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotReport:
    """The law that a pilot's runs come to, how well it fits, and what else they show."""

    name: str  # of the scenario
    target: float  # training loss
    law: FittedLaw
    best_steps: float  # E_l* of the law
    left_out_errors: Mapping[str, float]  # by form: error on settings left out of the fit
    target_exponent: float  # how rounds grow towards the target; Theorem 1 says -1
    diversity: tuple[tuple[int, float], ...]  # (round, lambda) along a run
    checks: tuple[SettingCheck, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell pilot --json` prints them."""
        names = ("seed_sd", "run_sd", "lack_of_fit_sd", "seeds", "runs", "settings", "censored")
        coefficients = self.law.coefficient_estimates()
        return {
            "target": self.target,
            "form": self.law.form,
            "coefficients": {name: asdict(estimate) for name, estimate in coefficients.items()},
            "best_steps": self.best_steps,
            **{name: getattr(self.law, name) for name in names},
            "left_out_errors": dict(self.left_out_errors),
            "target_exponent": self.target_exponent,
            "diversity": [[t, float(f"{x:.6g}")] for t, x in self.diversity],
            "settings_table": [check.to_dict() for check in self.checks],
            "notes": list(self.notes),
        }


def pilot_report(pilot: Pilot) -> PilotReport:
    """What a pilot found."""
    trials = pilot.trials_for(pilot.target)
    law, runs = pilot.fit(), observe(trials, pilot.target, pilot.kind)
    checks = check_law(law, trials, pilot.target)
    notes = [*(check.failure for check in checks if check.failure), *law.notes]
    if law.seeds < FEW_SEEDS:
        notes.append(
            f"{law.seeds} seeds say little of how runs differ, so intervals are wide: give a "
            "larger `budget`"
        )
    measured = max((trial.diversity for trial in pilot.trials), key=len, default=())
    return PilotReport(
        name=pilot.name,
        target=pilot.target,
        law=law,
        best_steps=law.law.best_steps(),
        left_out_errors={form: leave_one_setting_out_error(runs, form) for form in FORMS},
        target_exponent=target_exponent(trials, pilot.target),
        diversity=tuple(measured),
        checks=checks,
        notes=tuple(notes),
    )
