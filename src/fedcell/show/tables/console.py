"""Tables for people: units in every heading, no digits that mean nothing. JSON for programs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcell.core.estimates import Estimate
from fedcell.core.files import as_json


def print_json(value: Any) -> None:
    """As JSON, in which NaN becomes null."""
    print(as_json(value), end="")


def digits(value: float | None) -> str:
    """A number to four digits; a dash where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


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


def print_table(out: Console, title: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Prints columns as a table, as wide as it is: a clipped digit would be a wrong number."""
    out.print(f"\n{title}", style="bold", soft_wrap=True)
    made = Table(box=box.HORIZONTALS, show_edge=False, pad_edge=False)
    for i, heading in enumerate(columns):
        made.add_column(Text(heading), justify="left" if i == 0 else "right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        made.add_row(*map(Text, row))
    wide = out.measure(made, options=out.options.update(max_width=1000)).maximum
    Console(file=out.file, width=max(wide, out.width), markup=False, highlight=False).print(made)


def print_stacked(out: Console, title: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Prints columns as tables below each other, each as wide as the console at most if it can be;
    every one begins with the first column."""
    (first, names), *rest = columns.items()
    parts: list[dict[str, Sequence[str]]] = [{first: names}]
    for heading, values in rest:
        wider = parts[-1] | {heading: values}
        if len(parts[-1]) > 1 and _width(wider) > out.width:
            parts.append({first: names, heading: values})
        else:
            parts[-1] = wider
    for i, part in enumerate(parts):
        print_table(out, title if i == 0 else f"{title} (continued)", part)


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    """Of a table, in letters."""
    return sum(max(map(len, (name, *values))) + 3 for name, values in columns.items()) - 3


def print_notes(out: Console, notes: Sequence[str]) -> None:
    """What whoever reads the table should know."""
    for note in notes:
        out.print(f"note: {note}")


def counted(count: int, thing: str) -> str:
    """A thing in the singular or in the plural."""
    return thing if count == 1 else f"{thing}s"
