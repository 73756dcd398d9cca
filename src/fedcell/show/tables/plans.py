"""Pilots, plans and constants as tables for people."""

from collections.abc import Sequence
from math import isfinite

from rich.console import Console

from fedcell.core.quantities import readable_duration
from fedcell.planning.fitted import FittedLaw
from fedcell.planning.measure import ConstantsReport
from fedcell.planning.outcome import PlanOutcome
from fedcell.planning.pilot import Pilot
from fedcell.planning.plan import TOLERANCE, TrainingPlan
from fedcell.planning.validate import SettingCheck, Validation

from .console import counted, digits, print_notes, print_table

LAWS = {
    "paper": "mixing / K_gamma + drift E_l + start / E_l, the paper's",
    "dropped": "mixing / K_gamma + drift E_l + start / E_l + dropped / (K_gamma E_l)",
    "floor": "mixing / K_gamma + drift E_l + start / E_l + floor",
}
TOTALS = {  # heading: measure
    "rounds": "rounds",
    "time [s]": "duration",
    "energy of all clients [J]": "energy",
    "cost (12) [s]": "cost",
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


def print_plan(out: Console, plan: TrainingPlan) -> None:
    """A plan, and what the closed forms would have chosen."""
    k, e = plan.cohort, plan.local_steps
    out.print(
        f"{plan.name}: call K = {k.value} {counted(int(k.value), 'client')} a round and let "
        f"each do E_l = {e.value} local {counted(int(e.value), 'step')}"
    )
    if plan.rounds.low < plan.rounds.high:  # the law comes from a pilot
        out.print(
            f"(another pilot might have said {k.low} to {k.high} clients and {e.low} to "
            f"{e.high} steps)"
        )
    totals = [getattr(plan, measure) for measure in TOTALS.values()]
    columns = {
        "": list(TOTALS),
        "expected": [digits(estimate.value) for estimate in totals],
        "90 % low": [digits(estimate.low) for estimate in totals],
        "high": [digits(estimate.high) for estimate in totals],
    }
    goal = "" if plan.target is None else f" to training loss {digits(plan.target)}"
    print_table(out, f"One run{goal}, policy {plan.policy}", columns)
    out.print(f"that is {readable_duration(plan.duration.value)} of simulated time")
    out.print(_beside(plan))
    if plan.bandwidth is not None:
        out.print(f"the least band for this: {digits(plan.bandwidth / 1e6)} MHz")
    rows = plan.policies
    columns = {
        "policy": list(rows),
        "time [s]": [digits(row["duration"].value) for row in rows.values()],
        "energy [J]": [digits(row["energy"].value) for row in rows.values()],
        "cost (12) [s]": [digits(row["cost"].value) for row in rows.values()],
    }
    print_table(out, "The same K and E_l under each policy", columns)
    if units := plan.unit_costs:
        columns = {
            "way": [unit.way for unit in units],
            "C_u,0 [s]": [digits(unit.costs.upload) for unit in units],
            "C_n,0 [s]": [digits(unit.costs.compute) for unit in units],
            "a round off by [%]": [f"{100 * unit.error:+.1f}" for unit in units],
        }
        print_table(out, "Unit costs at this K and E_l", columns)
    if worlds := plan.sensitivity:
        columns = {
            "change": [world.change for world in worlds],
            "K": [str(world.cohort or "-") for world in worlds],
            "E_l": [str(world.local_steps or "-") for world in worlds],
            "rounds": [digits(world.rounds) for world in worlds],
            "time [s]": [digits(world.duration) for world in worlds],
            "energy [J]": [digits(world.energy) for world in worlds],
            "cost [s]": [digits(world.cost) for world in worlds],
            "cost if kept [s]": [digits(world.kept_cost) for world in worlds],
        }
        print_table(out, "How the plan moves", columns)
        print_notes(out, [f"{w.change}: {w.why_no_plan}" for w in worlds if w.why_no_plan])
    print_notes(out, plan.notes)


def _beside(plan: TrainingPlan) -> str:
    """What the closed forms would have chosen, in a sentence."""
    paper = plan.paper
    more = paper.cost / plan.cost.value - 1
    sentence = (
        f"the paper's closed forms say K = {paper.cohort}, E_l = {paper.local_steps}: "
        f"cost {digits(paper.cost)} s, {more:+.1%}"
    )
    if not paper.allowed:
        return f"{sentence}, beyond the limits"
    return f"{sentence}, as good" if 0 <= more <= TOLERANCE else sentence


def print_outcome(out: Console, outcome: PlanOutcome) -> None:
    """What was predicted beside what a run took."""
    if not outcome.measured:
        out.print("the target was not reached: there is nothing to compare the plan with")
        return
    headings = {m: h.replace(" of all clients", "") for h, m in TOTALS.items()}
    columns = {"policy": list(dict.fromkeys(m.policy for m in outcome.measured))}
    for measure, heading in headings.items():
        here = [m for m in outcome.measured if m.measure == measure]
        columns[heading] = [f"{digits(m.taken)} / {digits(m.predicted.value)}" for m in here]
    print_table(out, "The plan's predictions against this run: taken / expected", columns)
    outside = [
        f"{headings[m.measure]} under {m.policy} is outside {digits(m.predicted.low)} to "
        f"{digits(m.predicted.high)}"
        for m in outcome.measured
        if m.inside is False
    ]
    if outcome.measured[0].inside is not None:
        for sentence in outside or ["all of it within the 90 % intervals of the plan"]:
            out.print(sentence)


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
