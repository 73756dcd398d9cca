"""Tables for people: units in every heading, no digits that mean nothing. JSON for programs."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcell.core.estimates import Estimate
from fedcell.core.files.formats import as_json

WIDTH = 80  # letters that a table may be wide, on any terminal
GAP = 3  # letters between two columns


def print_json(value: Any) -> None:
    """As JSON, in which NaN becomes null."""
    print(as_json(value), end="")


def digits(value: float | None) -> str:
    """A number to four digits; a dash where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def two_digits(share: float) -> str:
    """A part of a whole in per cent, to two digits that mean something."""
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def plus_minus(estimate: Estimate) -> str:
    """A mean and half its interval, to the last digit that means something."""
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
    """Prints columns as a table within the width of the console, or WIDTH letters: one that is
    wider goes on below, each part with the first columns, which are `labels` of the lines; for a
    clipped digit would be a wrong number."""
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
    """Columns in as many tables as they need, each with the first of them."""
    wide = {name: max(cell_len(text) for text in [name, *cells]) for name, cells in columns.items()}
    first = dict(islice(columns.items(), labels))
    parts = [dict(first)]
    for name, cells in islice(columns.items(), labels, None):
        if len(parts[-1]) > labels and _width(wide, [*parts[-1], name]) > width:
            parts.append(dict(first))
        parts[-1][name] = cells
    return parts


def _width(wide: Mapping[str, int], names: Sequence[str]) -> int:
    """Of a table with these columns."""
    return sum(wide[name] for name in names) + GAP * (len(names) - 1)


def print_notes(out: Console, notes: Sequence[str]) -> None:
    """What whoever reads the table should know."""
    for note in notes:
        out.print(f"note: {note}")


def counted(count: int, thing: str) -> str:
    """A thing in the singular or in the plural."""
    return thing if count == 1 else f"{thing}s"
