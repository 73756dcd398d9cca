"""A sweep as one page of HTML that needs nothing beside it: figures, verdicts, tables, what was
asked and with which versions. It is read on a screen, on a phone, and in print."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput, printable
from fedcell.core.files.formats import write_text
from fedcell.experiments.table import FIRST, HELD, SweepTable
from fedcell.paper.reproduce import Reproduction
from fedcell.paper.verdicts import Verdict
from fedcell.show.figures.paper import SPECIAL
from fedcell.show.tables.sweeps import point_columns, policy_columns

from .figures import style
from .results import figure

MOST_RUNS = 5000  # rows of single runs on a page; runs.csv has all


def write_report(path: Path, found: SweepTable | Reproduction, command: str = "") -> None:
    """Writes the page of a sweep or of a panel, whole or not at all."""
    write_text(path, report_page(found, command))


def report_page(found: SweepTable | Reproduction, command: str = "") -> str:
    """The page as text."""
    table = found.table if isinstance(found, Reproduction) else found
    parts = [_head(table), *_figures(found)]
    if isinstance(found, Reproduction):
        parts.append(_verdicts(found))
    columns, notes = point_columns(table)
    parts += ["<h2>Points</h2>", f"<p class=quiet>{_intervals(table)}</p>", _table(columns)]
    parts += [f"<p class=quiet>Note: {_text(note)}.</p>" for note in notes]
    parts += [
        f"<p class=quiet>Failed: {_text(k)}: {_text(v)}.</p>" for k, v in table.failures.items()
    ]
    if table.trained and "policy" in table.axes:
        words = "Until the target; changes are paired over seeds, in parts of the first's mean."
        parts += ["<h2>Policies</h2>", f"<p class=quiet>{words}</p>", _table(policy_columns(table))]
    parts += [_runs(table), _asked(table, command)]
    title = _text(table.title)
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_part('report.css')}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>\n{_part('report.js')}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


def _text(value: Any) -> str:
    return escape(printable(str(value)))


def _head(table: SweepTable) -> str:
    points = len(table.points())
    seeds = f"{len(table.seeds)} seeds" if len(table.seeds) > 1 else "1 seed"
    words = f"{len(table.runs)} runs at {points} points, {seeds}, at most {table.rounds} rounds"
    rough = ", a rough version that judges nothing for good" if table.about.get("quick") else ""
    return f"<h1>{_text(table.title)}</h1>\n<p class=quiet>{words}{rough}.</p>"


def _figures(found: SweepTable | Reproduction) -> list[str]:
    """The picture of the panel, and the same by the other question where there are two."""
    table = found.table if isinstance(found, Reproduction) else found
    kinds: dict[str, dict[str, Any]] = {"Bands are 95 % over seeds.": {}}
    if isinstance(found, Reproduction) and found.panel in SPECIAL:
        kinds["The rounds that it rests on, to the first passage."] = {"by": FIRST}
    elif table.trained and table.hold > 1:
        held = f"The same by a target that holds: the mean of {table.hold} rounds is there."
        reached = table.about.get("reached", "at the first passage")
        first = f"Rounds to the target {reached}; bands are 95 % over seeds."
        kinds = {first: {}, held: {"by": HELD}}
    if table.trained and "policy" in table.axes:
        kinds["Energy until the target, by policy."] = {"by": "energy"}
    parts = []
    for words, options in kinds.items():
        try:
            screen, phone = _svg(found, options), _svg(found, {**options, "columns": 1})
        except BadInput:  # nothing to draw over
            continue
        caption = f"<figcaption>{_text(words)}</figcaption>" if words else ""
        parts.append(
            f'<figure><picture><source media="(max-width: 40rem)" srcset="{phone}">'
            f'<img alt="{_text(table.title)}" src="{screen}"></picture>{caption}</figure>'
        )
    return parts


def _svg(found: SweepTable | Reproduction, options: Mapping[str, Any]) -> str:
    text = io.BytesIO()
    with style.drawing():
        import matplotlib

        matplotlib.rcParams["svg.hashsalt"] = "fedcell"  # the same figure, the same bytes
        drawn = figure(found, **options)
        for panel in drawn.axes:
            panel.set_title("")  # the page has it
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}"


def _verdicts(found: Reproduction) -> str:
    items = [_verdict(verdict) for verdict in found.verdicts]
    others = "\n".join(_verdict(verdict) for verdict in found.otherwise)
    said = "<h2>What the paper says of it</h2>\n<ul class=verdicts>" + "\n".join(items) + "</ul>"
    if not found.otherwise:
        return said
    return f"{said}\n<p>If the target is to hold:</p>\n<ul class=verdicts>{others}</ul>"


def _verdict(verdict: Verdict) -> str:
    return (
        f'<li><span class="{verdict.outcome.replace(" ", "-")}">{verdict.outcome}</span> '
        f"{_text(verdict.claim)}, <em>{_text(verdict.where)}</em><br>"
        f"<span class=number>{_text(verdict.number)}</span></li>"
    )


def _intervals(table: SweepTable) -> str:
    if not table.trained:
        return (
            "Means over seeds with Student's interval at 95 %: C_u and C_n of a round, time and "
            "energy of all rounds."
        )
    return (
        f"Rounds are the restricted mean over seeds, that of min(G, {table.rounds}), with "
        "Student's interval at 95 %; runs that did not get there count as that many, and are "
        "never averaged as if they had."
    )


def _table(columns: Mapping[str, Sequence[Any]]) -> str:
    head = "".join(f"<th><button>{_text(name)}</button></th>" for name in columns)
    lines = [
        "<tr>" + "".join(map(_cell, line)) + "</tr>" for line in zip(*columns.values(), strict=True)
    ]
    return (
        f"<div class=wide><table class=sortable><thead><tr>{head}</tr></thead>\n<tbody>"
        + "\n".join(lines)
        + "</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return f"<td>{'' if value is None else value}</td>"
    if isinstance(value, float):
        return f"<td class=number data-value={value!r}>{value:.5g}</td>"
    text = str(value)
    numeric = text[:1].isdigit() or text[:1] in "-+>"
    return f"<td{' class=number' if numeric else ''}>{_text(text)}</td>"


def _runs(table: SweepTable) -> str:
    names = list(dict.fromkeys(name for run in table.runs for name in run if name != "key"))
    shown = table.runs[:MOST_RUNS]
    columns = {name: [run.get(name) for run in shown] for name in names}
    more = "" if len(shown) == len(table.runs) else f", the first {MOST_RUNS}; runs.csv has all"
    return (
        f"<h2>Runs</h2>\n<details class=runs><summary>{len(table.runs)} runs{more}</summary>\n"
        f"{_table(columns) if shown else ''}</details>"
    )


def _asked(table: SweepTable, command: str) -> str:
    asked = json.dumps(table.about.get("asked", {}), indent=2, ensure_ascii=False, default=str)
    versions = ", ".join(f"{k} {v}" for k, v in table.about.get("versions", {}).items())
    made = f"<pre>{_text(command)}</pre>" if command else ""
    return (
        f"<h2>How it was made</h2>\n{made}\n<details><summary>What was asked: scenario, axes and "
        f"seeds</summary>\n<pre>{_lines(asked)}</pre></details>\n"
        f"<footer><p>{_text(versions)}</p></footer>"
    )


def _lines(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())
