"""What passed between the server and a device in a round: two ledgers side by side, never mixed.

`modelled` columns are seconds and joules as the paper has them; `measured` ones are of the clock on
the wall and of bytes. exchanges.csv has a line for each device that was called; round 0 is that of
the introductions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import UNPRINTABLE

from .lines import LineFile, columns_of, number_in

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
