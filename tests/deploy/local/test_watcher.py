"""A process that is killed leaves nothing behind: a watcher ends what it started, or the next."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from fedcell.deploy.local import process_tree as ending
from fedcell.deploy.local import watcher
from fedcell.deploy.local.federation import LocalFederation
from fedcell.deploy.local.process_tree import process_table, table_of_ps
from fedcell.deploy.local.processes import Processes
from fedcell.deploy.local.watcher import Record, clear_leftovers, make_scratch
from fedcell.errors import BadFile

linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
LIMIT = 120.0  # [s] for processes to begin or to end

# Starts a process, which starts another in a session of its own and without its environment, as
# one that writes a title over it; says which they are, and waits.
PARENT = """
import sys, time
from pathlib import Path
from fedcell.deploy.local.federation import LocalFederation
child = '''
import subprocess, sys, time
stray = subprocess.Popen(["sleep", "99"], env={}, start_new_session=True)
print(stray.pid, flush=True)
time.sleep(99)
'''
with LocalFederation(Path(sys.argv[1])) as federation:
    group = federation._processes
    first = group.start("first", [sys.executable, "-c", child])
    second = group.start("second", ["sleep", "99"])
    while not first.log.read_text().strip():
        time.sleep(0.01)
    stray = int(first.log.read_text())
    print(first.pid, second.pid, stray, group._watcher.pid, group._record.scratch, flush=True)
    sys.stdin.read()
