"""The committed results: the page says what the tables say, and the tables what the trainings."""

import csv
import json
import runpy
import tarfile
from pathlib import Path

import pytest

from fedcell.core.files.checksums import check_seal
from fedcell.scenario.target import rounds_to

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"


def test_the_page_says_what_the_tables_say():
    made = runpy.run_path(str(ROOT / "experiments" / "page.py"))
    assert made["page"]() == (ROOT / "docs" / "reference" / "reproduction.md").read_text()


def test_the_tables_say_what_the_trainings_say():
    with tarfile.open(RESULTS / "store.tar.xz") as packed:
        curves = {
            Path(member.name).stem: json.load(file)
            for member in packed
            if member.name.endswith(".json") and (file := packed.extractfile(member))
        }
    assert all(check_seal(content, "pack it again") for content in curves.values())
    tables = sorted(RESULTS.glob("*/runs.csv"))
    assert tables
    compared = 0
    for table in tables:
        with table.open(newline="") as lines:
            for row in csv.DictReader(lines):
                if row.get("key"):
                    losses = curves[row["key"]]["train_loss"]
                    found = rounds_to(losses, float(row["target"]))
                    assert row["rounds_to_target"] == ("" if found is None else str(found))
                    last = losses[int(row["rounds"]) - 1]  # a longer one may be kept
                    assert float(row["train_loss"]) == pytest.approx(last)
                    compared += 1
    assert compared > 200


def test_the_page_counts_the_trainings_that_are_packed(tmp_path):
    with tarfile.open(RESULTS / "store.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    counted = runpy.run_path(str(RESULTS.parent / "pack.py"))["counted"]
    assert counted(tmp_path / "store") == json.loads((RESULTS / "store.json").read_text())
