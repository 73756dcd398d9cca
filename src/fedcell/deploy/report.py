"""What the devices of a federation did, device by device: measured beside modelled."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile
from fedcell.core.showing import Showable
from fedcell.simulation.folder import seeds_inside
from fedcell.simulation.result import RunResult

from .exchange import CAME, EXCHANGES, Exchange, read_exchanges

TIMES = ("training", "upload", "waiting")


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """One device over all rounds; times are medians [s], None where none was measured."""

    client: int
    name: str
    called: int
    arrived: int  # uploads that were counted
    modelled_training: float | None
    modelled_upload: float | None
    modelled_energy: float  # in all [J]
    measured_training: float | None
    measured_upload: float | None
    measured_waiting: float | None
    measured_bytes: int  # to it and from it, in all


@dataclass(frozen=True, kw_only=True, eq=False)
class ExchangeReport(Showable):
    """All exchanges of a federation, as exchanges.csv has them."""

    exchanges: Sequence[Exchange]

    @property
    def rounds(self) -> int:
        """The last round."""
        return max((e.round for e in self.exchanges), default=0)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many exchanges ended how, introductions apart."""
        return dict(Counter(e.outcome for e in self.exchanges if e.outcome != "introduced"))

    @property
    def events(self) -> list[Exchange]:
        """What did not go as it should; uploads that the dice lost are no event."""
        usual = ("arrived", "introduced", "lost")
        return [e for e in self.exchanges if e.outcome not in usual or e.why == "came back"]

    def devices(self) -> list[DeviceReport]:
        """One for each device that was ever called, in the order of the clients."""
        mine: dict[int, list[Exchange]] = {}
        for exchange in self.exchanges:
            if exchange.client is not None and exchange.round > 0 and exchange.share is not None:
                mine.setdefault(exchange.client, []).append(exchange)
        return [_device(client, rows) for client, rows in sorted(mine.items())]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each exchange."""
        return [asdict(exchange) for exchange in self.exchanges]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rounds": self.rounds,
            "outcomes": self.outcomes,
            "devices": [asdict(device) for device in self.devices()],
            "events": [asdict(event) for event in self.events],
        }

    def __repr__(self) -> str:
        words = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())
        return f"<ExchangeReport, {self.rounds} rounds: {words or 'nobody was called'}>"


def _device(client: int, rows: Sequence[Exchange]) -> DeviceReport:
    called = [row for row in rows if row.outcome != "duplicate"]
    came = [row for row in called if row.outcome in CAME]

    def middle(name: str) -> float | None:
        values = [v for row in came if (v := getattr(row, name)) is not None]
        return median(values) if values else None

    sums = [(r.measured_bytes_sent or 0) + (r.measured_bytes_received or 0) for r in called]
    return DeviceReport(
        client=client,
        name=rows[-1].name,
        called=len(called),
        arrived=sum(row.outcome in ("arrived", "clipped") for row in called),
        modelled_training=middle("modelled_training"),
        modelled_upload=middle("modelled_upload"),
        modelled_energy=sum(row.modelled_energy or 0.0 for row in called),
        measured_training=middle("measured_training"),
        measured_upload=middle("measured_upload"),
        measured_waiting=middle("measured_waiting"),
        measured_bytes=sum(sums),
    )


def collapse_of(result: RunResult) -> str | None:
    """Why a run has failed that came to its end: its last model has no loss. None if it has."""
    losses = result.state.history.train_loss
    if not result.complete or not losses.size or np.isfinite(losses[-1]):
        return None
    finite = np.flatnonzero(np.isfinite(losses))
    since = int(finite[-1]) + 2 if finite.size else 1
    return (
        f"the training loss is not a number from round {since} to the last, {losses.size}: the "
        "model has collapsed, or nobody could evaluate it; see exchanges.csv for what devices "
        "sent, leave out updates that are too long (screen = exclude), or lower learning.rate"
    )


def load_exchanges(folder: str | Path) -> ExchangeReport:
    """What the devices of a federation did, from the folder of its run."""
    place = Path(folder)
    if not (place / EXCHANGES).is_file():
        raise BadFile(
            f"{place}: holds no {EXCHANGES}: name the folder of a run on a federation"
            f"{seeds_inside(place)}"
        )
    return ExchangeReport(exchanges=tuple(read_exchanges(place)))
