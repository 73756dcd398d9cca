"""The upload in what a link carried: when it began and ended, with all else that is sent around
it left out."""

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
    """What a client sent in a window of time, and the burst in it that is the upload."""

    sent: int  # bytes in the whole window, headers of packets included
    burst: int  # bytes of the upload
    begin: float  # s, of the upload, by time.monotonic
    end: float  # s

    @property
    def duration(self) -> float:
        """How long the upload took [s]."""
        return self.end - self.begin

    @property
    def rate(self) -> float:
        """The mean rate of the upload [bit/s]; 0 where nothing was sent."""
        return 8 * self.burst / self.duration if self.duration > 0 else 0.0


def find_upload(times: Array, counts: Array) -> Upload:
    """The upload in a window, from the times [s] at which a link was looked at, of shape (n,), and
    the bytes that it had carried by then.

    Polls, heartbeats and the acknowledgements of a download are sent around an upload. They may be
    any part of the bytes below a half, but they are thin. So the upload is the interval in which
    the link carried most above a quarter of its pace, the one with the greatest

        bytes - pace / 4 * time,

    where pace is that of the shortest interval with half of all bytes. It may slow down to a
    quarter on its way, and a pause belongs to it, if both sides outweigh it. (An interval with a
    fixed part of the bytes, as 96 %, would be wrong by all that is beyond that part.) What the
    first and the last look saw of it is dated back, and on, at the mean pace in between.
    """
    times, counts = np.asarray(times, float), np.asarray(counts, float)
    sent = round(counts[-1] - counts[0]) if len(counts) else 0
    if sent <= 0:
        at = float(times[-1]) if len(times) else 0.0
        return Upload(sent=0, burst=0, begin=at, end=at)
    surplus = counts - _pace(times, counts) / 4 * times
    # The greatest rise from one look to a later one.
    lowest = np.minimum.accumulate(surplus)
    last = int(np.argmax(surplus - lowest))
    first = int(np.argmin(surplus[: last + 1]))
    burst = counts[last] - counts[first]
    begin, end = times[first], times[last]
    if last - first > 2:  # with fewer looks, the pace in between is not known
        inner = (counts[last - 1] - counts[first + 1]) / (times[last - 1] - times[first + 1])
        if inner > 0:
            early = (counts[first + 1] - counts[first]) / inner
            late = (counts[last] - counts[last - 1]) / inner
            begin = max(begin, times[first + 1] - early)
            end = min(end, times[last - 1] + late)
    return Upload(sent=sent, burst=round(burst), begin=float(begin), end=float(end))


def _pace(times: Array, counts: Array) -> float:
    """Bytes a second in the shortest interval with half of all bytes."""
    half = (counts[-1] - counts[0]) / 2
    last = np.searchsorted(counts, counts + half)  # the first look by which half has come since
    first = np.flatnonzero(last < len(counts))
    last = last[first]
    shortest = np.argmin(times[last] - times[first])
    first, last = first[shortest], last[shortest]
    return float((counts[last] - counts[first]) / (times[last] - times[first]))


PERIOD = 0.01  # s between looks; an upload is dated finer than that where it lasts some of them
ENTER_NETWORK = 0x40000000  # CLONE_NEWNET of Linux


class Meter:
    """Looks at the counters of all links every 10 ms, for the time of a `with`, and tells of any
    window in it what a client uploaded. What it has seen takes little memory while nothing is
    sent."""

    def __init__(self, server: str, clients: int) -> None:
        self._server = server
        self._ports = {f"{port(client)}:".encode(): client for client in range(clients)}
        # By client, times and bytes so far; of looks that saw the same, the first and the last.
        self._times: list[list[float]] = [[] for _ in range(clients)]
        self._counts: list[list[int]] = [[] for _ in range(clients)]
        self._one_at_a_time = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> "Meter":
        self._file = _counters(self._server)
        self._look()
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
        self._look()
        self._file.close()

    def upload(self, client: int, begin: float, end: float) -> Upload:
        """What a client sent between two times of time.monotonic, and when its upload was. What
        was sent between the looks around `begin`, or `end`, is divided evenly."""
        with suppress(ValueError):  # closed: what was seen is all there is
            self._look()
        with self._one_at_a_time:
            times, counts = np.array(self._times[client]), np.array(self._counts[client], float)
        inside = times[(begin < times) & (times < end)]
        looks = np.concatenate(([begin], inside, [end]))
        return find_upload(looks, np.interp(looks, times, counts))

    def forget(self, before: float) -> None:
        """Drops what was seen before a time, which is not asked for any more."""
        with self._one_at_a_time:
            for times, counts in zip(self._times, self._counts, strict=True):
                old = max(int(np.searchsorted(times, before)) - 1, 0)
                del times[:old], counts[:old]

    def _watch(self) -> None:
        while not self._ended.wait(PERIOD):
            self._look()

    def _look(self) -> None:
        with self._one_at_a_time:
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
    """The kernel's table of the devices in a namespace; once open it stays that one's.

    A thread, unlike the whole process, may go into another namespace; this one does and ends.
    """
    opened: list[FileIO | OSError] = []

    def go_and_open() -> None:
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

    visitor = threading.Thread(target=go_and_open, name="fedcell-visitor")
    visitor.start()
    visitor.join()
    if isinstance(opened[0], OSError):
        raise NoTestbed(f"the links cannot be metered: {opened[0].strerror}") from opened[0]
    return opened[0]
