"""What is told of a round when it is done, to whoever watches a training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedcell.network.ledger import Ledger

from .history import State


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundReport:
    """A round that is done: what the model has come to, and what that took so far.

    Losses and accuracy are NaN in a round that is not evaluated (learning.evaluate_every).
    """

    round: int  # counted from 1
    rounds: int  # after which the training ends at the latest
    train_loss: float  # (2)
    test_loss: float
    accuracy: float
    received: int  # uploads that arrived in this round
    total_duration: Mapping[str, float]  # simulated so far, by policy [s]
    total_energy: Mapping[str, float]  # of all clients so far, by policy [J]
    state: State = field(repr=False)  # with the model; a training can be gone on with from here


Report = Callable[[RoundReport], None]


class Reporter:
    """Makes the report of each round of a training that is priced under some policies."""

    def __init__(self, networks: Mapping[str, Ledger]) -> None:
        self._received = next(iter(networks.values())).received
        # Summed once: a long run would sum ever more.
        self._duration = {name: network.total_duration for name, network in networks.items()}
        self._energy = {name: network.total_energy for name, network in networks.items()}

    def report(self, state: State) -> RoundReport:
        """Of the last round of a state."""
        t = state.rounds - 1
        _, train_loss, test_loss, accuracy = state.history.rows(t)[0]
        return RoundReport(
            round=state.rounds,
            rounds=self._received.size,
            train_loss=train_loss,
            test_loss=test_loss,
            accuracy=accuracy,
            received=int(self._received[t]),
            total_duration={name: float(total[t]) for name, total in self._duration.items()},
            total_energy={name: float(total[t]) for name, total in self._energy.items()},
            state=state,
        )
