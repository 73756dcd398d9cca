"""What passed between the server and a device in a round: two ledgers side by side, never mixed.

`modelled` columns are seconds and joules of the paper's cost model; `measured` ones come from
clocks and byte counts. exchanges.csv has a row for each device that was called; round 0 holds the
introductions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fedcell.core.errors import UNPRINTABLE, BadFile
from fedcell.core.showing import Showable
from fedcell.simulation.folder.run_folder import seeds_inside
from fedcell.simulation.summary import RunResult

from .round_tables import RoundTable, columns_of, number_in

EXCHANGES = "exchanges.csv"


class Outcome(StrEnum):
    """How an exchange with a device ended, as exchanges.csv spells it."""

    ARRIVED = "arrived"  # counted in the next model
    LOST = "lost"  # came, and the scenario drew it as lost (cell.loss_rate)
    NOT_FINITE = "not finite"  # came with numbers that are not finite, and was left out
    CLIPPED = "clipped"  # came, was far longer than the others, and was shortened
    EXCLUDED = "excluded"  # came, was far longer than the others, and was left out
    MALFORMED = "malformed"  # came with other arrays than the model's, or without them
    TOO_LARGE = "too large"  # came with more bytes than a model of this kind can have
    LATE = "late"  # had not come by the deadline
    FAILED = "failed"  # the device reported a failure, or its node is gone
    ABSENT = "absent"  # was not connected when the round began
    INTRODUCED = "introduced"  # sent its profile and was accepted
    REFUSED = "refused"  # sent a profile that cannot be accepted
    DUPLICATE = "duplicate"  # replied more than once: the first reply was taken


class Arrival(StrEnum):
    """When a device was introduced: the `why` of an exchange that ended as INTRODUCED."""

    FIRST = ""  # before the first round
    RETURNED = "came back"  # it had been connected before
    LATE = "joined during the run"


COUNTED = (Outcome.ARRIVED, Outcome.CLIPPED)  # in the next model
MISSING = (  # not in the next model
    Outcome.EXCLUDED,
    Outcome.MALFORMED,
    Outcome.TOO_LARGE,
    Outcome.LATE,
    Outcome.FAILED,
    Outcome.ABSENT,
)
CAME = (  # with an upload and measured times
    Outcome.ARRIVED,
    Outcome.LOST,
    Outcome.NOT_FINITE,
    Outcome.CLIPPED,
    Outcome.EXCLUDED,
)
USUAL = (Outcome.ARRIVED, Outcome.INTRODUCED, Outcome.LOST)  # no events
TEXTS = ("name", "outcome", "why")
WHOLE = ("round", "client", "measured_bytes_sent", "measured_bytes_received")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One device in one round, a row of exchanges.csv; None where a value is not known.

    Attributes
    ----------
    round : int
        Round, counted from 1; 0: before the first.
    client : int or None
        Index of the client; None: the device has no place in the fleet.
    name : str
        Name of the device.
    outcome : Outcome
        How the exchange ended.
    why : str
        The reason, in words; empty where there is nothing to say.
    share, freq : float or None
        Scheduled share a_j of the band, and frequency f_j [cycle/s].
    modelled_training, modelled_upload : float or None
        Seconds of (9) and of (6).
    modelled_energy : float or None
        Joules of (7) and (10) together.
    measured_training : float or None
        Seconds of training by the device's own clock.
    measured_upload : float or None
        Seconds from the device's reply until the server had it.
    measured_waiting : float or None
        Seconds of the rest: the way to the device, and the wait until it began.
    measured_total : float or None
        Seconds from sending the model until the reply was received.
    measured_bytes_sent, measured_bytes_received : int or None
        Bytes to the device, and from it.
    """

    round: int
    client: int | None
    name: str
    outcome: Outcome
    why: str = ""
    share: float | None = None
    freq: float | None = None
    modelled_training: float | None = None
    modelled_upload: float | None = None
    modelled_energy: float | None = None
    measured_training: float | None = None
    measured_upload: float | None = None
    measured_waiting: float | None = None
    measured_total: float | None = None
    measured_bytes_sent: int | None = None
    measured_bytes_received: int | None = None

    @property
    def returned(self) -> bool:
        """Whether the device came back after it had been away."""
        return self.outcome == Outcome.INTRODUCED and self.why == Arrival.RETURNED

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self) | {"outcome": str(self.outcome)}


COLUMNS = columns_of(Exchange)


