"""The random inputs of a run as arrays: the fleet, and per round the cohort, channel gains and
lost uploads.

Bring your own: measured or ray-traced channels are a Trace made from arrays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from fedcell.core.types import Array, Bools, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """The N clients, as arrays of length N."""

    samples: Array  # D_j
    kappa: Array  # kappa_j [J s^2]
    power: Array  # p_j^0 [W/Hz]
    mean_gain: Array  # channel power gain before fading
    freq_min: Array  # [cycle/s]
    freq_max: Array  # [cycle/s]

    @property
    def count(self) -> int:
        """N."""
        return self.samples.size


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Who is called, how well they are heard and whose upload is lost: (round, place).

    A place without a client (fewer candidates than K, or a client drawn twice) has
    cohort -1 and count 0, and stands after those that have one.
    """

    cohort: Ints  # client of each place
    gain: Array  # h_j, linear
    lost: Bools  # its upload does not arrive
    count: Ints  # how often the client was drawn; above 1 only for weighted selection
    excluded_by_channel: Ints  # (round,) clients that sat out because of a weak channel
    excluded_by_data: Ints  # (round,) clients that sat out because of too little data

    @classmethod
    def of(cls, gain: Array) -> "Trace":
        """Rounds in which all are called and none is lost: `gain` is (round, client)."""
        none = np.zeros(len(gain), np.int64)
        return cls(
            cohort=np.broadcast_to(np.arange(gain.shape[1]), gain.shape),
            gain=gain,
            lost=np.zeros(gain.shape, bool),
            count=np.ones(gain.shape, np.int64),
            excluded_by_channel=none,
            excluded_by_data=none,
        )

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.cohort)

    @property
    def called(self) -> Ints:
        """Clients that train and upload in each round."""
        return np.asarray((self.cohort >= 0).sum(-1))

    @property
    def draws(self) -> Ints:
        """Draws of each round that found a client: K, or fewer when too few may be called."""
        return np.asarray(self.count.sum(-1))

    @property
    def arrived(self) -> Bools:
        """Whose upload arrives, (round, place)."""
        return (self.cohort >= 0) & ~self.lost

    @property
    def received(self) -> Ints:
        """Clients whose upload arrives; K_gamma where none is drawn twice."""
        return np.asarray(self.arrived.sum(-1))

    def uploads(self, round: int) -> tuple[list[int], list[int]]:
        """The clients whose upload arrives in a round, and how often each was drawn: all that
        learning sees of the network."""
        here = self.arrived[round]
        return self.cohort[round][here].tolist(), self.count[round][here].tolist()

    def by_size(self) -> Iterator[tuple[Ints, "Trace"]]:
        """The rounds grouped by the size of their cohort, each group without empty places."""
        called = self.called
        for size in np.unique(called):
            where = np.flatnonzero(called == size)
            yield where, self._pick(where, int(size))

    def __getitem__(self, rounds: slice) -> "Trace":
        """Some of the rounds."""
        return Trace(**{f.name: getattr(self, f.name)[rounds] for f in fields(self)})

    def _pick(self, rounds: Ints, size: int) -> "Trace":
        values = {field.name: getattr(self, field.name)[rounds] for field in fields(self)}
        return Trace(**{name: v[:, :size] if v.ndim == 2 else v for name, v in values.items()})

    @classmethod
    def join(cls, parts: Sequence["Trace"]) -> "Trace":
        """Traces of consecutive rounds as one."""
        columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(cls)}
        return cls(**{name: np.concatenate(values) for name, values in columns.items()})
