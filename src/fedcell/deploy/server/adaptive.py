"""A federation that adapts: its schedule follows what is measured, its plan what is learnt."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fedcell.deploy.exchanges import Exchange
from fedcell.simulation.prepared import PreparedRun, Segment, Steering
from fedcell.simulation.state import State

from .drift import Known
from .federation import Federation


@dataclass(kw_only=True)
class Following:
    """Steers a run on a federation: as `planned` says, where somebody plans K and E_l anew, and
    with the devices as they are known by now."""

    federation: Federation
    first: Segment
    every: int  # rounds between two looks
    planned: Steering | None = None
    seen: list[Exchange] = field(default_factory=list)  # of the rounds so far
    _known: Known = field(init=False)
    _now: Segment = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._known, self._now = Known(self.first.fleet.count), self.first

    def replay(self, state: State) -> Sequence[Segment]:
        """The segments that led to a state, from what was measured then."""
        self._begin()
        self.seen = [row for row in self.seen if row.round <= state.rounds]
        turns = [] if self.planned is None else self.planned.replay(state)
        planned = {turn.first_round: turn for turn in turns}
        found, rest = [], list(reversed(self.seen))
        for rounds in range(1, state.rounds + 1):
            # In the order in which they were made: a run that was gone on with before has
            # introductions, of round 0, in its middle, and knew nothing of them till then.
            while rest and rest[-1].round <= rounds:
                self._known.see([rest.pop()])
            turn = self._turn(rounds, planned.get(rounds))
            if turn is not None:
                found.append(turn)
        self._known.see(reversed(rest))
        return found

    def note(self, exchanges: Sequence[Exchange]) -> None:
        """Hears of exchanges as they are made."""
        self.seen += exchanges
        self._known.see(exchanges)

    def steer(self, state: State) -> Segment | None:
        """After a round: with what to go on, if that is to change."""
        planned = None if self.planned is None else self.planned.steer(state)
        return self._turn(state.rounds, planned)

    def _turn(self, rounds: int, planned: Segment | None) -> Segment | None:
        moved = self._known.moved if rounds % self.every == 0 else None
        if planned is None and moved is None:
            return None
        reasons = [] if planned is None else [planned.why]
        if moved is not None:
            reasons.append(self._known.words(moved))
            self._known.adopt()
        scenario = self._now.scenario if planned is None else planned.scenario
        fleet = self._known.corrected(self.first.fleet, scenario)
        self._now = Segment(
            scenario=scenario,
            fleet=fleet,
            learner=self.federation.under(scenario, fleet),
            first_round=rounds,
            why="; ".join(reasons),
        )
        return self._now


def following(
    run: PreparedRun, federation: Federation, every: int, past: Sequence[Exchange]
) -> tuple[PreparedRun, Following]:
    """A run on a federation with somebody who watches its devices, in front of whoever plans."""
    steering = Following(
        federation=federation,
        first=run.first,
        every=every,
        planned=run.steering,
        seen=list(past),
    )
    known_by = {**run.identity["adaptive"], "every": every, "devices": "measured"}
    identity = {**run.identity, "adaptive": known_by}
    return replace(run, steering=steering, identity=identity), steering
