"""Measure the effect of screening updates with one and two malicious devices.

    python benchmarks/screening.py

Eight clients hold digits, all are called in every round. A malicious device trains like the others,
and sends its update reversed and a hundred times as long. `clip` shortens it to three times the
median update, where it still points the wrong way; `exclude` leaves it out. There is no network:
the uploads pass the same screen as in a federation.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np

from fedcell import load_scenario
from fedcell.core.errors import FedcellWarning
from fedcell.core.types import Floats
from fedcell.deploy.screening import Screen, screened
from fedcell.learning import prepare_training
from fedcell.learning.learner import Learner
from fedcell.network import draw_fleet, draw_trace
from fedcell.simulation.train import train_rounds

CLIENTS, TIMES, FACTOR = 8, -100.0, 3.0


class Lying:
    """A learner with malicious clients behind a screen; an excluded upload is None."""

    def __init__(self, learner: Learner, liars: int, screen: Screen) -> None:
        self._learner, self._liars, self._screen = learner, liars, screen
        self.sizes, self.start, self.evaluate = learner.sizes, learner.start, learner.evaluate

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Any]:
        """Return the upload of each client after the screen."""
        sent = dict(zip(clients, self._learner.train(model, clients, round), strict=True))
        for liar in range(self._liars):
            sent[liar] = (model + TIMES * (sent[liar] - model)).astype(np.float32)
        kept, _ = screened(sent, model, self._screen, FACTOR)
        return iter([kept.get(client) for client in clients])

    def missing(self, round: int) -> Sequence[int]:  # noqa: ARG002
        """Return no clients: nothing is priced."""
        return ()


def measured(rounds: int, seed: int) -> dict[tuple[int, Screen], tuple[float, float]]:
    """Return training loss and accuracy after the last round, by number of liars and screen."""
    scenario = load_scenario("digits").using(
        clients={"count": CLIENTS},
        plan={"cohort": CLIENTS},
        cell={"gain_threshold": 0.0, "loss_rate": 0.0},
        learning={"partition": {"kind": "iid"}},
    )
    setup = prepare_training(scenario, seed)
    fleet = draw_fleet(setup.scenario, seed)
    trace = draw_trace(setup.scenario, fleet, rounds, seed)
    found: dict[tuple[int, Screen], tuple[float, float]] = {}
    for liars in (0, 1, 2):
        for screen in get_args(Screen):
            learner = Lying(setup.learner(), liars, screen)
            *_, last = train_rounds(setup.scenario, learner, fleet, trace)
            found[liars, screen] = last.last_loss, float(last.history.accuracy[-1])
    return found


def main() -> None:
    """Print a row for each number of liars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore", FedcellWarning)
    np.seterr(all="ignore")
    found = measured(given.rounds, given.seed)
    screens = get_args(Screen)
    print(f"{CLIENTS} devices, {given.rounds} rounds; training loss, accuracy")
    print("liars  " + "  ".join(f"{screen:>16}" for screen in screens))
    for liars in (0, 1, 2):
        cells = (found[liars, screen] for screen in screens)
        print(f"{liars:>5}  " + "  ".join(f"{loss:>8.4g}, {hit:.4f}" for loss, hit in cells))


if __name__ == "__main__":
    main()
