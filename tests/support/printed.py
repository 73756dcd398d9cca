"""Tables as people see them, taken apart again: what stands under which heading."""

import re
from dataclasses import dataclass, field

RULE = re.compile(r"─{3,}")


@dataclass
class Printed:
    """One printed table: its title, and its cells by heading."""

    title: str
    columns: dict[str, list[str]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, str]]:
        lines = zip(*self.columns.values(), strict=True)
        return [dict(zip(self.columns, line, strict=True)) for line in lines]


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def tables(text: str) -> dict[str, Printed]:
    """The tables of an output, by title."""
    lines = [line.rstrip() for line in text.splitlines()]
    found = {}
    for i, line in enumerate(lines):
        if not RULE.fullmatch(line.strip()):
            continue
        headings = cells(lines[i - 1])
        rows = []
        for row in lines[i + 1 :]:
            if len(cells(row)) not in (len(headings), len(headings) + 1) or not row:
                break
            rows.append(cells(row))
        if rows and len(rows[0]) == len(headings) + 1:
            headings = ["", *headings]
        rows = [row for row in rows if len(row) == len(headings)]
        columns = dict(zip(headings, map(list, zip(*rows, strict=True)), strict=True))
        title = lines[i - 2].strip() or next(reversed(found))  # a table that goes on below
        found.setdefault(title, Printed(title)).columns.update(columns)
    return found


def four_digits(value: float | None) -> str:
    """A number as tables show it, written down here a second time."""
    return "-" if value is None else f"{value:.4g}"


def is_plus_minus(cell: str, estimate: dict[str, float]) -> bool:
    """Whether a cell shows an estimate: its value, and half of its interval to one digit."""
    half = (estimate["high"] - estimate["low"]) / 2
    if half == 0:
        return cell == four_digits(estimate["value"])
    value, width = (float(part) for part in cell.split(" ± "))
    unit = 10.0 ** -len(cell.split(" ± ")[1].partition(".")[2])
    return abs(value - estimate["value"]) <= unit / 2 * 1.001 and abs(width - half) <= unit * 0.501
