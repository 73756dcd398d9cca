"""Federations from the command line: what is refused before anything starts, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedcell import Compute, load_scenario, run
from fedcell.deploy.exchanges import ExchangeFile
from fedcell.deploy.local import federation as local
from fedcell.deploy.local.process_tree import command_of
from fedcell.learning.learner import Scores

FLEET = """name,kappa,distance
a,5e-27,100
b,5e-27,200
c,5e-27,300
"""
SMALL = """
[clients]
count = 3
[plan]
cohort = 2
local_steps = 2
rounds = 3
[learning]
dataset = "digits"
model = "mlp"
rate = 0.1
"""
COMMAND = [sys.executable, "-P", "-c", "from fedcell.__main__ import main; main()"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with some scenarios, in which nothing else is when a test begins."""
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "fleet.csv").write_text(FLEET)
    table = SMALL.replace("count = 3", 'table = "fleet.csv"')
    (tmp_path / "table.toml").write_text(table)
    (tmp_path / "dumb.toml").write_text(SMALL.partition("[learning]")[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything(folder):
    """All files and folders below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def refused(fedcell, here):
    """Lets a command be refused: by one sentence, before anything is written or started."""

    def run(*words):
        before = everything(here)
        said = fedcell(*words)
        assert (said.code, said.out) == (2, ""), said
        (sentence,) = said.err.splitlines()
        assert sentence.startswith("fedcell: ")
        assert everything(here) == before
        return sentence.removeprefix("fedcell: ")

    return run


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["digits"], "the scenario has 50 clients, and each would take a process of about 300 MB"),
        (["small.toml", "--policy", "mine:own"], "--policy mine:own: a federation runs one of:"),
        (["small.toml", "--policy", "fastest"], "--policy fastest: a federation runs one of: "),
        (["small.toml", "--judged-by", "anything"], "--judged-by"),
        (["small.toml", "--screen", "all"], "--screen"),
        (["small.toml", "--deadline", "soon"], "--deadline"),
        (["small.toml", "--deadline", "0s"], "--deadline"),
        (["small.toml", "--budget", "much", "--pilot", "p.json"], "--budget"),
        (["table.toml", "--devices", "4"], "--devices: the scenario lists its clients"),
        (["dumb.toml"], "learning"),
        (["no-such.toml"], "no-such.toml"),
        (["small.toml", "--plan", "no-plan.json"], "no-plan.json"),
        (["small.toml", "--target-loss", "low"], "--target-loss"),
        (["small.toml", "--target-accuracy", "1.5"], "--target-accuracy"),
        (["small.toml", "--target-loss", "1", "--target-accuracy", "0.9"], "give one of them"),
        (["small.toml", "--start-with", "4"], "--start-with 4: the scenario has 3 clients"),
        (["small.toml", "--join-timeout", "soon"], "--join-timeout"),
        (["small.toml", "--resume"], "there is no run to resume"),
        ([], "scenario"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_invalid_deploy_options_get_one_sentence_and_leave_no_files(refused, words, why):
    assert why in refused("deploy", *words)


def test_a_folder_that_is_not_empty_is_refused(refused, here):
    (here / "mine").mkdir()
    (here / "mine" / "thesis.txt").write_text("precious")
    assert "exists already: give --resume" in refused("deploy", "small.toml", "--out", "mine")
    said = refused("deploy", "small.toml", "--app", "mine")
    assert "is there already: choose another folder for the app" in said
    (here / "file").write_text("")
    refused("deploy", "small.toml", "--out", "file")
    refused("deploy", "small.toml", "--app", "file")


def test_deploy_without_flower_names_the_install_command(refused, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("fedcell.deploy.local.federation.sys.executable", "/nowhere/python")
    for words in ([], ["--simulation"]):
        said = refused("deploy", "small.toml", *words)
        assert said == "flower-superlink is not installed: pip install 'fedcell[flower]'"


def test_a_pilot_ignores_an_existing_run_folder(refused, here, monkeypatch):
    (here / "deploy-small-seed0").mkdir()
    (here / "deploy-small-seed0" / "run.json").write_text("{}")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("fedcell.deploy.local.federation.sys.executable", "/nowhere/python")
    assert "exists already" in refused("deploy", "small.toml")
    assert "is not installed" in refused("deploy", "small.toml", "--pilot", "p.json")


def test_an_app_is_written_and_says_what_is_run(fedcell, here):
    said = fedcell("deploy", "digits", "--app", "mine", "--seed", 3, "--deadline", "90s")
    assert (said.code, said.err) == (0, "")
    assert said.out == "written to mine: pyproject.toml, scenario.json\n"
    assert everything(here / "mine") == ["pyproject.toml", "scenario.json"]
    project = tomllib.loads((here / "mine" / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    assert (config["seed"], config["deadline"], config["policy"]) == (3, 90.0, "distributed")
    assert config["scenario"] == str(here / "mine" / "scenario.json")
    assert config["folder"] == "run-flower"
    world = json.loads((here / "mine" / "scenario.json").read_text())
    assert world["clients"]["count"] == 50
    fewer = fedcell("deploy", "digits", "--app", "few", "--devices", 4)
    assert fewer.code == 0
    world = json.loads((here / "few" / "scenario.json").read_text())
    assert (world["clients"]["count"], world["plan"]["cohort"]) == (4, 4)


@pytest.mark.parametrize(
    ("words", "goal"),
    [
        (["--target-loss", "0.7"], (0.7, None, 1)),
        (["--target-accuracy", "0.9"], (None, 0.9, 1)),
        (["--target-accuracy", "0.9", "--hold", "2"], (None, 0.9, 2)),
        (["--target-loss", "none"], (None, None, None)),
        (["--target-accuracy", "none"], (None, None, None)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_target_is_that_of_the_run(fedcell, here, words, goal):
    text = SMALL + "target = 1.5\n"
    (here / "aimed.toml").write_text(text)
    assert fedcell("deploy", "aimed.toml", "--app", "mine", *words).code == 0
    learning = load_scenario(here / "mine" / "scenario.json").learning
    assert (learning.target, learning.target_accuracy, learning.hold) == goal


def test_options_of_joining_stand_in_the_app(fedcell, here):
    words = ["--join-timeout", "40s", "--start-with", 2]
    assert fedcell("deploy", "small.toml", "--app", "mine", *words).code == 0
    project = tomllib.loads((here / "mine" / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    assert (config["join-timeout"], config["start-with"]) == (40.0, 2)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("deploy", ["--target-accuracy NUMBER|none", "--start-with N", "--join-timeout TIME"]),
        ("deploy", ["--simulation", "--devices N", "--deadline TIME", "--pilot FILE", "--app"]),
        ("exchanges", ["--figure FILE", "--json", "FOLDER"]),
        ("testbed", ["--devices N", "--bandwidth HZ", "--rounds N", "--out FOLDER"]),
    ],
)
def test_help_names_what_there_is(fedcell, command, words):
    said = fedcell(command, "--help")
    assert said.code == 0
    text = " ".join(said.out.replace("│", " ").split())
    for word in words:
        assert word in text, word
    assert command in fedcell("--help").out


def test_commands_of_federations_cost_nothing_where_flower_is_not(here):
    """Their modules are loaded with every command, and must not load Flower."""
    code = "import sys; import fedcell.cli.main; print('flwr' in sys.modules, 'ray' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["False", "False"]


def test_a_testbed_on_an_unsupported_machine_is_refused(refused, monkeypatch):
    from fedcell.cli.commands import testbed

    monkeypatch.setattr(testbed, "why_not", lambda: "this machine has no namespaces")
    monkeypatch.setattr(testbed, "remove_leftovers", lambda: [])
    assert refused("testbed") == "this machine has no namespaces"
    assert "a federation runs one of" in refused("testbed", "--policy", "mine:own")
    assert "--deadline" in refused("testbed", "--deadline", "soon")


# With Flower.

needs_flower = pytest.mark.skipif(
    not (Path(sys.executable).parent / "flwr").exists(), reason="flwr is not installed"
)


@pytest.mark.flower
@needs_flower
def test_flower_takes_the_app_that_is_written(fedcell, here):
    assert fedcell("deploy", "small.toml", "--app", "mine").code == 0
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    built = subprocess.run(
        [local.program("flwr"), "build", "--app", "mine"],
        cwd=here,
        env=os.environ | quiet | {"FLWR_HOME": str(here / "flwr")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert len(list(here.rglob("*.fab"))) == 1


@pytest.mark.flower
@pytest.mark.slow
@needs_flower
@pytest.mark.parametrize("where", [[], ["--simulation"]], ids=["processes", "simulation"])
def test_ctrl_c_stops_every_process_and_the_run_can_be_resumed(here, where):
    from support.federations import environment, rounds_done, until

    mark = f"deploy-commands-{os.getpid()}-{len(where)}"
    marked = lambda: [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and environment(int(entry.name)).get("FEDCELL_TEST") == mark
    ]
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    words = [*COMMAND, "deploy", "small.toml", "--out", "run", *where]
    with subprocess.Popen(
        [*words, "--rounds", "5000"],
        cwd=here,
        env=os.environ | {"FEDCELL_TEST": mark},
        stdout=pipe,
        stderr=pipe,
        text=True,
        preexec_fn=heed,
    ) as process:
        try:
            until(lambda: rounds_done(here / "run") >= 2 or process.poll() is not None, 120.0)
            assert len(marked()) > 4  # its watcher is one of them
            process.send_signal(signal.SIGINT)
            until(lambda: len(marked()) < 4 or process.poll() is not None, 30.0, "an end")
            process.send_signal(signal.SIGINT)  # an impatient user presses it again
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "to resume, give the same command with --resume" in err
    until(lambda: not marked(), 10.0, "the end of all processes")
    done = rounds_done(here / "run")
    assert 2 <= done < 5000
    again = subprocess.run(
        [*words, "--rounds", str(done + 2), "--resume", "--json"],
        cwd=here,
        env=os.environ | {"FEDCELL_TEST": mark},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    answer = json.loads(again.stdout)
    assert answer["exchanges"]["rounds"] == done + 2
    assert rounds_done(here / "run") == done + 2
    names = {file.name for file in (here / "run").iterdir()}
    assert {"ledger.csv", "exchanges.csv", "summary.json", "loss.png", "exchanges.png"} <= names
    assert ".lock" not in names
    until(lambda: not marked(), 10.0, "the end of all processes")


@pytest.mark.flower
@pytest.mark.slow
@needs_flower
@pytest.mark.parametrize(
    ("where", "watched"),
    [([], True), ([], False), (["--simulation"], True)],
    ids=["processes", "watcher-killed-too", "simulation"],
)
def test_a_killed_deploy_leaves_no_process_and_is_resumed(here, where, watched):
    from support.federations import environment, rounds_done, until

    mark = f"killed-deploy-{os.getpid()}-{len(where)}-{watched}"
    found = lambda: {
        int(entry.name): command_of(int(entry.name))
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and environment(int(entry.name)).get("FEDCELL_TEST") == mark
    }
    known = {"cwd": here, "env": os.environ | {"FEDCELL_TEST": mark}, "text": True}
    words = [*COMMAND, "deploy", "small.toml", "--out", "run", *where]
    with subprocess.Popen(
        [*words, "--rounds", "5000"], stderr=subprocess.DEVNULL, **known
    ) as first:
        try:
            until(lambda: rounds_done(here / "run") >= 2 or first.poll() is not None, 120.0)
            started = found()
            assert len(started) > 5
            for more in ([], ["--resume"], ["--pilot", "p.json"]):
                second = subprocess.run([*words, *more], capture_output=True, check=False, **known)
                assert second.returncode != 0
                assert f"another fedcell (process {first.pid} on " in second.stderr
                assert second.stderr.count("\n") == 1
            done = rounds_done(here / "run")
            until(lambda: rounds_done(here / "run") > done or first.poll() is not None, 120.0)
            assert first.poll() is None
            if not watched:
                (watching,) = [
                    pid for pid, said in found().items() if "deploy.local.watcher" in said
                ]
                os.kill(watching, signal.SIGKILL)
        finally:
            first.kill()
    if watched:
        until(lambda: not found(), 30.0, "the end of all processes")
    done = rounds_done(here / "run")
    again = [*words, "--rounds", str(done + 2), "--resume"]
    with subprocess.Popen(again, stderr=subprocess.PIPE, **known) as resumed:
        said = resumed.stderr.readline()
        left = set(started) & set(found())
        more = resumed.communicate()[1]
    assert left == set()
    assert said.startswith(
        "fedcell: SuperLink on" if watched else "fedcell: ended leftover processes"
    )
    assert resumed.returncode == 0, more
    assert rounds_done(here / "run") == done + 2
    until(lambda: not found(), 10.0, "the end of all processes")


class Collapsing:
    """A learner whose model has no loss after the first round."""

    sizes = (10, 20, 30)

    def start(self):
        return np.zeros(2, np.float32)

    def train(self, model, clients, round):  # noqa: ARG002
        return iter([model + 1 for _ in clients])

    def evaluate(self, model):
        return Scores(1.0 if not model.any() else float("nan"))


@pytest.fixture
def collapsed(monkeypatch):
    """A federation on this machine whose model collapses; the processes are left out."""

    def run_here(config, world, _work, *_, **__):
        task = {"model_bits": 64.0, "cycles_per_sample": 1e5}
        learner = lambda *_: Collapsing()
        run(
            world.using(task=task),
            ["even"],
            folder=config.folder,
            rounds=3,
            compute=Compute(learner=learner),
        )
        ExchangeFile(Path(config.folder)).begin(0)

    monkeypatch.setattr("fedcell.cli.commands.deploy.run_here", run_here)


@pytest.mark.usefixtures("collapsed")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_collapsed_run_ends_with_a_sentence_and_exit_code_2(fedcell, here, words):
    said = fedcell("deploy", "small.toml", "--out", "mine", *words)
    assert said.code == 2
    last = said.err.splitlines()[-1]
    assert last.startswith("fedcell: the training loss is not a number from round 1 to the last, 3")
    assert said.out  # what came out is shown and kept all the same
    assert (here / "mine" / "summary.json").exists()


def test_resume_with_another_screen_is_refused_before_anything_starts(refused, here):
    (here / "mine").mkdir()
    then = {"policy": "distributed", "screen": "none", "screen_factor": None}
    told = {"federation": then | {"judged_by": "server"}}
    (here / "mine" / "run.json").write_text(json.dumps(told))
    words = ("deploy", "small.toml", "--resume", "--out", "mine")
    said = refused(*words, "--screen", "exclude")
    assert "was run with screen = none, and is to be resumed with screen = exclude" in said
    assert "policy = distributed, and is to be resumed with policy = even" in refused(
        *words, "--policy", "even"
    )
    assert "judged_by = devices" in refused(*words, "--judged-by", "devices")
