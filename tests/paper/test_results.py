"""The committed results: the page says what the tables say, and the tables what the trainings."""

import csv
import json
import runpy
import tarfile
from pathlib import Path

import pytest

from fedcell.core.files.checksums import check_seal
from fedcell.paper.reproduce import load_reproduction
from fedcell.scenario.target import rounds_to

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"


def test_the_page_says_what_the_tables_say():
    made = runpy.run_path(str(ROOT / "experiments" / "page.py"))
    assert made["page"]() == (ROOT / "docs" / "reference" / "reproduction.md").read_text()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The packed trainings."""
    folder = tmp_path_factory.mktemp("packed")
    with tarfile.open(RESULTS / "store.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "store"


@pytest.mark.filterwarnings("ignore::fedcell.errors.FedcellWarning")  # another version, or width
def test_one_dataset_alone_says_what_the_page_says(fedcell, store, tmp_path):
    asked = ["reproduce", "fig3c", "--only", "MNIST", "--store", store, "--out", tmp_path, "--json"]
    said = fedcell(*asked)
    assert said.code == 0, said.err
    rows = [row | {"panel": "fig3c"} for row in json.loads(said.out)]
    page = [r for r in load_reproduction(RESULTS / "fig3c").rows() if r["where"] == "MNIST"]
    assert rows == json.loads(json.dumps(page))
    assert (tmp_path / "fig3c-MNIST" / "fig3c.png").stat().st_size > 10_000


def test_editions_that_no_panel_has_are_refused(fedcell, tmp_path):
    def refused(*options):
        said = fedcell("reproduce", *options, "--out", tmp_path, "--store", tmp_path / "store")
        assert said.code != 0
        assert list(tmp_path.iterdir()) == []
        return said.err

    assert "--only = mnist: no panel has it" in refused("--only", "mnist")
    far = refused("fig3a", "--only", "CIFAR")
    assert "--only = CIFAR: is not in fig3a; did you mean CIFAR-10?" in far
    assert "laws has no edition in the regime two-shards" in refused(
        "laws", "--regime", "two-shards"
    )
    assert "shards is not a regime: did you mean two-shards" in refused("--regime", "shards")
    assert "--regime: leave it out with --quick" in refused("--quick", "--regime", "two-shards")


def test_the_tables_say_what_the_trainings_say():
    with tarfile.open(RESULTS / "store.tar.xz") as packed:
        curves = {
            Path(member.name).stem: json.load(file)
            for member in packed
            if member.name.endswith(".json") and (file := packed.extractfile(member))
        }
    assert all(check_seal(content, "pack it again") for content in curves.values())
    tables = sorted(RESULTS.rglob("runs.csv"))
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


def test_the_page_counts_the_trainings_that_are_packed(store):
    counted = runpy.run_path(str(RESULTS.parent / "pack.py"))["counted"]
    assert counted(store) == json.loads((RESULTS / "store.json").read_text())
