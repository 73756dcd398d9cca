"""Trackers, each read back with what it is read with; a tracker that fails, or is not there."""

import json
import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedcell import FedcellWarning, Observer, Scenario, run
from fedcell.errors import BadInput
from fedcell.simulation import trackers as track
from fedcell.simulation.trackers import TRACKER_GROUP, Tracker, check_tracker, measures
from support.plugins import install_package

SCENARIO = Scenario().using(
    clients={"count": 6},
    plan={"cohort": 3, "local_steps": 2, "rounds": 5},
    learning={"model": "quadratic-apart", "evaluate_every": 2},
)
EVALUATED = [2, 4, 5]


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """Nothing is sent anywhere, and what trackers write goes to a folder of the test."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(tmp_path),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def tracked(where):
    with Tracker(where, "first", {"seed": 0, "cohort": 3}) as report:
        return run(SCENARIO, ["even", "optimal"], observer=Observer(round=report))


def expected(result):
    """What is to be found, by name: (round, value)."""
    ledger = result.ledgers["even"]
    found = {"train_loss": [(t, ledger.train_loss[t - 1]) for t in EVALUATED]}
    found["received"] = list(enumerate(ledger.received.tolist(), 1))
    for name, each in result.ledgers.items():
        found[f"total_duration/{name}"] = list(enumerate(each.total_duration.tolist(), 1))
        found[f"total_energy/{name}"] = list(enumerate(each.total_energy.tolist(), 1))
    return found


def test_unknown_values_of_a_round_are_not_logged():
    said = []
    result = run(SCENARIO, ["even"], observer=Observer(round=said.append))
    told = [measures(report) for report in said]
    assert [t for t, values in enumerate(told, 1) if "train_loss" in values] == EVALUATED
    assert not any("accuracy" in values or "test_loss" in values for values in told)
    assert told[-1]["total_energy/even"] == result.ledgers["even"].total_energy[-1]


# Each with its own reader. MLflow and W&B import modules that warn.


def event_records(file):
    """The records of a file of TensorBoard: a length, its checksum, the record, its checksum."""
    content, at = file.read_bytes(), 0
    while at < len(content):
        (length,) = struct.unpack("<Q", content[at : at + 8])
        yield content[at + 12 : at + 12 + length]
        at += 16 + length
    assert at == len(content)


@pytest.mark.extras
def test_tensorboard_has_every_round_at_its_simulated_second(offline):
    pytest.importorskip("tensorboardX", reason="the extra `tensorboard` is not installed")
    from tensorboardX.proto.event_pb2 import Event

    result = tracked("tensorboard:logs")
    (file,) = (offline / "logs" / "first").glob("events*")
    points: dict[str, list[tuple[int, float]]] = {}
    clock = {}
    for record in event_records(file):
        event = Event.FromString(record)
        for value in event.summary.value:
            if value.HasField("simple_value"):
                points.setdefault(value.tag, []).append((event.step, value.simple_value))
                clock[event.step] = event.wall_time
    for name, values in expected(result).items():
        assert [t for t, _ in points[name]] == [t for t, _ in values]
        assert [v for _, v in points[name]] == pytest.approx([v for _, v in values], rel=1e-6)
    assert list(clock.values()) == result.ledgers["even"].total_duration.tolist()


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_mlflow_may_use_a_folder_and_the_environment_stays(offline, monkeypatch):
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    import mlflow.tracking  # noqa: F401  # it may set variables of its own

    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    before = dict(os.environ)
    tracked("mlflow:store")
    assert dict(os.environ) == before
    assert list((offline / "store").glob("*/*/metrics/train_loss"))


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_every_round(offline):
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    from mlflow.tracking import MlflowClient

    result = tracked("mlflow:store")
    client = MlflowClient((offline / "store").as_uri())
    experiment = client.get_experiment_by_name("fedcell")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    assert found.data.params == {"seed": "0", "cohort": "3"}
    for name, values in expected(result).items():
        history = client.get_metric_history(found.info.run_id, name)
        assert [(m.step, m.value) for m in history] == values
    assert set(os.listdir(offline)) == {"store"}


def log_records(file):
    """The records of a file of W&B: blocks of 32 kB, in them checksum, length and kind before each
    part of a record; kinds 1 and 4 end one."""
    content, at, record = file.read_bytes(), 7, b""
    assert content.startswith(b":W&B")
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        record += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_has_every_round(offline):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    from wandb.proto.wandb_internal_pb2 import Record

    result = tracked("wandb:mine")
    (file,) = (offline / "wandb").glob("offline-run-*/run-*.wandb")
    rows, project = [], ""
    for content in log_records(file):
        record = Record.FromString(content)
        if record.WhichOneof("record_type") == "run":
            project = record.run.project or project  # a later record may leave it out
        if record.WhichOneof("record_type") == "history":
            keys = {".".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
            rows.append({key: json.loads(value) for key, value in keys.items()})
    assert project == "mine"
    assert [row["_step"] for row in rows] == [row["round"] for row in rows] == [1, 2, 3, 4, 5]
    for name, values in expected(result).items():
        assert [(row["_step"], row[name]) for row in rows if name in row] == values


# What goes wrong.


def broken(at):
    def tell(*_):
        if at == "begin":
            raise ConnectionError("no\nnetwork")
        while True:
            report = yield
            if at == report.round:
                raise ConnectionError("no\nnetwork")

    return tell


@pytest.mark.parametrize("at", ["begin", 1, 3])
def test_a_tracker_that_fails_is_named_once_and_the_run_continues(monkeypatch, at):
    monkeypatch.setattr(track, "TRACKERS", {"mine": ("json", broken(at))})
    message = "mine: logging stopped: ConnectionError: no$"
    with pytest.warns(FedcellWarning, match=message) as said, Tracker("mine") as report:
        result = run(SCENARIO, ["even"], observer=Observer(round=report))
    assert len(said) == 1
    assert result.complete
    assert result.state.rounds == 5


def test_a_tracker_that_fails_when_it_is_closed_does_not_fail_the_run(monkeypatch):
    def tell(*_):
        try:
            while True:
                yield
        finally:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(track, "TRACKERS", {"mine": ("json", tell)})
    tracker = Tracker("mine")
    run(SCENARIO, ["even"], observer=Observer(round=tracker))
    with pytest.warns(FedcellWarning, match="No space left on device"):
        tracker.close()
    tracker.close()  # it is over


def test_a_tracker_begins_with_the_first_round(monkeypatch):
    begun = []

    def tell(where, name, about):
        begun.append((where, name, about))
        while True:
            yield

    monkeypatch.setattr(track, "TRACKERS", {"mine": ("json", tell)})
    with Tracker("mine:a:b", "first", {"seed": 3}) as report:
        assert not begun
        run(SCENARIO, ["even"], observer=Observer(round=report))
    assert begun == [("a:b", "first", {"seed": 3})]


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_before_the_run_begins(fedcell, kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, track.TRACKERS[kind][0], None)
    said = fedcell("run", "digits", "--track", f"{kind}:there")
    assert (said.code, said.out) == (2, "")
    words = "needs a package that is not installed: pip install"
    assert said.err == f"fedcell: --track = {kind}:there {words} 'fedcell[{kind}]'\n"
    assert not list(tmp_path.iterdir())


def test_an_unknown_tracker_is_refused(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fedcell("run", "digits", "--track", "excel")
    words = "--track = excel: expected one of tensorboard, mlflow, wandb, as in tensorboard:folder"
    assert (said.code, said.err) == (2, f"fedcell: {words}\n")
    with pytest.raises(BadInput, match="`track` = excel"):
        Tracker("excel")


@pytest.mark.filterwarnings("default")
def test_the_command_logs_each_seed_and_notes_a_failure(fedcell, monkeypatch, tmp_path):
    said = []

    def tell(_, name, about):
        while True:
            report = yield
            said.append(SimpleNamespace(name=name, about=about, round=report.round))
            if name == "o/seed1" and report.round == 2:
                raise ValueError("enough")

    monkeypatch.setattr(track, "TRACKERS", {"mine": ("json", tell)})
    monkeypatch.chdir(tmp_path)
    Path("w.json").write_text(
        json.dumps(
            {
                "clients": {"count": 6},
                "plan": {"cohort": 3, "local_steps": 2, "rounds": 4},
                "learning": {"model": "quadratic-apart"},
            }
        )
    )
    words = ["run", "w.json", "--policy", "even", "--track", "mine"]
    answer = fedcell(*words, "--seeds", 2, "--out", "o")
    assert answer.code == 0
    assert answer.err == "fedcell: note: mine: logging stopped: ValueError: enough\n"
    rounds = {name: [s.round for s in said if s.name == name] for name in ("o/seed0", "o/seed1")}
    assert rounds == {"o/seed0": [1, 2, 3, 4], "o/seed1": [1, 2]}
    assert {s.about["seed"] for s in said} == {0, 1}
    assert said[0].about["cohort"] == 3
    refused = fedcell(*words, "--seeds", 2, "--workers", 2, "--out", "p")
    assert (refused.code, "--track and --workers" in refused.err) == (2, True)


# Backends of other packages.

CODE = """
def log_lines(where, name, about):
    with open(where, "a") as file:
        print(name, about["seed"], file=file)
        while True:
            report = yield
            print(report.round, file=file)

