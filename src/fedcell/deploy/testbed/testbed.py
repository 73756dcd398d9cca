"""A testbed: a server and clients on one machine, each in its own network, with set link rates and
processor shares."""

import atexit
import math
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType

from fedcell.core.errors import BadInput, NoTestbed
from fedcell.core.files.regular import open_log
from fedcell.core.process import shielded
from fedcell.deploy.local.process_tree import terminate

from . import links
from .cgroups import MIN_SHARE, Groups, find_groups
from .cleanup import remove
from .meter import Meter
from .names import SERVER, Place, new_token, part_name, processes_in

MIN_RATE = 8_000  # bit/s; a packet in a second and a half
MAX_RATE = 10_000_000_000


class Testbed:
    """A server and clients in their own networks; leaving the `with` block removes all of it.

    They reach each other by `address`, and no other machine; no other process reaches them. Files,
    memory and the clock are shared. It needs Linux and root: see `why_not`.

    Parameters
    ----------
    clients : int
        Number of clients, 1 to 1000.
    grace : float
        Seconds that processes have to exit at the end before they are killed.

    Attributes
    ----------
    why_no_quota : str or None
        Why `set_cpu` does not work on this machine; None: it does.

    Raises
    ------
    NoTestbed
        On entering, if this machine cannot make one.

    Examples
    --------
    ::

        with Testbed(2) as testbed:
            testbed.set_rate(0, 2e6)  # bit/s
            testbed.set_cpu(0, 0.25)  # of one processor
            testbed.start("server", ["python", "server.py"], log=Path("server.log"))
            testbed.start(0, ["python", "client.py", testbed.address("server")])
    """

    def __init__(self, clients: int, *, grace: float = 5.0) -> None:
        if not 1 <= clients <= links.MAX_CLIENTS:
            raise BadInput(f"`clients` of a testbed must be 1 to {links.MAX_CLIENTS}: {clients}")
        self.clients, self.grace = clients, grace
        self.why_no_quota: str | None = None
        self._owner, self.token = os.getpid(), new_token()  # prefix of all its names
        self._groups: Groups | None = None
        self._running: list[tuple[Place, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> "Testbed":
        if reason := links.unusable():
            raise NoTestbed(reason)
        # Also if Ctrl-C comes before or after the `try` below.
        atexit.register(self._remove_at_exit)
        try:
            self._build()
        except BaseException:
            self._take_down(grace=0.0)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._take_down(self.grace)

    def _build(self) -> None:
        try:
            self._groups = find_groups()
            for place in self._places():
                self._groups.add(self._name(place))
        except NoTestbed as error:
            self._groups, self.why_no_quota = None, str(error)
        links.add_server(self._name(SERVER))
        for client in range(self.clients):
            links.add_client(self._name(SERVER), self._name(client), client)

    def _take_down(self, grace: float) -> None:
        def work() -> None:
            try:
                self.stop(grace=grace)
            finally:
                remove(self.token)

        shielded(work)
        atexit.unregister(self._remove_at_exit)

    def _remove_at_exit(self) -> None:
        if os.getpid() == self._owner:  # not in a fork of it
            remove(self.token)

    def address(self, place: Place) -> str:
        """Return the IPv4 address of a client, by its index, or of the "server"."""
        self._check(place)
        return links.server_address() if place == SERVER else links.client_address(place)

    def set_rate(self, client: int, bits_per_second: float | None) -> None:
        """Set the rate at which a client can send, from now on.

        Parameters
        ----------
        client : int
            Index of the client.
        bits_per_second : float or None
            Rate of whole packets [bit/s]: of 1514 bytes, TCP carries 1448 of payload. None: no
            limit.
        """
        self._check(client)
        _check_rate(bits_per_second)
        links.shape(self._name(client), links.UPLINK, bits_per_second)

    def set_downlink(self, client: int, bits_per_second: float | None) -> None:
        """Set the rate at which a client can receive, as `set_rate` does; None: no limit."""
        self._check(client)
        _check_rate(bits_per_second)
        links.shape(self._name(SERVER), links.port(client), bits_per_second)

    def set_cpu(self, place: Place, share: float | None) -> None:
        """Limit the processor time of all processes of a client together, from now on.

        Parameters
        ----------
        place : int or "server"
            Index of the client, or the server.
        share : float or None
            Share of one processor: 0.25, or 2 of several. None: no limit.
        """
        self._check(place)
        if share is not None and not MIN_SHARE <= share < math.inf:
            raise BadInput(f"a share of the processor must be {MIN_SHARE:g} or more: {share}")
        if self._groups is None:
            raise NoTestbed(str(self.why_no_quota))
        self._groups.limit(self._name(place), share)

    def release(self, process: "subprocess.Popen[bytes]") -> None:
        """Lift the processor limit of a process; its children stay limited. It stays in its
        network, and is terminated with the others."""
        if self._groups is not None:
            self._groups.release(process.pid)

    def start(
        self,
        place: Place,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a process at a client or at the server.

        Parameters
        ----------
        place : int or "server"
            Index of the client, or the server.
        command : sequence of str
            Program and arguments.
        env : mapping, optional
            Added to the environment of this process.
        log : Path, optional
            File to which its output is appended. Default: the output is discarded.

        Returns
        -------
        subprocess.Popen
            The process, in its own session.
        """
        self._check(place)
        environment = {**os.environ, **(env or {})}
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise BadInput(f"the command {command[0]} does not exist, or cannot be executed")
        words = ["ip", "netns", "exec", self._name(place), *command]
        if self._groups is not None:  # first, so that no process is ever unlimited
            entry = self._groups.entry(self._name(place))
            words = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(entry), *words]
        with nullcontext(subprocess.DEVNULL) if log is None else open_log(log) as output:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append((place, process))
        return process

    def stop(self, place: Place | None = None, *, grace: float | None = None) -> None:
        """Terminate all processes at a client or at the server (default: everywhere), with their
        descendants; kill those that do not exit within `grace` seconds (default: the testbed's)."""
        places = self._places() if place is None else [place]
        self._check(*places)
        names = [self._name(place) for place in places]
        started = [process for at, process in self._running if at in places]

        def find() -> set[int]:
            # A process that was just started may not have entered its namespace yet.
            running = {process.pid for process in started if process.poll() is None}
            return running | processes_in(names, self._groups)

        if left := terminate(find, self.grace if grace is None else grace):
            pids = ", ".join(map(str, sorted(left)))
            raise NoTestbed(f"processes of a testbed do not exit: {pids}")
        self._running = [entry for entry in self._running if entry[0] not in places]

    def meter(self) -> Meter:
        """Return a meter of what the clients send, to use in a `with` block."""
        return Meter(self._name(SERVER), self.clients)

    def _places(self) -> list[Place]:
        return [SERVER, *range(self.clients)]

    def _name(self, place: Place) -> str:
        return part_name(self.token, place)

    def _check(self, *places: Place) -> None:
        for place in places:
            if place not in self._places():
                raise BadInput(
                    f"a testbed of {self.clients} clients has no client {place}: they are counted "
                    "from 0"
                )


def _check_rate(rate: float | None) -> None:
    if rate is not None and not MIN_RATE <= rate <= MAX_RATE:
        raise BadInput(f"the rate of a link must be {MIN_RATE:g} to {MAX_RATE:g} bit/s: {rate}")


def why_not() -> str | None:
    """Say why this machine cannot make a testbed, by making a small one.

    Returns
    -------
    str or None
        The reason; None where a testbed can be made. Processors that cannot be limited are no
        reason: see `Testbed.why_no_quota`.
    """
    if reason := links.unusable():
        return reason
    try:
        with Testbed(1) as testbed, testbed.meter():
            testbed.set_rate(0, 1e6)
            if testbed.start(0, ["true"]).wait(timeout=10):
                return "a testbed cannot start processes in its network namespaces here"
    except NoTestbed as error:
        return str(error)
    return None
