"""A run that is ready to be executed, and its segments: rounds with one K and E_l each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fedcell.core.errors import BadInput
from fedcell.learning.custom import Sources
from fedcell.learning.learner import Learner, Remote, own_metrics
from fedcell.learning.server_optimizer import CustomServer
from fedcell.learning.setup import TrainingSetup
from fedcell.network.draw import draw_trace
from fedcell.network.ledger import Ledger, require_usable
from fedcell.network.policies.names import PolicyLike
from fedcell.network.selectors.fold import Selection
from fedcell.network.simulate import price_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

from .selecting.live import live_selection, stand_in
from .state import State
from .summary import PlanChange


@dataclass(frozen=True, kw_only=True, eq=False)
class Segment:
    """Rounds with one K and E_l, from its first round (counted from 0) to the next segment's."""

    scenario: Scenario  # its plan has K and E_l
    fleet: Fleet
    learner: Learner
    first_round: int = 0
    why: str = ""  # what changed with it, and why

    @property
    def change(self) -> PlanChange:
        """What the segment changed, for people."""
        plan = self.scenario.plan
        return PlanChange(
            round=self.first_round + 1,
            cohort=plan.cohort,
            local_steps=None if plan.local_epochs else plan.local_steps,
            why=self.why,
        )


class Controller(Protocol):
    """May change plan, fleet or learner between rounds."""

    def replay(self, state: State) -> Sequence[Segment]:
        """Return the segments after the first that led to a state: none for a new run."""
        ...

    def steer(self, state: State) -> Segment | None:
        """Return the next segment, if one begins after this state; None to continue."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRun:
    """A run with all that it needs; nothing is trained or written yet."""

    setup: TrainingSetup
    first: Segment  # its scenario has the target that the run stops at
    used: Scenario  # as it was declared: what the folder keeps
    policies: Mapping[str, PolicyLike]
    rounds: int
    goal: Target | None
    start: State
    identity: Mapping[str, Any]  # tells this run from any other
    learner_of: Callable[[Scenario], Learner]  # same data, another K or E_l
    vector_width: int | None = None
    code: Mapping[str, Sources] = field(default_factory=dict)  # of a custom learner or server
    server: CustomServer | None = None
    controller: Controller | None = None

    @property
    def seed(self) -> int:
        """The random seed."""
        return self.setup.seed


@dataclass(frozen=True, eq=False)
class Segments:
    """The segments of a run so far, the trace of the last, and the network's ledgers of all."""

    run: PreparedRun
    parts: tuple[Segment, ...]
    trace: Trace | Selection  # rounds of the last segment, or the rule that chooses them
    ledgers: Mapping[str, Ledger]  # by policy, without training

    @classmethod
    def replayed(cls, run: PreparedRun, state: State, policies: Sequence[str]) -> "Segments":
        """Return the segments that led to a state, priced under each policy."""
        turns = run.controller.replay(state) if run.controller else ()
        # One that would begin after the last round was none then, and is none now.
        parts = (run.first, *(turn for turn in turns if turn.first_round < run.rounds))
        ends = [*(part.first_round for part in parts[1:]), run.rounds]
        priced = [_price(run, *pair, policies) for pair in zip(parts, ends, strict=True)]
        trace, last = priced[-1]
        if len(priced) > 1:
            last = {p: Ledger.join([ledgers[p] for _, ledgers in priced]) for p in policies}
        if isinstance(trace, Selection) and run.controller is not None:
            raise BadInput(
                f"plan.selection = {run.used.plan.selection!r} learns from one round to the next, "
                "and a run with it keeps its plan: choose another rule"
            )
        segments = cls(run, parts, trace, last).with_choices(state, 0)
        for done in range(state.rounds):
            segments = segments.without_missing(done, run.first.learner)
        return segments

    @property
    def last(self) -> Segment:
        """The segment in progress."""
        return self.parts[-1]

    @property
    def changes(self) -> tuple[PlanChange, ...]:
        """What each segment after the first changed."""
        return tuple(part.change for part in self.parts[1:])

    def followed_by(self, turn: Segment) -> "Segments":
        """Return the segments with one more, which replaces the rounds from its first on."""
        trace, rest = _price(self.run, turn, self.run.rounds, list(self.ledgers))
        ledgers = {
            p: Ledger.join([ledger.first(turn.first_round), rest[p]])
            for p, ledger in self.ledgers.items()
        }
        return replace(self, parts=(*self.parts, turn), trace=trace, ledgers=ledgers)

    def with_choices(self, state: State, first: int) -> "Segments":
        """Return the same with the rounds from `first` on that a rule has chosen; the same object
        where rounds are known before training."""
        rows = () if state.selected is None else state.selected.rows[first:]
        if not isinstance(self.trace, Selection) or not rows:
            return self
        rule, run = self.trace, self.run
        chosen = rule.trace(rows, first)
        ledgers = {
            name: ledger.with_rounds(
                price_named(run, name, rule.scenario, rule.fleet, chosen), first
            )
            for name, ledger in self.ledgers.items()
        }
        return replace(self, ledgers=ledgers)

    def without_missing(self, round: int, learner: Learner) -> "Segments":
        """Return the same without uploads of a round that a real federation did not receive; the
        same object where all arrived that were drawn to arrive."""
        missing = learner.missing(round) if isinstance(learner, Remote) else ()
        if not missing:
            return self
        ledgers = {p: ledger.without(round, missing) for p, ledger in self.ledgers.items()}
        return replace(self, ledgers=ledgers)


def metrics_identity(learner: Learner) -> dict[str, Any]:
    """Return the metrics of a learner for the identity of a run; empty where it has none."""
    metrics = own_metrics(learner)
    return {"metrics": metrics} if metrics else {}


def _price(
    run: PreparedRun, segment: Segment, end: int, policies: Sequence[str]
) -> tuple[Trace | Selection, dict[str, Ledger]]:
    """Draw the rounds of a segment up to `end` and price them under each policy."""
    scenario, fleet, rounds = segment.scenario, segment.fleet, range(segment.first_round, end)
    rule = live_selection(scenario, fleet, run.seed, end)
    trace = stand_in(rule, rounds) if rule else draw_trace(scenario, fleet, rounds, run.seed)
    ledgers = {
        name: require_usable(price_named(run, name, scenario, fleet, trace)) for name in policies
    }
    return rule or trace, ledgers


def price_named(
    run: PreparedRun, name: str, scenario: Scenario, fleet: Fleet, trace: Trace
) -> Ledger:
    """Return the ledger of a trace under a policy of a run."""
    return price_trace(scenario, fleet, trace, run.policies.get(name, name), run.seed)
