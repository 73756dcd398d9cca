"""Pages on federations, line by line: what they say to type works, and prints what it shows."""

import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedcell import load_run, load_scenario, run

pytestmark = [pytest.mark.flower, pytest.mark.slow]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.local.federation import (  # noqa: E402
    LocalFederation,
    free_port,
)
from fedcell.deploy.options import RunConfig  # noqa: E402
from support.federations import ENOUGH, environment, same, until  # noqa: E402
from test_pages import alike, commands, missing, text_of  # noqa: E402

MARK = "FEDCELL_TEST"  # variable by which what a script started is found
PAGE, TRIED = "docs/tutorials/5-flower-tls.md", "docs/how-to/deploy.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_pytorch"
# People need some seconds to type the next line; a script looks whether the server is up.
UP = "until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.2; done\n"


def section(title):
    """What stands on the page under a heading, up to the next one of any kind."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text_of(PAGE), re.M | re.S)
    assert found, title
    return found[1]


def to_type(title):
    """The lines of a section that are to be typed into a shell."""
    return "\n".join(re.findall(r"```sh\n(.*?)```", section(title), re.S))


def ten_ports():
    """The first digits of some ports that are not in use."""
    for _ in range(100):
        begin = random.randrange(2000, 3200)
        try:
            for j in range(10):
                with socket.socket() as trial:
                    trial.bind(("127.0.0.1", 10 * begin + j))
        except OSError:
            continue
        return begin
    raise AssertionError("all ports are taken")


def with_free_ports(script):
    """A script with ports of its own, which waits until its server is up."""
    port = free_port()
    assert "8000" in script
    assert "910" in script
    script = script.replace("8000", str(port)).replace("910", str(ten_ports()))
    begun = re.compile(r"^( *flower-superlink(?:[^\n]*\\\n)*[^\n]*&\n)(?: *sleep 10\n)?", re.M)
    assert len(begun.findall(script)) == 1
    return begun.sub(lambda found: found[1] + UP.format(port=port), script)


@dataclass
class Shell:
    """Runs scripts in an empty folder, with `fedcell` and Flower's commands at hand."""

    home: Path
    env: dict[str, str]

    def run(self, script, seconds=ENOUGH):
        """What a script prints; it must end well."""
        with (self.home / "script.log").open("w+") as log:
            ended = subprocess.run(
                ["bash", "-eu", "-c", script],
                cwd=self.home,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
            log.seek(0)
            said = log.read()
        logs = "".join(file.read_text()[-2000:] for file in self.home.glob("*.log"))
        assert ended.returncode == 0, f"{said}\n{logs}"
        return said

    def running(self):
        """Processes that it started, or that these did."""
        mark = self.env[MARK]
        numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in numbers if environment(pid).get(MARK) == mark]


@pytest.fixture
def shell(tmp_path):
    """A shell; whatever it leaves running is ended."""
    shim = tmp_path / "bin" / "fedcell"
    shim.parent.mkdir()
    run = "from fedcell.__main__ import main; main()"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -c "{run}" "$@"\n')
    shim.chmod(0o755)
    path = f"{shim.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, MARK: f"page-{os.getpid()}-{tmp_path.name}"}
    (tmp_path / "home").mkdir()
    made = Shell(tmp_path / "home", env)
    yield made
    for pid in made.running():
        os.kill(pid, signal.SIGKILL)


