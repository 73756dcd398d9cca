"""Pipes in place of files: each is refused in one sentence, and none is waited for."""

import gzip
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from inspect import unwrap
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from fedcell import Learning, RoundPlan, Scenario, run, save_scenario
from fedcell.cli.commands import COMMANDS
from fedcell.cli.main import load_command
from fedcell.core.files.formats import append_text, read_text
from fedcell.core.files.regular import NO_LINKS, open_handle, open_regular
from fedcell.deploy.exchanges import COLUMNS as EXCHANGE_COLUMNS
from fedcell.deploy.exchanges import EXCHANGES
from fedcell.errors import BadFile
from fedcell.experiments.store import TIMES, Store
from fedcell.experiments.training import Curve
from fedcell.simulation.folder.load import load_run

PATIENCE = 20  # [s] after which a command hangs
WORLD = Scenario(learning=Learning(model="quadratic-apart"), plan=RoundPlan(rounds=3))

# What stands for each file that a command takes: "pipe" is the pipe. Suffixes are those that the
# command asks for. A folder is one by its own check, and is tried here as well.
PATHS: dict[tuple[str, str], list[str]] = {
    ("demo", "folder"): ["demo", "--out", "pipe"],
    ("devices", "own_file"): ["devices", "--file", "pipe.toml"],
    ("fit-device", "measurements"): ["fit-device", "pipe"],
    ("fit-device", "out_path"): ["fit-device", "measured.csv", "--out", "pipe.toml"],
    ("fit-device", "figure"): ["fit-device", "measured.csv", "--figure", "pipe.png"],
    ("partition", "figure"): ["partition", "digits", "--figure", "pipe.png"],
    ("partition", "data_dir"): ["partition", "mnist", "--data-dir", "pipe"],
    ("data", "out_path"): ["data", "watch", "--out", "pipe.npz"],
    ("pilot", "out_path"): ["pilot", "world.toml", "--out", "pipe.json"],
    ("pilot", "figure"): ["pilot", "world.toml", "--figure", "pipe.png"],
    ("pilot", "data_dir"): ["pilot", "mnist", "--data-dir", "pipe"],
    ("pilot", "store"): ["pilot", "world.toml", "--store", "pipe"],
    ("plan", "pilot"): ["plan", "world.toml", "--pilot", "pipe"],
    ("plan", "out_path"): ["plan", "world.toml", "--mixing", "9", "--out", "pipe.json"],
    ("plan", "figure"): ["plan", "world.toml", "--mixing", "9", "--figure", "pipe.png"],
    ("plan", "data_dir"): [
        *("plan", "mnist", "--mixing", "9", "--drift", "1", "--start", "9"),
        *("--data-dir", "pipe"),
    ],
    ("run", "plan"): ["run", "world.toml", "--plan", "pipe"],
    ("run", "pilot"): ["run", "world.toml", "--adaptive", "--target-loss", "1", "--pilot", "pipe"],
    ("run", "folder"): ["run", "world.toml", "--out", "pipe"],
    ("run", "data_dir"): ["run", "mnist", "--data-dir", "pipe"],
    ("runs", "folders"): ["runs", "pipe"],
    ("export", "folder"): ["export", "pipe", "--out", "model.npz"],
    ("export", "out_path"): ["export", "done", "--out", "pipe.npz"],
    ("deploy", "plan"): ["deploy", "world.toml", "--plan", "pipe"],
    ("deploy", "pilot_out"): ["deploy", "world.toml", "--devices", "2", "--pilot", "pipe.json"],
    ("deploy", "folder"): ["deploy", "world.toml", "--devices", "2", "--out", "pipe"],
    ("deploy", "write"): ["deploy", "world.toml", "--app", "pipe"],
    ("deploy", "data_dir"): ["deploy", "mnist", "--devices", "2", "--data-dir", "pipe"],
    ("exchanges", "folder"): ["exchanges", "pipe"],
    ("exchanges", "figure"): ["exchanges", "done", "--figure", "pipe.png"],
    ("testbed", "folder"): ["testbed", "world.toml", "--devices", "2", "--out", "pipe"],
    ("testbed", "figure"): ["testbed", "world.toml", "--figure", "pipe.png"],
    ("testbed", "data_dir"): ["testbed", "mnist", "--devices", "2", "--data-dir", "pipe"],
    ("cost", "figure"): ["cost", "world.toml", "--figure", "pipe.png"],
    ("cost", "data_dir"): ["cost", "mnist", "--data-dir", "pipe"],
    ("schedule", "plan"): ["schedule", "world.toml", "--plan", "pipe"],
    ("schedule", "figure"): ["schedule", "world.toml", "--figure", "pipe.png"],
    ("schedule", "data_dir"): ["schedule", "mnist", "--data-dir", "pipe"],
    ("validate", "pilot"): ["validate", "world.toml", "--pilot", "pipe"],
    ("validate", "out_path"): ["validate", "world.toml", "--pilot", "none", "--out", "pipe.json"],
    ("validate", "figure"): ["validate", "world.toml", "--pilot", "none", "--figure", "pipe.png"],
    ("validate", "data_dir"): ["validate", "mnist", "--pilot", "pipe", "--data-dir", "pipe"],
    ("validate", "store"): ["validate", "world.toml", "--pilot", "none", "--store", "pipe"],
    ("sweep", "file"): ["sweep", "pipe"],
    ("sweep", "folder"): ["sweep", "sweep.toml", "--out", "pipe"],
    ("sweep", "store"): ["sweep", "sweep.toml", "--store", "pipe"],
    ("sweep", "figure"): ["sweep", "sweep.toml", "--figure", "pipe.png"],
    ("sweep", "data_dir"): ["sweep", "mnist.toml", "--workers", "1", "--data-dir", "pipe"],
    ("compare", "folder"): [
        *("compare", "world.toml", "--select", "uniform", "--target-loss", "9", "--out", "pipe"),
    ],
    ("compare", "store"): [
        *("compare", "world.toml", "--select", "uniform", "--target-loss", "9", "--store", "pipe"),
    ],
    ("compare", "figure"): [
        *("compare", "world.toml", "--select", "uniform", "--figure", "pipe.png"),
    ],
    ("compare", "data_dir"): ["compare", "mnist", "--select", "uniform", "--data-dir", "pipe"],
    ("studio", "pilot"): ["studio", "world.toml", "--pilot", "pipe", "--no-browser"],
    ("studio", "data_dir"): ["studio", "mnist", "--data-dir", "pipe", "--no-browser"],
    ("reproduce", "folder"): ["reproduce", "fig3a", "--out", "pipe"],
    ("reproduce", "store"): ["reproduce", "fig3a", "--store", "pipe"],
    ("reproduce", "data_dir"): [
        *("reproduce", "fig3a", "--seeds", "1", "--workers", "1", "--data-dir", "pipe"),
    ],
    ("figure", "folder"): ["figure", "pipe"],
    ("figure", "out_path"): ["figure", "done", "--out", "pipe.png"],
    ("constants", "figure"): ["constants", "world.toml", "--figure", "pipe.png"],
    ("constants", "data_dir"): ["constants", "mnist", "--data-dir", "pipe"],
}
SCENARIOS = ["partition", "pilot", "plan", "run", "deploy", "testbed", "cost", "schedule"]
SCENARIOS += ["constants"]


