"""From a run that is prepared to its result: rounds one after the other, written as they are done.

Most runs have one K and E_l. One that is steered has several segments: after a round, whoever
steers may say with which K, E_l, fleet or learner it goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fedcell.core.files.formats import write_csv
from fedcell.learning.custom import Sources
from fedcell.learning.learner import Learner, Remote, evaluated, warm_up
from fedcell.learning.server_optimizer import OwnServer, Server
from fedcell.learning.setup import TrainingSetup
from fedcell.network.draw import draw_trace
from fedcell.network.ledger import Ledger, require_usable
from fedcell.network.policies.names import PolicyLike
from fedcell.network.simulate import price_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.folder.ledger_file import (
    LedgerFile,
    check_known,
    check_same_prices,
    policies_before,
)
from fedcell.simulation.folder.run_folder import CHANGES, SUMMARY, RunFolder

from .checks import check_scored
from .evaluation import Stopwatch, choose_evaluator
from .model import input_of
from .state import State
from .summary import PlanChange, Report, Reporter, RunResult, summarise
from .train import at_target, train_rounds, with_training


@dataclass(frozen=True, kw_only=True, eq=False)
class Segment:
    """Rounds with one K and E_l, from its first round (counted from 0) to the next segment's."""

    scenario: Scenario  # whose plan has K and E_l
    fleet: Fleet
    learner: Learner
    first_round: int = 0
    why: str = ""  # what has changed with it, and why

    @property
    def change(self) -> PlanChange:
        """What it changed, for people."""
        plan = self.scenario.plan
        return PlanChange(
            round=self.first_round + 1,
            cohort=plan.cohort,
            local_steps=None if plan.local_epochs else plan.local_steps,
            why=self.why,
        )


