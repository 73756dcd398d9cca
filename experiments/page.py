"""Update the numbers of docs/reference/reproduction.md from experiments/results.

    python experiments/page.py            # --check: only compare

Only the parts between `<!-- name -->` and `<!-- end -->` are generated.
"""

import csv
import json
import re
import sys
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from fedcell.paper.catalogue import PANELS, REGIMES
from fedcell.paper.load import load_panel, regime_tables
from fedcell.paper.measurements import KIND
from fedcell.paper.reproduce import load_reproduction
from fedcell.paper.tally import tally
from fedcell.paper.verdicts import SYMBOLS, series

ROOT = Path(__file__).parents[1]
ESCAPED = r"\|"
MARK = " †"
NAMES = SYMBOLS | {"plan.local_steps": "E_l"}
PAPER = "the panels"  # the regime of the panels
KINDS = ("held", "held, but small", "not held", "inconclusive", "identity")
LEARNING = ("fig3a", "fig3b", "fig3c", "fig4a", "fig4b", "fig5a", "fig5b")
NAMED = {"L": "smoothness", "mu": "convexity", "lambda": "diversity", "G^2": "gradients"}
DERIVED = ("beta = 2 L lambda - 1", "2 / (mu beta)", "1 / (L lambda)")
NAMED |= {"C_1": "relative_noise", "sigma^2": "noise"}
PAGE, RESULTS = ROOT / "docs" / "reference" / "reproduction.md", ROOT / "experiments" / "results"


@cache
def load(folder):
    """Return a reproduction, read once."""
    return load_reproduction(folder)


def panel_part(name):
    """Return the part of a panel: its command, figure, duration and verdicts."""
    folder = RESULTS / name
    if not (folder / "experiment.json").exists():
        return f"    fedcell reproduce {name}\n\nNot run in full yet.\n"
    found = load(folder)
    seeds, seconds = len(found.table.seeds), found.table.about.get("seconds", 0)
    took = f"; its trainings took {seconds / 3600:.1f} hours of one processor" if seconds else ""
    lines = [
        f"    fedcell reproduce {name}",
        "",
        f"![{found.table.title}](../../experiments/results/{name}/{name}.png)",
        "",
        f"{len(found.table.runs)} runs, {seeds} seeds{took}.",
        *(f"Note: {note}." for note in found.notes),
        "",
        *verdict_lines(found.verdicts, PAPER),
    ]
    if found.otherwise:
        lines += ["", "By a target that holds, instead of the first passage:", ""]
        lines += verdict_lines(found.otherwise)
    return "\n".join(lines) + "\n"


def regime_verdicts(regime):
    """Return the reproductions of a regime by panel, of those that were run."""
    folders = {panel: RESULTS / regime / panel for panel in regime_tables(regime)["panels"]}
    return {
        panel: load(folder)
        for panel, folder in folders.items()
        if (folder / "experiment.json").exists()
    }


def in_regime_part(regime):
    """Return the part of a regime: its command, and its verdicts on the claims of each panel."""
    tables, found = regime_tables(regime), regime_verdicts(regime)
    lines = [f"    fedcell reproduce --regime {regime}", ""]
    for panel, each in found.items():
        full = load_panel(panel).axes
        kept = [
            f"{NAMES.get(name, name)} = {', '.join(map(str, each.table.axes[name]))} of "
            f"{', '.join(map(str, values))}"
            for name, values in full.items()
            if name in each.table.axes and tuple(each.table.axes[name]) != tuple(values)
        ]
        fewer = f"; {'; '.join(kept)}" if kept else ""
        lines += [f"- {panel}: {len(each.table.runs)} runs, {len(each.table.seeds)} seeds{fewer}."]
        if panel == "fig3c":
            lines += [f"  Mean rounds: {mean_rounds(each.table)}."]
        lines += [f"  Note: {note}." for note in each.notes]
    missing = [panel for panel in tables["panels"] if panel not in found]
    if missing:
        lines += [f"- Not run yet: {', '.join(missing)}; the command runs what is missing."]
    for panel in ("fig3a", "fig3c"):
        if panel in found:
            image = f"../../experiments/results/{regime}/{panel}/{panel}.png"
            lines += ["", f"![{found[panel].table.title}]({image})"]
    return "\n".join([*lines, "", *verdict_lines(every(found), regime)]) + "\n"


def mean_rounds(table):
    """Return the mean rounds to the target at each number of local steps, in words."""
    (curve,) = series(table, "plan.local_steps").values()
    return ", ".join(
        f"{mean:.1f} at E_l = {steps:.0f}" for steps, mean in zip(curve.x, curve.means, strict=True)
    )


def every(found):
    """Return all verdicts of reproductions."""
    return [verdict for each in found.values() for verdict in each.verdicts]


def by_regime_part():
    """Return a table: each claim on learning, by regime."""
    paper = {name: load(RESULTS / name) for name in LEARNING}
    columns = {
        "MNIST, one class": cells(paper, "MNIST"),
        **{regime_tables(r)["title"]: cells(regime_verdicts(r), "MNIST") for r in REGIMES},
        "CIFAR-10, two shards": cells(paper, "CIFAR-10"),
    }
    long = RESULTS / "fig3c-long"
    if (long / "experiment.json").exists():
        found = {"fig3c-long": load(long)}
        columns["CIFAR-10, E_l to 640"] = cells(found, "CIFAR-10, constant rate")
        columns["CIFAR-10, falling rate"] = cells(found, "CIFAR-10, falling rate")
    columns = {name: column for name, column in columns.items() if column}
    claims = dict.fromkeys(verdict.claim for verdict in every(paper))
    lines = [row("claim", *columns), "|---|" + "---|" * len(columns)]
    lines += [row(claim, *(c.get(claim, "-") for c in columns.values())) for claim in claims]
    return "\n".join(lines) + "\n"


