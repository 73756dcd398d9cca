"""Meter of the links: when an upload began and ended, without the other traffic around it."""

import ctypes
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from types import TracebackType

import numpy as np

from fedcell.core.errors import NoTestbed
from fedcell.core.types import Array

from .links import NAMESPACES, port


@dataclass(frozen=True)
class Upload:
    """What a client sent in a window of time, and the burst in it: the upload."""

    sent: int  # bytes in the whole window, headers of packets included
    burst: int  # bytes of the upload
    begin: float  # s, of the upload, by time.monotonic
    end: float  # s

    @property
    def duration(self) -> float:
        """Duration of the upload [s]."""
        return self.end - self.begin

    @property
    def rate(self) -> float:
        """Mean rate of the upload [bit/s]; 0 where nothing was sent."""
        return 8 * self.burst / self.duration if self.duration > 0 else 0.0


def find_upload(times: Array, counts: Array) -> Upload:
    """Find the upload in a window, from the times [s] at which a counter was read, of shape (n,),
    and the bytes that the link had carried by then.

    Polls, heartbeats and the acknowledgements of a download are sent around an upload. They may be
    any part of the bytes below a half, but their rate is low. So the upload is the interval in
    which the link carried most above a quarter of its pace, the one with the greatest

        bytes - pace / 4 * time,

    where pace is that of the shortest interval with half of all bytes. The upload may slow down to
    a quarter, and a pause belongs to it if both sides outweigh it. (An interval with a fixed part
    of the bytes, such as 96 %, would be wrong by the rest.) The beginning and the end are
    interpolated between two readings at the mean pace in between.
    """
    times, counts = np.asarray(times, float), np.asarray(counts, float)
    sent = round(counts[-1] - counts[0]) if len(counts) else 0
    if sent <= 0:
        at = float(times[-1]) if len(times) else 0.0
        return Upload(sent=0, burst=0, begin=at, end=at)
    surplus = counts - _pace(times, counts) / 4 * times
    # The greatest rise from one reading to a later one.
    lowest = np.minimum.accumulate(surplus)
    last = int(np.argmax(surplus - lowest))
    first = int(np.argmin(surplus[: last + 1]))
    burst = counts[last] - counts[first]
    begin, end = times[first], times[last]
    if last - first > 2:  # with fewer readings, the pace in between is not known
        inner = (counts[last - 1] - counts[first + 1]) / (times[last - 1] - times[first + 1])
        if inner > 0:
            early = (counts[first + 1] - counts[first]) / inner
            late = (counts[last] - counts[last - 1]) / inner
            begin = max(begin, times[first + 1] - early)
            end = min(end, times[last - 1] + late)
    return Upload(sent=sent, burst=round(burst), begin=float(begin), end=float(end))


def _pace(times: Array, counts: Array) -> float:
    """Return the bytes per second in the shortest interval with half of all bytes."""
    half = (counts[-1] - counts[0]) / 2
    last = np.searchsorted(counts, counts + half)  # the first reading with half of all bytes since
    first = np.flatnonzero(last < len(counts))
    last = last[first]
    shortest = np.argmin(times[last] - times[first])
    first, last = first[shortest], last[shortest]
    return float((counts[last] - counts[first]) / (times[last] - times[first]))


PERIOD = 0.01  # s between readings; longer uploads are dated more finely, by interpolation
ENTER_NETWORK = 0x40000000  # CLONE_NEWNET of Linux


class Meter:
    """Reads the counters of all links every 10 ms inside a `with` block, and returns what a client
    uploaded in any window of that time. Idle links take little memory."""

    def __init__(self, server: str, clients: int) -> None:
        self._server = server
        self._ports = {f"{port(client)}:".encode(): client for client in range(clients)}
        # By client, times and bytes so far; of equal readings, the first and the last.
        self._times: list[list[float]] = [[] for _ in range(clients)]
        self._counts: list[list[int]] = [[] for _ in range(clients)]
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> "Meter":
        self._file = _counters(self._server)
        self._read()
        self._thread = threading.Thread(target=self._watch, name="fedcell-meter", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._read()
        self._file.close()

    def upload(self, client: int, begin: float, end: float) -> Upload:
        """Return what a client sent between two times of time.monotonic, and when its upload was.
        Bytes between the readings around `begin`, or `end`, are divided evenly."""
        with suppress(ValueError):  # closed: there are no further readings
            self._read()
        with self._lock:
            times, counts = np.array(self._times[client]), np.array(self._counts[client], float)
        inside = times[(begin < times) & (times < end)]
        readings = np.concatenate(([begin], inside, [end]))
        return find_upload(readings, np.interp(readings, times, counts))

    def forget(self, before: float) -> None:
        """Drop readings before a time."""
        with self._lock:
            for times, counts in zip(self._times, self._counts, strict=True):
                old = max(int(np.searchsorted(times, before)) - 1, 0)
                del times[:old], counts[:old]

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD):
            self._read()

    def _read(self) -> None:
        with self._lock:
            self._file.seek(0)
            lines = self._file.readall().splitlines()
            now = time.monotonic()
            for line in lines:
                name, received, *_ = line.split(None, 2)
                client = self._ports.get(name)
                if client is not None:
                    self._keep(client, now, int(received))

    def _keep(self, client: int, now: float, count: int) -> None:
        times, counts = self._times[client], self._counts[client]
        if counts[-2:] == [count, count]:
            times[-1] = now
        else:
            times.append(now)
            counts.append(count)


def _counters(namespace: str) -> FileIO:
    """Open the kernel's table of the devices in a namespace; an open file stays with its namespace.

    A thread, unlike the whole process, can enter another namespace; this one does, and ends.
    """
    opened: list[FileIO | OSError] = []

    def enter_and_open() -> None:
        try:
            handle = os.open(NAMESPACES / namespace, os.O_RDONLY)
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(handle, ENTER_NETWORK):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                opened.append(FileIO("/proc/thread-self/net/dev"))
            finally:
                os.close(handle)
        except OSError as error:
            opened.append(error)

    opener = threading.Thread(target=enter_and_open, name="fedcell-meter-open")
    opener.start()
    opener.join()
    if isinstance(opened[0], OSError):
        raise NoTestbed(f"the links cannot be metered: {opened[0].strerror}") from opened[0]
    return opened[0]
