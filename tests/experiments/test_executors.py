"""Scripts that use several processes without a main guard get a one-sentence error."""

import subprocess
import sys

import pytest

SCRIPTS = {
    "pilot": """
from fedcell import Compute, load_scenario, run_pilot
made = run_pilot(load_scenario("digits"), 6, "pilot.json", compute=Compute(workers=2))
""",
    "sweep": """
from pathlib import Path
from fedcell import load_scenario
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
axes = {"plan.cohort": [2, 4]}
asked = Experiment.sweep(load_scenario("digits"), axes, seeds=1, rounds=2)
made = run_sweep(asked, Store(Path("store")))
""",
    "seeds": """
from fedcell import Compute, load_scenario, run_seeds
digits, two = load_scenario("digits"), Compute(workers=2)
made = run_seeds(digits, ["even"], seeds=2, rounds=2, compute=two, folder="o")
""",
}


def told(folder, text):
    (folder / "script.py").write_text(text)
    command = [sys.executable, "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_without_a_guard_is_refused_with_the_reason(tmp_path, name):
    said = told(tmp_path, SCRIPTS[name])
    assert said.returncode == 1
    assert said.stderr.count("Traceback") == 1  # that of the caller's own call
    last = said.stderr.splitlines()[-1]
    assert last.startswith("fedcell.core.errors.BadInput: each of several `workers` imports the ")
    assert last.endswith('put the call under `if __name__ == "__main__":`, or give `workers` 1')


def test_a_script_with_a_main_guard_works(tmp_path):
    first, *lines = SCRIPTS["seeds"].strip().splitlines()
    guarded = [first, 'if __name__ == "__main__":', *(f"    {line}" for line in lines)]
    said = told(tmp_path, "\n".join([*guarded, "    print(len(made.runs))"]))
    assert (said.stdout, said.returncode) == ("2\n", 0), said.stderr
