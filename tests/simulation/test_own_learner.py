"""Custom learners, from Python and by name: runs, resuming, plans, and invalid learners."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import (
    Compute,
    FedcellWarning,
    Scenario,
    load_model,
    load_pilot,
    load_scenario,
    run,
    run_pilot,
)
from fedcell.errors import BadFile, BadInput
from fedcell.learning.custom import CustomLearner
from fedcell.learning.learner import Scores
from fedcell.planning.pilot.validation import validate_pilot
from fedcell.scenario.identity import run_identity
from support.sealing import rewrite

MODULE = """
import os, sys
import numpy as np
from fedcell.learning.learner import Scores

class Mean:
    '''Every client pulls towards its own number.'''
    def __init__(self, scenario, seed):
        count = scenario.clients.count
        self.sizes = np.full(count, 60)
        self.homes = np.random.default_rng(seed).normal(size=count)
        self.pull = 1 - 0.9 ** scenario.plan.local_steps
    def start(self):
        return np.full(2, 5.0, np.float32)
    def train(self, model, clients, round):
        if str(round) == os.environ.get("KILL_AT"):
            os.kill(os.getpid(), 9)
        for client in clients:
            yield (model + self.pull * (self.homes[client] - model)).astype(np.float32)
    def evaluate(self, model):
        return Scores(float((model[0] - self.homes.mean()) ** 2))

class Other(Mean):
    def start(self):
        return np.full(2, 4.0, np.float32)

class Fewer(Mean):
    def __init__(self, scenario, seed):
        super().__init__(scenario, seed)
        self.sizes = self.sizes[:-1]

class Empty(Mean):
    def __init__(self, scenario, seed):
        super().__init__(scenario, seed)
        self.sizes = 0 * self.sizes

class Wordy(Mean):
    def __init__(self, scenario, seed):
        super().__init__(scenario, seed)
        self.sizes = ["many"] * len(self.sizes)

class Square(Mean):
    def start(self):
        return np.zeros((2, 2), np.float32)

class Endless(Mean):
    def start(self):
        return np.array([1.0, np.inf])

class Longer(Mean):
    def train(self, model, clients, round):
        for client in clients:
            yield np.zeros(3, np.float32)

class Short(Mean):
    def train(self, model, clients, round):
        return iter(())

class Raises(Mean):
    def train(self, model, clients, round):
        raise KeyError("data\\x1b[2J")

class Later(Mean):
    def train(self, model, clients, round):
        yield 1 / 0  # when it is asked for the first upload

class Leaves(Mean):
    def evaluate(self, model):
        sys.exit(3)

class Plain(Mean):
    def evaluate(self, model):
        return 0.5

class Negative(Mean):
    def evaluate(self, model):
        return Scores(-1.0)

class Nothing(Mean):
    def evaluate(self, model):
        return Scores(float("nan"))

class Sometimes(Mean):
    '''Client 0 uploads what is not a number.'''
    def train(self, model, clients, round):
        for client, upload in zip(clients, super().train(model, clients, round)):
            yield upload * (np.nan if client == 0 else 1)

class Steep(Mean):
    def gradients(self, model, batches):
        for client, _ in batches:
            yield (2 * (model - self.homes[client])).astype(np.float32)

class Flat(Mean):
    def gradients(self, model, batches):
        yield 1 / 0

def ours(scenario, seed):
    from fedcell.learning import prepare_training
    return prepare_training(scenario, seed).learner()

