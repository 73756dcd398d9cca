"""Print a league: what each selector takes to the target, and who is first."""

import math
from collections.abc import Mapping, Sequence

from rich.console import Console

from fedcell.experiments.league.league import Difference, Entry, League

from .console import digits, plus_minus, print_notes, print_table

FIRST = "-"  # in the column of differences


def print_league(out: Console, league: League) -> None:
    """Entries with means over seeds, their differences to the first, and one sentence."""
    if league.measure == "seconds":
        title = f"To {league.target}, ± 95 % over {len(league.seeds)} seeds"
    else:
        title = f"{_limit_words(league)}, ± 95 % over {len(league.seeds)} seeds"
    print_table(out, title, league_columns(league), labels=2)
    out.print(f"{league.sentence}.", soft_wrap=True)
    sure = ["*: more than luck"] if any(d.sure for d in league.differences) else []
    print_notes(out, [*sure, *league.notes])


def league_columns(league: League) -> Mapping[str, Sequence[str]]:
    """Return the columns of the table, by heading."""
    entries = league.entries
    columns: dict[str, list[str]] = {
        "selector": [entry.select for entry in entries],
        "policy": [entry.policy for entry in entries],
    }
    if league.measure == "seconds":
        for heading, measure in (
            ("rounds", "rounds"),
            ("time [s]", "seconds"),
            ("energy [J]", "joules"),
        ):
            columns[heading] = [_mean(entry, measure) for entry in entries]
        if any(entry.missed for entry in entries):
            columns["missed"] = [str(entry.missed) for entry in entries]
    else:
        heading = "accuracy" if league.measure == "accuracy" else "training loss"
        columns[heading] = [_mean(entry, league.measure) for entry in entries]
        columns["rounds"] = [_mean(entry, "done") for entry in entries]
    what = {"seconds": "time", "accuracy": "accuracy", "train_loss": "loss"}[league.measure]
    columns[f"{what} against the first"] = [
        FIRST,
        *(_change(league, d) for d in league.differences),
    ]
    columns["in vain [J]"] = [f"{digits(entry.estimate('vain_joules').value)}" for entry in entries]
    columns["Jain calls"] = [f"{entry.estimate('jain_calls').value:.2f}" for entry in entries]
    columns["Jain joules"] = [f"{entry.estimate('jain_joules').value:.2f}" for entry in entries]
    return columns


def _limit_words(league: League) -> str:
    words = []
    if math.isfinite(league.limit.seconds):
        words.append(f"after {league.limit.seconds:.4g} s")
    if math.isfinite(league.limit.joules):
        words.append(f"after {league.limit.joules:.4g} J")
    return " and ".join(words).capitalize() if words else "After all rounds"


def _mean(entry: Entry, measure: str) -> str:
    return plus_minus(entry.estimate(measure))


def _change(league: League, difference: Difference) -> str:
    change = difference.change
    sure = " *" if difference.sure else ""
    scale, unit = (100, " %") if league.measure == "seconds" else (1, "")
    value, low, high = (scale * x for x in (change.value, change.low, change.high))
    if math.isnan(low):
        return f"{value:+.3g}{unit}"
    return f"{value:+.3g}{unit} ({low:+.3g} to {high:+.3g}){sure}"
