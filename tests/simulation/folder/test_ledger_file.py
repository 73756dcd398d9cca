"""ledger.csv grows round by round, survives kills, and keeps the policies of its run."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedcell import Observer, load_run, run
from fedcell.core.files.locks import locked
from fedcell.errors import BadFile
from fedcell.policies import Optimal
from fedcell.simulation.folder.ledger_file import read_ledgers
from fedcell.simulation.summary import RoundReport
from support.runs import SCENARIO, WORLD, assert_same, held, rows_of
from support.sealing import unseal


def test_a_round_is_in_the_ledger_as_soon_as_it_is_reported(tmp_path):
    seen = []

    def look(report: RoundReport) -> None:
        rows = rows_of(tmp_path / "o")
        seen.append([(row["policy"], int(row["round"])) for row in rows])
        assert float(rows[-1]["train_loss"]) == report.train_loss
        assert float(rows[-1]["total_energy"]) == report.total_energy["optimal"]

    run(SCENARIO, ["even", "optimal"], folder=tmp_path / "o", observer=Observer(round=look))
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
import csv, pathlib, sys
folder, last = pathlib.Path(sys.argv[1]), 0
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
    if len(rows) > last:
        last = len(rows)
        print(last, flush=True)
"""


def test_a_reader_meanwhile_sees_whole_lines_and_never_fewer(tmp_path):
    """The run waits for the reader every ten rounds, so that it reads often on any machine."""
    command = [sys.executable, "-c", READER, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as reader:
        assert reader.stdout is not None
        seen = reader.stdout

        def wait(report: RoundReport) -> None:
            if report.round % 10 == 0:
                while int(seen.readline() or 10**9) < 1 + 2 * report.round:
                    pass

        run(
            SCENARIO,
            ["even", "optimal"],
            rounds=150,
            folder=tmp_path / "o",
            observer=Observer(round=wait),
        )
        again = {"rounds": 300, "folder": tmp_path / "o", "resume": True}
        run(SCENARIO, ["even", "optimal"], **again, observer=Observer(round=wait))
        (tmp_path / "stop").touch()
        _, err = reader.communicate(timeout=300)
    assert (reader.returncode, err) == (0, "")


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
def test_a_kill_within_a_line_of_the_ledger_resumes_to_the_same_bytes(tmp_path):
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
        *(
            pytest.param(name, harm, marks=pytest.mark.long)  # read again and cut to what is whole
            for name, harm in (
                ("history.csv", overwrite),
                ("history.csv", cut),
                ("ledger.csv", cut),
            )
        ),
        ("", shutil.rmtree),
        (".lock", Path.unlink),
    ],
)
def test_files_that_are_removed_during_a_run_are_written_again(tmp_path, name, harm, rounds):
    """A run that is killed right after the next round can be read and resumed, too."""
    folder, straight = tmp_path / "o", tmp_path / "straight"
    whole = run(SCENARIO, ["even"], folder=straight)

    def disturb(report: RoundReport) -> None:
        if report.round - 1 in rounds:
            shutil.copytree(folder, tmp_path / f"killed-{report.round}")
        if report.round in rounds and (folder / name).exists():
            harm(folder / name)

    assert_same(run(SCENARIO, ["even"], folder=folder, observer=Observer(round=disturb)), whole)
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
        run(SCENARIO, ["even"], folder=folder, observer=Observer(round=steal))
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


def test_a_custom_policy_is_required_when_its_run_is_resumed(tmp_path):
    folder = tmp_path / "o"
    run(SCENARIO, {"mine": mine, "even": "even"}, rounds=5, folder=folder)
    before = held(folder)
    with pytest.raises(
        BadFile, match="was priced under mine before, which is not built in: name it, too"
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
