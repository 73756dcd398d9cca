"""Is the law of rounds right? Predictions against runs that it has not seen, and the claims
that Theorem 1 makes beside its form."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from fedcell.network.compare import Row

from .fit import Fit
from .pilot import Setting, Trial, other_loss_rate

BAD = 0.25  # relative error from which a prediction is called a failure


def held_out(design: Sequence[Setting]) -> list[Setting]:
    """Settings that a pilot of this design has not seen: between its own in K and E_l, with
    its loss rate and with another; and one with twice as many local steps as it tried."""
    cohorts = sorted({s.cohort for s in design})
    steps = sorted({s.local_steps for s in design})
    gamma = design[0].loss_rate
    few, many = _between(cohorts)
    short, long = _between(steps)
    other = other_loss_rate(gamma)
    found = [
        Setting(few, short, gamma),
        Setting(many, long, gamma),
        Setting(few, long, other),
        Setting(many, short, other),
        Setting(many, 2 * steps[-1], gamma),
    ]
    return [setting for setting in dict.fromkeys(found) if setting not in design]


def _between(levels: list[int]) -> tuple[int, int]:
    low, middle, high = levels[0], levels[len(levels) // 2], levels[-1]
    return round(sqrt(low * middle)), round(sqrt(middle * high))


def against(law: Fit, trials: Sequence[Trial], target: float) -> list[Row]:
    """Predicted and measured rounds, setting by setting. A mean over runs of which some did
    not reach the target is a lower bound, and marked."""
    rows = []
    for setting in sorted({trial.setting for trial in trials}):
        here = [trial for trial in trials if trial.setting == setting]
        there = [trial.rounds_to(target) for trial in here]
        known = [len(t.losses) if g is None else g for g, t in zip(there, here, strict=True)]
        mean = float(np.mean(known))
        k, e, gamma = setting.cohort, setting.local_steps, setting.loss_rate
        value, low, high = (float(x) for x in law.predict(k, e, gamma, runs=len(here)))
        _, lowest, highest = (float(x) for x in law.predict(k, e, gamma))
        row: Row = {"cohort": k, "local_steps": e, "loss_rate": gamma, "runs": len(here)}
        row |= {"missed": sum(g is None for g in there), "measured": mean}
        row |= {"diverged": sum(trial.diverged for trial in here)}
        row |= {"predicted": value, "low": low, "high": high, "error": value / mean - 1}
        row |= {"inside": low <= mean <= high}
        row |= {"runs_inside": float(np.mean([lowest <= g <= highest for g in known]))}
        rows.append(row)
    return rows


def summary(rows: Sequence[Row]) -> Row:
    """How good the predictions of many settings are."""
    sound = [row for row in rows if not row["missed"] and not row["diverged"]]
    errors = np.abs([row["error"] for row in sound]) if sound else np.array([np.nan])
    return {
        "settings": len(rows),
        "reached": len(sound),
        "median_error": float(np.median(errors)),
        "p90_error": float(np.quantile(errors, 0.9)),
        "coverage": float(np.mean([row["inside"] for row in sound])) if sound else float("nan"),
        "run_coverage": (
            float(np.mean([row["runs_inside"] for row in sound])) if sound else float("nan")
        ),
    }


def failures(rows: Sequence[Row]) -> list[str]:
    """Where the law is not to be trusted, in words."""
    said = []
    for row in rows:
        where = f"K = {row['cohort']}, E_l = {row['local_steps']}, gamma = {row['loss_rate']:g}"
        if row["diverged"]:
            said.append(f"training diverges in {row['diverged']} of {row['runs']} runs at {where}")
        elif row["missed"]:
            said.append(f"{row['missed']} of {row['runs']} runs did not reach the loss at {where}")
        elif abs(row["error"]) > BAD:
            said.append(f"the law is {row['error']:+.0%} off at {where}")
    return said


def target_exponent(trials: Sequence[Trial], target: float) -> float:
    """The slope of log G over log eps, from the target to twice it, over the runs that reach it
    and with f* taken to be 0; Theorem 1 says -1."""
    targets = target * np.geomspace(1, 2, 5)
    means: list[float] = []
    for eps in targets:
        rounds = [trial.rounds_to(float(eps)) for trial in trials if trial.rounds_to(target)]
        means.append(float(np.mean([g for g in rounds if g])) if rounds else np.nan)
    return float(np.polyfit(np.log(targets), np.log(means), 1)[0])
