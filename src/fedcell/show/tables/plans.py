"""Pilots, plans and constants as tables for people."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from rich.console import Console

from fedcell.core.quantities import readable
from fedcell.network.compare import Row
from fedcell.planning.constants import Measured
from fedcell.planning.plan import TOLERANCE

from .rounds import digits, print_table, table

LAWS = {
    "paper": "mixing / K_gamma + drift E_l + start / E_l, the paper's",
    "dropped": "mixing / K_gamma + drift E_l + start / E_l + dropped / (K_gamma E_l)",
    "floor": "mixing / K_gamma + drift E_l + start / E_l + floor",
}


def _settings(rows: Sequence[Row]) -> dict[str, list[str]]:
    return {
        "K": [str(row["cohort"]) for row in rows],
        "E_l": [str(row["local_steps"]) for row in rows],
        "gamma": [digits(row["loss_rate"]) for row in rows],
        "runs": [str(row["runs"]) for row in rows],
    }


def print_pilot(out: Console, name: str, said: Mapping[str, Any]) -> None:
    """What a pilot found."""
    out.print(
        f"{name}: {said['runs']} runs of {said['settings']} settings to training loss "
        f"{digits(said['target'])}, {said['blocks']} seeds"
    )
    if said["censored"]:
        out.print(f"{said['censored']} runs ended before; they count as longer than they were")
    rows = said["table"]
    columns = _settings(rows) | {
        "rounds": [(">" if row["missed"] else "") + digits(row["measured"]) for row in rows],
        "law": [digits(row["predicted"]) for row in rows],
        "off [%]": ["-" if row["missed"] else f"{100 * row['error']:+.0f}" for row in rows],
    }
    print_table(out, table("Rounds to the target", columns))
    found = said["coefficients"]
    columns = {
        "coefficient": list(found),
        "value": [digits(c["value"]) for c in found.values()],
        "90 % low": [digits(c["low"]) for c in found.values()],
        "high": [digits(c["high"]) for c in found.values()],
    }
    print_table(out, table("Coefficients of the law", columns))
    out.print(f"the law: G = {LAWS[said['form']]}")
    out.print(
        f"runs differ by {said['luck']:.0%} between seeds and {said['noise']:.0%} within; settings "
        f"are {said['misfit']:.0%} off the law"
    )
    known = {form: error for form, error in said["unseen"].items() if isfinite(error)}
    unseen = "; ".join(f"{form} {error:.0%}" for form, error in known.items()) or "not known"
    out.print(f"error on settings left out of the fit: {unseen}")
    out.print(
        f"towards the target rounds grow as eps^{said['target_exponent']:.2f}; Theorem 1: eps^-1"
    )
    if said["diversity"]:
        way = ", ".join(f"{x:.3g} after {t}" for t, x in said["diversity"])
        out.print(f"lambda (Definition 1) along a run: {way} rounds")
    print_notes(out, said["notes"])


def print_validation(out: Console, name: str, rows: Sequence[Row], said: Row) -> None:
    """Predicted against measured rounds."""
    columns = _settings(rows) | {
        "measured": [(">" if row["missed"] else "") + digits(row["measured"]) for row in rows],
        "predicted": [digits(row["predicted"]) for row in rows],
        "90 % of such means": [f"{digits(row['low'])} to {digits(row['high'])}" for row in rows],
        "off [%]": ["-" if row["missed"] else f"{100 * row['error']:+.0f}" for row in rows],
    }
    title = f"{name}: rounds at settings that the pilot has not seen"
    print_table(out, table(title, columns))
    if not said["reached"]:
        out.print("no setting was reached by all of its runs: let them be longer (--rounds)")
        return
    out.print(
        f"median error {said['median_error']:.1%}, 90th percentile {said['p90_error']:.1%}; "
        f"{said['coverage']:.0%} of the means and {said['run_coverage']:.0%} of the runs lie in "
        "their 90 % intervals"
    )


def print_plan(out: Console, plan: Row) -> None:
    """A plan, and what the closed forms would have chosen."""
    k, e = plan["cohort"], plan["local_steps"]
    out.print(
        f"{plan['scenario']}: call K = {k['value']} {_of('client', k['value'])} a round and let "
        f"each do E_l = {e['value']} local {_of('step', e['value'])}"
    )
    if "form" in plan["law"]:
        out.print(
            f"(another pilot might have said {k['low']} to {k['high']} clients and {e['low']} to "
            f"{e['high']} steps)"
        )
    measures = {
        "rounds": "rounds",
        "time [s]": "seconds",
        "energy of all clients [J]": "joules",
        "cost (12) [s]": "cost",
    }
    columns = {
        "": list(measures),
        "expected": [digits(plan[m]["value"]) for m in measures.values()],
        "90 % low": [digits(plan[m]["low"]) for m in measures.values()],
        "high": [digits(plan[m]["high"]) for m in measures.values()],
    }
    goal = "" if plan["target"] is None else f" to training loss {digits(plan['target'])}"
    print_table(out, table(f"One run{goal}, policy {plan['policy']}", columns))
    out.print(f"that is {readable(plan['seconds']['value'])} of simulated time")
    out.print(_beside(plan))
    if "bandwidth" in plan:
        out.print(f"the least band for this: {digits(plan['bandwidth'] / 1e6)} MHz")
    if rows := plan.get("policies"):
        columns = {
            "policy": [row["policy"] for row in rows],
            "time [s]": [digits(row["seconds"]["value"]) for row in rows],
            "energy [J]": [digits(row["joules"]["value"]) for row in rows],
            "cost (12) [s]": [digits(row["cost"]["value"]) for row in rows],
        }
        print_table(out, table("The same K and E_l under each policy", columns))
    if rows := plan.get("unit_costs"):
        columns = {
            "way": [row["way"] for row in rows],
            "C_u,0 [s]": [digits(row["upload"]) for row in rows],
            "C_n,0 [s]": [digits(row["compute"]) for row in rows],
            "a round off by [%]": [f"{100 * row['error']:+.1f}" for row in rows],
        }
        print_table(out, table("Unit costs at this K and E_l", columns))
    if rows := plan.get("sensitivity"):
        columns = {
            "change": [row["change"] for row in rows],
            "K": [str(row.get("cohort", "-")) for row in rows],
            "E_l": [str(row.get("local_steps", "-")) for row in rows],
            "rounds": [_digits(row.get("rounds")) for row in rows],
            "time [s]": [_digits(row.get("seconds")) for row in rows],
            "energy [J]": [_digits(row.get("joules")) for row in rows],
            "cost [s]": [_digits(row.get("cost")) for row in rows],
            "cost if kept [s]": [digits(row["kept_cost"]) for row in rows],
        }
        print_table(out, table("How the plan moves", columns))
    print_notes(out, plan["notes"])


def _beside(plan: Row) -> str:
    """What the closed forms would have chosen, in a sentence."""
    paper = plan["paper"]
    more = paper["cost"] / plan["cost"]["value"] - 1
    said = (
        f"the paper's closed forms say K = {paper['cohort']}, E_l = {paper['local_steps']}: "
        f"cost {digits(paper['cost'])} s, {more:+.1%}"
    )
    if not paper["allowed"]:
        return f"{said}, beyond the limits"
    return f"{said}, as good" if 0 <= more <= TOLERANCE else said


def print_outcome(out: Console, rows: Sequence[Row]) -> None:
    """What was predicted beside what a run took."""
    if not rows:
        out.print("the target was not reached: there is nothing to compare the plan with")
        return
    taken = {"rounds": "rounds", "time [s]": "seconds", "energy [J]": "joules"}
    taken["cost (12) [s]"] = "cost"
    columns = {"policy": [row["policy"] for row in rows]} | {
        heading: [f"{digits(row[m]['actual'])} / {digits(row[m]['value'])}" for row in rows]
        for heading, m in taken.items()
    }
    print_table(out, table("The plan's predictions against this run: taken / expected", columns))
    outside = [
        f"{heading} under {row['policy']} is outside {digits(row[m]['low'])} to "
        f"{digits(row[m]['high'])}"
        for row in rows
        for heading, m in taken.items()
        if row[m]["inside"] is False
    ]
    if rows[0]["rounds"]["inside"] is not None:
        for said in outside or ["all of it within the 90 % intervals of the plan"]:
            out.print(said)


def print_constants(out: Console, name: str, said: Measured, rows: Mapping[str, Any]) -> None:
    """Theorem 1's constants, and what the theorem makes of them."""
    found = said.estimates
    columns = {
        "constant": [c.symbol for c in found],
        "value": [digits(c.value) for c in found],
        "90 % low": [digits(c.low) for c in found],
        "high": [digits(c.high) for c in found],
        "measured as": [c.formula for c in found],
    }
    print_table(out, table(f"{name}: constants of Theorem 1 along a training", columns))
    way = {
        "round": [str(t) for t in said.rounds],
        "training loss": [digits(x) for x in said.losses],
        "lambda": [digits(x) for x in said.diversities],
        "|grad f|^2 / (2 (f - f*))": [digits(x) for x in said.pl_ratios],
    }
    print_table(out, table("Along the way", way))
    out.print(
        f"lambda: {digits(rows['lambda']['max'])} at most, {digits(rows['lambda']['p90'])} at the "
        f"90 % quantile, {digits(rows['lambda']['median'])} at the median"
    )
    if "theorem_1" in rows:
        t = rows["theorem_1"]
        out.print(
            f"Theorem 1 with these constants: {t['corrected']:.3g} rounds to loss "
            f"{digits(rows['target'])} ({t['printed']:.3g} as printed); measured: "
            + (str(rows["measured"]) if rows["measured"] else f"more than {said.rounds[-1]}")
        )
    print_notes(out, said.doubts)


def print_notes(out: Console, notes: Sequence[str]) -> None:
    for note in notes:
        out.print(f"note: {note}")


def _of(thing: str, count: int) -> str:
    return thing if count == 1 else f"{thing}s"


def _digits(value: float | None) -> str:
    return "-" if value is None else digits(value)
