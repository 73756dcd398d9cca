"""A sweep as one page of HTML that needs nothing beside it: figures, verdicts, tables, what was
asked and with which versions. It is read on a screen, on a phone, and in print."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput, printable
from fedcell.core.files import write_text
from fedcell.experiments.table import FIRST, HELD, SweepTable
from fedcell.paper.reproduce import Reproduction

from .figures import style
from .figures.paper import SPECIAL
from .results import FIGURES
from .tables.sweeps import point_columns

MOST_RUNS = 5000  # rows of single runs on a page; runs.csv has all

STYLE = """
:root { color-scheme: light; --line: #d4d4d4; --quiet: #595959; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p.quiet, figcaption, footer { color: var(--quiet); font-size: .9rem; }
figure { margin: 0 0 1rem; } figure img { width: 100%; max-width: 48rem; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: 600; white-space: nowrap; }
th button:focus-visible { outline: 2px solid #0072B2; }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
.held, .not-held, .inconclusive { display: inline-block; padding: 0 .45rem; border-radius: .3rem;
  white-space: nowrap; font-weight: 600; }
.held { background: #d5efe4; color: #00513b; } .not-held { background: #fbdcc8; color: #7a2e00; }
.inconclusive { background: #e6e6e6; color: #333; }
ul.verdicts { list-style: none; padding: 0; }
ul.verdicts li { border-top: 1px solid var(--line); padding: .6rem 0; }
ul.verdicts .number { color: var(--quiet); font-size: .9rem; }
pre { overflow-x: auto; background: #f6f6f6; padding: .75rem; font-size: .8rem; }
@media print { body { max-width: none; font-size: 10pt; } details.runs { display: none; }
  h2, figure, li, tr { break-inside: avoid; } .wide { overflow: visible; }
  th button::after { content: none !important; } }
"""

SCRIPT = """
document.querySelectorAll("table.sortable").forEach(table => {
  table.querySelectorAll("th").forEach((head, place) => {
    head.firstElementChild.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const value = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
      const rows = Array.from(body.rows).sort((a, b) => {
        const x = value(a), y = value(b), m = parseFloat(x), n = parseFloat(y);
        const order = isNaN(m) || isNaN(n) ? x.localeCompare(y) : m - n;
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
});
"""


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
    parts += [_runs(table), _asked(table, command)]
    title = _text(table.title)
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


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
        kinds = {"Rounds to the first passage; bands are 95 % over seeds.": {}, held: {"by": HELD}}
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
        figure = FIGURES[type(found)](found, **options)
        for panel in figure.axes:
            panel.set_title("")  # the page has it
        figure.savefig(text, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}"


def _verdicts(found: Reproduction) -> str:
    items = [
        f'<li><span class="{v.outcome.replace(" ", "-")}">{v.outcome}</span> '
        f"{_text(v.claim)}, <em>{_text(v.where)}</em><br>"
        f"<span class=number>{_text(v.number)}</span></li>"
        for v in found.verdicts
    ]
    return "<h2>What the paper says of it</h2>\n<ul class=verdicts>" + "\n".join(items) + "</ul>"


def _intervals(table: SweepTable) -> str:
    if not table.trained:
        return "Means of a round over seeds, with Student's interval at 95 %."
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
