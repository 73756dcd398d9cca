"""Pilots, laws, validations and constants as tables for people."""

from collections.abc import Sequence
from math import hypot
from typing import TYPE_CHECKING

from rich.console import Console

from fedcell.core.quantities import readable_duration
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.law.given import TERMS

from .console import digits, print_notes, print_table

if TYPE_CHECKING:  # plans are printed without them
    from fedcell.planning.constants import ConstantsReport
    from fedcell.planning.pilot.pilot import Pilot
    from fedcell.planning.pilot.validation import SettingCheck, Validation

FACTORS = {  # what each coefficient of a law is multiplied by
    "mixing": "/ K_gamma",
    "drift": "E_l",
    "start": "/ E_l",
    "dropped": "/ (K_gamma E_l)",
    "floor": "",
}


def _settings(checks: Sequence["SettingCheck"]) -> dict[str, list[str]]:
    return {
        "clients": [str(check.setting.cohort) for check in checks],
        "steps": [str(check.setting.local_steps) for check in checks],
        "runs": [str(check.runs) for check in checks],
    }


def _measured(checks: Sequence["SettingCheck"]) -> list[str]:
    return [(">" if check.missed else "") + digits(check.measured) for check in checks]


def _off(checks: Sequence["SettingCheck"]) -> list[str]:
    return ["-" if check.missed else f"{round(100 * check.error):+d}" for check in checks]


def print_pilot(out: Console, pilot: "Pilot", details: bool = False) -> None:
    """What a pilot found; with `details` also the law, and what Theorem 1 says of it."""
    report = pilot.report
    law, checks = report.law, report.checks
    out.print(
        f"{report.name}: {report.runs} runs of {report.settings} settings to {report.target} "
        f"{report.target.definition}, {law.seeds} seeds, {readable_duration(report.seconds)}"
    )
    if report.run_seconds > 0:
        share = report.judging_seconds / report.run_seconds
        out.print(f"judging models took {share:.0%} of the time of the runs, training the rest")
    if report.cut:
        runs, longer = ("run was", "it takes") if report.cut == 1 else ("runs were", "they take")
        out.print(f"{report.cut} {runs} cut, or did not reach the target: {longer} longer")
    columns = _settings(checks) | {
        "rounds": _measured(checks),
        "fitted": [digits(check.predicted.value) for check in checks],
        "off [%]": _off(checks),
    }
    print_table(out, "Rounds to the target, by clients a round and steps of each", columns)
    out.print(f"runs of one setting differ by {law.residuals.scales.single:.0%} in their rounds")
    if details:
        print_law(out, law)
    if details and report.target_exponent is not None:
        grow = f"eps^{report.target_exponent:.2f}"
        out.print(f"towards the target rounds grow as {grow}; Theorem 1: eps^-1")
    print_notes(out, report.notes)


def print_law(out: Console, law: RoundsLaw) -> None:
    """The coefficients of a law, and how far runs are from it."""
    values = dict(zip(TERMS, law.coefficients.tolist(), strict=True))
    if not values["dropped"]:  # the paper itself drops it
        del values["dropped"]
    terms = (f"{digits(value)} {FACTORS[name]}".strip() for name, value in values.items())
    out.print(f"the law: G = {' + '.join(terms)}")
    if isinstance(law, FittedLaw):
        scales = law.residuals.scales
        out.print(
            f"runs of one setting differ by {scales.single:.0%}; settings depart from the law by "
            f"{hypot(scales.near, scales.far):.0%}, those that were tried by less"
        )


def print_validation(out: Console, validation: "Validation") -> None:
    """Predicted against measured rounds."""
    checks = validation.checks
    intervals = [f"{digits(c.predicted.low)} to {digits(c.predicted.high)}" for c in checks]
    columns = _settings(checks) | {
        "measured": _measured(checks),
        "predicted": [digits(check.predicted.value) for check in checks],
        "90 % of such means": intervals,
        "off [%]": _off(checks),
    }
    title = f"{validation.name}: rounds at settings that the pilot has not seen"
    print_table(out, title, columns)
    if not validation.sound:
        out.print("no setting was reached by all of its runs: let them be longer (`rounds`)")
    else:
        out.print(
            f"median error {validation.median_error:.1%}, 90th percentile "
            f"{validation.p90_error:.1%}; {validation.coverage:.0%} of the means and "
            f"{validation.run_coverage:.0%} of the runs lie in their 90 % intervals"
        )
    print_notes(out, validation.failures)


def print_constants(out: Console, report: "ConstantsReport") -> None:
    """Theorem 1's constants, and what the theorem makes of them."""
    constants, measured = report.measured.estimates, report.measured
    columns = {
        "constant": [c.symbol for c in constants],
        "value": [digits(c.estimate.value) for c in constants],
        "90 % low": [digits(c.estimate.low) for c in constants],
        "high": [digits(c.estimate.high) for c in constants],
        "measured as": [c.formula for c in constants],
    }
    print_table(out, f"{report.name}: constants of Theorem 1 along a training", columns)
    way = {
        "round": [str(t) for t in measured.rounds],
        "training loss": [digits(x) for x in measured.losses],
        "lambda": [digits(x) for x in measured.diversities],
        "|grad f|^2 / (2 (f - f*))": [digits(x) for x in measured.pl_ratios],
    }
    print_table(out, "Along the way", way)
    diversity = report.diversity
    out.print(
        f"lambda: {digits(diversity['max'])} at most, {digits(diversity['p90'])} at the "
        f"90 % quantile, {digits(diversity['median'])} at the median"
    )
    if report.theorem_1 is not None:
        taken = report.rounds_taken or f"more than {measured.rounds[-1]}"
        out.print(
            f"Theorem 1 with these constants: {report.theorem_1.corrected:.3g} rounds to "
            f"{report.target} ({report.theorem_1.printed:.3g} as printed); measured: "
            f"{taken}"
        )
    print_notes(out, measured.doubts)
