"""The upload in what a link carried: when it began and ended, with all else that is sent around
it left out."""

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array


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
