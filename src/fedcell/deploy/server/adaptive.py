"""A federation that adapts: measured times correct its schedules, losses its plan."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fedcell.deploy.exchanges import Exchange
from fedcell.simulation.prepared import Controller, PreparedRun, Segment
from fedcell.simulation.state import State

from .drift import DeviceDrift
from .federation import Federation


@dataclass(kw_only=True)
class AdaptiveFederation:
    """Controller of a run on a federation: follows the plans of `planned`, where it is given, and
    corrects the fleet by the drift of its devices."""

    federation: Federation
    first: Segment
    every: int  # rounds between two corrections
    planned: Controller | None = None
    seen: list[Exchange] = field(default_factory=list)  # of the rounds so far
    _drift: DeviceDrift = field(init=False)
    _now: Segment = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._drift, self._now = DeviceDrift(self.first.fleet.count), self.first

    def replay(self, state: State) -> Sequence[Segment]:
        """Return the segments that led to a state, from the times that were measured then."""
        self._begin()
        self.seen = [row for row in self.seen if row.round <= state.rounds]
        plans = [] if self.planned is None else self.planned.replay(state)
        planned = {segment.first_round: segment for segment in plans}
        segments, rest = [], list(reversed(self.seen))
        for rounds in range(1, state.rounds + 1):
            # In the order in which they were made: a run that was resumed before has introductions,
            # of round 0, in its middle, and did not know them earlier.
            while rest and rest[-1].round <= rounds:
                self._drift.observe([rest.pop()])
            segment = self._next(rounds, planned.get(rounds))
            if segment is not None:
                segments.append(segment)
        self._drift.observe(reversed(rest))
        return segments

    def observe(self, exchanges: Sequence[Exchange]) -> None:
        """Take up exchanges as they are made."""
        self.seen += exchanges
        self._drift.observe(exchanges)

    def steer(self, state: State) -> Segment | None:
        """Return the segment that begins after a round; None where nothing changes."""
        planned = None if self.planned is None else self.planned.steer(state)
        return self._next(state.rounds, planned)

    def _next(self, rounds: int, planned: Segment | None) -> Segment | None:
        farthest = self._drift.farthest if rounds % self.every == 0 else None
        if planned is None and farthest is None:
            return None
        reasons = [] if planned is None else [planned.why]
        if farthest is not None:
            reasons.append(self._drift.describe(farthest))
            self._drift.adopt()
        scenario = self._now.scenario if planned is None else planned.scenario
        fleet = self._drift.correct(self.first.fleet, scenario)
        self._now = Segment(
            scenario=scenario,
            fleet=fleet,
            learner=self.federation.under(scenario, fleet),
            first_round=rounds,
            why="; ".join(reasons),
        )
        return self._now


def adapt_to_devices(
    run: PreparedRun, federation: Federation, every: int, past: Sequence[Exchange]
) -> tuple[PreparedRun, AdaptiveFederation]:
    """Return a run with a fleet that is corrected every `every` rounds, and its controller, which
    passes on the plans of the run's own controller."""
    controller = AdaptiveFederation(
        federation=federation,
        first=run.first,
        every=every,
        planned=run.controller,
        seen=list(past),
    )
    known_by = {**run.identity["adaptive"], "every": every, "devices": "measured"}
    identity = {**run.identity, "adaptive": known_by}
    return replace(run, controller=controller, identity=identity), controller
