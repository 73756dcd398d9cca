"""Execute a prepared run: one round after the other, each written when it is done.

Most runs have one segment, with one K and E_l. A controller may begin a new one after any round.
"""

from pathlib import Path

from fedcell.learning.custom import scale_of
from fedcell.learning.learner import Learner, Scores, evaluated, own_metrics, warm_up
from fedcell.learning.server_optimizer import CustomServer, ServerOptimizer
from fedcell.scenario.scenario import Scenario

from .checks import check_scored
from .compute import Observer
from .evaluation import Stopwatch, choose_evaluator
from .folder.writer import NoFolder, open_writer
from .prepared import PreparedRun, Segment, Segments
from .state import State
from .summary import Reporter, RunResult, summarise
from .train import at_target, train_rounds, with_training


def initial_state(learner: Learner, scenario: Scenario, server: CustomServer | None) -> State:
    """Return the state before the first round."""
    return State.start(learner, scenario.deliver, ServerOptimizer.of(scenario.learning, server))


def execute(
    run: PreparedRun,
    folder: str | Path | None = None,
    resume: bool = False,
    observer: Observer = Observer(),  # noqa: B008
) -> RunResult:
    """Train round by round, in a folder if one is given; Ctrl-C ends the run cleanly."""
    with open_writer(run, folder, resume) as writer:
        policies = list(dict.fromkeys([*writer.policies, *run.policies]))
        state = writer.state or run.start
        segments = Segments.replayed(run, state, policies)
        writer.check(segments)
        initial = evaluated(run.first.learner, run.start.model)
        check_scored(run.goal, initial)
        with observer.compile():
            warm_up(segments.last.learner)
        if (notice := scale_of(segments.last.learner, run.first.scenario)) is not None:
            observer.say(notice)
        writer.begin(segments)
        state = state.with_majority(initial.majority)
        execution = _Execution(run, writer, observer, initial, segments, state)
        complete = True
        try:
            while (turn := execution.train_segment()) is not None:
                execution.change(turn)
        except KeyboardInterrupt:
            complete = False
        result = execution.result(complete)
        writer.finish(execution.state, execution.segments, result)
    return result


class _Execution:
    """A run in progress: its state and segments after the last round that is done."""

    def __init__(
        self,
        run: PreparedRun,
        writer: NoFolder,
        observer: Observer,
        initial: Scores,
        segments: Segments,
        state: State,
    ) -> None:
        self.run, self.writer, self.observer, self.initial = run, writer, observer, initial
        self.segments, self.state = segments, state
        self.stopwatch, self._started = Stopwatch(), False

    def train_segment(self) -> Segment | None:
        """Train until the run ends, or until another segment begins: return that one."""
        run, now = self.run, self.segments.last
        learning = run.first.scenario.learning
        rules = [at_target(run.goal, learning.evaluate_every if learning else 1)]
        states = train_rounds(
            *(now.scenario, now.learner, now.fleet, self.segments.trace, self.state, rules),
            *(run.server, choose_evaluator(now.learner, run.goal), self.stopwatch),
        )
        self.state = next(states)
        if not self._started:
            self._started = True
            self.writer.start(self.state, self.result(complete=False))
        reporter = Reporter(self.segments.ledgers)
        for state in states:
            self.state = state  # what an interrupt leaves
            chosen = self.segments.with_choices(state, state.rounds - 1)
            arrived = chosen.without_missing(state.rounds - 1, now.learner)
            if arrived is not self.segments:
                self.segments, reporter = arrived, Reporter(arrived.ledgers)
            self.writer.add(state, self.segments, lambda: self.result(complete=False))
            if self.observer.round is not None:
                self.observer.round(reporter.report(state))
            turn = run.controller.steer(state) if run.controller else None
            if turn is not None and state.rounds < run.rounds:
                return turn
        return None

    def change(self, turn: Segment) -> None:
        """Begin a new segment after the rounds that are done."""
        self.segments = self.segments.followed_by(turn)
        self.writer.change(self.segments)

    def result(self, complete: bool) -> RunResult:
        """Return the result of the rounds that are done."""
        run, state, segments = self.run, self.state, self.segments
        ledgers = {
            policy: with_training(ledger, state, own_metrics(run.first.learner))
            for policy, ledger in segments.ledgers.items()
            if state.rounds
        }
        other = evaluated(segments.last.learner, state.other)
        outcome = summarise(
            *(run.setup, run.first.fleet, self.initial, state.deliver, other),
            *(ledgers, run.goal, complete, segments.changes),
        )
        return RunResult(
            ledgers=ledgers,
            outcome=outcome,
            state=state,
            identity=dict(run.identity),
            stopwatch=self.stopwatch,
        )
