"""Untrusted folders, foreign environment variables, signals, and two processes at once run no code,
print no traceback and lose no answer."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fedcell.core.errors import UNPRINTABLE
from fedcell.core.files import atomic as asides
from fedcell.core.files.atomic import aside
from fedcell.core.files.locks import locked
from fedcell.errors import BadInput
from fedcell.learning.learner import Scores
from fedcell.policies import policy_by_name
from fedcell.show.figures import runs as run_figures
from fedcell.simulation.folder.checkpoint import Checkpoint
from fedcell.simulation.state import History, State

COMMAND = [sys.executable, "-c", "from fedcell.__main__ import main; main()"]
WORLD = {
    "clients": {"count": 8, "samples": 30, "spread": 0.0},
    "plan": {"cohort": 3, "local_steps": 4, "rounds": 6},
    "learning": {"model": "quadratic-apart", "target": 1e-9, "rate": 0.02},
}
SLOW = {  # thousands of rounds
    **WORLD,
    "plan": {"cohort": 3, "local_steps": 4, "rounds": 100_000},
}
LIBRARIES = (
    "scipy",
    "matplotlib",
    "numba",
    "llvmlite",
    "numpy",
    "pandas",
    "rich",
    "typer",
    "torch",
)
LOADED = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "world.json").write_text(json.dumps(WORLD))
    (tmp_path / "slow.json").write_text(json.dumps(SLOW))
    return tmp_path


def told(folder: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own. -P leaves the folder off Python's path, as an
    installed script does."""
    return subprocess.run(
        [COMMAND[0], "-P", *COMMAND[1:], *map(str, words)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def one_sentence(said: subprocess.CompletedProcess[str]) -> str:
    assert said.returncode == 2, said.stderr
    (line,) = said.stderr.splitlines()
    assert line.startswith("fedcell: ")
    return line


# What lies in the folder.


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["run", "world.json", "--policy", "even"],
        ["cost", "paper", "--rounds", "2", "--figure", "a.png"],
        ["partition", "digits"],
        ["plan", "paper", "--mixing", "5", "--drift", "0.1", "--start", "9"],
        ["pilot", "world.json", "--budget", "2s", "--steps", "1..16", "--target-loss", "2"],
        ["run", "digits", "--rounds", "1", "--policy", "even"],
    ],
)
def test_no_module_of_the_folder_is_imported(folder, words):
    for name in LIBRARIES:
        (folder / f"{name}.py").write_text(LOADED)
    said = told(folder, *words)
    assert said.returncode == 0, said.stderr
    assert not (folder / "ran").exists()


def test_settings_that_lie_in_the_folder_are_not_read(folder):
    (folder / "matplotlibrc").write_text("backend: module://evil\ntext.usetex: True\n")
    (folder / "evil.py").write_text(LOADED)
    (folder / ".numba_config.yaml").write_text("disable_jit: 1\ncache_dir: here\nnum_threads: 0\n")
    (folder / "lib").mkdir()  # where yaml is installed, numba reads that file
    (folder / "lib" / "yaml.py").write_text(
        "def safe_load(file):\n    return {'num_threads': 0, 'cache_dir': 'here'}\n"
    )
    words = ["run", "digits", "--rounds", "1", "--policy", "even"]
    said = told(folder, *words, PYTHONPATH=str(folder / "lib"))
    assert said.returncode == 0, said.stderr
    assert (folder / "run-digits-seed0" / "loss.png").stat().st_size > 10_000
    assert not (folder / "ran").exists()
    assert not (folder / "here").exists()


def test_loading_a_custom_policy_leaves_the_path_unchanged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = "import colorsys\nfrom fedcell.policies import Optimal\npolicy = Optimal()\n"
    (tmp_path / "mine_here.py").write_text(mine)
    (tmp_path / "colorsys.py").write_text("raise RuntimeError\n")  # comes after Python's own
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = list(sys.path)
    assert callable(policy_by_name("mine_here:policy", None))
    assert sys.path == before
    with pytest.raises(BadInput, match="cannot be loaded: ModuleNotFoundError"):
        policy_by_name("not_here:policy", None)
    assert sys.path == before


