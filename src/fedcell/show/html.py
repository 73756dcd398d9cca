"""Write a sweep as one self-contained page of HTML, for screens, phones and print.

It has the figures, verdicts, tables, settings and versions.
"""

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
from fedcell.experiments.league.league import League
from fedcell.experiments.table import FIRST, HELD, SweepTable
from fedcell.paper.reproduce import Reproduction
from fedcell.paper.verdicts import Verdict
from fedcell.show.figures.paper import SPECIAL
from fedcell.show.tables.leagues import league_columns
from fedcell.show.tables.sweeps import point_columns, policy_columns

from .drawing import figure
from .figures import style

MAX_RUNS = 5000  # rows of single runs on a page; runs.csv has all


def write_report(path: Path, result: SweepTable | Reproduction | League, command: str = "") -> None:
    """Write the page of a sweep, of a panel or of a league atomically."""
    if isinstance(result, League):
        write_text(path, league_page(result, command))
    else:
        write_text(path, report_page(result, command))


def report_page(sweep: SweepTable | Reproduction, command: str = "") -> str:
    """Return the page as text."""
    table = sweep.table if isinstance(sweep, Reproduction) else sweep
    parts = [_head(table), *_figures(sweep)]
    if isinstance(sweep, Reproduction):
        parts.append(_verdicts(sweep))
    columns, notes = point_columns(table)
    parts += ["<h2>Points</h2>", f"<p class=quiet>{_intervals(table)}</p>", _table(columns)]
    parts += [f"<p class=quiet>Note: {_text(note)}.</p>" for note in notes]
    parts += [
        f"<p class=quiet>Failed: {_text(k)}: {_text(v)}.</p>" for k, v in table.failures.items()
    ]
    if table.trained and "policy" in table.axes:
        words = "Until the target; changes are paired over seeds, in parts of the first's mean."
        parts += ["<h2>Policies</h2>", f"<p class=quiet>{words}</p>", _table(policy_columns(table))]
    parts += [_runs(table), _how_made(table.about, command)]
    return _page(_text(table.title), parts)


def _page(title: str, parts: Sequence[str]) -> str:
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_part('report.css')}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>\n{_part('report.js')}</script>\n</body>\n</html>\n"
    )


def league_page(league: League, command: str = "") -> str:
    """Return the page of a league as text."""
    title = "Selectors and policies"
    screen, phone = _svg(league, {}), _svg(league, {"columns": 1})
    rows = league.rows()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    parts = [
        f"<h1>{title}</h1>",
        f"<p>{_text(league.sentence)}.</p>",
        f'<figure><picture><source media="(max-width: 40rem)" srcset="{phone}">'
        f'<img alt="{title}" src="{screen}"></picture>'
        "<figcaption>Bands are 95 % over seeds. Filled points: more than luck.</figcaption>"
        "</figure>",
        "<h2>Entries</h2>",
        _table(league_columns(league)),
        *(f"<p class=quiet>Note: {_text(note)}.</p>" for note in league.notes),
        f"<h2>Runs</h2>\n<details class=runs><summary>{len(rows)} runs</summary>\n"
        f"{_table(columns)}</details>",
        _how_made(league.about, command),
    ]
    return _page(title, parts)


