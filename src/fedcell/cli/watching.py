"""A run that is made elsewhere, watched by its ledger: a line for each round that is done."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fedcell.core.errors import FedcellError
from fedcell.deploy.exchange import Exchange, read_exchanges
from fedcell.deploy.presence import round_line
from fedcell.simulation.ledgerfile import LEDGER, read_ledgers


class RunWatch:
    """Tells of each round of a run as it is done."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder, self._tell = folder, tell
        self._seen: float | None = None
        self._rounds: int | None = None  # that were told of, or there when it began

    def look(self) -> None:
        """Tells of rounds that are new."""
        path = self._folder / LEDGER
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            return
        if changed == self._seen:
            return
        self._seen = changed
        try:
            columns = next(iter(read_ledgers(self._folder).values()), None)
        except FedcellError:
            return  # it is being written
        if columns is None:
            self._rounds = 0
            return
        rounds, exchanges = columns["duration"].size, self._exchanges()
        for t in range(self._rounds or 0, rounds):
            loss = columns["train_loss"][t]
            called, received = columns["called"][t], columns["received"][t]
            self._tell(round_line(t + 1, loss, received, called, exchanges))
        self._rounds = rounds

    def _exchanges(self) -> Sequence[Exchange]:
        try:
            return read_exchanges(self._folder)
        except (FedcellError, OSError):
            return ()  # it is being written