number = 5
"""
POINTS = {
    "lines": "tracker_plugin:log_lines",
    "wandb": "tracker_plugin:log_lines",
    "lost": "tracker_plugin:lost",
    "number": "tracker_plugin:number",
}


@pytest.fixture
def _plugin(tmp_path, monkeypatch):
    install_package(tmp_path, monkeypatch, "tracker_plugin", CODE, {TRACKER_GROUP: POINTS})


@pytest.mark.usefixtures("_plugin")
def test_an_installed_package_adds_a_tracker(tmp_path):
    with Tracker(f"lines:{tmp_path / 'log'}", "first", {"seed": 3}) as report:
        run(SCENARIO, ["even"], observer=Observer(round=report))
    assert (tmp_path / "log").read_text() == "first 3\n1\n2\n3\n4\n5\n"


@pytest.mark.usefixtures("_plugin")
def test_a_package_cannot_replace_a_built_in_tracker(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(BadInput, match=r"pip install 'fedcell\[wandb\]'"):
        Tracker("wandb")


@pytest.mark.usefixtures("_plugin")
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("lost:x", "lost = 'tracker_plugin:lost' of fedcell.trackers, in tracker_plugin, cannot"),
        ("number", "the tracker number is a int: expected a function"),
        ("excel", "expected one of tensorboard, mlflow, wandb, lines, lost, number, as in"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_in_one_sentence(where, message):
    with pytest.raises(BadInput, match=message) as caught:
        Tracker(where)
    assert len(caught.value.faults) == 1


def test_packages_are_not_searched_for_built_in_trackers(monkeypatch):
    def refuse(group):
        raise AssertionError(group)

    monkeypatch.setattr(track, "plugin_names", refuse)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace())
    Tracker("mlflow")


def test_check_tracker_passes_a_sound_backend_and_names_the_fault_of_others(tmp_path):
    def sound(where, name, about):
        while True:
            report = yield
            (tmp_path / name).write_text(f"{where} {about['seed']} {report.round}")

    def ends(*_):
        yield

    def answers(*_):
        while True:
            yield 3

    def stays(*_):
        try:
            while True:
                yield
        except GeneratorExit:
            yield

    def no_generator(*_):
        return print

    check_tracker(sound, "here")
    assert (tmp_path / "check-4").read_text() == "here 0 4"
    for backend, message in [
        (ends, "ended before it was closed"),
        (answers, "yields values"),
        (stays, "does not end when it is closed"),
        (no_generator, "not a generator"),
    ]:
        with pytest.raises(AssertionError, match=message):
            check_tracker(backend)