def _part(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


def _text(value: Any) -> str:
    return escape(printable(str(value)))


def _head(table: SweepTable) -> str:
    points = len(table.points())
    seeds = f"{len(table.seeds)} seeds" if len(table.seeds) > 1 else "1 seed"
    words = f"{len(table.runs)} runs at {points} points, {seeds}, at most {table.rounds} rounds"
    rough = ", a rough version without final verdicts" if table.about.get("quick") else ""
    return f"<h1>{_text(table.title)}</h1>\n<p class=quiet>{words}{rough}.</p>"


def _figures(sweep: SweepTable | Reproduction) -> list[str]:
    """Return the figures of the panel, by each definition of the target."""
    table = sweep.table if isinstance(sweep, Reproduction) else sweep
    kinds: dict[str, dict[str, Any]] = {"Bands are 95 % over seeds.": {}}
    if isinstance(sweep, Reproduction) and sweep.panel in SPECIAL:
        kinds["The rounds that it rests on, to the first passage."] = {"by": FIRST}
    elif table.trained and table.hold > 1:
        held = f"The same if the target must hold: the mean of {table.hold} rounds reaches it."
        reached = table.about.get("reached", "at the first passage")
        first = f"Rounds to the target {reached}; bands are 95 % over seeds."
        kinds = {first: {}, held: {"by": HELD}}
    if table.trained and "policy" in table.axes:
        kinds["Energy until the target, by policy."] = {"by": "energy"}
    parts = []
    for words, options in kinds.items():
        try:
            screen, phone = _svg(sweep, options), _svg(sweep, {**options, "columns": 1})
        except BadInput:  # nothing to draw over
            continue
        caption = f"<figcaption>{_text(words)}</figcaption>" if words else ""
        parts.append(
            f'<figure><picture><source media="(max-width: 40rem)" srcset="{phone}">'
            f'<img alt="{_text(table.title)}" src="{screen}"></picture>{caption}</figure>'
        )
    return parts


def _svg(sweep: SweepTable | Reproduction | League, options: Mapping[str, Any]) -> str:
    text = io.BytesIO()
    with style.drawing():
        import matplotlib

        matplotlib.rcParams["svg.hashsalt"] = "fedcell"  # the same figure, the same bytes
        drawn = figure(sweep, **options)
        for panel in drawn.axes:
            panel.set_title("")  # the page has it
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}"


def _verdicts(sweep: Reproduction) -> str:
    items = [_verdict(verdict) for verdict in sweep.verdicts]
    others = "\n".join(_verdict(verdict) for verdict in sweep.otherwise)
    said = (
        "<h2>Verdicts on the paper's claims</h2>\n<ul class=verdicts>" + "\n".join(items) + "</ul>"
    )
    if not sweep.otherwise:
        return said
    return f"{said}\n<p>If the target must hold:</p>\n<ul class=verdicts>{others}</ul>"


def _verdict(verdict: Verdict) -> str:
    return (
        f'<li><span class="{verdict.outcome.replace(" ", "-")}">{_text(verdict.words)}</span> '
        f"{_text(verdict.claim)}, <em>{_text(verdict.where)}</em><br>"
        f"<span class=number>{_text(verdict.number)}</span><br>"
        f"<span class=number>In the paper: {_text(verdict.stated)}</span></li>"
    )


def _intervals(table: SweepTable) -> str:
    if not table.trained:
        return (
            "Means over seeds with Student's interval at 95 %: C_u and C_n of a round, time and "
            "energy of all rounds."
        )
    return (
        f"Rounds are the restricted mean over seeds, that of min(G, {table.rounds}), with "
        "Student's interval at 95 %; runs that missed the target count as that many rounds, so the "
        "mean is a lower bound."
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
    shown = table.runs[:MAX_RUNS]
    columns = {name: [run.get(name) for run in shown] for name in names}
    more = "" if len(shown) == len(table.runs) else f", the first {MAX_RUNS}; runs.csv has all"
    return (
        f"<h2>Runs</h2>\n<details class=runs><summary>{len(table.runs)} runs{more}</summary>\n"
        f"{_table(columns) if shown else ''}</details>"
    )


def _how_made(about: Mapping[str, Any], command: str) -> str:
    asked = json.dumps(about.get("asked", {}), indent=2, ensure_ascii=False, default=str)
    versions = ", ".join(f"{k} {v}" for k, v in about.get("versions", {}).items())
    made = f"<pre>{_text(command)}</pre>" if command else ""
    return (
        f"<h2>How it was made</h2>\n{made}\n<details><summary>What was asked: scenario, axes and "
        f"seeds</summary>\n<pre>{_lines(asked)}</pre></details>\n"
        f"<footer><p>{_text(versions)}</p></footer>"
    )


def _lines(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())
