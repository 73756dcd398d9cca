"""A federation on this machine, to try it out: a SuperLink and SuperNodes, or a simulation."""

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
from fedcell.core.process import shielded
from fedcell.deploy.options import RunConfig, write_app

from .processes import Deadline, Process, Processes
from .watcher import clear_leftovers

HOST = "127.0.0.1"
START_TIMEOUT = 60.0  # [s] in which a SuperLink accepts connections
POLL = 2.0  # [s] between two checks that the ServerApp runs
SERVER = ("flwr-serverapp", "flwr-simulation")  # its process in a deployment, in a simulation
LOCK = ".lock"  # file that one process at a time holds
CONNECTION = "fedcell"  # name of the SuperLink in Flower's configuration
NodeConfig = Mapping[str, Any]  # settings of a SuperNode


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Certificates and keys of a federation that only registered SuperNodes can join."""

    ca: Path  # certificate of the authority that signed the others
    certificate: Path  # of the SuperLink
    key: Path  # of the SuperLink
    node_keys: Sequence[Path] = field(default_factory=tuple)  # private key of each SuperNode


class LocalFederation:
    """A SuperLink and SuperNodes of Flower on this machine; leaving the `with` block ends them.

    Parameters
    ----------
    folder : Path
        Folder of logs and configuration, made if needed and locked meanwhile. What a killed
        federation left in it is terminated first.
    tls : Tls, optional
        Certificates and keys. Default: an open federation without encryption.
    host : str
        Address of the SuperLink.
    start : callable
        `start(folder, env)` returns the `Processes` that run Flower; a testbed places them.

    Examples
    --------
    ::

        with LocalFederation(Path("here")) as federation:
            federation.start_superlink()
            for j in range(4):
                federation.start_node({"partition-id": j})
            status = federation.submit(RunConfig(scenario="digits"))
            federation.wait(status, seconds=3600)
    """

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
        self.cleared: set[int] = set()  # processes of a killed federation in this folder

    def __enter__(self) -> "LocalFederation":
        """Lock the folder, and clear what a killed federation left in it."""
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
        shielded(self._close)  # a second Ctrl-C does not interrupt it

    def _close(self) -> None:
        with self._held:
            self._processes.close()

    @property
    def address(self) -> str:
        """Address of the SuperLink, HOST:PORT."""
        return f"{self.host}:{self.port}"

    def start_superlink(self, simulation: bool = False, port: int | None = None) -> Process:
        """Start the SuperLink, and wait until it accepts connections.

        Parameters
        ----------
        simulation : bool
            Simulate the devices in Flower instead of waiting for SuperNodes.
        port : int, optional
            Default: a free one.
        """
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
        wait = Deadline(START_TIMEOUT, "starting the SuperLink", [started])
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
        self, settings: NodeConfig, title: str | None = None, key: Path | None = None
    ) -> Process:
        """Start a SuperNode with the node configuration `settings`, as {"partition-id": 0}."""
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
        """Register the public key of a SuperNode, where TLS and keys are required."""
        command = [program("flwr"), "supernode", "register", str(public_key), CONNECTION]
        self.call("register", command)

    def call(self, title: str, command: Sequence[str], seconds: float = START_TIMEOUT) -> str:
        """Run a command of Flower to its end, and return its output."""
        started = self._processes.start(title, command)
        wait = Deadline(seconds, f"running {' '.join(command[1:3])}")
        while started.running:
            wait.pause()
        text = started.log.read_text(errors="replace")
        if started.handle.returncode != 0:
            raise BadInput(f"{Path(command[0]).name} failed: {started.last_output()}")
        return text

    def submit(self, config: RunConfig, nodes: int | None = None, app: Path | None = None) -> Path:
        """Submit a run to the SuperLink, which starts it.

        Parameters
        ----------
        config : RunConfig
            What the ready ServerApp runs.
        nodes : int, optional
            Number of devices in a simulation.
        app : Path, optional
            Folder of your own Flower app, instead of the ready one.

        Returns
        -------
        Path
            File that says how the run ended, for `wait`.
        """
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
            resources = f"num-supernodes={nodes} client-resources-num-cpus=1"
            command += ["--federation-config", resources]
        self.call("run", command)
        return status

    def wait(self, status: Path, seconds: float, pause: Callable[[], None] = lambda: None) -> None:
        """Wait until a run has ended.

        Parameters
        ----------
        status : Path
            As `submit` returned it.
        seconds : float
            Time limit [s].
        pause : callable
            Called about every 0.1 s meanwhile.

        Raises
        ------
        BadInput
            If the run failed, its processes exited, or the time is over.
        """
        link = [] if self.superlink is None else [self.superlink]
        seen, begin = False, time.monotonic()
        look = begin + POLL
        wait = Deadline(seconds, "running the federation", link)
        while not status.exists():
            pause()
            wait.pause()
            if time.monotonic() < look:
                continue
            running, look = self._processes.running(SERVER), time.monotonic() + POLL
            seen = seen or running or self._began(begin)
            if seen and not running and not status.exists():
                logs = self.folder / "logs"
                raise BadInput(
                    f"the ServerApp exited without writing its status: see the logs in {logs}"
                )
        if (error := read_tables(status).get("error")) is not None:
            raise BadInput(str(error))

    def _began(self, begin: float) -> bool:
        """Return whether a ServerApp that was never seen has exited already: it had enough time to
        begin, and processes of this machine are visible."""
        enough = time.monotonic() - begin > START_TIMEOUT
        return enough and self._processes.running(["flower-superlink"])

    def stop_nodes(self, nodes: Sequence[Process]) -> None:
        """Stop some of the SuperNodes."""
        self._processes.stop(nodes)


def program(name: str) -> str:
    """Return the path of a command that is installed beside this Python."""
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise BadInput(f"{name} is not installed: pip install 'fedcell[flower]'")
    return path


def node_config(settings: NodeConfig) -> str:
    """Format the settings of a SuperNode for its command line."""

    def written(value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False)
        # Flower ends a text at the next quote, even after a backslash.
        return re.sub(r"\\(.)", lambda pair: pair[0].replace('\\"', "\\u0022"), text)

    return " ".join(f"{key}={written(value)}" for key, value in settings.items())


def free_port() -> int:
    """Return a port of this machine that is not in use."""
    with socket.socket() as trial:
        trial.bind((HOST, 0))
        return int(trial.getsockname()[1])