"""


def lives(pid):
    """Whether a process is there, and more than a zombie."""
    return pid in process_table()


def until(done):
    """Waits for something."""
    limit = time.monotonic() + LIMIT
    while not (found := done()):
        assert time.monotonic() < limit
        time.sleep(0.02)
    return found


class Owner(subprocess.Popen):
    """A process with a federation: what it started, its watcher last, and its temporary folder."""

    pids: list[int]
    scratch: Path


@pytest.fixture
def owner(tmp_path):
    """Another process with a federation in tmp_path."""
    with Owner(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        *pids, scratch = process.stdout.readline().split()
        process.pids, process.scratch = list(map(int, pids)), Path(scratch)
        yield process
        process.kill()
    until(lambda: not any(map(lives, process.pids)))


def test_a_watcher_ends_what_a_killed_process_started(owner, tmp_path):
    assert all(map(lives, owner.pids))
    assert owner.scratch.is_dir()
    os.killpg(owner.pid, signal.SIGKILL)  # the watcher is in no group of its parent's
    until(lambda: not any(map(lives, owner.pids)))
    assert not owner.scratch.exists()
    assert not list((tmp_path / "logs").glob("started-*"))


@linux
def test_signals_do_not_end_a_watcher(owner):
    *started, watching = owner.pids
    ignored = lambda: Path(f"/proc/{watching}/status").read_text().split("SigIgn:")[1].split()[0]
    until(lambda: int(ignored(), 16) >> (signal.SIGTERM - 1) & 1)  # it has begun
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(watching, number)
    owner.kill()
    until(lambda: not any(map(lives, started)))


def test_an_end_in_order_leaves_no_watcher(owner, tmp_path):
    owner.communicate("")
    assert owner.returncode == 0
    assert not any(map(lives, owner.pids))
    assert not owner.scratch.exists()
    assert {file.name for file in (tmp_path / "logs").iterdir()} == {"first.log", "second.log"}
    assert not (tmp_path / ".lock").exists()


def test_the_next_start_clears_what_is_left_where_the_watcher_was_killed_too(owner, tmp_path):
    *started, watching = owner.pids
    with subprocess.Popen(["sleep", "99"]) as other:
        os.kill(watching, signal.SIGKILL)
        owner.kill()
        owner.wait()
        assert all(map(lives, started))
        with LocalFederation(tmp_path) as federation:
            assert federation.cleared >= set(started[:2])
            assert not any(map(lives, started))
            assert not owner.scratch.exists()
            assert other.poll() is None
        other.kill()
    with LocalFederation(tmp_path) as federation:
        assert federation.cleared == set()


def test_a_second_federation_in_a_folder_is_refused_and_the_first_continues(owner, tmp_path):
    with pytest.raises(BadFile, match=f"process {owner.pid} on {socket.gethostname()}"):
        LocalFederation(tmp_path).__enter__()
    assert all(map(lives, owner.pids))


def test_a_refused_federation_leaves_no_folder(tmp_path):
    with pytest.raises(RuntimeError), LocalFederation(tmp_path / "a" / "b"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(BadFile, match="file/b: cannot be made"):
        LocalFederation(tmp_path / "file" / "b").__enter__()


def record_of(process, mark="1-" + 32 * "a", **more):
    """A record of some process by its pid and start time."""
    table = process_table()
    started = {str(process.pid): table[process.pid].born}
    known = {"owner": 2**22 + 1, "owner_born": "1", "scratch": "", "started": started}
    return Record(mark=mark, **(known | more))


def test_a_record_is_believed_of_its_own_processes_only(tmp_path):
    """Records are files: what they say is checked before anything is ended or removed."""
    precious = tmp_path / "precious"
    precious.mkdir()
    with subprocess.Popen(["sleep", "99"]) as other:
        for number, changes in enumerate(
            [
                {},
                {"started": {str(other.pid): "another start"}},
                {"scratch": str(precious)},
                {"scratch": make_scratch("2-" + 32 * "b")},  # of another federation
            ]
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            record = record_of(other, **changes)
            record.write(folder)
            if changes or ending.PROC.is_dir():  # elsewhere the first is a true record
                assert clear_leftovers(folder) == set()
            assert not Path(record.scratch or tmp_path / "none").exists() or number >= 2
            assert lives(other.pid)
        assert precious.is_dir()
        Path(record.scratch, "federation").unlink()
        Path(record.scratch).rmdir()
        other.kill()


def test_records_of_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(watcher, "OWNER_EXIT_TIMEOUT", 0.05)
    me = {"owner": os.getpid(), "owner_born": process_table()[os.getpid()].born}
    with subprocess.Popen(["sleep", "99"]) as other:
        for number, changes in enumerate([{"machine": "elsewhere"}, me]):
            path = record_of(other, f"{number}-" + 32 * "c", **changes).write(tmp_path)
            assert clear_leftovers(tmp_path) == set()
            assert path.exists()
        other.kill()
    for text in ("", "{}", "[1]", json.dumps({"mark": 1}), '{"mark": "../x", "started": 3}'):
        (tmp_path / ("started-1-" + 32 * "d" + ".json")).write_text(text)
        assert clear_leftovers(tmp_path) == set()


def test_without_proc_processes_are_known_by_pid_and_start_time(tmp_path, monkeypatch):
    """As on macOS, with `ps`."""
    monkeypatch.setattr(ending, "PROC", tmp_path / "no-proc")
    monkeypatch.setattr(watcher, "PROC", tmp_path / "no-proc")
    code = "import subprocess; subprocess.Popen(['sleep', '99'], start_new_session=True).wait()"
    with (
        subprocess.Popen([sys.executable, "-c", code]) as parent,
        subprocess.Popen(["sleep", "99"]) as other,
    ):
        children = lambda: [p for p, s in process_table().items() if s.parent == parent.pid]
        (child,) = until(children)
        record_of(parent).write(tmp_path)
        assert clear_leftovers(tmp_path) == {parent.pid, child}
        until(lambda: not lives(child))
        assert other.poll() is None
        other.kill()


@linux
def test_ps_and_proc_agree():
    mine = os.getpid()
    one, other = process_table()[mine], table_of_ps()[mine]
    assert (one.parent, one.group) == (other.parent, other.group)
    assert time.strptime(other.born, "%a %b %d %H:%M:%S %Y")


def test_a_temporary_folder_has_a_short_name(tmp_path):
    """A path of a socket has 107 characters at most, and Ray adds some 60."""
    with Processes(tmp_path) as group:
        group.start("brief", [sys.executable, "-c", ""])
        assert len(group.env["RAY_TMPDIR"]) <= len(tempfile.gettempdir()) + 20
