"""Uploads in a testbed: what the model says, what the link took, and what Flower adds."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from statistics import median
from typing import Any

from fedcell.core.showing import Showable


@dataclass(frozen=True, kw_only=True)
class MeasuredUpload:
    """One upload over a shaped link."""

    round: int
    client: int
    name: str
    rate: float  # a_j B r_j^0, at which the link was set [bit/s]
    cpu: float  # f_j, as a part of a processor
    modelled: float  # (6) [s]
    link: float  # from its first to its last byte on the link [s]
    bytes: int  # that went over the link, heads of packets included
    flower: float  # from the device's answer until the server had it [s]
    modelled_training: float  # (9) [s]
    training: float  # by the device's clock [s]

    @property
    def error(self) -> float:
        """By which part the link took longer than the model says."""
        return self.link / self.modelled - 1

    @property
    def overhead(self) -> float:
        """What Flower takes beside the link: its polls and processes [s]."""
        return self.flower - self.link


def _middle(values: Iterable[float]) -> float:
    """The median of what was measured."""
    known = [value for value in values if isfinite(value)]
    return median(known) if known else nan


@dataclass(frozen=True, kw_only=True, eq=False)
class TestbedReport(Showable):
    """All uploads of a testbed."""

    uploads: Sequence[MeasuredUpload]
    bits: float  # z_m [bit]
    policy: str
    limited: bool  # whether processors could be limited

    @property
    def median_error(self) -> float:
        """Of the uploads, without sign."""
        return _middle(abs(u.error) for u in self.uploads)

    @property
    def worst_error(self) -> float:
        """Of the uploads, without sign."""
        return max((abs(u.error) for u in self.uploads), default=nan)

    @property
    def overhead(self) -> float:
        """Of Flower, the median [s]."""
        return _middle(u.overhead for u in self.uploads)

    @property
    def training_error(self) -> float:
        """Median, without sign, of the trainings, where processors were limited."""
        some = self.uploads if self.limited else ()
        return _middle(abs(u.training / u.modelled_training - 1) for u in some)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each upload."""
        return [
            asdict(u) | {"error": u.error, "overhead": u.overhead}
            for u in sorted(self.uploads, key=lambda u: (u.round, u.client))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "policy": self.policy,
            "model_bits": self.bits,
            "processors_limited": self.limited,
            "median_error": self.median_error,
            "worst_error": self.worst_error,
            "flower_overhead": self.overhead,
            "median_training_error": self.training_error,
            "uploads": self.rows(),
        }

    def __repr__(self) -> str:
        words = f"{100 * self.median_error:.1f} % off in the median"
        return f"<TestbedReport, {len(self.uploads)} uploads: {words}>"
