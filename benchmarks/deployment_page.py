"""Writes the measured tables of docs/explanation/testbed.md from the results that are kept.

fedcell testbed --rounds 4 --bandwidth 1.2e7 --json > benchmarks/results/testbed/1.2e7.json
python benchmarks/flower.py --out benchmarks/results/flower.json
python benchmarks/deployment_page.py
"""

import json
import re
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Any

from fedcell.deploy.testbed.uploads import MeasuredUpload, TestbedReport
from flower import told

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "testbed.md"


def testbeds() -> list[Any]:
    """The runs that are kept, by the rates of their links."""
    found = [json.loads(file.read_text()) for file in (RESULTS / "testbed").glob("*.json")]
    return sorted(found, key=lambda run: median(u["rate"] for u in run["uploads"]))


def all_uploads() -> TestbedReport:
    """Those of all runs together."""
    names = [field.name for field in fields(MeasuredUpload)]
    uploads = [
        MeasuredUpload(**{name: upload[name] for name in names})
        for run in testbeds()
        for upload in run["uploads"]
    ]
    first = testbeds()[0]
    return TestbedReport(
        uploads=uploads, bits=first["model_bits"], policy=first["policy"], limited=True
    )


def testbed_table() -> str:
    """A line for each testbed, by the rates of its links."""
    lines = [
        "| links [Mbit/s] | uploads | by the model [s] | off, median | worst | Flower adds |",
        "|---|---|---|---|---|---|",
    ]
    for run in testbeds():
        rates, times = (_ends(run, name) for name in ("rate", "modelled"))
        lines.append(
            f"| {rates[0] / 1e6:.1f} to {rates[1] / 1e6:.1f} | {len(run['uploads'])} | "
            f"{times[0]:.2f} to {times[1]:.2f} | {100 * run['median_error']:.1f} % | "
            f"{100 * run['worst_error']:.1f} % | {run['flower_overhead']:.1f} s |"
        )
    return "\n".join(lines)


def _ends(run: Any, name: str) -> tuple[float, float]:
    values = [upload[name] for upload in run["uploads"]]
    return min(values), max(values)


def overhead_text() -> str:
    """What benchmarks/flower.py printed."""
    kept = json.loads((RESULTS / "flower.json").read_text())
    lines = told(kept, kept["seconds"])
    return "    $ python benchmarks/flower.py\n" + "\n".join(f"    {line}" for line in lines)


def filled(page: str) -> str:
    """The page with its measured parts."""
    for name, text in (("testbed", testbed_table()), ("overhead", overhead_text())):
        marks = re.compile(rf"<!-- {name} -->.*?<!-- end -->", re.DOTALL)
        page = marks.sub(lambda _, n=name, t=text: f"<!-- {n} -->\n\n{t}\n\n<!-- end -->", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    all_uploads().plot(ROOT / "docs" / "images" / "testbed.png")
