"""Uploads in a testbed: modelled seconds, seconds on the link, and the overhead of Flower."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from statistics import median
from typing import Any

from fedcell.core.showing import Showable


@dataclass(frozen=True, kw_only=True)
class MeasuredUpload:
    """One upload over a shaped link.

    Attributes
    ----------
    round, client : int
        Round, counted from 1, and index of the client.
    name : str
        Name of the device.
    rate : float
        a_j B r_j^0, the rate of the link [bit/s].
    cpu : float
        f_j, as a share of one processor.
    modelled : float
        Upload by (6) [s].
    link : float
        From its first to its last byte on the link [s].
    bytes : int
        Bytes on the link, with headers of packets.
    flower : float
        From the device's reply until the server had it [s].
    modelled_training : float
        Training by (9) [s].
    training : float
        Training by the device's clock [s].
    """

    round: int
    client: int
    name: str
    rate: float
    cpu: float
    modelled: float
    link: float
    bytes: int
    flower: float
    modelled_training: float
    training: float

    @property
    def error(self) -> float:
        """Relative error of the model: link / modelled - 1."""
        return self.link / self.modelled - 1

    @property
    def overhead(self) -> float:
        """Seconds of Flower beside the link: its polls and processes."""
        return self.flower - self.link


def _middle(values: Iterable[float]) -> float:
    """Return the median of finite values; NaN where there are none."""
    known = [value for value in values if isfinite(value)]
    return median(known) if known else nan


@dataclass(frozen=True, kw_only=True, eq=False)
class TestbedReport(Showable):
    """All uploads of a testbed.

    Attributes
    ----------
    uploads : sequence of MeasuredUpload
        One for each upload that came.
    bits : float
        z_m, the size of an upload [bit].
    policy : str
        Policy of the schedules.
    limited : bool
        Whether processors could be limited.
    """

    uploads: Sequence[MeasuredUpload]
    bits: float
    policy: str
    limited: bool

    @property
    def median_error(self) -> float:
        """Median of |error| over the uploads."""
        return _middle(abs(u.error) for u in self.uploads)

    @property
    def worst_error(self) -> float:
        """Largest |error| of an upload."""
        return max((abs(u.error) for u in self.uploads), default=nan)

    @property
    def overhead(self) -> float:
        """Median overhead of Flower [s]."""
        return _middle(u.overhead for u in self.uploads)

    @property
    def training_error(self) -> float:
        """Median relative error of the training times, where processors were limited; else NaN."""
        some = self.uploads if self.limited else ()
        return _middle(abs(u.training / u.modelled_training - 1) for u in some)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each upload, by round and client."""
        return [
            asdict(u) | {"error": u.error, "overhead": u.overhead}
            for u in sorted(self.uploads, key=lambda u: (u.round, u.client))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
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