def test_the_own_policy_works_from_the_folder(folder):
    (folder / "mine.py").write_text("from fedcell.policies import Optimal\npolicy = Optimal()\n")
    said = told(folder, "cost", "paper", "--rounds", "2", "--policy", "mine:policy", "--json")
    assert json.loads(said.stdout)["policies"][0]["policy"] == "mine:policy"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", f"[plan]\ncohort = 0x{'f' * 5000}\n", "plan.cohort: a whole number of 20000 b"),
        ("a.toml", f"[plan]\ncohort = 0b{'1' * 20_000}\n", "plan.cohort: a whole number of 20000"),
        ("a.toml", f"[plan]\ncohort = 0o{'7' * 9000}\n", "plan.cohort: a whole number of 27000"),
        ("a.toml", f"[plan]\ncohort = {'9' * 5000}\n", "a.toml: "),
        (
            "a.json",
            '{"plan": {"selection": "\\ud800"}}',
            r"plan.selection = '\ud800': holds a char",
        ),
        ("a.json", '{"\\u001b[2J": 1}', r"\x1b[2J: the key holds a character that cannot be shown"),
        ("a.toml", '["\\u202egnal"]\n', r"\u202egnal: the key holds a character"),
        ("a.json", '{"learning": {"dataset": "\\u0007x.npz"}}', r"'\x07x.npz': holds a character"),
    ],
)
def test_texts_that_cannot_be_shown(folder, name, content, message):
    (folder / name).write_text(content)
    assert message in one_sentence(told(folder, "cost", name))


def test_a_device_is_no_scenario(fedcell):
    said = fedcell("cost", "/dev/zero")
    assert said.code == 2
    assert said.err == (
        "fedcell: /dev/zero: cannot be read: it is a device: save what it holds as a file, and "
        "name that\n"
    )


def test_a_text_has_an_end(fedcell, monkeypatch, tmp_path):
    monkeypatch.setattr("fedcell.core.files.formats.MAX_TEXT_BYTES", 1000)
    (tmp_path / "long.toml").write_text("#" * 1001)
    said = fedcell("cost", tmp_path / "long.toml")
    assert said.code == 2
    assert "is longer than a gigabyte of text: name another file" in said.err


@pytest.mark.long
@pytest.mark.parametrize("name", ["q\udcff.json", "t\tab.json", "e\x1b]0;owned\x07\x1b[31m.json"])
def test_scenarios_whose_files_have_strange_names(folder, name):
    """What is written is read again, and nothing of the name acts on the terminal."""
    (folder / "world.json").rename(folder / name)
    few = ("--target-loss", "2", "--steps", "1..16", "--out", "p.json")
    said = [
        told(folder, "cost", name, "--rounds", "2", "--policy", "even"),
        told(folder, "pilot", name, "--budget", "2s", *few),
        told(folder, "pilot", name, "--budget", "2.5s", *few),
        told(folder, "plan", name, "--pilot", "p.json", "--target-loss", "2", "--out", "plan.json"),
        told(folder, "run", name, "--plan", "plan.json", "--policy", "even"),
    ]
    for one in said:
        assert one.returncode == 0, one.stderr
        assert not UNPRINTABLE.search((one.stdout + one.stderr).replace("\n", ""))
    assert all(not UNPRINTABLE.search(file.name) for file in folder.iterdir() if file.name != name)


def test_data_in_a_folder_with_a_strange_name_is_refused_at_once(folder):
    strange = folder / "d\udcff"
    strange.mkdir()
    learning = {"dataset": "mine.npz", "model": "logistic", "target": 0.1}
    (strange / "w.json").write_text(json.dumps({"learning": learning}))
    said = one_sentence(told(folder, "run", "d\udcff/w.json"))
    assert "learning.dataset = " in said
    assert "rename the file or its folder" in said


# What the environment says.


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"NUMBA_NUM_THREADS": "0"}, "numba, which compiles the engine, cannot be started (Num"),
        ({"NUMBA_NUM_THREADS": "-1"}, "check the variables NUMBA_... of your environment"),
        ({"NUMBA_DISABLE_JIT": "1"}, "NUMBA_DISABLE_JIT is set, and the engine exists as machine"),
        ({"NUMBA_CPU_FEATURES": "bad"}, "NUMBA_CPU_FEATURES = bad: each feature begins with + or"),
        ({"FEDCELL_LANES": "x"}, "FEDCELL_LANES = x: expected one of 4, 8, 16, or unset it"),
        ({"FEDCELL_LANES": "-8"}, "FEDCELL_LANES = -8: expected one of"),
        ({"FEDCELL_LANES": "7"}, "FEDCELL_LANES = 7: expected one of"),
    ],
)
def test_settings_that_stop_the_engine(folder, setting, message):
    said = told(folder, "run", "digits", "--rounds", "1", **setting)
    lines = [line for line in said.stderr.splitlines() if "UserWarning" not in line]
    assert said.returncode == 2, said.stderr
    assert message in lines[-1]
    assert "Traceback" not in said.stderr
    assert not (folder / "run-digits-seed0").exists()


