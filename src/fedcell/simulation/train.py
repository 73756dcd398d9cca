"""Train over the rounds of a trace: a state after each round, until the trace or a rule ends it.

The network does not depend on the weights, so its rounds are computed first, and learning reads
only which uploads arrived.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.streams import check_count
from fedcell.core.types import Floats
from fedcell.learning.custom import memory_of, remember
from fedcell.learning.learner import Learner, Scores, evaluated, own_metrics
from fedcell.learning.server_optimizer import CustomServer, ServerOptimizer
from fedcell.network.draw import draw_fleet, draw_trace, has_enough_data
from fedcell.network.ledger import Ledger, require_usable
from fedcell.network.policies.names import PolicyLike, policy_name
from fedcell.network.selectors.fold import Selection
from fedcell.network.simulate import price_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Direction, Target, as_target

from .checks import (
    aggregation_doubts,
    aggregation_rule,
    check_scored,
    goal_of,
    with_learner_sizes,
)
from .evaluation import Evaluator, Stopwatch, choose_evaluator
from .selecting.live import live_selection, stand_in, under_policy
from .selecting.round import train_round
from .state import COLUMNS, State, moved_average
from .summary import Report, Reporter

DIVERGED_FACTOR = 100  # a training has diverged when its loss is this multiple of the first
NOT_EVALUATED = Scores(float("nan"))  # scores of a round without an evaluation


Stop = Callable[[State], bool]  # whether a training ends at a state


def at_target(target: Target | None, every: int = 1, is_baseline: Stop | None = None) -> Stop:
    """Return a rule that ends a training at a target; without a target it never does.

    Parameters
    ----------
    target
        What to reach.
    every
        Rounds between two evaluations.
    is_baseline
        Whether the model of a state at the target is no better than the majority class: then the
        training continues. For trainings that are not evaluated on test data after each round.
    """
    checked, baseline_rounds = False, list[int]()

    def stop(state: State) -> bool:
        nonlocal checked
        if target is None:
            return False
        # The first check covers all rounds: the training may be a resumed one.
        first = max(0, state.rounds - every * (target.hold + 1)) if checked else 0
        checked = True
        known = [round - first for round in baseline_rounds if round > first]
        if target.reached_by(replace(state.history.scored(first), guessing=known)) is None:
            return False
        if is_baseline is None or not is_baseline(state):
            return True
        baseline_rounds.append(state.rounds)
        return False

    return stop


def diverging(first_loss: float) -> Stop:
    """Return a rule that ends a training that diverges: an upload that is not finite, or a loss far
    above the first."""

    def stop(state: State) -> bool:
        if state.rounds == 0:
            return False
        overflown = state.history.discarded_uploads[-1] > 0
        return bool(overflown or not state.last_loss <= DIVERGED_FACTOR * first_loss)  # NaN too

    return stop


def train_rounds(
    scenario: Scenario,
    learner: Learner,
    fleet: Fleet,
    trace: Trace | Selection,
    state: State | None = None,
    stop: Sequence[Stop] = (),
    server: CustomServer | None = None,
    evaluator: Evaluator | None = None,
    stopwatch: Stopwatch | None = None,
) -> Iterator[State]:
    """Yield the first state, then the state after each further round of the trace.

    The training ends with the trace, or at the first state at which a rule of `stop` returns True.
    It resumes from a `state` to the same bits as without the stop; the trace begins at most with
    the next round. A `server`, a function (old, mean) -> new, replaces learning.server. The scores
    of a round are those of the delivered model (learning.deliver), by the `evaluator` or, where
    that is left out, by the learner. A `stopwatch` counts seconds of training and evaluation.
    Where a rule that learns chooses the clients, it stands in place of the trace, and the state
    keeps its choices.
    """
    stopwatch = Stopwatch() if stopwatch is None else stopwatch
    serving = ServerOptimizer.of(scenario.learning, server)
    for doubt in aggregation_doubts(scenario):
        warnings.warn(doubt, FedcellWarning, stacklevel=3)
    every = scenario.learning.evaluate_every if scenario.learning else 1
    samples = np.where(has_enough_data(scenario, fleet), fleet.samples, 0)
    rule, shares = aggregation_rule(scenario), samples / samples.sum()  # q_j of eligible clients
    state = State.start(learner, scenario.deliver, serving) if state is None else state
    end = trace.end
    state = _as_scheduled(state, learner, evaluator, end, every)
    if state.server is None:
        state = replace(state, server=serving.start(learner, state.model.size))
    if isinstance(trace, Selection) and state.selected is None:
        state = replace(state, selected=trace.start())
    yield state
    for t in range(state.rounds, end):
        if any(ends_at(state) for ends_at in stop):
            return
        begin = time.perf_counter()
        state.model.flags.writeable = False  # a learner trains a copy
        remember(learner, state.clients)
        mean, discarded, selected = train_round(learner, state, trace, t, rule, shares)
        state = replace(_with_mean(state, mean, serving, t), clients=memory_of(learner))
        state = replace(state, selected=selected)
        due = (t + 1) % every == 0 or t + 1 == end
        trained = time.perf_counter()
        scores = _scores(state, learner, evaluator, t + 1, end) if due else NOT_EVALUATED
        stopwatch.training += trained - begin
        stopwatch.evaluation += time.perf_counter() - trained
        state = replace(state, history=state.history.with_round(discarded, scores))
        yield state


def _with_mean(state: State, mean: Floats, serving: ServerOptimizer, t: int) -> State:
    """Return a state with the model that the server makes of the mean upload of round t, from 0."""
    model, memory = mean, state.server
    if mean is not state.model:  # else no upload arrived, and nothing changes
        model, memory = serving.step(state.model, mean, state.server)
    average = moved_average(state.average, model, t + 1)
    return replace(state, model=model, average=average, server=memory)


def _scores(
    state: State, learner: Learner, evaluator: Evaluator | None, round: int, end: int
) -> Scores:
    """Return the scores of the delivered model of a round."""
    if evaluator is None:
        return evaluated(learner, state.delivered)
    return evaluator(state.delivered, round, round == end)


def _as_scheduled(
    state: State, learner: Learner, evaluator: Evaluator | None, rounds: int, every: int
) -> State:
    """Return a state to resume from with the scores that an uninterrupted run of `rounds` rounds
    has: the last round of a run is always evaluated, and on all data."""
    if state.rounds > rounds:
        raise BadInput(f"`rounds` = {rounds}: the run has done {state.rounds} already")
    due = state.rounds % every == 0
    if state.rounds == 0 or (due and evaluator is None):
        return state
    known = due or state.rounds == rounds
    scores = _scores(state, learner, evaluator, state.rounds, rounds) if known else NOT_EVALUATED
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
) -> Ledger:
    """Train a learner over the rounds of a network, priced under one policy.

    `run` does so from a scenario alone, under several policies, with a folder to resume from.

    Parameters
    ----------
    scenario : Scenario
        The network and the plan, with z_m and alpha_0, as of `prepare_training`.
    policy : str or Policy
        Chooses a_j and f_j: a name, or your own.
    learner : Learner
        Trains and evaluates models; its `sizes` are D_j.
    rounds : int, optional
        Rounds at most; default: those of the trace, or plan.rounds.
    seed : int
        Random seed of the fleet, the channels and the selection.
    target : float or Target, optional
        Training loss at which to stop, or `Target(accuracy=0.9)`.
    report : callable, optional
        Called with a `RoundReport` after each round.
    state : State, optional
        State of an earlier report, to resume from to the same bits.
    trace : Trace, optional
        Clients, channels and losses of at least `rounds` rounds; default: drawn from `seed`.

    Returns
    -------
    Ledger
        Durations [s], energies [J] and losses, one value for each round.

    Examples
    --------
    >>> from fedcell import load_scenario
    >>> from fedcell.learning import prepare_training
    >>> setup = prepare_training(load_scenario("digits"))
    >>> simulate(setup.scenario, "optimal", setup.learner(), rounds=20, target=1.0).rounds
    10
    """
    scenario = with_learner_sizes(scenario, learner)
    goal = goal_of(as_target(target, hold=scenario.hold), learner)
    scenario = under_policy(scenario, [policy_name(policy)])
    fleet = draw_fleet(scenario, seed)
    wanted = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    rule = live_selection(scenario, fleet, seed, wanted) if trace is None else None
    if rule is not None:
        trace = stand_in(rule, range(wanted))
    else:
        trace = _trace_of(scenario, fleet, rounds, trace, seed)
    ledger = require_usable(price_trace(scenario, fleet, trace, policy, seed))  # before training
    reporter = Reporter({policy_name(policy): ledger})
    states = _states_to(goal, scenario, learner, fleet, rule or trace, state)
    last = next(states)

    def priced() -> Ledger:
        """Return the ledger with the rounds that a rule has chosen so far."""
        if rule is None or last.selected is None:
            return ledger
        chosen = rule.trace(last.selected.rows, 0)
        return ledger.with_rounds(price_trace(scenario, fleet, chosen, policy, seed))

    for last in states:
        if report:
            own = reporter if rule is None else Reporter({policy_name(policy): priced()})
            report(own.report(last))
    return with_training(priced(), last, own_metrics(learner))


def _states_to(
    target: Target | None,
    scenario: Scenario,
    learner: Learner,
    fleet: Fleet,
    trace: Trace | Selection,
    state: State | None,
) -> Iterator[State]:
    """Return the states of a training that ends at a target."""
    if target is not None and target.needs_test:
        check_scored(target, learner.evaluate(learner.start()))
    rules = [at_target(target, scenario.learning.evaluate_every if scenario.learning else 1)]
    evaluator = choose_evaluator(learner, target)
    return train_rounds(scenario, learner, fleet, trace, state, rules, evaluator=evaluator)


def _trace_of(
    scenario: Scenario, fleet: Fleet, rounds: int | None, trace: Trace | None, seed: int
) -> Trace:
    """Return the first rounds of a trace that is given, or draw one."""
    wanted = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    if trace is None:
        return draw_trace(scenario, fleet, wanted, seed)
    if rounds is not None and trace.rounds < wanted:
        raise BadInput(
            f"the trace holds {trace.rounds} rounds and `rounds` = {wanted}: ask for fewer, or "
            "give a longer trace"
        )
    return trace[:wanted]


def with_training(ledger: Ledger, state: State, better: Mapping[str, Direction]) -> Ledger:
    """Return the rounds of a ledger that a training has done, with their scores; `better` has the
    directions of the learner's metrics."""
    history = state.history
    columns = {name: column for name, column in history.columns().items() if name in COLUMNS}
    return replace(
        ledger.first(state.rounds),
        **columns,
        majority=history.majority,
        metrics={name: np.array(column) for name, column in history.metrics.items()},
        better={name: better[name] for name in history.metrics},
    )