class Steering(Protocol):
    """Whoever may change a run under way."""

    def replay(self, state: State) -> Sequence[Segment]:
        """The segments after the first that led to a state: none for a run that begins."""
        ...

    def steer(self, state: State) -> Segment | None:
        """After a round: with what to go on, if that is to change."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRun:
    """A run with all that it needs."""

    setup: TrainingSetup
    first: Segment  # the scenario of its own has the goal that the run stops at
    used: Scenario  # as it was declared: what the folder keeps
    policies: Mapping[str, PolicyLike]
    rounds: int
    goal: Target | None
    start: State
    identity: Mapping[str, Any]  # what makes it this run and no other
    learner_of: Callable[[Scenario], Learner]  # of the same data with another K or E_l
    vector_width: int | None = None
    code: Mapping[str, Sources] = field(default_factory=dict)  # of a learner or server of one's own
    server: OwnServer | None = None
    steering: Steering | None = None

    @property
    def seed(self) -> int:
        """The dice."""
        return self.setup.seed


def start_of(learner: Learner, scenario: Scenario, server: OwnServer | None) -> State:
    """The state before the first round."""
    return State.start(learner, scenario.deliver, Server.of(scenario.learning, server))


def carry_out(
    run: PreparedRun,
    folder: str | Path | None = None,
    resume: bool = False,
    listeners: Sequence[Report] = (),
    compiling: Callable[[], Any] = nullcontext,
) -> RunResult:
    """Trains round by round, in a folder if one is given; an interrupt ends it in good order."""
    home, records, before, hold_again = None, None, {}, None
    with ExitStack() as held:
        if folder is not None:
            home = RunFolder(Path(folder), dict(run.identity), run.vector_width, run.code)
            home = home.validated(resume)
            hold_again = held.enter_context(home.held())
            before = policies_before(home.path) if resume else {}
            check_known(before, run.policies, home.path)
            records = home.checkpoint(run.start, run.rounds, resume)
        state = (records.state if records else None) or run.start
        turns = run.steering.replay(state) if run.steering else ()
        # One that would begin after the last round is none, as it was none then.
        segments = [run.first, *(turn for turn in turns if turn.first_round < run.rounds)]
        names = list(dict.fromkeys([*before, *run.policies]))
        trace, networks = _priced(run, segments, names)
        for t in range(state.rounds):
            networks = _as_it_came(networks, run.first.learner, t)
        if home:
            check_same_prices(before, networks, home.path)
        trained = segments[-1].learner
        initial = evaluated(run.first.learner, run.start.model)
        state = state.with_majority(initial.majority)
        check_scored(run.goal, initial)
        with compiling():
            warm_up(trained)
        if home:
            home.begin(run.used, input_of(run.setup))
            if segments[1:]:  # one that was killed may not have written its last change
                _write_changes(home, segments)

        stopwatch = Stopwatch()

        def result(state: State, complete: bool) -> RunResult:
            ledgers = {n: with_training(net, state) for n, net in networks.items() if state.rounds}
            other = evaluated(segments[-1].learner, state.other)
            changes = tuple(segment.change for segment in segments[1:])
            fleet = segments[0].fleet
            outcome = summarise(
                *(run.setup, fleet, initial, state.deliver, other),
                *(ledgers, run.goal, complete, changes),
            )
            return RunResult(
                ledgers=ledgers,
                outcome=outcome,
                state=state,
                identity=dict(run.identity),
                stopwatch=stopwatch,
            )

        learning = run.first.scenario.learning
        every, complete, ended = learning.evaluate_every if learning else 1, True, False
        lines, begun = home and LedgerFile(home.path, networks), len(segments) - 1
        try:
            while not ended:
                now, reporter = segments[-1], Reporter(networks)
                rules = [at_target(run.goal, every)]
                judge = choose_evaluator(now.learner, run.goal)
                states = train_rounds(
                    *(now.scenario, now.learner, now.fleet, trace, state, rules, run.server),
                    *(judge, stopwatch),
                )
                state = next(states)
                if home and lines and now is segments[begun]:
                    home.write_outcome(result(state, complete=False).outcome)
                    lines.begin(state)
                ended = True  # unless somebody steers
                for after in states:
                    state = after  # what an interrupt leaves
                    came = _as_it_came(networks, now.learner, state.rounds - 1)
                    if came is not networks:
                        networks, reporter = came, Reporter(came)
                        if lines:
                            lines.price(networks)
                    if home and hold_again and records and lines:
                        hold_again()
                        _restore(home, run, segments, partial(result, state, complete=False))
                        lines.add(state)
                        records.save(state)
                    for listener in listeners:
                        listener(reporter.report(state))
                    turn = run.steering.steer(state) if run.steering else None
                    if turn is not None and state.rounds < run.rounds:
                        segments.append(turn)
                        trace, rest = _priced_segment(run, turn, run.rounds, names)
                        networks = {
                            n: Ledger.join([networks[n].first(state.rounds), rest[n]])
                            for n in names
                        }
                        if home:
                            _write_changes(home, segments)
                        if lines:
                            lines.price(networks)
                        ended = False
                        break
        except KeyboardInterrupt:
            complete = False
        found = result(state, complete)
        if home and hold_again and lines and records and found.ledgers:
            hold_again()
            _restore(home, run, segments, lambda: found)
            records.finish(state)
            lines.finish(state)
            table = run.first.scenario.clients.table
            home.finish(found.ledgers, found.outcome, run.setup.client_names, table)
    return found


def _priced(
    run: PreparedRun, segments: Sequence[Segment], names: Sequence[str]
) -> tuple[Trace, dict[str, Ledger]]:
    """The trace of the last segment, and the ledgers of the network over all of them."""
    ends = [*(segment.first_round for segment in segments[1:]), run.rounds]
    parts = [
        _priced_segment(run, segment, end, names)
        for segment, end in zip(segments, ends, strict=True)
    ]
    trace, last = parts[-1]
    if len(parts) == 1:
        return trace, last
    return trace, {n: Ledger.join([ledgers[n] for _, ledgers in parts]) for n in names}


def _priced_segment(
    run: PreparedRun, segment: Segment, end: int, names: Sequence[str]
) -> tuple[Trace, dict[str, Ledger]]:
    scenario, fleet = segment.scenario, segment.fleet
    trace = draw_trace(scenario, fleet, range(segment.first_round, end), run.seed)
    return trace, {
        name: require_usable(
            price_trace(scenario, fleet, trace, run.policies.get(name, name), run.seed)
        )
        for name in names
    }


def _as_it_came(networks: dict[str, Ledger], learner: Learner, round: int) -> dict[str, Ledger]:
    """Ledgers without uploads of a round that really did not arrive, which no dice have said."""
    gone = learner.missing(round) if isinstance(learner, Remote) else ()
    return {n: net.without(round, gone) for n, net in networks.items()} if gone else networks


def _restore(
    home: RunFolder, run: PreparedRun, segments: Sequence[Segment], found: Callable[[], RunResult]
) -> None:
    """Writes again what was removed from the folder of a run under way and is not written after
    every round; the rounds have their own files."""
    home.begin(run.used, input_of(run.setup), missing=True)
    if home.lacks(SUMMARY):
        home.write_outcome(found().outcome)
    if segments[1:] and home.lacks(CHANGES):
        _write_changes(home, segments)


def _write_changes(home: RunFolder, segments: Sequence[Segment]) -> None:
    rows = [
        (change.round, change.cohort, change.local_steps, change.why)
        for change in (segment.change for segment in segments[1:])
    ]
    write_csv(home.path / CHANGES, ["round", "clients", "steps", "why"], rows)