@pytest.fixture
def patient() -> Iterator[None]:
    """A command that waits for ever fails its test: the signal interrupts the call it waits in."""

    def stop(*_: object) -> None:
        pytest.fail(f"it has waited for {PATIENCE} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("runs") / "done"
    run(WORLD, ["even"], folder=folder)
    (folder / EXCHANGES).write_text(",".join(EXCHANGE_COLUMNS) + "\n")
    return folder


@pytest.fixture
def place(tmp_path, done, monkeypatch, patient):  # noqa: ARG001
    """A folder with a scenario, an experiment, a run, and pipes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    save_scenario(WORLD, "world.toml")
    for name in ("world.toml", "mnist"):
        text = f'scenario = "{name}"\nseeds = 1\nplan.cohort = [2, 3]\n'
        Path("sweep.toml" if name == "world.toml" else "mnist.toml").write_text(text)
    shutil.copytree(done, "done")
    Path("measured.csv").write_text("clock_ghz,watts\n1.0,4.0\n1.5,5.0\n2.0,7.0\n2.5,9.0\n")
    for name in ("pipe", "pipe.png", "pipe.json", "pipe.npz", "pipe.toml"):
        os.mkfifo(name)
    return tmp_path


def refused(said) -> str:
    assert said.code == 2, said
    assert "Traceback" not in said.err
    # Data that is missing is named, and so is what a testbed lacks.
    assert any(word in said.err for word in ("pipe", "mnist", "testbed")), said.err
    return said.err


@pytest.mark.parametrize("words", PATHS.values(), ids=map(" ".join, PATHS))
@pytest.mark.usefixtures("place")
def test_a_pipe_for_an_option_is_refused(fedcell, words):
    refused(fedcell(*words))
    assert all(Path(name).is_fifo() for name in ("pipe", "pipe.png", "pipe.json", "pipe.npz"))


def holds_path(kind: Any) -> bool:
    """Whether an annotation is a path, or has one in it."""
    return kind is Path or any(map(holds_path, get_args(kind)))


def test_every_path_that_a_command_takes_is_tried():
    taken = {
        (name, parameter)
        for name in COMMANDS
        for parameter, kind in get_type_hints(unwrap(load_command(name).callback)).items()
        if holds_path(kind)
    }
    assert taken == set(PATHS)


@pytest.mark.parametrize("command", SCENARIOS)
@pytest.mark.usefixtures("place")
def test_a_pipe_for_a_scenario_is_refused(fedcell, command):
    assert "pipe: cannot be read: it is a pipe: save what it holds as a file, and name that" in (
        refused(fedcell(command, "pipe"))
    )


@pytest.mark.parametrize(
    "tables",
    [
        "[clients]\ntable = 'pipe'",
        "[cell]\ngains = 'pipe'",
        "[cell]\ngains = 'pipe.npy'",
        "[cell]\ngains = 'pipe.csv.gz'",
        "[learning]\ndataset = 'pipe.npz'",
        "[learning]\ndataset = 'digits'\npartition.owners = 'pipe'",
    ],
)
@pytest.mark.usefixtures("place")
def test_a_pipe_that_a_scenario_names_is_refused(fedcell, tables):
    for name in ("pipe.npy", "pipe.csv.gz"):
        os.mkfifo(name)
    Path("mine.toml").write_text(tables)
    assert "it is a pipe" in refused(fedcell("run", "mine.toml", "--rounds", "1"))


FILES = ["run.json", "scenario.json", "checkpoint.npz", "history.csv", "ledger.csv"]
FILES += ["clients.csv", "summary.json", EXCHANGES, ".lock"]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    "words",
    [
        ["runs", "done"],
        ["export", "done", "--out", "model.npz"],
        ["exchanges", "done"],
        ["run", "world.toml", "--out", "done", "--resume", "--rounds", "4", "--policy", "even"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("place")
def test_a_pipe_in_the_folder_of_a_run_is_not_waited_for(fedcell, words, file):
    path = Path("done") / file
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    said = fedcell(*words)
    assert said.code in (0, 2)
    assert "Traceback" not in said.err


@pytest.mark.parametrize("file", ["experiment.json", "runs.csv"])
@pytest.mark.usefixtures("place")
def test_a_pipe_in_the_folder_of_a_sweep_is_refused(fedcell, file):
    assert fedcell("sweep", "sweep.toml", "--workers", "1").code == 0
    path = Path("sweep-sweep") / file
    path.unlink()
    os.mkfifo(path)
    assert "it is a pipe" in refused(fedcell("figure", "sweep-sweep"))


@pytest.mark.parametrize(
    ("ending", "read"),
    [
        ("", lambda store: store.get("ab12", 0)),
        ("-failed", lambda store: store.failure("ab12")),
        ("-gradients", lambda store: store.kept("gradients", "ab12")),
    ],
)
def test_a_pipe_in_a_store_is_refused(place, ending, read):
    store = Store(place / "store")
    path = store.folder / "ab" / f"ab12{ending}.json"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(BadFile, match="it is a pipe"):
        read(store)


def test_times_of_trainings_go_to_a_file_and_not_through_a_link(place):
    store, mine = Store(place / "store"), place / "mine.txt"
    store.put(Curve(key="ab12", seed=0, train_loss=(1.0,)), 2.5)
    assert store.seconds(["ab12"]) == 2.5
    times = store.folder / TIMES
    times.unlink()
    mine.write_text("mine\n")
    times.symlink_to(mine)
    with pytest.raises(BadFile, match=r"times\.csv: cannot be written: it is a link"):
        store.put(Curve(key="ab13", seed=0, train_loss=(1.0,)), 2.5)
    assert mine.read_text() == "mine\n"
    assert store.get("ab13", 0) is not None
    times.unlink()
    os.mkfifo(times)
    for use in (
        lambda: store.put(Curve(key="ab13", seed=0, train_loss=(1.0,)), 1.0),
        lambda: store.seconds(["ab12"]),
    ):
        with pytest.raises(BadFile, match="it is a pipe"):
            use()


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_for_published_data_is_not_waited_for(fedcell, place, packed):
    name = "train-images-idx3-ubyte" + (".gz" if packed else "")
    path = place / "data" / "mnist" / name
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert "mnist" in refused(fedcell("run", "mnist", "--data-dir", "data"))


def test_what_is_opened_is_a_regular_file(place):
    with pytest.raises(OSError, match="it is a pipe"):
        open_regular(Path("pipe"))
    with pytest.raises(OSError, match="it is a device"):
        open_regular(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        open_regular(place)
    with pytest.raises(BadFile, match="it is a pipe"):
        append_text(Path("pipe"), "a\n")  # the pipe has no reader
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BadFile, match="it is a pipe"):
        append_text(Path("pipe"), "a\n")
    assert os.read(reader, 10) == b""
    os.close(reader)
    Path("link").symlink_to("world.toml")
    assert read_text(Path("link")) == read_text(Path("world.toml"))  # links are read through,
    with pytest.raises(OSError, match="it is a link"):  # and not written through
        open_handle(Path("link"), os.O_WRONLY | NO_LINKS)


@pytest.mark.usefixtures("place")
def test_a_socket_is_refused():
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")  # relative: the name of one is short
        with pytest.raises(BadFile, match="socket: cannot be read: it is a socket"):
            read_text(Path("socket"))


@pytest.mark.usefixtures("place")
def test_measured_gains_are_read_as_before(fedcell):
    Path("gains.csv").write_text("1e-9,2e-9\n3e-9,4e-9\n")
    Path("gains.csv.gz").write_bytes(gzip.compress(Path("gains.csv").read_bytes()))
    costs = []
    for name in ("gains.csv", "gains.csv.gz"):
        Path("mine.toml").write_text(
            f"[cell]\ngains = '{name}'\n[clients]\ncount = 2\n[plan]\ncohort = 1\n"
        )
        said = fedcell("cost", "mine.toml", "--policy", "even", "--json")
        assert said.code == 0, said.err
        costs.append(said.out)
    assert costs[0] == costs[1]


@pytest.mark.usefixtures("place")
def test_a_run_is_read_from_its_folder_as_before():
    assert load_run("done").state.rounds == 3