class ExchangeFile(RoundTable[Exchange]):
    """exchanges.csv in the folder of a run, which grows with every round."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / EXCHANGES, Exchange, _parse)


def past_exchanges(folder: Path) -> list[Exchange]:
    """Read the exchanges of a folder; empty where it has no such file."""
    return ExchangeFile(folder).past()


def read_exchanges(folder: Path) -> list[Exchange]:
    """Read the exchanges of a folder; skip a last line without an end."""
    return ExchangeFile(folder).read()


def _parse(cells: dict[str, str]) -> Exchange:
    values: dict[str, Any] = {
        name: text if name in TEXTS else number_in(text, name in WHOLE)
        for name, text in cells.items()
    }
    if values["round"] is None or any(UNPRINTABLE.search(values[name]) for name in TEXTS):
        raise ValueError  # control characters would act on a terminal; fedcell writes none
    return Exchange(**values | {"outcome": Outcome(values["outcome"])})


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """One device over all rounds; times are medians [s], None where none was measured.

    Attributes
    ----------
    client : int
        Index of the client.
    name : str
        Name of the device.
    called : int
        Rounds in which it was called.
    arrived : int
        Uploads that were counted in a model.
    modelled_training, modelled_upload : float or None
        Medians of (9) and of (6) [s].
    modelled_energy : float
        Sum of (7) and (10) over all rounds [J].
    measured_training, measured_upload, measured_waiting : float or None
        Medians by the clock [s].
    measured_bytes : int
        Bytes to the device and from it, over all rounds.
    """

    client: int
    name: str
    called: int
    arrived: int
    modelled_training: float | None
    modelled_upload: float | None
    modelled_energy: float
    measured_training: float | None
    measured_upload: float | None
    measured_waiting: float | None
    measured_bytes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ExchangeReport(Showable):
    """All exchanges of a federation, as exchanges.csv has them.

    Print it, or call `summary()` and `plot()`, to compare modelled with measured times.

    Attributes
    ----------
    exchanges : sequence of Exchange
        One for each device and round, in order of the rounds.
    """

    exchanges: Sequence[Exchange]

    @property
    def rounds(self) -> int:
        """The last round."""
        return max((e.round for e in self.exchanges), default=0)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of exchanges by outcome, without introductions."""
        called = (e for e in self.exchanges if e.outcome != Outcome.INTRODUCED)
        return dict(Counter(str(e.outcome) for e in called))

    @property
    def events(self) -> list[Exchange]:
        """Exchanges that need attention: faults, refusals and devices that came back. Uploads that
        the scenario drew as lost are none."""
        return [e for e in self.exchanges if e.outcome not in USUAL or e.returned]

    def devices(self) -> list[DeviceReport]:
        """Summarise each device that was ever called.

        Returns
        -------
        list of DeviceReport
            In the order of the clients.
        """
        rows: dict[int, list[Exchange]] = {}
        for exchange in self.exchanges:
            if exchange.client is not None and exchange.round > 0 and exchange.share is not None:
                rows.setdefault(exchange.client, []).append(exchange)
        return [_device(client, own) for client, own in sorted(rows.items())]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each exchange, as plain values."""
        return [exchange.to_dict() for exchange in self.exchanges]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "rounds": self.rounds,
            "outcomes": self.outcomes,
            "devices": [asdict(device) for device in self.devices()],
            "events": [event.to_dict() for event in self.events],
        }

    def __repr__(self) -> str:
        words = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())
        return f"<ExchangeReport, {self.rounds} rounds: {words or 'no device was called'}>"


def _device(client: int, rows: Sequence[Exchange]) -> DeviceReport:
    called = [row for row in rows if row.outcome != Outcome.DUPLICATE]
    came = [row for row in called if row.outcome in CAME]

    def middle(name: str) -> float | None:
        values = [v for row in came if (v := getattr(row, name)) is not None]
        return median(values) if values else None

    sums = [(r.measured_bytes_sent or 0) + (r.measured_bytes_received or 0) for r in called]
    return DeviceReport(
        client=client,
        name=rows[-1].name,
        called=len(called),
        arrived=sum(row.outcome in COUNTED for row in called),
        modelled_training=middle("modelled_training"),
        modelled_upload=middle("modelled_upload"),
        modelled_energy=sum(row.modelled_energy or 0.0 for row in called),
        measured_training=middle("measured_training"),
        measured_upload=middle("measured_upload"),
        measured_waiting=middle("measured_waiting"),
        measured_bytes=sum(sums),
    )


def collapse_of(result: RunResult) -> str | None:
    """Say why a complete run has failed, where its last model has no finite loss; else None."""
    losses = result.state.history.train_loss
    if not result.complete or not losses.size or np.isfinite(losses[-1]):
        return None
    finite = np.flatnonzero(np.isfinite(losses))
    since = int(finite[-1]) + 2 if finite.size else 1
    return (
        f"the training loss is not a number from round {since} to the last, {losses.size}: the "
        "model has diverged, or no device could evaluate it; see exchanges.csv for what devices "
        "sent, leave out updates that are too long (screen = exclude), or lower learning.rate"
    )


def load_exchanges(folder: str | Path) -> ExchangeReport:
    """Load what the devices of a federation did.

    Parameters
    ----------
    folder : str or Path
        Folder of a run on a federation.

    Returns
    -------
    ExchangeReport
        All rows of its exchanges.csv.

    Raises
    ------
    BadFile
        If the folder has no exchanges.csv, or a damaged one.
    """
    place = Path(folder)
    if not (place / EXCHANGES).is_file():
        raise BadFile(
            f"{place}: holds no {EXCHANGES}: name the folder of a run on a federation"
            f"{seeds_inside(place)}"
        )
    return ExchangeReport(exchanges=tuple(read_exchanges(place)))