def cells(found, dataset):
    """Return what is said of each claim on a dataset: once where all its places agree."""
    said = {}
    for verdict in every(found):
        if verdict.where.startswith(dataset):
            place = verdict.where.removeprefix(dataset).strip(", ")
            said.setdefault(verdict.claim, {}).setdefault(verdict.words, []).append(place)
    return {
        claim: "; ".join(
            f"{words} ({', '.join(places)})" if len(by_words) > 1 and any(places) else words
            for words, places in by_words.items()
        )
        for claim, by_words in said.items()
    }


def verdict_lines(verdicts, regime=None):
    """Return a table of verdicts; those of a regime that Holm's correction overturns are marked."""
    undecided = {
        (each.verdict.claim, each.verdict.where)
        for each in TALLY.overturned
        if each.regime == regime
    }
    return [
        "| | claim | in the paper | where | measured |",
        "|---|---|---|---|---|",
        *(
            row(
                v.words + MARK * ((v.claim, v.where) in undecided),
                v.claim,
                v.stated,
                v.where,
                v.number,
            )
            for v in verdicts
        ),
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
    """Count the verdicts of each kind, by panel and in all."""
    lines = [row("panel", *KINDS), "|---|" + "---|" * len(KINDS)]
    for name in PANELS:
        if (RESULTS / name / "experiment.json").exists():
            found = load(RESULTS / name)
            said = [kind_of(verdict) for verdict in found.verdicts]
            counts = (str(said.count(kind)) for kind in KINDS)
            lines.append(row(f"[{found.table.title}](#{name})", *counts))
    for regime in REGIMES:
        said = [kind_of(verdict) for verdict in every(regime_verdicts(regime))]
        title = regime_tables(regime)["title"]
        lines.append(
            row(f"[In the regime: {title}](#{regime})", *(str(said.count(k)) for k in KINDS))
        )
    counted, corrected = TALLY.sentences()
    marked = f" (marked{MARK}):" if TALLY.overturned else ""
    took = json.loads((RESULTS / "store.json").read_text())
    lines += [
        "",
        counted,
        "",
        corrected.replace(":", marked, 1) if marked else corrected,
        "",
        f"The page uses {took['trainings']} trainings, each made once, which took "
        f"{took['hours']:g} hours of one processor.",
    ]
    return "\n".join(lines) + "\n"


def kind_of(verdict):
    """Return the column of the summary that counts a verdict."""
    if verdict.identity:
        return "identity"
    return "held, but small" if verdict.words == "held, but small" else verdict.outcome


def constants_part():
    """Return the constants of Theorem 1: median and range over trainings."""
    rows = list(load(RESULTS / "theory").table.about[KIND])
    for regime in REGIMES:
        if "theory" in (found := regime_verdicts(regime)):
            title = {"variant": regime_tables(regime)["title"]}
            rows += [each | {"labels": title} for each in found["theory"].table.about[KIND]]
    lines = [row("", *NAMED, *DERIVED, "trainings"), "|---|" + "---|" * (len(NAMED) + 4)]
    for variant in dict.fromkeys(each["labels"]["variant"] for each in rows):
        here = [each["constants"] for each in rows if each["labels"]["variant"] == variant]
        columns = [[c[field] for c in here] for field in NAMED.values()]
        L, mu, lam = (np.array([c[NAMED[name]] for c in here]) for name in ("L", "mu", "lambda"))
        beta = 2 * L * lam - 1
        columns += [beta, 2 / mu / beta, 1 / (L * lam)]
        spans = (f"{np.median(c):.3g} ({min(c):.3g} to {max(c):.3g})" for c in columns)
        lines.append(row(variant, *spans, str(len(here))))
    return "\n".join(lines) + "\n"


def inputs_part():
    """Return rounds to the target by the scaling of inputs."""
    with (RESULTS / "inputs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scalings = list(dict.fromkeys(each["inputs"] for each in rows))
    lines = [row("", *scalings), "|---|" + "---|" * len(scalings)]
    for variant in dict.fromkeys(each["variant"] for each in rows):
        cell = {}
        for scaling in scalings:
            at = [
                each["rounds_to_target"]
                for each in rows
                if (each["variant"], each["inputs"]) == (variant, scaling)
            ]
            cut = "> 300" if "" in at else str(max(map(int, at)))
            cell[scaling] = f"{min(int(x) for x in at if x)} to {cut} ({len(at)} seeds)"
        lines.append(row(variant, *cell.values()))
    return "\n".join(lines) + "\n"


PARTS = {
    "summary": summary_part,
    "by-regime": by_regime_part,
    "constants": constants_part,
    "inputs": inputs_part,
}


def part(name):
    """Return the text between the markers of a name."""
    if name in PARTS:
        return PARTS[name]()
    if name.startswith("in-"):
        return in_regime_part(name.removeprefix("in-"))
    return regime_part(name) if name.startswith("regime") else panel_part(name)


def counted():
    """Count the verdicts of all panels and regimes."""
    ran = [name for name in PANELS if (RESULTS / name / "experiment.json").exists()]
    paper = {name: load(RESULTS / name).verdicts for name in ran}
    others = {
        regime: {name: each.verdicts for name, each in regime_verdicts(regime).items()}
        for regime in REGIMES
    }
    return tally({PAPER: paper, **others})


TALLY = counted()


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