def test_your_own_machines_line_by_line(shell):
    home, said = shell.home, shell.run(with_free_ports(to_type("On your own machines")))
    until(lambda: not shell.running(), what="the end of all processes")
    result = load_run(home / "my-run")
    assert result.complete
    assert result.state.rounds == 2
    lines = read_exchanges(home / "my-run")
    assert {e.name for e in lines if e.round == 0} == {f"pump-{j}" for j in range(4)}
    assert {e.outcome for e in lines if e.round > 0} <= {"arrived", "lost"}
    assert "outcomes of the calls of 2 rounds" in said
    losses = next(iter(result.ledgers.values())).train_loss
    for t in (1, 2):  # in the log that --stream shows
        assert f"fedcell: round {t}: loss {losses[t - 1]:.4f}" in said
    assert "pump-3" in said
    freqs = {e.name: e.freq for e in lines if e.round > 0}
    assert freqs["pump-0"] <= 1.0e9  # as its node says


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_certificates_keys_and_a_killed_superlink_line_by_line(shell):
    """A run over TLS with keys; then, in the middle of another part of it, the SuperLink is killed
    and the page says how to resume."""
    first = re.search(r"```sh\n(.*?)```", section("On your own machines"), re.S)
    script = first[1] + to_type("TLS and keys")
    killed = """
cp -r tls-run two-rounds
flwr run tls-app mine --run-config "rounds=5000 folder=\\"$PWD/tls-run\\" resume=true"
until [ $(wc -l < tls-run/ledger.csv) -ge 4 ]; do sleep 0.2; done
kill -9 $(jobs -p | head -n 1)
"""
    script += killed + to_type("After the SuperLink was killed")
    home, said = shell.home, shell.run(with_free_ports(script), 2 * ENOUGH)  # it starts twice
    until(lambda: not shell.running(), what="the end of all processes")
    assert load_run(home / "two-rounds").state.rounds == 2
    result = load_run(home / "tls-run")
    assert result.complete
    assert result.state.rounds == 5
    alone = run(load_scenario(home / "tls-app" / "scenario.json"), ["distributed"], rounds=5)
    assert same(result.state.model, alone.state.model)
    lines = read_exchanges(home / "tls-run")
    assert {e.name for e in lines} == {f"pump-{j}" for j in range(4)}
    assert {e.outcome for e in lines if e.round > 0} <= {"arrived", "lost"}
    losses = result.ledgers["distributed"].train_loss
    for t in (1, 2, 5):
        assert f"fedcell: round {t}: loss {losses[t - 1]:.4f}" in said
    assert "BEGIN" not in said


def test_trying_it_out_prints_what_the_page_shows(shell):
    blocks = [block for block in commands(TRIED) if block.words[0] == "deploy" and block.shown]
    (block,) = blocks
    typed = f"fedcell {shlex.join(block.words)}\nfedcell exchanges deploy-digits-seed0"
    home, said = shell.home, shell.run(typed)
    lines = [line.strip() for line in said.splitlines()]
    assert missing(block.shown, lines, alike) == []
    assert not shell.running()
    assert "fedcell: all processes are stopped" in said
    assert "fedcell: round 3: loss " in said
    files = {file.name for file in (home / "deploy-digits-seed0").iterdir()}
    assert {"ledger.csv", "exchanges.csv", "loss.png", "exchanges.png"} <= files


def test_the_example_with_pytorch_trains(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install fedcell[torch]")
    app, folder, status = tmp_path / "app", tmp_path / "run", tmp_path / "here" / "status.json"
    shutil.copytree(EXAMPLE, app)
    project = app / "pyproject.toml"
    text = project.read_text()
    for old, new in (
        ('folder = "run-pytorch"', f'folder = "{folder}"'),
        ('status-file = ""', f'status-file = "{status}"'),
    ):
        assert old in text
        text = text.replace(old, new)
    project.write_text(text)
    with LocalFederation(tmp_path / "here") as federation:
        federation.start_superlink(simulation=True)
        federation.wait(federation.submit(RunConfig(), 4, app), ENOUGH)
    result = load_run(folder)
    losses = result.ledgers["optimal"].train_loss
    assert len(losses) == 5
    assert losses[-1] < 0.8 * losses[0]
    lines = [e for e in read_exchanges(folder) if e.round > 0]
    assert {e.outcome for e in lines} == {"arrived"}
    assert all(e.measured_training > 0 for e in lines)