def none(scenario, seed): return None
def alone(): return 1
number = 3
"""

WORLD: dict[str, Any] = {
    "clients": {"count": 8},
    "task": {"model_bits": 64, "cycles_per_sample": 1000, "samples_per_step": "dataset"},
    "plan": {"cohort": 4, "local_steps": 3, "rounds": 9},
}


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A folder with a module of learners, and a scenario that says nothing of learning."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mylearners.py").write_text(MODULE)
    (folder / "broken.py").write_text("def x(:")
    (folder / "world.json").write_text(json.dumps(WORLD))
    return folder


@pytest.fixture
def folder(mine, tmp_path, monkeypatch):
    """A new folder with them, where the test stands; a module is loaded once in a process."""
    for file in mine.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mylearners", None)


def kept(folder):
    with np.load(folder / "checkpoint.npz") as saved:
        model = saved["model"].tobytes()
    return [model, (folder / "ledger.csv").read_bytes(), (folder / "summary.json").read_bytes()]


def test_a_run_by_name_leaves_the_same_files_as_any(fedcell, folder):
    said = fedcell("run", "world.json", "--learner", "mylearners:Mean", "--policy", "even")
    assert (said.code, said.err) == (0, "")
    assert "after 9 rounds: training loss" in said.out
    names = {file.name for file in (folder / "run-world-seed0").iterdir()}
    assert names >= {"ledger.csv", "clients.csv", "summary.json", "checkpoint.npz", "loss.png"}
    identity = json.loads((folder / "run-world-seed0/run.json").read_text())["learner"]
    assert identity["name"] == "mylearners:Mean"
    model = load_model(folder / "run-world-seed0")
    assert (model.learner, model.weights.size, model.rounds) == ("mylearners:Mean", 2, 9)
    with pytest.raises(
        BadInput, match="the learner mylearners:Mean, of which fedcell has the weights"
    ):
        model.predict(np.zeros((1, 8, 8)))


def test_the_same_from_python_by_function_or_by_name(folder):
    scenario = Scenario().using(**WORLD)
    named = run(scenario, ["even"], compute=Compute(learner="mylearners:Mean"))
    made = run(scenario, ["even"], compute=Compute(learner=sys.modules["mylearners"].Mean))
    assert_array_equal(named.state.model, made.state.model)
    assert str(folder) not in sys.path  # the folder was looked in for no longer than needed


def test_killed_and_resumed_to_the_same_bits(fedcell, folder):
    words = ["run", "world.json", "--learner", "mylearners:Mean", "--policy", "even", "--out"]
    assert fedcell(*words, "straight").code == 0
    command = [sys.executable, "-c", "from fedcell.cli.main import main; main()", *words, "cut"]
    ran = subprocess.run(command, env=os.environ | {"KILL_AT": "5"}, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert not (folder / "cut/clients.csv").exists()  # it did not end
    assert int(np.load(folder / "cut/checkpoint.npz")["rounds"]) == 5
    assert fedcell(*words, "cut", "--resume").code == 0
    assert kept(folder / "cut") == kept(folder / "straight")


@pytest.mark.usefixtures("folder")
def test_a_run_of_a_custom_learner_is_listed(fedcell):
    assert fedcell("run", "world.json", "--learner", "mylearners:Mean", "--out", "here").code == 0
    (entry,) = json.loads(fedcell("runs", "here", "--json").out)
    assert (entry["status"], entry["trained"]) == ("complete", "mylearners:Mean")


@pytest.mark.usefixtures("folder")
def test_a_pilot_does_not_resume_with_a_learner_of_other_sizes(fedcell, folder):
    pilot = ["pilot", "world.json", "--target-loss", 0.5, "--budget", "2s", "--out", "p.json"]
    pilot += ["--learner", "mylearners:Mean"]
    assert fedcell(*pilot).code == 0
    kept_pilot = json.loads((folder / "p.json").read_text())
    kept_pilot["sizes"][0] += 1
    rewrite(folder / "p.json", **kept_pilot)
    said = fedcell(*pilot)
    assert said.code == 2
    assert "p.json: holds runs of a learner with other sizes: choose another --out" in said.err


@pytest.mark.usefixtures("folder")
def test_several_seeds_of_a_custom_learner(fedcell, folder):
    words = ["run", "world.json", "--learner", "mylearners:Mean", "--seeds", 2, "--out", "two"]
    assert fedcell(*words).code == 0
    whose = [json.loads((folder / f"two/seed{i}/run.json").read_text())["learner"] for i in (0, 1)]
    assert [each["name"] for each in whose] == ["mylearners:Mean"] * 2
    said = fedcell(*words[:-1], "other", "--workers", 2)
    assert said.code == 2
    assert "--workers: code of your own is run in this process alone" in said.err


def test_another_learner_does_not_resume_a_run(fedcell, folder):
    words = ["run", "world.json", "--policy", "even", "--out", "here"]
    assert fedcell(*words, "--learner", "mylearners:Mean").code == 0
    before = kept(folder / "here")
    said = fedcell(*words, "--resume", "--learner", "mylearners:Other")
    assert (said.code, said.out) == (2, "")
    assert "different run (learner.name, learner.start differ)" in said.err
    without = fedcell(*words, "--resume")
    assert without.code == 2
    assert "or give a --learner of your own" in without.err
    assert kept(folder / "here") == before


@pytest.mark.filterwarnings("always")
def test_a_learner_whose_source_changed_resumes_with_a_note(fedcell, folder):
    words = ["run", "world.json", "--learner", "mylearners:Mean", "--policy", "even", "--out", "o"]
    assert fedcell(*words, "--rounds", 3).code == 0
    code = json.loads(Path("o/run.json").read_text())["code"]
    assert list(code["learner"]) == [str(folder / "mylearners.py")]
    assert "changed" not in fedcell(*words, "--rounds", 4, "--resume").err
    (folder / "mylearners.py").write_text(MODULE + "\n# faster\n")
    for rounds in (5, 6):  # not forgotten by the first run that is resumed with it
        said = fedcell(*words, "--rounds", rounds, "--resume")
        assert said.code == 0
        note = f"note: o: the learner ({folder}/mylearners.py) changed since the run began: rounds"
        assert note in said.err
    assert json.loads(Path("o/run.json").read_text())["code"] == code


def test_a_pilot_notes_a_learner_whose_source_changed(folder):
    words = {"target": 40.0, "path": "pilot.json", "compute": Compute(learner="mylearners:Mean")}
    run_pilot(load_scenario("world.json"), budget=0.5, **words)
    code = load_pilot("pilot.json").code
    assert list(code["learner"]) == [str(folder / "mylearners.py")]
    (folder / "mylearners.py").write_text(MODULE + "\n# faster\n")
    with pytest.warns(FedcellWarning, match=r"the learner \(.*mylearners.py\) changed since"):
        run_pilot(load_scenario("world.json"), budget=0.5, **words)
    pilot = load_pilot("pilot.json")
    assert pilot.code == code
    with pytest.warns(FedcellWarning, match=r"pilot.json: the learner \(.*\) changed since the pi"):
        validate_pilot(
            load_scenario("world.json"), pilot, 0.5, compute=Compute(learner="mylearners:Mean")
        )


@pytest.mark.usefixtures("folder")
def test_the_built_in_learner_does_not_resume_a_run_of_a_custom_one():
    scenario = Scenario().using(**WORLD, learning={"model": "quadratic-apart"})
    run(scenario, ["even"], folder="here", compute=Compute(learner="mylearners:Mean"))
    with pytest.raises(BadFile, match=r"learner differs|learner.name, learner.sizes"):
        run(scenario, ["even"], folder="here", resume=True)


def test_the_engine_as_custom_learner_gives_the_same_bits(folder):
    """And a run of it knows the width of the vectors that trained, as any run of the engine."""
    task = {"model_bits": 1e4, "cycles_per_sample": 1e4}
    scenario = Scenario().using(**WORLD | {"task": task}, learning={"model": "logistic"})
    results = [
        run(scenario, ["even"], rounds=3, folder=name, compute=Compute(learner=learner))
        for name, learner in (("own", "mylearners:ours"), ("ours", None))
    ]
    assert_array_equal(results[0].state.model, results[1].state.model)
    widths = [
        json.loads((folder / n / "run.json").read_text())["vector_width"] for n in ("own", "ours")
    ]
    assert widths[0] == widths[1] is not None


def test_the_dataset_of_a_custom_learner_is_known_by_its_name():
    """The data of such a learner is unknown: only its name identifies it."""
    known = {"name": "mine:net", "start": "a", "sizes": "b"}
    digits, mnist = (Scenario().using(learning={"dataset": d}) for d in ("digits", "mnist"))
    assert run_identity(digits, None, 0, known) != run_identity(mnist, None, 0, known)
    assert run_identity(digits, "same", 0) == run_identity(mnist, "same", 0)  # as moved data


BAD = {
    "mylearners:Fewer": "the learner has 7 clients and the scenario 8",
    "mylearners:Empty": "expected 0 or more, and not all 0",
    "mylearners:Wordy": "the learner's sizes are not numbers",
    "mylearners:Square": "starts with an array of shape (2, 2): expected a flat vector",
    "mylearners:Endless": "expected a flat vector of finite 32-bit floats",
    "mylearners:Longer": "an upload of shape (3,) for client",
    "mylearners:Short": "the learner gave nothing for client",
    "mylearners:Raises": "the learner mylearners:Raises failed: KeyError: 'data\\x1b[2J'",
    "mylearners:Later": "the learner mylearners:Later failed: ZeroDivisionError",
    "mylearners:Leaves": "the learner mylearners:Leaves failed: SystemExit: 3",
    "mylearners:Plain": "the learner evaluates to a float: expected Scores",
    "mylearners:Negative": "evaluates to train_loss = -1.0: expected a number from 0",
    "mylearners:Nothing": "the training loss of the first model is not a number",
    "mylearners:none": "made a NoneType, which lacks one of sizes, start, train and evaluate",
    "mylearners:alone": "the learner mylearners:alone failed: TypeError",
    "mylearners:number": "the learner mylearners:number cannot be called",
    "mylearners:absent": "cannot be loaded: AttributeError",
    "nowhere:Mean": "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
    "broken:x": "cannot be loaded: SyntaxError",
    "mylearners": "mylearners is not a learner: give module:callable",
    "./mylearners.py:Mean": "give the name of a module, as in mine:learner",
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["run", "pilot"])
def test_a_bad_learner_is_refused_in_one_sentence(fedcell, name, command):
    words = ["--policy", "even"] if command == "run" else ["--target-loss", 0.5, "--budget", "1s"]
    said = fedcell(command, "world.json", "--learner", name, *words)
    assert (said.code, said.out) == (2, "")
    assert BAD[name] in said.err
    assert len(said.err.splitlines()) == 1
    assert "\x1b" not in said.err


def test_a_learner_that_needs_an_extra_says_how_to_install_it(fedcell, folder, monkeypatch):
    (folder / "deep.py").write_text("import torch\n")
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    said = fedcell("run", "world.json", "--learner", "deep:net")
    assert said.code == 2
    assert said.err.rstrip().endswith(": pip install 'fedcell[torch]'")


@pytest.mark.usefixtures("folder")
def test_uploads_that_are_not_numbers_are_left_out_and_counted():
    scenario = Scenario().using(**WORLD)
    with pytest.warns(UserWarning, match="the uploads of clients 0 are not finite"):
        result = run(scenario, ["even"], compute=Compute(learner="mylearners:Sometimes"))
    assert result.ledgers["even"].discarded_uploads.sum() > 0
    assert np.isfinite(result.state.model).all()


@pytest.mark.parametrize("left_out", ["model_bits", "cycles_per_sample"])
@pytest.mark.parametrize("command", ["run", "pilot"])
def test_the_costs_of_a_learner_are_required(fedcell, folder, left_out, command):
    task = {name: value for name, value in WORLD["task"].items() if name != left_out}
    (folder / "world.json").write_text(json.dumps(WORLD | {"task": task}))
    words = [] if command == "run" else ["--target-loss", 0.5, "--budget", "1s"]
    said = fedcell(command, "world.json", "--learner", "mylearners:Mean", *words)
    assert said.code == 2
    assert f"task.{left_out}: give what a learner of your own costs" in said.err
    assert "2 numbers, 64 bits" in said.err


@pytest.mark.filterwarnings("default")
def test_a_plan_is_compared_with_a_run_of_a_learner_that_knows_its_costs(fedcell, folder):
    """z_m and alpha_0 are in no file but the pilot's; a run of a larger model is not the plan's."""
    (folder / "priced.py").write_text(
        "import mylearners\nclass Small(mylearners.Mean):\n"
        "    model_bits, cycles_per_sample = 64.0, 10.0\n"
    )
    (folder / "world.json").write_text(json.dumps(WORLD | {"task": {}}))
    pilot = ["pilot", "world.json", "--target-loss", 0.2, "--budget", "2s", "--out", "p.json"]
    assert fedcell(*pilot, "--learner", "priced:Small").code == 0
    assert fedcell("plan", "world.json", "--pilot", "p.json", "--out", "plan.json").code == 0
    words = ["run", "--plan", "plan.json", "--learner", "priced:Small", "--out"]
    said = fedcell(*words, "small")
    assert (said.code, said.err) == (0, "")
    assert "The plan's predictions against this run" in said.out
    (folder / "priced.py").write_text((folder / "priced.py").read_text().replace("64.0", "640.0"))
    sys.modules.pop("priced")
    other = fedcell(*words, "large")
    sys.modules.pop("priced")
    assert "task.model_bits" in other.out


@pytest.mark.filterwarnings("default")
def test_from_pilot_to_plan_to_run_by_name(fedcell, folder):
    """Files remember the learner, ask for it again, and never load it."""
    name = ["--learner", "mylearners:Mean"]
    pilot = ["pilot", "world.json", "--target-loss", 0.2, "--budget", "2s", "--out", "p.json"]
    assert fedcell(*pilot, *name).code == 0
    assert json.loads((folder / "p.json").read_text())["learner"] == "mylearners:Mean"
    said = fedcell(*pilot, "--learner", "mylearners:Other")
    assert "was run with another learner (mylearners:Mean, not mylearners:Other)" in said.err
    sys.modules.pop("mylearners")
    said = fedcell("plan", "world.json", "--pilot", "p.json", "--out", "plan.json")
    assert (said.code, said.err) == (0, "")
    refused = [
        fedcell("run", "--plan", "plan.json"),
        fedcell("validate", "world.json", "--pilot", "p.json"),
    ]
    assert "mylearners" not in sys.modules
    for answer in refused:
        assert answer.code == 2
        assert "give --learner mylearners:Mean if you trust it" in answer.err
    said = fedcell("run", "--plan", "plan.json", *name)
    assert (said.code, said.err) == (0, "")
    assert "The plan's predictions against this run" in said.out
    other = fedcell("run", "--plan", "plan.json", "--learner", "mylearners:Other", "--out", "other")
    assert "not what was planned (another learner)" in other.err
    words = ["--pilot", "p.json", "--budget", "1s", "--json"]
    assert json.loads(fedcell("validate", "world.json", *words, *name).out)["settings"] > 0


@pytest.mark.usefixtures("folder")
def test_constants_of_a_learner_that_shows_its_gradients(fedcell):
    words = ["constants", "world.json", "--rounds", 4, "--json", "--learner"]
    said = fedcell(*words, "mylearners:Mean")
    assert said.code == 2
    assert "the learner has no method gradients" in said.err
    found = json.loads(fedcell(*words, "mylearners:Steep").out)
    values = {row["symbol"]: row["value"] for row in found["estimates"]}
    assert values["L"] == pytest.approx(2)  # of |w - h|^2
    failing = fedcell(*words, "mylearners:Flat")
    assert "the learner mylearners:Flat failed: ZeroDivisionError" in failing.err


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("folder")
def test_workers_change_nothing_for_a_custom_learner(fedcell):
    words = ["world.json", "--target-loss", 0.5, "--budget", "1s", "--workers", 2]
    said = fedcell("pilot", *words, "--learner", "mylearners:Mean")
    assert said.code == 0
    assert "in this process: --workers changes nothing" in said.err


def test_a_plan_or_a_scenario_names_no_code(fedcell, folder):
    (folder / "world.json").write_text(json.dumps(WORLD | {"learner": "mylearners:Mean"}))
    said = fedcell("run", "world.json")
    assert said.code == 2
    assert "learner is not a key" in said.err
    assert "mylearners" not in sys.modules


def test_a_learner_is_known_by_its_name():
    def here(*_):
        return None

    assert CustomLearner.of(None) is None
    own = CustomLearner.of(here)
    assert own is not None
    assert own.name.endswith(":test_a_learner_is_known_by_its_name.<locals>.here")
    with pytest.raises(BadInput, match="cannot be called"):
        CustomLearner.of(3)


def test_scores_may_be_numbers_of_numpy():
    class Steady:
        sizes = np.full(8, 5)

        def start(self):
            return [1.0, 2.0]

        def train(self, model, clients, round):  # noqa: ARG002
            return (model for _ in clients)

        def evaluate(self, model):  # noqa: ARG002
            return Scores(np.float32(0.5), np.float64(0.25), 1)

    result = run(Scenario().using(**WORLD), ["even"], compute=Compute(learner=lambda *_: Steady()))
    assert json.dumps(result.to_dict())
    assert result.ledgers["even"].accuracy.tolist() == [1.0] * 9
