"""What passed between the server and a device in a round: two ledgers side by side, never mixed.

`modelled` columns are seconds and joules as the paper has them; `measured` ones are of the clock on
the wall and of bytes. exchanges.csv has a line for each device that was called; round 0 is that of
the introductions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fedcell.core.errors import UNPRINTABLE, BadFile
from fedcell.core.showing import Showable
from fedcell.simulation.folder.run_folder import seeds_inside
from fedcell.simulation.summary import RunResult

from .round_tables import LineFile, columns_of, number_in

EXCHANGES = "exchanges.csv"
OUTCOMES = (
    "arrived",  # and counted in the next model
    "lost",  # came, and was lost by the dice of the scenario (cell.loss_rate)
    "not finite",  # came with numbers that are not finite, and was left out
    "clipped",  # came, was far longer than the others, and was shortened
    "excluded",  # the same, and was left out
    "malformed",  # came with other arrays than the model's, or without what was asked for
    "too large",  # came with more bytes than a model of this kind can have
    "late",  # had not come when the deadline passed
    "failed",  # the device answered that it failed, or the network that it is gone
    "absent",  # was not there when the round began
    "introduced",  # said who it is
    "refused",  # said something of itself that cannot be
    "duplicate",  # answered twice: the first was taken
)
TAKEN = ("arrived", "clipped")
MISSING = (
    "excluded",
    "malformed",
    "too large",
    "late",
    "failed",
    "absent",
)  # not in the next model
CAME = ("arrived", "lost", "not finite", "clipped", "excluded")  # and can be measured
TEXTS = ("name", "outcome", "why")
WHOLE = ("round", "client", "measured_bytes_sent", "measured_bytes_received")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One device in one round; None where something is not known."""

    round: int  # counted from 1; 0: before the first
    client: int | None
    name: str
    outcome: str  # one of OUTCOMES
    why: str = ""
    share: float | None = None  # a_j
    freq: float | None = None  # f_j [cycle/s]
    modelled_training: float | None = None  # (9) [s]
    modelled_upload: float | None = None  # (6) [s]
    modelled_energy: float | None = None  # (7) + (10) [J]
    measured_training: float | None = None  # by the device's own clock [s]
    measured_upload: float | None = None  # from its answer until the server had it [s]
    measured_waiting: float | None = None  # the rest: on the way there, and until it began [s]
    measured_total: float | None = None  # from sending the model until the answer was there [s]
    measured_bytes_sent: int | None = None  # to the device
    measured_bytes_received: int | None = None  # from it


COLUMNS = columns_of(Exchange)


class ExchangeFile(LineFile[Exchange]):
    """exchanges.csv in the folder of a run, which grows by a round at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / EXCHANGES, Exchange, _parse)


def past_exchanges(folder: Path) -> list[Exchange]:
    """What a folder tells of its exchanges; nothing where it has no such file."""
    return ExchangeFile(folder).past()


def read_exchanges(folder: Path) -> list[Exchange]:
    """What a folder tells of its exchanges; a last line without an end is passed over."""
    return ExchangeFile(folder).read()


def _parse(cells: dict[str, str]) -> Exchange:
    values: dict[str, Any] = {
        name: text if name in TEXTS else number_in(text, name in WHOLE)
        for name, text in cells.items()
    }
    if values["outcome"] not in OUTCOMES or values["round"] is None:
        raise ValueError
    if any(UNPRINTABLE.search(values[name]) for name in TEXTS):
        raise ValueError  # nobody here writes what acts on a terminal
    return Exchange(**values)


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
