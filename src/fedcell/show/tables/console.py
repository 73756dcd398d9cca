"""Print tables for people, with units in every heading and significant digits only."""

import io
import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcell.core.errors import printable
from fedcell.core.estimates import Estimate
from fedcell.core.files.formats import as_json
from fedcell.core.showing import Showable

WIDTH = 80  # characters of a table, on any terminal
GAP = 3  # characters between two columns
MAX_ROWS = 60  # of a table made from `rows()`


class HtmlConsole(Console):
    """A console that collects what is printed as HTML, with all text escaped."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO(), width=WIDTH, markup=False, highlight=False)
        self._parts: list[str] = []

    @property
    def html(self) -> str:
        """What was printed so far."""
        return "<div>\n" + "\n".join(self._parts) + "\n</div>"

    def print(self, *objects: Any, **_style: Any) -> None:
        """Add a paragraph."""
        if text := " ".join(map(str, objects)).strip("\n"):
            self._parts.append(f"<p>{_escaped(text, '<br>')}</p>")

    def print_preformatted(self, text: str) -> None:
        """Add text with its spaces and line breaks."""
        self._parts.append(f"<pre>{_escaped(text, chr(10))}</pre>")

    def print_columns(self, title: str, columns: Mapping[str, Sequence[str]]) -> None:
        """Add a table of any width."""
        head = "".join(f"<th>{_escaped(name)}</th>" for name in columns)
        lines = [
            "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        ]
        self._parts += [
            f"<table>\n<caption>{_escaped(title)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>",
            *lines,
            "</tbody>\n</table>",
        ]


def _escaped(text: str, line_break: str = " ") -> str:
    return line_break.join(escape(printable(line)) for line in text.splitlines())


def print_json(value: Any) -> None:
    """Print a value as JSON, with null for NaN."""
    print(as_json(value), end="")


def digits(value: float | None) -> str:
    """Return a number to four digits, or a dash for None and NaN."""
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def two_digits(share: float) -> str:
    """Return a share in per cent, to two significant digits."""
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def plus_minus(estimate: Estimate) -> str:
    """Return a mean and half its interval, to the last significant digit."""
    mean, half = estimate.value, estimate.half_width
    if not half > 0:  # a single value, or all the same
        return digits(mean)
    places = -math.floor(math.log10(half))
    if places > 6 or abs(mean) >= 1e6:
        return f"{mean:.4g} ± {half:.1g}"
    places = max(0, places)
    return f"{mean:.{places}f} ± {half:.{places}f}"


def print_table(
    out: Console, title: str, columns: Mapping[str, Sequence[str]], labels: int = 1
) -> None:
    """Print columns as a table within the width of the console, or WIDTH characters.

    A wider table continues below, and each part repeats the first `labels` columns: a clipped digit
    would be a wrong number.
    """
    if isinstance(out, HtmlConsole):
        out.print_columns(title, columns)
        return
    width = max(out.width, WIDTH)
    parts = _parts(columns, width, labels)
    out.print(f"\n{title}", style="bold", soft_wrap=True)
    for i, part in enumerate(parts):
        if i:
            out.print()
        made = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False)
        for j, heading in enumerate(part):
            side: Literal["left", "right"] = "left" if j == 0 else "right"
            made.add_column(Text(heading), justify=side, overflow="fold", no_wrap=j >= labels)
        for row in zip(*part.values(), strict=True):
            made.add_row(*map(Text, row))
        Console(file=out.file, width=width, markup=False, highlight=False).print(made)


def _parts(
    columns: Mapping[str, Sequence[str]], width: int, labels: int
) -> list[dict[str, Sequence[str]]]:
    """Split columns into tables that fit, each with the label columns."""
    wide = {name: max(cell_len(text) for text in [name, *cells]) for name, cells in columns.items()}
    first = dict(islice(columns.items(), labels))
    parts = [dict(first)]
    for name, cells in islice(columns.items(), labels, None):
        if len(parts[-1]) > labels and _width(wide, [*parts[-1], name]) > width:
            parts.append(dict(first))
        parts[-1][name] = cells
    return parts


def _width(wide: Mapping[str, int], names: Sequence[str]) -> int:
    """Return the width of a table with these columns."""
    return sum(wide[name] for name in names) + GAP * (len(names) - 1)


def print_rows(out: Console, result: Showable, name: str | None = None) -> None:
    """Print the rows of any result as a table, with a column for each key."""
    rows = result.rows()
    title = name or type(result).__name__
    if not rows:
        out.print(f"{title}: no rows")
        return
    shown = rows[:MAX_ROWS]
    keys = dict.fromkeys(key for row in shown for key in row)
    print_table(out, title, {str(key): [_cell(row.get(key)) for row in shown] for key in keys})
    if (more := len(rows) - len(shown)) > 0:
        out.print(f"and {more} more rows, see `rows()`")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return digits(float(value)) if isinstance(value, float) else printable(str(value))


def print_notes(out: Console, notes: Sequence[str]) -> None:
    """Print remarks on the table above."""
    for note in notes:
        out.print(f"note: {note}")


def counted(count: int, thing: str) -> str:
    """Return a noun in the singular or in the plural."""
    return thing if count == 1 else f"{thing}s"
