"""A testbed: a server and clients on one machine, each with a network of its own, where a client
sends and computes as fast as it is told to."""

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
from fedcell.core.interrupts import shielded
from fedcell.deploy.local.process_tree import end

from . import links
from .cgroups import LEAST_SHARE, Groups, find_groups
from .cleanup import remove
from .meter import Meter
from .names import SERVER, Place, inside, name, new_token

LEAST_RATE = 8_000  # bit/s; a packet a second and a half
MOST_RATE = 10_000_000_000


class Testbed:
    """A server and `clients` clients, for the time of a `with`; then the machine is as before.

        with Testbed(2) as testbed:
            testbed.set_rate(0, 2e6)  # bit/s
            testbed.set_cpu(0, 0.25)  # of one processor
            testbed.start("server", ["python", "server.py"], log=Path("server.log"))
            testbed.start(0, ["python", "client.py", testbed.address("server")])

    They reach each other by `address`, and nothing else; nothing else reaches them. What is
    outside of the network is shared: files, memory, clock. Processes that are there at the end
    have `grace` seconds to end by themselves.
    """

    def __init__(self, clients: int, *, grace: float = 5.0) -> None:
        if not 1 <= clients <= links.MOST_CLIENTS:
            raise BadInput(f"`clients` of a testbed must be 1 to {links.MOST_CLIENTS}: {clients}")
        self.clients, self.grace = clients, grace
        self.why_no_quota: str | None = None  # why set_cpu does not work here; None: it does
        self._owner, self.token = os.getpid(), new_token()  # with which all its names begin
        self._groups: Groups | None = None
        self._running: list[tuple[Place, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> "Testbed":
        if reason := links.unusable():
            raise NoTestbed(reason)
        # Also if Ctrl-C comes in the instant in which nobody is ready to catch it.
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
        if os.getpid() == self._owner:  # not in a process that was forked from it
            remove(self.token)

    def address(self, place: Place) -> str:
        """The IPv4 address of a client, or of the server."""
        self._check(place)
        return links.server_address() if place == SERVER else links.client_address(place)

    def set_rate(self, client: int, bits_per_second: float | None) -> None:
        """Sets the rate at which a client can send, from now on; None: as fast as the machine
        can. It counts whole packets: of 1514 bytes, TCP leaves 1448 to those who use it."""
        self._check(client)
        _check_rate(bits_per_second)
        links.shape(self._name(client), links.UPLINK, bits_per_second)

    def set_downlink(self, client: int, bits_per_second: float | None) -> None:
        """Sets the rate at which a client can be sent to, as `set_rate` does; None, as it is at
        the beginning: as fast as the machine can."""
        self._check(client)
        _check_rate(bits_per_second)
        links.shape(self._name(SERVER), links.port(client), bits_per_second)

    def set_cpu(self, place: Place, share: float | None) -> None:
        """Gives all processes of a client together so much of one processor's time, from now on:
        0.25, or 2 of several; None: as much as there is."""
        self._check(place)
        if share is not None and not LEAST_SHARE <= share < math.inf:
            raise BadInput(f"a share of the processor must be {LEAST_SHARE:g} or more: {share}")
        if self._groups is None:
            raise NoTestbed(str(self.why_no_quota))
        self._groups.limit(self._name(place), share)

    def free(self, process: "subprocess.Popen[bytes]") -> None:
        """Lets a process have as much of a processor as there is, from now on; those that it has
        started stay limited. It stays in its network, and ends with the others."""
        if self._groups is not None:
            self._groups.free(process.pid)

    def start(
        self,
        place: Place,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Starts a process at a client or at the server, in a session of its own. `env` adds to
        the environment of this process; what is printed is added to the file `log`, or lost."""
        self._check(place)
        environment = {**os.environ, **(env or {})}
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise BadInput(f"the command {command[0]} is not there, or cannot be executed")
        words = ["ip", "netns", "exec", self._name(place), *command]
        if self._groups is not None:  # first, so that no process is ever without
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
        """Ends all processes at a client or at the server, None: everywhere, with all that they
        started; those that do not end by themselves within `grace` seconds are killed. Default:
        that of the testbed."""
        places = self._places() if place is None else [place]
        self._check(*places)
        names = [self._name(place) for place in places]
        started = [process for at, process in self._running if at in places]

        def find() -> set[int]:
            # One that was started this instant may not yet have arrived.
            ours = {process.pid for process in started if process.poll() is None}
            return ours | inside(names, self._groups)

        if left := end(find, self.grace if grace is None else grace):
            pids = ", ".join(map(str, sorted(left)))
            raise NoTestbed(f"processes of a testbed do not end: {pids}")
        self._running = [entry for entry in self._running if entry[0] not in places]

    def meter(self) -> Meter:
        """A meter of what the clients send, for the time of a `with`."""
        return Meter(self._name(SERVER), self.clients)

    def _places(self) -> list[Place]:
        return [SERVER, *range(self.clients)]

    def _name(self, place: Place) -> str:
        return name(self.token, place)

    def _check(self, *places: Place) -> None:
        for place in places:
            if place not in self._places():
                raise BadInput(
                    f"a testbed of {self.clients} clients has no client {place}: they are counted "
                    "from 0"
                )


def _check_rate(rate: float | None) -> None:
    if rate is not None and not LEAST_RATE <= rate <= MOST_RATE:
        raise BadInput(f"the rate of a link must be {LEAST_RATE:g} to {MOST_RATE:g} bit/s: {rate}")


def why_not() -> str | None:
    """None where a testbed can be made here, else a sentence that tells why not. It makes a small
    one and tries its parts. Processors without a limit are no reason: `Testbed.why_no_quota`."""
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
