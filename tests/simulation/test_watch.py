"""Runs that are looked at while they are under way: reports, a ledger that grows, other policies
added later, and the result back out of the folder."""

import csv
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fedcell import (
    BadFile,
    BadInput,
    FedcellWarning,
    Optimal,
    Scenario,
    draw_fleet,
    draw_trace,
    load_run,
    load_scenario,
    prepare_training,
    run,
    simulate,
)
from fedcell.core.files.formats import as_json
from fedcell.core.files.locks import locked
from fedcell.simulation.folder.ledger_file import read_ledgers
from fedcell.simulation.summary import RoundReport, RunResult
from fedcell.simulation.train import train_rounds
from support.sealing import rewrite, unseal

WORLD = {
    "cell": {"loss_rate": 0.2},
    "clients": {"count": 6},
    "plan": {"cohort": 3, "local_steps": 2, "rounds": 8},
    "learning": {"model": "quadratic-apart", "target": 1e-9},
}
SCENARIO = Scenario().using(**WORLD)
MAIN = "from fedcell.cli.main import main; main()"


def rows_of(folder: Path) -> list[dict[str, str]]:
    """ledger.csv as any reader of CSV has it."""
    with (folder / "ledger.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def held(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def assert_same(found: RunResult, result: RunResult) -> None:
    """All values agree to the bit."""
    assert as_json(found.to_dict()) == as_json(result.to_dict())
    assert repr(found.outcome) == repr(result.outcome)
    assert list(found.ledgers) == list(result.ledgers)
    for name, ledger in result.ledgers.items():
        mine = found.ledgers[name]
        pairs = [(mine.columns()[n], column) for n, column in ledger.columns().items()]
        pairs += [(getattr(mine.totals, n), total) for n, total in vars(ledger.totals).items()]
        for one, other in pairs:
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()
    assert found.state.model.tobytes() == result.state.model.tobytes()
    assert found.state.average.tobytes() == result.state.average.tobytes()
    for name, column in result.state.history.columns().items():
        assert found.state.history.columns()[name].tobytes() == column.tobytes()


# Reports.


def test_a_report_of_each_round_says_what_the_ledgers_say_in_the_end():
    said: list[RoundReport] = []
    result = run(SCENARIO, ["even", "optimal"], report=said.append)
    ledger = result.ledgers["even"]
    assert [report.round for report in said] == list(range(1, 9))
    assert {report.rounds for report in said} == {8}
    assert [report.train_loss for report in said] == ledger.train_loss.tolist()
    assert [report.received for report in said] == ledger.received.tolist()
    assert all(math.isnan(report.accuracy) for report in said)  # quadratics have no test data
    for name, each in result.ledgers.items():
        assert [report.total_duration[name] for report in said] == each.total_duration.tolist()
        assert [report.total_energy[name] for report in said] == each.total_energy.tolist()
    assert "state" not in repr(said[0])


def test_a_training_without_a_folder_reports_and_is_gone_on_with():
    setup, said = prepare_training(SCENARIO), []
    whole = simulate(setup.scenario, "even", setup.learner(), report=said.append)
    assert list(said[2].total_energy) == ["even"]
    assert said[-1].total_duration["even"] == whole.total_duration[-1]
    again = simulate(setup.scenario, "even", setup.learner(), state=said[2].state)
    assert again.train_loss.tolist() == whole.train_loss.tolist()


# A ledger that grows.


def test_a_round_is_in_the_ledger_as_soon_as_it_is_reported(tmp_path):
    seen = []

    def look(report: RoundReport) -> None:
        rows = rows_of(tmp_path / "o")
        seen.append([(row["policy"], int(row["round"])) for row in rows])
        assert float(rows[-1]["train_loss"]) == report.train_loss
        assert float(rows[-1]["total_energy"]) == report.total_energy["optimal"]

    run(SCENARIO, ["even", "optimal"], folder=tmp_path / "o", report=look)
    expected = [(name, t) for t in range(1, 9) for name in ("even", "optimal")]
    assert seen == [expected[: 2 * t] for t in range(1, 9)]


def test_the_growing_ledger_ends_as_the_ledgers_do(tmp_path):
    result = run(SCENARIO, ["even", "optimal"], folder=tmp_path / "o")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(result.ledgers["even"].columns())
    writer.writerow(["policy", "round", *names])
    unseal(tmp_path / "o" / "ledger.csv")
    for t in range(8):
        for name, ledger in result.ledgers.items():
            writer.writerow([name, t + 1, *(ledger.columns()[n][t].item() for n in names)])
    assert (tmp_path / "o" / "ledger.csv").read_text() == text.getvalue()


READER = """
import csv, pathlib, sys, time
folder, last, looks = pathlib.Path(sys.argv[1]), -1, 0
while not (folder / "stop").exists():
    try:
        text = (folder / "o" / "ledger.csv").read_text()
    except FileNotFoundError:
        continue
    lines = text[: text.rfind("\\n") + 1].splitlines()
    rows = list(csv.reader(lines))
    assert all(len(row) == len(rows[0]) and row[-1] for row in rows), rows[-1]
    assert [int(row[1]) for row in rows[1:]] == [1 + i // 2 for i in range(len(rows) - 1)]
    assert len(rows) >= last, "lines were lost"
    looks, last = looks + (len(rows) > last), len(rows)
print(looks, last)
"""


def test_whoever_reads_meanwhile_sees_whole_lines_and_never_fewer(tmp_path):
    command = [sys.executable, "-c", READER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        run(SCENARIO, ["even", "optimal"], rounds=300, folder=tmp_path / "o")
        run(SCENARIO, ["even", "optimal"], rounds=600, folder=tmp_path / "o", resume=True)
        time.sleep(0.1)
        (tmp_path / "stop").touch()
        said, _ = reader.communicate(timeout=60)
    assert reader.returncode == 0
    looks, last = map(int, said.split())
    assert looks > 20
    assert last == 1 + 2 * 600


KILLED = """
import os, signal, sys
from fedcell import Scenario, run
import json
moment, folder = int(sys.argv[1]), sys.argv[2]
write, count = os.write, 0
def deadly(handle, text):
    global count
    if os.readlink(f"/proc/self/fd/{handle}").endswith("ledger.csv"):
        count += 1
        if count == moment:
            write(handle, text[: len(text) * 2 // 3])
            os.kill(os.getpid(), signal.SIGKILL)
    return write(handle, text)
os.write = deadly
run(Scenario().using(**json.loads(sys.argv[3])), ["even", "optimal"], folder=folder,
    resume=os.path.exists(folder + "/run.json"))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_killed_in_the_middle_of_a_line_of_the_ledger_and_resumed_to_the_same_bytes(tmp_path):
    def start(moment: int) -> int:
        words = [sys.executable, "-c", KILLED, str(moment), str(tmp_path / "o"), json.dumps(WORLD)]
        return subprocess.run(words, check=False, capture_output=True).returncode

    assert start(3) == -signal.SIGKILL
    assert not (tmp_path / "o" / "ledger.csv").read_bytes().endswith(b"\n")
    read = read_ledgers(tmp_path / "o")  # as far as it is whole: the third round is not
    assert {name: c["duration"].size for name, c in read.items()} == {"even": 2, "optimal": 2}
    assert load_run(tmp_path / "o").state.rounds == 2
    assert start(4) == -signal.SIGKILL  # of those that come
    assert start(-1) == 0
    result = run(SCENARIO, ["even", "optimal"], folder=tmp_path / "straight")
    assert held(tmp_path / "o") == held(tmp_path / "straight")
    assert_same(load_run(tmp_path / "o"), result)


KEPT = ["run.json", "scenario.json", "summary.json", "history.csv", "ledger.csv", "checkpoint.npz"]


def overwrite(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("rounds", [[1], [4, 5], [8]])
@pytest.mark.parametrize(
    ("name", "harm"),
    [
        *((name, Path.unlink) for name in KEPT),
        *((name, link) for name in KEPT),
        *(("history.csv", harm) for harm in (overwrite, cut)),
        ("ledger.csv", cut),
        ("", shutil.rmtree),
        (".lock", Path.unlink),
    ],
)
def test_files_that_are_removed_under_way_are_written_again(tmp_path, name, harm, rounds):
    """A run that is killed right after the next round can be read and resumed, too."""
    folder, straight = tmp_path / "o", tmp_path / "straight"
    whole = run(SCENARIO, ["even"], folder=straight)

    def disturb(report: RoundReport) -> None:
        if report.round - 1 in rounds:
            shutil.copytree(folder, tmp_path / f"killed-{report.round}")
        if report.round in rounds and (folder / name).exists():
            harm(folder / name)

    assert_same(run(SCENARIO, ["even"], folder=folder, report=disturb), whole)
    assert held(folder) == held(straight)
    for killed in tmp_path.glob("killed-*"):
        assert load_run(killed).state.rounds == int(killed.name.split("-")[1])
        assert_same(run(SCENARIO, ["even"], folder=killed, resume=True), whole)


def test_a_lock_that_was_removed_is_taken_again_or_the_run_ends(tmp_path):
    folder = tmp_path / "o"

    def steal(report: RoundReport) -> None:
        lock = folder / ".lock"
        if report.round == 3:
            lock.unlink()
        if report.round == 4:
            assert f"process {os.getpid()} " in lock.read_text()
            lock.unlink()
            stack.enter_context(locked(lock, "mine"))

    with ExitStack() as stack, pytest.raises(BadFile, match=r"another fedcell .* is using it"):
        run(SCENARIO, ["even"], folder=folder, report=steal)
    assert load_run(folder).state.rounds == 4


@pytest.mark.parametrize("spare", [100, 2000])
def test_a_full_disk_is_one_sentence_and_costs_nothing_that_was_there(tmp_path, spare):
    """No file may grow beyond a limit, as if the disk were full there."""
    resource = pytest.importorskip("resource")
    folder = tmp_path / "o"
    whole = run(SCENARIO, ["even", "optimal"], folder=tmp_path / "straight")
    run(SCENARIO, ["even", "optimal"], rounds=5, folder=folder)
    largest = max(path.stat().st_size for path in folder.iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(largest, 1500) + spare, before[1]))
    try:
        with pytest.raises(BadFile, match=r"cannot be written: File too large") as told:
            run(SCENARIO, ["even", "optimal"], folder=folder, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(told.value.faults) == 1
    assert load_run(folder).state.rounds >= 5
    assert_same(run(SCENARIO, ["even", "optimal"], folder=folder, resume=True), whole)
    assert held(folder) == held(tmp_path / "straight")


# Other policies.


def test_another_policy_is_added_and_none_is_taken_away(tmp_path):
    folder = tmp_path / "o"
    run(SCENARIO, ["optimal", "even"], rounds=5, folder=folder)
    added = run(SCENARIO, ["distributed"], folder=folder, resume=True)
    assert list(added.ledgers) == ["optimal", "even", "distributed"]
    straight = run(SCENARIO, ["optimal", "even", "distributed"], folder=tmp_path / "straight")
    assert held(folder) == held(tmp_path / "straight")
    assert_same(added, straight)
    summary = json.loads((folder / "summary.json").read_text())
    assert [row["policy"] for row in summary["policies"]] == ["optimal", "even", "distributed"]


def mine(problem):
    return Optimal()(problem)


def test_a_policy_of_ones_own_is_asked_for_when_its_run_goes_on(tmp_path):
    folder = tmp_path / "o"
    run(SCENARIO, {"mine": mine, "even": "even"}, rounds=5, folder=folder)
    before = held(folder)
    with pytest.raises(
        BadFile, match="was priced under mine before, which is not one of ours: name it, too"
    ):
        run(SCENARIO, ["even"], folder=folder, resume=True)
    assert held(folder) == before
    both = run(SCENARIO, {"mine": mine}, folder=folder, resume=True)
    assert list(both.ledgers) == ["mine", "even"]


def test_another_policy_of_the_same_name_is_refused(tmp_path):
    folder = tmp_path / "o"
    run(SCENARIO, {"even": mine}, rounds=5, folder=folder)
    before = held(folder)
    message = "was priced under another policy that is called even: give this one another name"
    for policies in (["even"], ["optimal"]):
        with pytest.raises(BadFile, match=message):
            run(SCENARIO, policies, folder=folder, resume=True)
    assert held(folder) == before


def test_the_command_keeps_what_was_priced_before(fedcell, tmp_path):
    (tmp_path / "w.json").write_text(json.dumps(WORLD))
    words = ["run", tmp_path / "w.json", "--out", tmp_path / "o", "--json"]
    assert fedcell(*words, "--policy", "optimal").code == 0
    answer = json.loads(fedcell(*words, "--policy", "even", "--resume").out)
    assert [row["policy"] for row in answer["policies"]] == ["optimal", "even"]
    assert {row["policy"] for row in rows_of(tmp_path / "o")} == {"optimal", "even"}


# No target.


def test_a_run_without_the_target_of_its_scenario(fedcell, tmp_path):
    world = WORLD | {"learning": {"model": "quadratic-apart", "target": 5.0, "hold": 1}}
    (tmp_path / "w.json").write_text(json.dumps(world))
    words = ["run", tmp_path / "w.json", "--policy", "even", "--json"]
    short = json.loads(fedcell(*words, "--out", tmp_path / "a").out)
    assert short["policies"][0]["rounds"] < 8
    for option in ("--target-loss", "--target-accuracy"):
        said = fedcell(*words, "--out", tmp_path / option, option, "none")
        answer = json.loads(said.out)
        assert (answer["target"], answer["policies"][0]["rounds"]) == (None, 8)
    more = json.loads(
        fedcell(*words, "--out", tmp_path / "a", "--resume", "--target-loss", "none").out
    )
    assert more["policies"] == answer["policies"]
    said = fedcell(*words, "--out", tmp_path / "b", "--target-loss", "none", "--hold", 3)
    assert (said.code, "--hold: there is nothing to hold" in said.err) == (2, True)
    said = fedcell(*words, "--out", tmp_path / "b", "--target-loss", "nothing")
    assert said.err == "fedcell: --target-loss = nothing: expected a number, or none\n"
    assert not (tmp_path / "b").exists()


# The result back out of its folder.


def test_who_pays_is_not_taken_from_an_end_that_was_before(tmp_path):
    """A run that is gone on with has the clients.csv of its last end until the next."""
    run(SCENARIO, ["even"], rounds=3, folder=tmp_path / "before")
    run(SCENARIO, ["even"], rounds=6, folder=tmp_path / "now")
    shutil.copy(tmp_path / "before" / "clients.csv", tmp_path / "now")
    with pytest.raises(BadFile, match=r"clients.csv: is not of the rounds of ledger.csv"):
        load_run(tmp_path / "now")
    rewrite(tmp_path / "now" / "summary.json", complete=False)
    under_way = load_run(tmp_path / "now")
    assert not under_way.complete
    assert under_way.ledgers["even"].totals.energy.size == 0
    assert under_way.ledgers["even"].rounds == 6


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("world", ["quadratic", "digits"])
def test_what_is_loaded_is_what_was_returned(tmp_path, world, every):
    scenario = SCENARIO if world == "quadratic" else load_scenario("digits")
    scenario = scenario.using(learning={"evaluate_every": every})
    result = run(scenario, ["even", "optimal"], rounds=7, target=1e-9, folder=tmp_path / "o")
    loaded = load_run(tmp_path / "o")
    assert_same(loaded, result)
    assert loaded.complete
    assert loaded.summary() == result.summary()
    assert_same(load_run(str(tmp_path / "o")), result)


def test_an_interrupted_run_is_loaded_as_far_as_it_came(tmp_path):
    def stop(report: RoundReport) -> None:
        if report.round == 4:
            raise KeyboardInterrupt

    scenario = SCENARIO.using(learning={"evaluate_every": 3})
    result = run(scenario, ["even"], folder=tmp_path / "o", report=stop)
    loaded = load_run(tmp_path / "o")
    assert_same(loaded, result)
    assert (loaded.complete, loaded.state.rounds) == (False, 4)
    ended = run(scenario, ["even"], rounds=4, folder=tmp_path / "o", resume=True)
    assert np.isfinite(ended.state.last_loss)  # evaluated out of turn, which is kept
    assert_same(load_run(tmp_path / "o"), ended)


def test_interrupted_while_a_round_is_saved_it_is_whole_all_the_same(tmp_path, monkeypatch):
    """SIGTERM comes most likely while files are brought to the disk."""
    fsync, calls = os.fsync, 0

    def interrupted(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 14:
            raise KeyboardInterrupt
        fsync(handle)

    monkeypatch.setattr(os, "fsync", interrupted)
    result = run(SCENARIO, ["even"], folder=tmp_path / "o")
    assert 0 < result.state.rounds < 8
    assert_same(load_run(tmp_path / "o"), result)


def test_a_run_under_way_is_loaded_without_who_pays(tmp_path):
    seen = []

    def look(_: RoundReport) -> None:
        seen.append(load_run(tmp_path / "o"))

    result = run(SCENARIO, ["even"], folder=tmp_path / "o", report=look)
    assert [one.state.rounds for one in seen] == list(range(1, 9))
    for t, one in enumerate(seen, 1):
        ledger = one.ledgers["even"]
        assert ledger.total_energy.tolist() == result.ledgers["even"].total_energy[:t].tolist()
        assert ledger.totals.energy.size == 0
        assert not one.complete
        assert repr(one.outcome.initial) == repr(result.outcome.initial)
        assert math.isnan(one.outcome.policies[0].highest_client_energy)
    assert "after 8 rounds: training loss" in seen[-1].summary()
    seen[-1].plot()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", None, "holds no run: expected run.json in it"),
        ("checkpoint.npz", None, "no round is done yet: go on with the run"),
        ("checkpoint.npz", b"PK", "checkpoint.npz: is damaged"),
        ("ledger.csv", b"", "ledger.csv: is damaged: delete it, and the run with `resume`"),
        ("ledger.csv", b"policy,round\neven,1\n", "ledger.csv: is damaged"),
        ("ledger.csv", "cut", "ledger.csv: has fewer rounds than checkpoint.npz: go on"),
        ("ledger.csv", "number", "ledger.csv: is damaged"),
        ("ledger.csv", "missing", "ledger.csv: is damaged"),
        ("ledger.csv", "count", "ledger.csv: is damaged"),
        ("ledger.csv", "short", "ledger.csv: is damaged"),
        ("clients.csv", b"policy,client\neven,1\n", "clients.csv: is damaged: go on"),
        ("clients.csv", b"policy\n", "clients.csv: is not of the rounds of ledger.csv"),
        ("summary.json", b"{}", "summary.json: is damaged: go on"),
        ("summary.json", b'{"policies": 3}', "summary.json: is damaged"),
        ("summary.json", None, "summary.json: cannot be read"),
        ("run.json", b'{"fedcell": "9", "format": 9}', "is a run of a newer fedcell"),
    ],
)
def test_folders_that_cannot_be_loaded_say_why(tmp_path, name, content, message):
    run(SCENARIO, ["even"], folder=tmp_path / "o")
    file = tmp_path / "o" / name
    lines = file.read_bytes().splitlines(keepends=True)
    if content is None:
        file.unlink()
    elif content == "cut":
        file.write_bytes(b"".join(lines[:-2]))
    elif content == "number":
        file.write_bytes(b"".join(lines).replace(b"even,3,", b"even,3,x"))
    elif content == "count":
        file.write_bytes(b"".join(lines).replace(b",3,3,", b",nan,3,"))
    elif content == "short":
        file.write_bytes(b"".join([*lines[:3], b"even,3\n"]))
    elif content == "missing":
        file.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    else:
        file.write_bytes(content)
    with pytest.raises(BadFile, match=message):
        load_run(tmp_path / "o")
    with pytest.raises(BadInput, match="holds no run"):
        load_run(tmp_path)


def test_a_run_is_drawn_again_from_its_folder(fedcell, tmp_path):
    run(SCENARIO, ["even"], folder=tmp_path / "o")
    said = fedcell("figure", tmp_path / "o")
    assert said.code == 0
    assert (tmp_path / "o" / "loss.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "o" / "loss.png").exists()
    said = fedcell("figure", tmp_path / "o", "--by", "energy")
    assert (said.code, "--by and --axis are for sweeps" in said.err) == (2, True)
    shutil.rmtree(tmp_path / "o")
    said = fedcell("figure", tmp_path)
    assert (said.code, "holds no sweep" in said.err) == (2, True)


def test_a_ledger_of_older_runs_is_read_in_the_order_that_it_has(tmp_path):
    """Those that were written at the end have one policy after the other."""
    result = run(SCENARIO, ["even", "optimal"], folder=tmp_path / "o")
    file = tmp_path / "o" / "ledger.csv"
    unseal(file)
    header, *lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([header, *lines[::2], *lines[1::2]]))
    with pytest.warns(FedcellWarning, match=r"o/ledger\.csv: has no checksum"):
        assert_same(load_run(tmp_path / "o"), result)


# Parts of a run.


def test_a_training_goes_on_along_a_trace_that_begins_later():
    setup = prepare_training(SCENARIO)
    world, learner = setup.scenario, setup.learner()
    fleet = draw_fleet(world)
    *_, whole = train_rounds(world, learner, fleet, draw_trace(world, fleet, 8))
    *_, half = train_rounds(world, learner, fleet, draw_trace(world, fleet, 3))
    for first in (3, 1):  # the trace may have rounds that are done already
        rest = draw_trace(world, fleet, range(first, 8))
        states = list(train_rounds(world, learner, fleet, rest, half))
        assert [state.rounds for state in states] == list(range(3, 9))
        np.testing.assert_array_equal(states[-1].model, whole.model)
        np.testing.assert_array_equal(states[-1].history.train_loss, whole.history.train_loss)


class Elsewhere:
    """Clients of which one does not answer in the second round."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.ours = prepare_training(SCENARIO.using(plan={"cohort": scenario.plan.cohort}), seed)
        self.learner = self.ours.learner()
        self.sizes, self.gone = self.learner.sizes, {}

    def start(self):
        return self.learner.start()

    def evaluate(self, model):
        return self.learner.evaluate(model)

    def train(self, model, clients, round):
        for client, upload in zip(clients, self.learner.train(model, clients, round), strict=True):
            self.gone[round] = list(clients[:1]) if round == 1 else []
            yield None if client in self.gone[round] else upload

    def missing(self, round):
        return self.gone.get(round, [])


def test_uploads_that_do_not_come_are_in_the_ledger_as_such(tmp_path):
    world = SCENARIO.using(task={"model_bits": 640.0, "cycles_per_sample": 60.0})
    ours = run(world, ["even"], rounds=4)
    theirs = run(world, ["even"], rounds=4, learner=Elsewhere, folder=tmp_path / "run")
    lost = ours.ledgers["even"].received - theirs.ledgers["even"].received
    assert lost.tolist() == [0, 1, 0, 0]
    np.testing.assert_array_equal(ours.ledgers["even"].cost, theirs.ledgers["even"].cost)
    assert [int(row["received"]) for row in rows_of(tmp_path / "run")] == theirs.ledgers[
        "even"
    ].received.tolist()
    assert theirs.ledgers["even"].totals.arrived.sum() == theirs.ledgers["even"].received.sum()