@pytest.mark.long
def test_a_notebook_s_backend_does_not_matter(folder):
    backend = "module://matplotlib_inline.backend_inline"
    said = told(folder, "cost", "paper", "--rounds", "2", "--figure", "a.png", MPLBACKEND=backend)
    assert said.returncode == 0, said.stderr
    assert (folder / "a.png").stat().st_size > 10_000


def test_names_are_text_and_no_formulas(folder):
    (folder / "mine.py").write_text(
        "from fedcell.policies import Optimal\n"
        "price = Optimal()\nglobals()['$\\\\frac{$'] = price\n"
    )
    words = ["run", "world.json", "--policy", "mine:$\\frac{$", "--out", "o"]
    said = told(folder, *words)
    assert said.returncode == 0, said.stderr
    assert (folder / "o" / "loss.png").exists()
    words = ["cost", "paper", "--rounds", "2", "--policy", "mine:$\\frac{$", "--policy", "even"]
    assert told(folder, *words, "--figure", "f.svg").returncode == 0
    assert "mine:$\\frac{$" in (folder / "f.svg").read_text()


def test_a_figure_that_fails_costs_neither_answer_nor_files(fedcell, folder, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no\x1bink")

    monkeypatch.setattr(run_figures, "run_figure", refuse)
    monkeypatch.chdir(folder)
    said = fedcell("run", "world.json", "--out", "o")
    assert said.code == 2
    assert said.err == "fedcell: the figure could not be drawn: ValueError: no\\x1bink\n"
    assert "written to o: ledger.csv, clients.csv, summary.json\n" in said.out
    assert {"ledger.csv", "clients.csv", "summary.json"} <= {f.name for f in Path("o").iterdir()}
    monkeypatch.undo()


# Signals.


@contextmanager
def started(folder: Path, *words: object):
    heed = lambda: [signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGHUP)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *map(str, words)], cwd=folder, stdout=pipe, stderr=pipe, text=True,
        preexec_fn=heed,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_in_order(fedcell, folder, number, monkeypatch):
    with started(folder, "run", "slow.json", "--policy", "even", "--out", "o") as process:
        wait_for(folder / "o" / "history.csv")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err == ("fedcell: interrupted; to resume, give the same command with --resume --out o\n")
    names = {file.name for file in (folder / "o").iterdir()}
    assert {"ledger.csv", "clients.csv", "summary.json", "loss.png"} <= names
    assert ".lock" not in names
    done = json.loads((folder / "o" / "summary.json").read_text())["policies"][0]["rounds"]
    monkeypatch.chdir(folder)
    more = ["run", "slow.json", "--policy", "even", "--out", "o", "--rounds", done + 5, "--resume"]
    assert fedcell(*more).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_pilot_in_order(folder, number):
    words = ["pilot", "slow.json", "--budget", "60s", "--out", "p.json"]
    with started(folder, *words) as process:
        wait_for(folder / "p.json")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err == "fedcell: interrupted; to resume, give the same command again\n"
    assert not list(folder.glob(".p.json*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_other_commands_with_its_number(folder, number):
    with started(folder, "cost", "paper", "--rounds", "3000000", "--policy", "even") as process:
        time.sleep(1.5)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in err


@pytest.mark.parametrize("module", ["numpy", "typer", "fedcell.cli.commands.cost", "rich.console"])
def test_ctrl_c_while_modules_are_loaded(folder, module):
    hook = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Hook:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Hook())
from fedcell.__main__ import main
main()
"""
    said = subprocess.run(
        [sys.executable, "-c", hook, "cost", "paper"], capture_output=True, cwd=folder, check=False
    )
    assert (said.returncode, said.stderr) == (130, b"")


# Two at once.


def test_a_second_run_of_a_folder_is_refused(folder):
    with started(folder, "run", "slow.json", "--policy", "even", "--out", "o") as process:
        wait_for(folder / "o" / "history.csv")
        again = told(folder, "run", "slow.json", "--policy", "even", "--out", "o", "--resume")
        said = one_sentence(again)
        assert f"o: another fedcell (process {process.pid} on " in said
        assert "is using it: wait until it is done" in said
    # Killed, it holds nothing any more.
    assert (folder / "o" / ".lock").exists()
    words = ["run", "slow.json", "--policy", "even", "--out", "o", "--resume", "--rounds", "99999"]
    with started(folder, *words) as process:
        end = time.monotonic() + 60
        held_by = f"process {process.pid} "
        while held_by not in (folder / "o" / ".lock").read_text() and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert not (folder / "o" / ".lock").exists()


def test_a_second_pilot_of_a_file_is_refused(folder):
    words = ["pilot", "slow.json", "--budget", "60s", "--out", "p.json"]
    with started(folder, *words) as process:
        wait_for(folder / "p.json")
        assert f"p.json: another fedcell (process {process.pid} on " in one_sentence(
            told(folder, *words)
        )


def test_a_lock_is_held_by_one_and_leaves_nothing(tmp_path):
    file = tmp_path / ".lock"
    with locked(file, "it"):
        held = pytest.raises(BadInput, match=f"it: another fedcell .process {os.getpid()} on ")
        with held, locked(file, "it"):
            pass
        assert file.exists()
    assert not file.exists()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="it: cannot be written"), locked(file, "it"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_what_killed_processes_left_is_taken_away_and_what_is_in_use_is_not(tmp_path):
    busy = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib, time\nfrom fedcell.core.files.atomic import aside\n"
            "with aside(pathlib.Path('busy.json')) as it:\n"
            "    print(it.name, flush=True)\n    sys.stdin.read()",
        ],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert busy.stdout is not None
    name = busy.stdout.readline().strip()
    left_by = ".fedcell-1-0123456789abcdef-"
    (tmp_path / f"{left_by}left.json").write_text("half")
    (tmp_path / f"{left_by}folder").mkdir()
    (tmp_path / f"{left_by}folder" / "half").write_text("half")
    os.mkfifo(tmp_path / f"{left_by}pipe")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / f"{left_by}link").symlink_to(tmp_path / "precious")
    (tmp_path / ".fedcell-notes").mkdir()  # a folder of the user
    said = told(
        tmp_path, "plan", "paper", "--mixing", 5, "--drift", 0.1, "--start", 9, "--out", "p.json"
    )
    assert said.returncode == 0, said.stderr
    left = {file.name for file in tmp_path.iterdir()}
    busy.communicate()
    assert name in left
    assert (tmp_path / "precious").read_text() == "precious"
    own = {name, "p.json", "precious", ".fedcell-notes"}
    assert own <= left <= own | {f"{left_by}link", f"{left_by}pipe"}


def test_where_there_are_no_locks_nothing_is_taken_away(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")  # as NFS answers

    monkeypatch.setattr("fedcell.core.files.locks.fcntl.flock", none)
    with aside(tmp_path / "a.json") as mine:
        asides._swept.clear()
        with aside(tmp_path / "b.json"):
            assert mine.exists()
    with locked(tmp_path / ".lock", "it"):
        pass


def test_an_interrupt_while_a_line_is_written_leaves_no_hole(tmp_path, monkeypatch):
    """SIGTERM comes most likely in an fsync, which takes longest."""
    checkpoint, history, fsync = Checkpoint(tmp_path), History.none(), os.fsync
    model = np.zeros(3, np.float32)
    for i in range(4):
        history = history.with_round(0, Scores(1.0 / (i + 1)))
        if i == 2:
            monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                checkpoint.save(State(model, history, model, deliver="last"))
            monkeypatch.setattr(os, "fsync", fsync)
        else:
            checkpoint.save(State(model, history, model, deliver="last"))
    checkpoint.finish(State(model, history, model, deliver="last"))
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["round", "1", "2", "3", "4"]
    again = Checkpoint.load(tmp_path, State(model, History.none(), model, deliver="last"), 10).state
    assert again is not None
    assert again.history.train_loss.tolist() == [1.0, 1 / 2, 1 / 3, 1 / 4]
