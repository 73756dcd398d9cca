"""One training over the rounds of a trace: a state after each round, until it ends or is stopped.

Nothing that the network does depends on the weights, so its side is computed first, and
learning reads only whose uploads arrived.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.streams import check_count
from fedcell.learning.aggregate import aggregate
from fedcell.learning.learner import Learner, Remote, Scores, evaluated
from fedcell.learning.server_optimizer import CustomServer, ServerOptimizer
from fedcell.network.draw import draw_fleet, draw_trace, has_enough_data
from fedcell.network.ledger import Ledger, require_usable
from fedcell.network.policies.names import PolicyLike, policy_name
from fedcell.network.simulate import price_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target, as_target

from .checks import aggregation_doubts, aggregation_rule, check_scored, with_learner_sizes
from .evaluation import Judge, Stopwatch, judge_of
from .state import State, moved_average
from .summary import Report, Reporter

BLOWN = 100  # a training has diverged when its loss is so many times the first
UNKNOWN = Scores(float("nan"))  # of a round that was not evaluated


Stop = Callable[[State], bool]  # says whether a training ends here


def at_target(target: Target | None, every: int = 1, guesses: Stop | None = None) -> Stop:
    """Ends a training once it has reached a target; never where there is none. `every`: rounds
    between two evaluations. `guesses` says of a state at the target whether its model only
    guesses, where a training is not judged on test data after each round; then it continues."""
    looked, guessing = False, list[int]()

    def stop(state: State) -> bool:
        nonlocal looked
        if target is None:
            return False
        # The first look is at all rounds, for a training may be a resumed one.
        first = max(0, state.rounds - every * (target.hold + 1)) if looked else 0
        looked = True
        known = [round - first for round in guessing if round > first]
        if target.reached_by(replace(state.history.scored(first), guessing=known)) is None:
            return False
        if guesses is None or not guesses(state):
            return True
        guessing.append(state.rounds)
        return False

    return stop


def diverging(first_loss: float) -> Stop:
    """Ends a training that blows up: uploads that are not finite, or a loss beyond all bounds."""

    def stop(state: State) -> bool:
        if state.rounds == 0:
            return False
        overflown = state.history.discarded_uploads[-1] > 0
        return bool(overflown or not state.last_loss <= BLOWN * first_loss)  # NaN too

    return stop


def train_rounds(
    scenario: Scenario,
    learner: Learner,
    fleet: Fleet,
    trace: Trace,
    state: State | None = None,
    stop: Sequence[Stop] = (),
    server: CustomServer | None = None,
    judge: Judge | None = None,
    stopwatch: Stopwatch | None = None,
) -> Iterator[State]:
    """The state to begin with, then that after each further round of the trace.

    Ends with the trace, or with the first state at which a rule of `stop` says so. A training
    goes on from a `state` that it gave before to the same bits as if it had never stopped; the
    trace has the rounds from its first on, which is none after the next.
    A `server` of your own makes the next model of the old one and the mean of the uploads.

    The scores of a round are those of the model that is delivered (learning.deliver). `judge`
    scores it; where left out, the learner does. A `stopwatch` counts where the time goes.
    """
    stopwatch = Stopwatch() if stopwatch is None else stopwatch
    serving = ServerOptimizer.of(scenario.learning, server)
    for doubt in aggregation_doubts(scenario):
        warnings.warn(doubt, FedcellWarning, stacklevel=3)
    every = scenario.learning.evaluate_every if scenario.learning else 1
    samples = np.where(has_enough_data(scenario, fleet), fleet.samples, 0)
    rule, shares = aggregation_rule(scenario), samples / samples.sum()  # q_j of those drawn from
    state = State.start(learner, scenario.deliver, serving) if state is None else state
    end = trace.first_round + trace.rounds
    state = _as_scheduled(state, learner, judge, end, every)
    if state.server is None:
        state = replace(state, server=serving.start(learner, state.model.size))
    yield state
    for t in range(state.rounds, end):
        if any(rule_says(state) for rule_says in stop):
            return
        clients, counts = trace.uploads(t - trace.first_round)
        begin = time.perf_counter()
        state.model.flags.writeable = False  # a learner trains a copy
        uploads = learner.train(state.model, clients, t)
        mean, discarded = aggregate(
            rule, state.model, clients, counts, uploads, shares, t, isinstance(learner, Remote)
        )
        model, memory = mean, state.server
        if mean is not state.model:  # else nothing arrived, and all stays as it is
            model, memory = serving.step(state.model, mean, state.server)
        average = moved_average(state.average, model, t + 1)
        state = replace(state, model=model, average=average, server=memory)
        due = (t + 1) % every == 0 or t + 1 == end
        trained = time.perf_counter()
        scores = _scores(state, learner, judge, t + 1, end) if due else UNKNOWN
        stopwatch.training += trained - begin
        stopwatch.judging += time.perf_counter() - trained
        state = replace(state, history=state.history.with_round(discarded, scores))
        yield state


def _scores(state: State, learner: Learner, judge: Judge | None, round: int, end: int) -> Scores:
    """What the delivered model of a round is worth."""
    if judge is None:
        return evaluated(learner, state.delivered)
    return judge(state.delivered, round, round == end)


def _as_scheduled(
    state: State, learner: Learner, judge: Judge | None, rounds: int, every: int
) -> State:
    """A state to resume from, judged as an uninterrupted run of `rounds` would have judged it: the
    last round of a run is judged out of turn, and on all that there is."""
    if state.rounds > rounds:
        raise BadInput(f"`rounds` = {rounds}: the run has done {state.rounds} already")
    due = state.rounds % every == 0
    if state.rounds == 0 or (due and judge is None):
        return state
    known = due or state.rounds == rounds
    scores = _scores(state, learner, judge, state.rounds, rounds) if known else UNKNOWN
    return replace(state, history=state.history.with_last(scores))


def simulate(
    scenario: Scenario,
    policy: PolicyLike,
    learner: Learner,
    rounds: int | None = None,
    seed: int = 0,
    target: Target | float | None = None,
    report: Report | None = None,
    state: State | None = None,
    trace: Trace | None = None,
    server: CustomServer | None = None,
) -> Ledger:
    """A run: at most `rounds` rounds, or until a `target` is reached: a training loss, or
    `Target(accuracy=0.9)`.

    `report` is called with a `RoundReport` after each round; a run is resumed from the `state` of
    such a report, to the same bits as if it had never stopped. A `trace` of your own says who is
    called, how they are heard and what is lost; otherwise it is drawn. It holds `rounds` rounds or
    more; where these are left out, the run ends with the trace, or after plan.rounds. A `server` of
    your own, a function (old, mean) -> new, makes the next model instead of learning.server.

    >>> from fedcell import load_scenario, prepare_training
    >>> setup = prepare_training(load_scenario("digits"))
    >>> simulate(setup.scenario, "optimal", setup.learner(), rounds=20, target=1.0).rounds
    10
    """
    every = scenario.learning.evaluate_every if scenario.learning else 1
    target = as_target(target, hold=scenario.hold)
    wanted = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    if trace is not None and rounds is not None and trace.rounds < wanted:
        raise BadInput(
            f"the trace holds {trace.rounds} rounds and `rounds` = {wanted}: ask for fewer, or "
            "give a longer trace"
        )
    scenario = with_learner_sizes(scenario, learner)
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, wanted, seed) if trace is None else trace[:wanted]
    ledger = require_usable(price_trace(scenario, fleet, trace, policy, seed))  # refuses at once
    if target is not None and target.accuracy is not None:
        check_scored(target, learner.evaluate(learner.start()))
    rules = [at_target(target, every)]
    judge = judge_of(learner, target)
    states = train_rounds(scenario, learner, fleet, trace, state, rules, server, judge)
    last, reporter = next(states), Reporter({policy_name(policy): ledger})
    for last in states:
        if report:
            report(reporter.report(last))
    return with_training(ledger, last)


def with_training(ledger: Ledger, state: State) -> Ledger:
    """The ledger of the network's rounds and of what was learnt in them, as far as that went."""
    history = state.history
    columns = history.columns()
    return replace(ledger.first(state.rounds), **columns, majority=history.majority)
