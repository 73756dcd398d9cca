"""Update the numbers of docs/reference/reproduction.md from experiments/results.

    python experiments/page.py            # --check: only compare

Only the parts between `<!-- name -->` and `<!-- end -->` are generated.
"""

import csv
import json
import re
import sys
from itertools import product
from pathlib import Path

from fedcell.paper.catalogue import PANELS
from fedcell.paper.reproduce import load_reproduction

ROOT = Path(__file__).parents[1]
ESCAPED = r"\|"
PAGE, RESULTS = ROOT / "docs" / "reference" / "reproduction.md", ROOT / "experiments" / "results"


def panel_part(name):
    """Return the part of a panel: its command, figure, duration and verdicts."""
    folder = RESULTS / name
    if not (folder / "experiment.json").exists():
        return f"    fedcell reproduce {name}\n\nNot run in full yet.\n"
    found = load_reproduction(folder)
    seeds, seconds = len(found.table.seeds), found.table.about.get("seconds", 0)
    took = f"; its trainings took {seconds / 3600:.1f} hours of one processor" if seconds else ""
    option = "" if seeds == 20 else f" --seeds {seeds}"
    lines = [
        f"    fedcell reproduce {name}{option}",
        "",
        f"![{found.table.title}](../../experiments/results/{name}/{name}.png)",
        "",
        f"{len(found.table.runs)} runs, {seeds} seeds{took}.",
        *(f"Note: {note}." for note in found.notes),
        "",
        *verdict_lines(found.verdicts),
    ]
    if found.otherwise:
        lines += ["", "By a target that holds, instead of the first passage:", ""]
        lines += verdict_lines(found.otherwise)
    return "\n".join(lines) + "\n"


def verdict_lines(verdicts):
    """Return a table of verdicts."""
    return [
        "| | claim | where | measured |",
        "|---|---|---|---|",
        *(row(v.outcome, v.claim, v.where, v.number) for v in verdicts),
    ]


def row(*cells):
    """Return a line of a table."""
    return f"| {' | '.join(cell.replace('|', ESCAPED) for cell in cells)} |"


def regime_part(name):
    """Return mean rounds over K and E_l, by skew and rate; > where runs missed the target."""
    with (RESULTS / name / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    def rounds(**labels):
        here = [
            row["rounds_to_target"]
            for row in rows
            if all(row.get(key.replace("__", "."), value) == value for key, value in labels.items())
        ]
        cut = [150 if value == "" else min(150, int(value)) for value in here]
        if not cut:
            return "-"
        return f"{'> ' if '' in here else ''}{sum(cut) / len(cut):.0f}"

    skews, rates = (
        list(dict.fromkeys(row[k] for row in rows)) for k in ("variant", "learning.rate")
    )
    cohorts = sorted({row["plan.cohort"] for row in rows}, key=int)
    steps = sorted({row.get("plan.local_steps", "20") for row in rows}, key=int)
    head = [f"K = {k}" for k in cohorts] + [f"E_l = {e}" for e in steps if len(steps) > 1]
    lines = ["| skew | rate | " + " | ".join(head) + " |", "|---|---|" + "---|" * len(head)]
    for skew, rate in product(skews, rates):
        at = {"variant": skew, "learning__rate": rate}
        cells = [rounds(**at, plan__cohort=k, plan__local_steps="20") for k in cohorts]
        if len(steps) > 1:
            cells += [rounds(**at, plan__cohort="10", plan__local_steps=e) for e in steps]
        lines.append(f"| {skew} | {rate} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summary_part():
    """Count the verdicts of each kind, by panel."""
    lines = ["| panel | held | not held | inconclusive |", "|---|---|---|---|"]
    for name in PANELS:
        if (RESULTS / name / "experiment.json").exists():
            found = load_reproduction(RESULTS / name)
            said = [verdict.outcome for verdict in found.verdicts]
            counts = (str(said.count(kind)) for kind in ("held", "not held", "inconclusive"))
            lines.append(f"| [{found.table.title}](#{name}) | {' | '.join(counts)} |")
    took = json.loads((RESULTS / "store.json").read_text())
    lines += [
        "",
        f"The page uses {took['trainings']} trainings, each made once, which took "
        f"{took['hours']:g} hours of one processor.",
    ]
    return "\n".join(lines) + "\n"


def part(name):
    """Return the text between the markers of a name."""
    if name == "summary":
        return summary_part()
    return regime_part(name) if name.startswith("regime") else panel_part(name)


def page():
    """Return the updated page."""

    def fresh(found):
        return f"<!-- {found[1]} -->\n\n{part(found[1])}\n<!-- end -->"

    return re.sub(r"<!-- ([\w-]+) -->\n.*?<!-- end -->", fresh, PAGE.read_text(), flags=re.DOTALL)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0 if page() == PAGE.read_text() else "docs/reference/reproduction.md is out of date"
        )
    PAGE.write_text(page())
