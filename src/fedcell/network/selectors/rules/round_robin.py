"""Round robin: clients in turn, K at a time.

Source: a baseline of Yang, Liu, Quek and Poor (IEEE TCOM 2020, arXiv 1908.06287): block t is the
clients t K, ..., t K + K - 1, modulo N.

Elsewhere: FLSim's Sequential (7311f2d) has a shorter last block and does not wrap;
ScheduleFedLearn (a591a86) adds two arrays where it wraps, and fails unless K divides N. Here a
client in outage loses its turn, and the next ones move up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcell.network.selectors.base import Known, Race, surely


@dataclass(frozen=True)
class RoundRobin:
    """The next K clients by number."""

    reads: ClassVar[tuple[str, ...]] = ()
    by_number: ClassVar[bool] = True  # the order of the clients matters

    def __call__(self, known: Known) -> Race:
        turn = int(known.memory["turn"]) if known.memory else 0
        there = np.flatnonzero(np.roll(known.may, -turn))[: known.cohort]
        clients = (there + turn) % known.count
        after = (clients[-1] + 1) % known.count if clients.size else turn
        return Race(surely(clients, known.count), {"turn": np.array(after)})
