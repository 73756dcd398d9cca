"""A federation on this machine, for trying it out: a SuperLink and SuperNodes, or a simulation."""

import json
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.atomic import made_folder
from fedcell.core.files.formats import read_tables, write_text
from fedcell.core.files.locks import locked
from fedcell.core.interrupts import shielded
from fedcell.deploy.options import RunConfig, write_app

from .processes import Process, Processes, Waiting
from .watcher import clear_leftovers

HOST = "127.0.0.1"
STARTING = 60.0  # [s] in which a SuperLink answers
LOOK = 2.0  # [s] between two looks whether the ServerApp is there
SERVER = ("flwr-serverapp", "flwr-simulation")  # its process, in a deployment and in a simulation
LOCK = ".lock"  # file by which one process at a time has the folder
CONNECTION = "fedcell"  # what the SuperLink is called in Flower's configuration
Node = Mapping[str, Any]  # settings of a SuperNode


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Certificates and keys of a federation that is not open to everybody."""

    ca: Path  # certificate that the others are checked against
    certificate: Path  # of the SuperLink
    key: Path  # of the SuperLink
    node_keys: Sequence[Path] = field(default_factory=tuple)  # private key of each SuperNode


class LocalFederation:
    """Processes of Flower on this machine; `with` ends them all."""

    def __init__(
        self,
        folder: Path,
        tls: Tls | None = None,
        host: str = HOST,
        start: Callable[[Path, Mapping[str, str]], Processes] = Processes,
    ) -> None:
        self.folder, self.tls, self.host = folder, tls, host
        self.port = free_port()
        self._processes = start(folder / "logs", {"FLWR_HOME": str(folder / "flwr")})
        self._held = ExitStack()  # the lock of the folder
        self.nodes: list[Process] = []
        self.superlink: Process | None = None
        self.cleared: set[int] = set()  # processes that a killed federation had left here

    def __enter__(self) -> "LocalFederation":
        """Lock the folder, and end what a killed process left that worked in it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(made_folder(self.folder))
            except OSError as error:
                reason = error.strerror or error
                raise BadFile(f"{self.folder}: cannot be made: {reason}") from error
            stack.enter_context(locked(self.folder / LOCK, str(self.folder)))
            self.cleared = clear_leftovers(self.folder / "logs")
            self._held = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        shielded(self._close)  # also where Ctrl-C is given a second time

    def _close(self) -> None:
        with self._held:
            self._processes.close()

    @property
    def address(self) -> str:
        """Where the SuperLink is."""
        return f"{self.host}:{self.port}"

    def start_superlink(self, simulation: bool = False, port: int | None = None) -> Process:
        """Starts the SuperLink, and waits until it can be reached."""
        self.port = self.port if port is None else port
        command = [program("flower-superlink"), "--host", self.host, "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--simulation"] if simulation else []
        if self.tls is None:
            command += ["--insecure"]
        else:
            command += ["--ssl-ca-certfile", str(self.tls.ca)]
            command += ["--ssl-certfile", str(self.tls.certificate)]
            command += ["--ssl-keyfile", str(self.tls.key), "--enable-supernode-auth"]
        started = self._processes.start("superlink", command)
        wait = Waiting(STARTING, "starting the SuperLink", [started])
        while not self._processes.reachable(self.host, self.port):
            wait.pause()
        home = self.folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        lines = [f"[superlink.{CONNECTION}]", f'address = "{self.address}"']
        lines += (
            ["insecure = true"] if self.tls is None else [f'root-certificates = "{self.tls.ca}"']
        )
        write_text(home / "config.toml", "\n".join(lines) + "\n")
        self.superlink = started
        return started

    def start_node(
        self, settings: Node, title: str | None = None, key: Path | None = None
    ) -> Process:
        """Starts a SuperNode with its settings."""
        number = len(self.nodes)
        command = [program("flower-supernode"), "--superlink", self.address, "--host", HOST]
        command += ["--port", str(free_port()), "--node-config", node_config(settings)]
        if self.tls is None:
            command += ["--insecure"]
        else:
            command += ["--root-certificates", str(self.tls.ca)]
            own = key if key is not None else self.tls.node_keys[number]
            command += ["--auth-supernode-private-key", str(own)]
        started = self._processes.start(title or f"supernode-{number}", command, number)
        self.nodes.append(started)
        return started

    def register(self, public_key: Path) -> None:
        """Lets a SuperNode with this key join, where keys are asked for."""
        command = [program("flwr"), "supernode", "register", str(public_key), CONNECTION]
        self.call("register", command)

    def call(self, title: str, command: Sequence[str], seconds: float = STARTING) -> str:
        """Runs a command of Flower's to its end, and gives what it printed."""
        started = self._processes.start(title, command)
        wait = Waiting(seconds, f"running {' '.join(command[1:3])}")
        while started.running:
            wait.pause()
        text = started.log.read_text(errors="replace")
        if started.handle.returncode != 0:
            raise BadInput(f"{Path(command[0]).name} failed: {started.last_words()}")
        return text

    def submit(self, config: RunConfig, nodes: int | None = None, app: Path | None = None) -> Path:
        """Hands a run to the SuperLink, which starts it; gives the file that tells how it ends.
        `nodes` is for a simulation: how many there are."""
        status = self.folder / "status.json"
        status.unlink(missing_ok=True)
        where = self.folder / "app"
        if app is None:
            if where.exists():
                shutil.rmtree(where)
            write_app(where, config.using(status_file=str(status)))
        else:
            where = app
        command = [program("flwr"), "run", str(where), CONNECTION]
        if nodes is not None:
            told = f"num-supernodes={nodes} client-resources-num-cpus=1"
            command += ["--federation-config", told]
        self.call("run", command)
        return status

    def wait(self, status: Path, seconds: float, pause: Callable[[], None] = lambda: None) -> None:
        """Waits until a run has ended; refuses with what went wrong in it."""
        link = [] if self.superlink is None else [self.superlink]
        seen, begin = False, time.monotonic()
        look = begin + LOOK
        wait = Waiting(seconds, "running the federation", link)
        while not status.exists():
            pause()
            wait.pause()
            if time.monotonic() < look:
                continue
            running, look = self._processes.running(SERVER), time.monotonic() + LOOK
            seen = seen or running or self._began(begin)
            if seen and not running and not status.exists():
                logs = self.folder / "logs"
                raise BadInput(f"the ServerApp ended without a word: see the logs in {logs}")
        if (error := read_tables(status).get("error")) is not None:
            raise BadInput(str(error))

    def _began(self, begin: float) -> bool:
        """Whether a ServerApp that is not there has been and gone: it had time enough to begin, and
        processes can be seen on this machine."""
        enough = time.monotonic() - begin > STARTING
        return enough and self._processes.running(["flower-superlink"])

    def stop_nodes(self, nodes: Sequence[Process]) -> None:
        """Ends some of the SuperNodes, in good order."""
        self._processes.stop(nodes)


def program(name: str) -> str:
    """A command that was installed beside this Python."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BadInput(f"{name} is not installed: pip install 'fedcell[flower]'")
    return found


def node_config(settings: Node) -> str:
    """Settings of a SuperNode as its command takes them."""

    def written(value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False)
        # Flower looks for the end of a text at the next quote, whatever stands before it.
        return re.sub(r"\\(.)", lambda pair: pair[0].replace('\\"', "\\u0022"), text)

    return " ".join(f"{key}={written(value)}" for key, value in settings.items())


def free_port() -> int:
    """A port of this machine that nobody uses just now."""
    with socket.socket() as trial:
        trial.bind((HOST, 0))
        return int(trial.getsockname()[1])
