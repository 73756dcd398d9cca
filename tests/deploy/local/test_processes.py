"""Processes that are started and terminated together."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from fedcell.deploy.local.process_tree import MARK, marked
from fedcell.deploy.local.processes import Deadline, Processes, connects
from fedcell.errors import BadInput

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = '''
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
print("up", flush=True)
time.sleep(99)
'''
with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE) as stray:
    stray.stdout.readline()
    print("ready", flush=True)
    time.sleep(99)
"""


def test_processes_end_with_all_that_they_started_even_if_they_do_not_want_to(tmp_path):
    """One ignores the request to end; its child has left the session, too."""
    with Processes(tmp_path) as group:
        group.env["PYTHONWARNINGS"] = "ignore"
        started = group.start("stubborn", [sys.executable, "-c", STUBBORN])
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            waiting = Deadline(120.0, "starting", [started])
            while "ready" not in started.log.read_text():
                waiting.pause()
            mark = group.env[MARK]
            assert len(list(marked(mark))) == 2
            group.stop()
            assert not started.running
            assert list(marked(mark)) == []
            assert other.poll() is None  # no other process is terminated
            other.stdin.close()


def test_a_process_that_dies_is_not_waited_for(tmp_path, monkeypatch):
    with Processes(tmp_path) as group:
        started = group.start("brief", [sys.executable, "-c", "print('so long')"])
        started.handle.wait(300)
        with pytest.raises(BadInput, match="brief exited while starting: so long"):
            Deadline(9.0, "starting", [started]).pause()
        alive = group.start("alive", [sys.executable, "-c", "import time; time.sleep(99)"])
        waiting = Deadline(9.0, "starting", [alive])
        monkeypatch.setattr("fedcell.deploy.local.processes.time.monotonic", lambda: float("inf"))
        with pytest.raises(BadInput, match="starting took more than 9 s"):
            waiting.pause()
        monkeypatch.undo()
        os.kill(alive.pid, signal.SIGKILL)


def test_a_socket_that_is_connected_to_itself_has_no_answer():
    """The system may give a trial the very port that it is to try, where nothing listens yet."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        assert not connects(trial, *trial.getsockname())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as trial:
        assert connects(trial, *server.getsockname())
