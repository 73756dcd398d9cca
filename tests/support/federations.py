"""Federations of real processes on this machine, and their expected models."""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedcell import Observer, Scenario, load_scenario
from fedcell.deploy.exchanges import Exchange, read_exchanges
from fedcell.deploy.local.federation import HOST, LocalFederation
from fedcell.deploy.local.process_tree import MARK
from fedcell.deploy.local.processes import Process
from fedcell.deploy.options import FederationOptions, RunConfig, write_app
from fedcell.learning import prepare_training
from fedcell.network import draw_fleet, draw_trace
from fedcell.simulation.folder.ledger_file import read_ledgers
from fedcell.simulation.train import train_rounds

WORLD = """
[cell]
loss_rate = {loss}
gain_threshold = 0.0
[clients]
count = {count}
spread = 0.5
[plan]
cohort = {cohort}
local_steps = 5
rounds = {rounds}
[learning]
dataset = "digits"
model = "mlp"
rate = 0.1
[learning.partition]
kind = "pathological"
num_classes_per_partition = {classes}
"""
ENOUGH = 600.0  # [s] in which any run of a test ends


def world(path: Path, *, count=4, cohort=4, rounds=3, loss=0.0) -> Scenario:
    """A small scenario, written to a file."""
    values = {"count": count, "cohort": cohort, "rounds": rounds, "loss": loss}
    path.write_text(WORLD.format(**values, classes=max(3, -(-10 // count))), "utf-8")
    return load_scenario(path)


def faulty_app(folder: Path, config: RunConfig, status: Path) -> Path:
    """An app with the ready ServerApp and the faulty ClientApp."""
    if folder.exists():
        shutil.rmtree(folder)
    write_app(folder, config.using(status_file=str(status)))
    project = folder / "pyproject.toml"
    ready = 'clientapp = "fedcell.deploy.clientapp:app"'
    text = project.read_text("utf-8")
    assert ready in text
    project.write_text(text.replace(ready, 'clientapp = "faulty:app"'), "utf-8")
    shutil.copy(Path(__file__).with_name("faulty.py"), folder)
    return folder


@dataclass
class Fleet:
    """A federation with faulty devices, which does one run after the other."""

    home: LocalFederation
    marks: Path

    def node(self, place: int, title: str | None = None, **settings: Any) -> Process:
        """Start a SuperNode."""
        node = {"partition-id": place, "marks": str(self.marks), **settings}
        return self.home.start_node(node, title)

    def begin(self, config: RunConfig) -> Path:
        """Submit a run; return the file of its final status."""
        status = self.home.folder / "status.json"
        app = faulty_app(self.home.folder / "faulty-app", config, status)
        return self.home.submit(config, app=app)

    def run(self, config: RunConfig) -> list[Exchange]:
        """Run to the end; return the exchanges."""
        self.home.wait(self.begin(config), ENOUGH)
        return read_exchanges(Path(config.folder))

    def until(self, status: Path, condition: Callable[[], Any], what: str) -> None:
        """Wait for a condition in a running run."""
        until(lambda: condition() or status.exists(), what=what)
        assert not status.exists(), status.read_text("utf-8")

    def began(self, place: int, seed: int, round: int) -> bool:
        """Whether a device has begun to train in a round."""
        return (self.marks / f"{place}-{seed}-{round}").exists()


def until(condition: Callable[[], Any], seconds: float = 300.0, what: str = "it") -> Any:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.05)
    return found


def rounds_done(folder: Path) -> int:
    """Rounds in the ledger of a run in progress."""
    with contextlib.suppress(Exception):
        return min(len(columns["received"]) for columns in read_ledgers(folder).values())
    return 0


# The expected model.

Change = Callable[[int, int, Any, Any], Any]  # round from 1, client, model, upload -> what arrives


class Marred:
    """A learner with uploads that are changed on their way, or lost (None)."""

    def __init__(self, learner: Any, change: Change) -> None:
        self._learner, self._change = learner, change
        self.sizes, self.start, self.evaluate = learner.sizes, learner.start, learner.evaluate

    def train(self, model, clients, round) -> Iterator[Any]:
        """Return the changed uploads."""
        trained = list(self._learner.train(model, clients, round))
        for client, upload in zip(clients, trained, strict=True):
            yield self._change(round + 1, client, model, upload)

    def missing(self, round):  # noqa: ARG002
        """Return none: prices are not needed."""
        return ()


def by_hand(scenario: Scenario, seed: int, rounds: int, change: Change) -> Any:
    """The model after some rounds in which uploads are changed or lost: without a federation."""
    setup = prepare_training(scenario, seed)
    fleet = draw_fleet(setup.scenario, seed)
    trace = draw_trace(setup.scenario, fleet, rounds, seed)
    *_, last = train_rounds(setup.scenario, Marred(setup.learner(), change), fleet, trace)
    return last.model


def without(gone: Mapping[int, Sequence[int]]) -> Change:
    """Uploads of these clients do not arrive, by round from 1."""
    return lambda t, client, _, upload: None if client in gone.get(t, ()) else upload


# Processes.


def environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with; none where it is gone."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (line.decode(errors="replace").partition("=") for line in raw.split(b"\0") if line)
    return {name: value for name, _, value in pairs}


def command(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def ours() -> dict[int, str]:
    """Processes of federations that this process started: their commands by number."""
    mine = f"{os.getpid()}-"
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and environment(int(entry.name)).get(MARK, "").startswith(mine):
            words = command(int(entry.name))
            if words:  # else it is a zombie
                found[int(entry.name)] = words
    return found


def named(word: str) -> list[int]:
    """Processes of this test with a word in their command."""
    return [pid for pid, words in ours().items() if word in words]


def peers(pids: Iterable[int]) -> set[str]:
    """The addresses of the other ends of all connections that processes have, as the kernel
    writes them."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            files = Path(f"/proc/{pid}/fd").iterdir()
            own = {os.readlink(file)[8:-1] for file in files if "socket:" in os.readlink(file)}
            for table in ("tcp", "tcp6", "udp", "udp6"):
                lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
                parts = (line.split() for line in lines)
                found |= {part[2].partition(":")[0] for part in parts if part[9] in own}
    return found


def in_use(ports: Sequence[int]) -> list[int]:
    """Ports with a process that listens."""
    found = []
    for port in ports:
        with socket.socket() as trial:
            trial.settimeout(0.5)
            if trial.connect_ex((HOST, port)) == 0:
                found.append(port)
    return found


def same(one: Any, other: Any) -> bool:
    """Return whether two models are equal bit for bit."""
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


OPTIONS = {f.name for f in fields(FederationOptions)}


def federation_arguments(**given: Any) -> dict[str, Any]:
    """Arguments of `run_federation`: fields of its options and of its observer, given flat. The
    fields change `options`, where these are given too."""
    base = given.pop("options", FederationOptions())
    options = replace(base, **{name: given.pop(name) for name in OPTIONS & given.keys()})
    calls = {name: given.pop(name) for name in ("round", "message") if name in given}
    return given | {"options": options, "observer": Observer(**calls)}
