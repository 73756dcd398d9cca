"""What each client does when in a round: download, train, upload, wait; and the joules of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.showing import described_axes, value_range
from fedcell.core.types import Array
from fedcell.network.round import Cost

from .pricing import DeviceCost

STATES = ("download", "train", "upload", "wait")
PARTS = (*STATES, "tail")  # of the energy; the tail of a radio has no length here


@dataclass(frozen=True, eq=False)
class Timeline:
    """Intervals and joules of each client of rounds, (..., client), from the start of the round.

    Attributes
    ----------
    begin, end : mapping of str to ndarray
        Of "download", "train", "upload" and "wait" [s].
    energy : mapping of str to ndarray
        Joules of these, and of the "tail" of the radio.

    Examples
    --------
    >>> from fedcell import Scenario
    >>> from fedcell.network import schedule_round
    >>> line = schedule_round(Scenario().using(device={"idle_power": 0.5}), "even").timeline
    >>> bool((line.end["train"] == line.begin["upload"]).all())
    True
    """

    begin: dict[str, Array]
    end: dict[str, Array]
    energy: dict[str, Array]

    @classmethod
    def of(cls, cost: Cost, broadcast_time: float = 0.0) -> Timeline:
        """Return the timeline of priced rounds; `broadcast_time` is T_d where it is constant."""
        train, send = np.broadcast_arrays(cost.compute_time, cost.upload_time)
        nothing = np.zeros(train.shape)
        start, got = nothing, np.full(train.shape, broadcast_time)
        trained_from = got
        energy = {
            "download": nothing,
            "train": np.broadcast_to(cost.compute_energy, train.shape),
            "upload": np.broadcast_to(cost.upload_energy, train.shape),
            "wait": nothing,
            "tail": nothing,
        }
        if isinstance(cost, DeviceCost):
            extras = cost.extras
            trained_from = broadcast_time + extras.download_time
            if extras.download_time.any():
                start, got = extras.receive_begin, extras.receive_end
            energy |= {
                "download": extras.receive_energy,
                "wait": cost.wait_energy,
                "tail": extras.tail_energy,
            }
        sent_from = trained_from + train
        done = sent_from + send
        last = np.broadcast_to(done.max(-1, keepdims=True), done.shape)
        return cls(
            begin={"download": start, "train": trained_from, "upload": sent_from, "wait": done},
            end={"download": got, "train": sent_from, "upload": done, "wait": last},
            energy=energy,
        )

    @property
    def seconds(self) -> dict[str, Array]:
        """Return the length of each state."""
        return {state: self.end[state] - self.begin[state] for state in STATES}

    @property
    def duration(self) -> Array:
        """Return the length of each round, its download included [s]."""
        return np.asarray(self.end["wait"].max(-1))

    @property
    def by_part(self) -> dict[str, Array]:
        """Return the joules of all clients of a round by part; they sum to those of the round."""
        return {part: np.asarray(values.sum(-1)) for part, values in self.energy.items()}

    def __repr__(self) -> str:
        shape = self.end["wait"].shape
        parts = ", ".join(f"{part} {float(v.sum()):.4g} J" for part, v in self.energy.items())
        return f"<Timeline, {described_axes(shape)}: {value_range(self.duration, 's')}; {parts}>"
