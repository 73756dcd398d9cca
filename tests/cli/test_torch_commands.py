"""A PyTorch module through the commands of docs/how-to/learner.md: from pilot to resume."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.extras
pytest.importorskip("torch", reason="torch is not installed: pip install fedcell[torch]")

ROOT = Path(__file__).parents[2]
MAIN = "from fedcell.cli.main import main; main()"


def commands() -> list[list[str]]:
    """Those of the page, in order, with what the page says is added to the scenario."""
    page = (ROOT / "docs/how-to/learner.md").read_text()
    lines = page[page.index("## PyTorch") :].splitlines()
    found = [line for line in lines if line.startswith("    fedcell ")]
    return [shlex.split(line, comments=True)[1:] for line in found]


def test_the_commands_of_the_page_plan_train_and_resume(tmp_path, monkeypatch, fedcell):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/9_torch_batchnorm.py", "net.py")
    scenario, pilot, plan, run, resume = commands()
    page = (ROOT / "docs/how-to/learner.md").read_text()
    added = re.search(r"add to \[task\]: (.*), (.*)", page)
    assert added is not None
    text = fedcell(*scenario[:2]).out.replace(
        "[task]\n", "[task]\n" + "\n".join(added.groups()) + "\n"
    )
    Path(scenario[3]).write_text(text)
    said = fedcell(*pilot, "--budget", "45s")
    assert said.code == 0, said.err
    said = fedcell(*plan)
    assert (said.code, said.err) == (0, "")
    straight = ["straight" if word == "trained" else word for word in run]
    said = fedcell(*straight)
    assert (said.code, said.err) == (0, "")
    assert "The plan's predictions against this run" in said.out
    done = kill_after_a_round(run, tmp_path / "trained")
    with np.load("straight/checkpoint.npz") as saved:
        assert 0 < done < int(saved["rounds"])
        model = saved["model"]
    assert fedcell(*resume).code == 0
    with np.load("trained/checkpoint.npz") as saved:
        assert saved["model"].tobytes() == model.tobytes()
    assert Path("trained/ledger.csv").read_bytes() == Path("straight/ledger.csv").read_bytes()


def kill_after_a_round(words: list[str], folder: Path) -> int:
    """Rounds that a run has done when it is killed."""
    file = folder / "checkpoint.npz"
    with subprocess.Popen([sys.executable, "-c", MAIN, *words]) as started:
        end = time.monotonic() + 120
        while not file.exists() and started.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        started.send_signal(signal.SIGKILL)
    with np.load(file) as saved:
        return int(saved["rounds"])
