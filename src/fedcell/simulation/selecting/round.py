"""Train one round: the clients of its trace, or those that a rule chooses now."""

from collections.abc import Iterator
from typing import Literal

from fedcell.core.types import Array, Floats
from fedcell.learning.aggregate import Rule, aggregate, aggregate_by_chance
from fedcell.learning.learner import Learner, Remote
from fedcell.network.selectors.fold import Selection
from fedcell.network.selectors.history import Selected
from fedcell.network.trace import Trace
from fedcell.simulation.state import State

from .live import Asked, Reported


def train_round(
    learner: Learner,
    state: State,
    trace: Trace | Selection,
    round: int,
    rule: Rule | Literal["selector"],
    shares: Array,
) -> tuple[Floats, int, Selected | None]:
    """Return the mean of the uploads of a round, how many were left out, and the choices so far.

    `rule` says how uploads are averaged; "selector": by 1 / p_j where the selector gives
    probabilities, else normalised.
    """
    uploads: Iterator[Floats | None]
    model, selected, remote = state.model, state.selected, isinstance(learner, Remote)
    if isinstance(trace, Trace):
        place = round - trace.first_round
        clients, counts = trace.uploads(place)
        uploads = learner.train(model, clients, round)
    else:
        assert selected is not None
        asked = Asked(learner, model, round)
        row, history = trace.choose(round, selected.history, asked)
        selected = selected.with_row(row, history)
        selection, trace, place = trace, trace.trace([row], round), 0
        clients, counts = trace.uploads(0)
        reported = Reported(model, clients)
        uploads = reported.passed(asked.trained(clients))
    chances = trace.chances(place)
    if chances is not None and rule == "selector":
        called = int(trace.called[place])
        mean, broken = aggregate_by_chance(
            model, clients, chances, uploads, shares, round, called, remote
        )
    else:
        how: Rule = "normalised" if rule == "selector" else rule
        mean, broken = aggregate(how, model, clients, counts, uploads, shares, round, remote)
    if selected is not None:
        selected = reported.added(selection, selected, learner)
    return mean, broken, selected
