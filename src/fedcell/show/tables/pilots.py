"""Pilots, laws, validations and constants as tables for people."""

from collections.abc import Sequence
from math import isfinite

from rich.console import Console

from fedcell.planning.fitted import FittedLaw
from fedcell.planning.measure import ConstantsReport
from fedcell.planning.pilot import Pilot
from fedcell.planning.validate import SettingCheck, Validation

from .console import digits, print_notes, print_table

LAWS = {
    "paper": "mixing / K_gamma + drift E_l + start / E_l, the paper's",
    "dropped": "mixing / K_gamma + drift E_l + start / E_l + dropped / (K_gamma E_l)",
    "floor": "mixing / K_gamma + drift E_l + start / E_l + floor",
}


def _settings(checks: Sequence[SettingCheck]) -> dict[str, list[str]]:
    return {
        "K": [str(check.setting.cohort) for check in checks],
        "E_l": [str(check.setting.local_steps) for check in checks],
        "gamma": [digits(check.setting.loss_rate) for check in checks],
        "runs": [str(check.runs) for check in checks],
    }


def _measured(checks: Sequence[SettingCheck]) -> list[str]:
    return [(">" if check.missed else "") + digits(check.measured) for check in checks]


def _off(checks: Sequence[SettingCheck]) -> list[str]:
    return ["-" if check.missed else f"{100 * check.error:+.0f}" for check in checks]


def print_pilot(out: Console, pilot: Pilot) -> None:
    """What a pilot found."""
    report = pilot.report
    law, checks = report.law, report.checks
    out.print(
        f"{report.name}: {law.runs} runs of {law.settings} settings to training loss "
        f"{digits(report.target)}, {law.seeds} seeds"
    )
    if law.censored:
        out.print(f"{law.censored} runs ended before; they count as longer than they were")
    columns = _settings(checks) | {
        "rounds": _measured(checks),
        "law": [digits(check.predicted.value) for check in checks],
        "off [%]": _off(checks),
    }
    print_table(out, "Rounds to the target", columns)
    print_law(out, law)
    known = {form: error for form, error in report.left_out_errors.items() if isfinite(error)}
    left_out = "; ".join(f"{form} {error:.0%}" for form, error in known.items()) or "not known"
    out.print(f"error on settings left out of the fit: {left_out}")
    out.print(
        f"towards the target rounds grow as eps^{report.target_exponent:.2f}; Theorem 1: eps^-1"
    )
    if report.diversity:
        way = ", ".join(f"{x:.3g} after {t}" for t, x in report.diversity)
        out.print(f"lambda (Definition 1) along a run: {way} rounds")
    print_notes(out, report.notes)


def print_law(out: Console, law: FittedLaw) -> None:
    """The coefficients of a law, and how far runs are from it."""
    coefficients = law.coefficient_estimates()
    columns = {
        "coefficient": list(coefficients),
        "value": [digits(estimate.value) for estimate in coefficients.values()],
        "90 % low": [digits(estimate.low) for estimate in coefficients.values()],
        "high": [digits(estimate.high) for estimate in coefficients.values()],
    }
    print_table(out, "Coefficients of the law", columns)
    out.print(f"the law: G = {LAWS[law.form]}")
    out.print(
        f"runs differ by {law.seed_sd:.0%} between seeds and {law.run_sd:.0%} within; settings "
        f"are {law.lack_of_fit_sd:.0%} off the law"
    )


def print_validation(out: Console, validation: Validation) -> None:
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


def print_constants(out: Console, report: ConstantsReport) -> None:
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
            f"Theorem 1 with these constants: {report.theorem_1.corrected:.3g} rounds to loss "
            f"{digits(report.target)} ({report.theorem_1.printed:.3g} as printed); measured: "
            f"{taken}"
        )
    print_notes(out, measured.doubts)
