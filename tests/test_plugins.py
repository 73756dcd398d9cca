"""A small package with plugins, installed by pip and found by name (docs/how-to/extending.md)."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE / "tiny_package"
INFO = "tiny_fedcell-1.0.dist-info"
SCENARIO = """
[clients]
count = 4
[plan]
cohort = 2
selection = "near-first"
local_steps = 2
rounds = 3
[task]
batch_size = 5
[cell.channel]
model = "two-slopes"
[learning]
dataset = "two-blobs"
model = "logistic"
rate = 0.1
target = 0.01
[learning.partition]
kind = "round-robin"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fedcell's plugins, into which pip has installed the wheel of the package."""
    folder = tmp_path_factory.mktemp("plugins")
    wheel = folder / "tiny_fedcell-1.0-py3-none-any.whl"
    files = {
        "tiny_fedcell.py": (PACKAGE / "tiny_fedcell.py").read_text(),
        f"{INFO}/entry_points.txt": (PACKAGE / "entry_points.txt").read_text(),
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: tiny-fedcell\nVersion: 1.0\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in [*files, f"{INFO}/RECORD"])
        archive.writestr(f"{INFO}/RECORD", record)
    options = ["--no-index", "--no-deps", "--quiet", "--target", str(folder / "there")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    return folder / "there"


def path_with(installed: Path) -> str:
    """PYTHONPATH with one more folder."""
    return os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])


def fedcell(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedcell", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path_with(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_plugins_of_each_kind_are_found_by_name(installed, tmp_path):
    (tmp_path / "world.toml").write_text(SCENARIO)
    policies = ["--policy", "optimal", "--policy", "optimal-again"]
    done = fedcell(
        *(installed, tmp_path, "run", "world.toml", *policies),
        *("--track", "lines:log.txt", "--out", "o", "--json"),
    )
    assert done.returncode == 0, done.stderr
    optimal, again = json.loads(done.stdout)["policies"]
    assert again["policy"] == "optimal-again"
    assert again == optimal | {"policy": "optimal-again"}
    assert (tmp_path / "log.txt").read_text().splitlines() == ["o 1", "o 2", "o 3"]
    shown = fedcell(installed, tmp_path, "partition", "world.toml", "--json")
    answer = json.loads(shown.stdout)
    assert (answer["kind"], answer["samples"], answer["clients"]) == ("round-robin", 80, 4)


def test_without_the_package_the_names_are_refused(tmp_path):
    (tmp_path / "world.toml").write_text(SCENARIO)
    refused = fedcell(tmp_path, tmp_path, "run", "world.toml", "--out", "o")
    assert refused.returncode == 2
    assert 'kind = "round-robin": known: iid, shards' in refused.stderr
    assert 'cell.channel.model = "two-slopes": known: paper, uma' in refused.stderr
    assert not (tmp_path / "o").exists()


def test_the_page_shows_the_package():
    page = (HERE.parent / "docs" / "how-to" / "extending.md").read_text()
    for line in (PACKAGE / "entry_points.txt").read_text().splitlines():
        if "=" in line:
            name, where = (part.strip() for part in line.split("="))
            assert f'{name} = "{where}"' in page


CHECKS = """
from fedcell.learning import check_dataset, check_partition
from fedcell.network import check_channel
from fedcell.policies import check_policy
from fedcell.selectors import check_selector
from fedcell.simulation import check_tracker
import tiny_fedcell
check_policy(tiny_fedcell.optimal_again)
check_partition(tiny_fedcell.round_robin)
check_dataset(tiny_fedcell.two_blobs)
check_channel(tiny_fedcell.two_slopes)
check_selector(tiny_fedcell.near_first)
check_tracker(tiny_fedcell.lines, "log.txt")
"""


def test_the_package_passes_the_checks_for_plugins(installed, tmp_path):
    environment = os.environ | {"PYTHONPATH": path_with(installed)}
    done = subprocess.run(
        [sys.executable, "-c", CHECKS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
