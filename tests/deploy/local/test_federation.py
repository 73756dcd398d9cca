"""Federations end: all of their processes with them, and a server that is gone is noticed."""

import signal
import subprocess
import sys
import time

import pytest

from fedcell.deploy.local import federation as local
from fedcell.deploy.local import processes
from fedcell.deploy.local.federation import LocalFederation
from fedcell.deploy.local.process_tree import command_of
from fedcell.deploy.local.processes import Processes
from fedcell.errors import BadInput

pytestmark = pytest.mark.slow

# Starts another in a session of its own and with an empty environment, as one that has painted
# over it; that one ends only if it is killed.
PARENT = """
import subprocess, sys, time
child = '''
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(300)
'''
with subprocess.Popen(
    [sys.executable, "-c", child], env={}, start_new_session=True, stdout=subprocess.PIPE
) as other:
    other.stdout.readline()
    print("child", other.pid, flush=True)
    time.sleep(300)
"""


def lives(pid):
    """Whether a process is there, and more than a zombie."""
    return command_of(pid) != ""


def until(done, seconds=120.0):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_a_process_without_the_mark_ends_with_its_parent(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "GRACE", 0.5)  # the child ignores SIGTERM
    with Processes(tmp_path) as group:
        started = group.start("parent", [sys.executable, "-c", PARENT])
        text = until(lambda: "child" in (said := started.log.read_text()) and said)
        child = int(text.split()[-1])
        assert lives(child)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            group.stop()
            assert not lives(child)
            assert not started.running
            assert other.poll() is None  # no other process is terminated
            other.stdin.close()


class Nothing(Processes):
    """Processes of which none is ever seen, but the SuperLink."""

    visible = True

    def running(self, words):
        return self.visible and "flower-superlink" in words


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A federation without a ServerApp."""
    monkeypatch.setattr(local, "POLL", 0.02)
    monkeypatch.setattr(local, "START_TIMEOUT", 0.3)
    with LocalFederation(tmp_path / "here", start=Nothing) as federation:
        yield federation


def test_a_server_that_was_gone_before_anybody_looked_is_not_waited_for(alone, tmp_path):
    with pytest.raises(BadInput, match="the ServerApp exited without writing its status: see the"):
        alone.wait(tmp_path / "status.json", 60.0)


def test_where_processes_cannot_be_seen_the_end_is_waited_for(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(Nothing, "visible", False)
    with pytest.raises(BadInput, match="running the federation took more than 1 s"):
        alone.wait(tmp_path / "status.json", 1.0)


def test_the_error_of_a_run_is_raised(alone, tmp_path):
    status = tmp_path / "status.json"
    status.write_text('{"ended": true, "error": null}')
    alone.wait(status, 1.0)
    status.write_text('{"ended": true, "error": "no pump"}')
    with pytest.raises(BadInput, match="no pump"):
        alone.wait(status, 1.0)


def test_an_interrupt_that_is_given_twice_leaves_nothing(tmp_path):
    """The second comes while processes are being ended."""
    code = """
import signal, sys
from pathlib import Path
from fedcell.deploy.local.federation import LocalFederation
signal.signal(signal.SIGINT, signal.default_int_handler)
with LocalFederation(Path(sys.argv[1])) as federation:
    stubborn = '''
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("up", flush=True)
end = time.monotonic() + 300
while time.monotonic() < end:
    time.sleep(1)
'''
    started = federation._processes.start("stubborn", [sys.executable, "-c", stubborn])
    while not started.log.exists() or "up" not in started.log.read_text():
        pass
    print(started.pid, flush=True)
    signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        log = tmp_path / "logs" / "stubborn.log"
        until(lambda: "asked" in log.read_text())  # now it has some seconds of grace
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode != 0
    until(lambda: not lives(pid))
