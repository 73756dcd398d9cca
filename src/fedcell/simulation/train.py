"""One run, from a scenario to a ledger: the network's rounds, and what is learnt in them.

Nothing that the network does depends on the weights, so its side is computed first, and
learning reads only whose uploads arrived.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.learning.aggregate import aggregate, doubts, rule_of
from fedcell.learning.learner import Learner, Scores
from fedcell.learning.neural import Floats
from fedcell.network.draw import chunks, draw_fleet, draw_trace, rich
from fedcell.network.ledger import Ledger, simulate_network
from fedcell.network.policies.base import Policy
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario


@dataclass(frozen=True, eq=False)
class State:
    """All that learning carries from one round to the next; what is saved to resume."""

    model: Floats
    records: Array  # (round, 4): excluded, train_loss, test_loss, accuracy

    @property
    def rounds(self) -> int:
        """Rounds that are done."""
        return len(self.records)

    @classmethod
    def start(cls, learner: Learner) -> "State":
        return cls(learner.start(), np.empty((0, 4)))


def simulate(
    scenario: Scenario,
    policy: str | Policy,
    learner: Learner,
    rounds: int | None = None,
    seed: int = 0,
    target: float | None = None,
    report: Callable[[State], None] | None = None,
    state: State | None = None,
) -> Ledger:
    """A run: at most `rounds` rounds, or until the training loss is at `target`.

    `report` is called with the state after each round; a run is resumed from such a state,
    to the same bits as if it had never stopped.
    """
    rounds = scenario.rounds if rounds is None else rounds
    scenario = with_sizes(scenario, learner)
    network = simulate_network(scenario, policy, rounds, seed)  # refuses what is wrong, at once
    state = state or State.start(learner)
    state = advance(scenario, learner, rounds, seed, state, target, report or (lambda _: None))
    return joined(scenario, policy, seed, network, state)


def advance(
    scenario: Scenario,
    learner: Learner,
    rounds: int,
    seed: int,
    state: State,
    target: float | None,
    report: Callable[[State], None],
) -> State:
    """The state after `rounds` rounds, or at the target; `report` is told of each on the way."""
    state = as_scheduled(state, learner, rounds, _every(scenario))
    if reached(state, target):
        return state
    for after in learn(scenario, learner, rounds, seed, state):
        state = after
        report(state)
        if reached(state, target):
            break
    return state


def learn(
    scenario: Scenario, learner: Learner, rounds: int, seed: int, state: State
) -> Iterator[State]:
    """The state after each further round."""
    for doubt in doubts(scenario):
        warnings.warn(doubt, FedcellWarning, stacklevel=3)
    fleet, every = draw_fleet(scenario, seed), _every(scenario)
    samples = np.where(rich(scenario, fleet), fleet.samples, 0)
    rule, shares = rule_of(scenario), samples / samples.sum()  # q_j of those that may be drawn
    for part in chunks(range(state.rounds, rounds), fleet.count):
        trace = draw_trace(scenario, fleet, part, seed)
        for i, t in enumerate(part):
            arrived = (trace.cohort[i] >= 0) & ~trace.lost[i]
            clients, counts = trace.cohort[i][arrived].tolist(), trace.count[i][arrived].tolist()
            state.model.flags.writeable = False  # a learner trains a copy
            uploads = learner.train(state.model, clients, t)
            model, excluded = aggregate(rule, state.model, clients, counts, uploads, shares, t)
            scores = Scores(float("nan"))
            if (t + 1) % every == 0 or t + 1 == rounds:
                scores = learner.evaluate(model)
            record = [excluded, *astuple(scores)]
            state = State(model, np.vstack([state.records, record]))
            yield state


def _every(scenario: Scenario) -> int:
    return scenario.learning.evaluate_every if scenario.learning else 1


def as_scheduled(state: State, learner: Learner, rounds: int, every: int) -> State:
    """A state to go on from, evaluated when an uninterrupted run of `rounds` would have been:
    out of turn after its last round, and after no other."""
    if state.rounds > rounds:
        raise BadInput(f"rounds = {rounds}: the run has done {state.rounds} already")
    if state.rounds % every == 0:
        return state
    ends = state.rounds == rounds
    scores = learner.evaluate(state.model) if ends else Scores(float("nan"))
    records = state.records.copy()
    records[-1, 1:] = astuple(scores)
    return State(state.model, records)


def reached(state: State, target: float | None) -> bool:
    """Whether the training loss has been at the target."""
    return target is not None and bool((state.records[:, 1] <= target).any())


def joined(
    scenario: Scenario, policy: str | Policy, seed: int, network: Ledger, state: State
) -> Ledger:
    """The ledger of both sides, as far as learning went."""
    if state.rounds < network.rounds:
        network = simulate_network(scenario, policy, state.rounds, seed, may_be_idle=True)
    excluded, train_loss, test_loss, accuracy = state.records.T
    return replace(
        network,
        excluded=excluded.astype(np.int64),
        train_loss=train_loss,
        test_loss=test_loss,
        accuracy=accuracy,
    )


def with_sizes(scenario: Scenario, learner: Learner) -> Scenario:
    """The scenario with the learner's D_j, so that they drive time, energy and weight alike."""
    sizes, task = np.asarray(learner.sizes, float), scenario.task
    if sizes.size != scenario.clients.count:
        raise BadInput(
            f"the learner has {sizes.size} clients and the scenario {scenario.clients.count}"
        )
    if scenario.learning is not None and None in (task.model_bits, task.cycles_per_sample):
        raise BadInput(
            "task.model_bits and task.cycles_per_sample are left out: take the scenario of "
            "gather_material, which has those of the model, or give them"
        )
    return scenario.using(clients={"sizes": sizes})
