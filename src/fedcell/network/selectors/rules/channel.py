"""Best channel and proportional fair: clients with good channels in this round.

Source: Yang, Liu, Quek and Poor, "Scheduling Policies for Federated Learning in Wireless Networks"
(IEEE TCOM 2020, arXiv 1908.06287), read in the code of a co-author (ScheduleFedLearn a591a86,
models.py): proportional fair takes the K largest small-scale gains h_j / mean h_j. Best channel is
the K largest gains; the same rule is BC of Amiri et al. (IEEE TWC 2021).

Constants of that code: 100 devices, K = 5, path-loss exponent 4, an upload arrives if its SINR is
30 dB. Here an upload takes the time that its rate needs, and is lost by cell.loss_rate: there are
no interfering cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedcell.network.selectors.base import Known, Race, best


@dataclass(frozen=True)
class BestChannel:
    """The K largest gains: the shortest uploads, always of the same near clients."""

    reads: ClassVar[tuple[str, ...]] = ("gain",)
    keeps: ClassVar[bool] = False

    def __call__(self, known: Known) -> Race:
        return best(known, known.gain)


@dataclass(frozen=True)
class ProportionalFair:
    """The K largest gains relative to their means: each client equally often."""

    reads: ClassVar[tuple[str, ...]] = ("gain", "mean_gain")
    keeps: ClassVar[bool] = False

    def __call__(self, known: Known) -> Race:
        return best(known, known.gain / known.mean_gain)
