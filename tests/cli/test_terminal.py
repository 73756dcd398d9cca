"""Progress bars of commands, in a real terminal."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from fedcell.scenario.save import save_scenario
from support.quadratics import NARROW

MAIN = "from fedcell.cli.main import main; main()"


def in_a_terminal(folder, *words):
    """Return the exit code of a command, and what it writes to a terminal on stderr."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        elif process.poll() is not None:
            break
    os.close(ours)
    return process.wait(10), seen.decode(errors="replace")


def test_a_run_shows_its_rounds_its_loss_its_seconds_and_its_joules(tmp_path):
    code, seen = in_a_terminal(tmp_path, "run", "digits", "--rounds", 6, "--policy", "even")
    assert code == 0
    assert "/6" in seen
    assert "loss " in seen
    assert " J" in seen
    assert (tmp_path / "run-digits-seed0" / "ledger.csv").exists()


@pytest.mark.long
def test_a_pilot_shows_the_seconds_of_its_budget(tmp_path):
    save_scenario(NARROW, tmp_path / "narrow.toml")  # its rounds are short on a busy machine, too
    words = ["pilot", "narrow.toml", "--steps", "1..16", "--budget", "5s"]
    code, seen = in_a_terminal(tmp_path, *words)
    assert code == 0
    assert "/5 s" in seen
    assert "clients a round" in seen


def test_pricing_shows_a_bar(tmp_path):
    code, seen = in_a_terminal(tmp_path, "cost", "paper", "--rounds", 200)
    assert code == 0
    assert "pricing rounds" in seen
