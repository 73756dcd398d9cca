"""Which devices a run expects, which of them are missing, and with how many it may start."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fedcell.core.errors import BadInput
from fedcell.core.showing import client_title
from fedcell.deploy.exchanges import MISSING, Exchange, Outcome
from fedcell.deploy.wire.profile import NUMBERS, Profile, ordered

MAX_NAMED = 10  # devices that a sentence names


@dataclass(frozen=True, kw_only=True)
class Presence:
    """The devices that a run expects.

    With `start_with`, the run begins with the devices that are connected when the time to join is
    over, if they are at least that many. Then the fleet is the scenario's, whichever devices come
    first: each must give its partition-id or have a name of the fleet table, which describes it.
    """

    count: int  # of clients
    names: tuple[str, ...] | None = None  # of the clients, where the scenario names them
    start_with: int | None = None  # minimum number of devices; None: all of them
    sizes: Sequence[float] | None = None  # D_j of the scenario, where devices must have them

    def __post_init__(self) -> None:
        if self.start_with is not None and not 1 <= self.start_with <= self.count:
            raise BadInput(
                f"`start_with` = {self.start_with}: expected 1 to {self.count}, the number of "
                "clients"
            )

    def place_of(self, profile: Profile) -> int | None:
        """Return the client of a device, from its profile alone; None: not known."""
        if profile.client is not None or self.names is None:
            return profile.client
        return self.names.index(profile.name) if profile.name in self.names else None

    def places(self, profiles: Sequence[Profile]) -> list[int]:
        """Return the client of each device: by partition-id, fleet table, or order of names."""
        known = [place for p in profiles if (place := self.place_of(p)) is not None]
        return known if len(set(known)) == len(profiles) else ordered(profiles)

    def fault(self, profile: Profile) -> str:
        """Say why a device cannot join a run that starts without some devices; empty: it can."""
        if self.start_with is None:
            return ""
        place = self.place_of(profile)
        if place is None:
            return (
                f"{profile.name} does not say which client it is, which start-with needs: give it "
                "a partition-id, or a name of the fleet table"
            )
        if said := [name for name in NUMBERS if getattr(profile, name) is not None]:
            return (
                f"{profile.name} gives its {', '.join(said)}; with start-with the fleet is as the "
                "scenario says: put it into a fleet table (clients.table)"
            )
        if self.sizes is not None and profile.samples not in (None, int(self.sizes[place])):
            return (
                f"{profile.name} holds {profile.samples} samples, and client {place} of the "
                f"scenario {int(self.sizes[place])}: it has other data, or another partition-id"
            )
        return ""

    def enough(self, found: Collection[object]) -> bool:
        """Return whether a run may begin with the devices that were `found`."""
        least = self.count if self.start_with is None else self.start_with
        return len(found) >= least

    def open_place(self, profile: Profile, taken: Collection[int]) -> int | None:
        """Return the client of a device that joins later; None: there is no place for it."""
        place = None if self.start_with is None else self.place_of(profile)
        return place if place is not None and place < self.count and place not in taken else None

    def title(self, client: int) -> str:
        """Return the name of a client that has not introduced itself."""
        return client_title(client, None if self.names is None else self.names[client])


def missing_devices(expected: Presence, found: Sequence[Profile]) -> list[str]:
    """Name the expected devices that were not found: by the fleet table, or by partition-id. Where
    a device gives neither, the missing ones are not known: return none.

    >>> there = [Profile(name="pump-1", client=1)]
    >>> missing_devices(Presence(count=3), there)
    ['client 0 (partition-id=0)', 'client 2 (partition-id=2)']
    >>> missing_devices(Presence(count=2, names=("pump-0", "pump-1")), there)
    ['pump-0']
    """
    places = {expected.place_of(profile) for profile in found}
    if None in places or (not found and expected.names is None):
        return []
    left = [j for j in range(expected.count) if j not in places]
    if expected.names is not None:
        return [expected.title(j) for j in left]
    return [f"{expected.title(j)} (partition-id={j})" for j in left]


def listed(names: Sequence[str]) -> str:
    """List at most ten names."""
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def missing_words(expected: Presence, found: Sequence[Profile]) -> str:
    """Return the end of a sentence that names the missing devices."""
    names = missing_devices(expected, found)
    return f"; missing: {listed(names)}" if names else ""


def round_line(
    round: int, loss: float, received: int, called: int, exchanges: Sequence[Exchange]
) -> str:
    """Summarise a round in a line: its loss, its counted uploads, the devices without one."""
    score = "not evaluated" if loss != loss else f"loss {loss:.4f}"
    missing: Mapping[Outcome, list[str]] = {outcome: [] for outcome in MISSING}
    for row in sorted(exchanges, key=lambda row: -1 if row.client is None else row.client):
        if row.round == round and row.outcome in missing:
            missing[row.outcome].append(row.name)
    named = [f"; {outcome}: {listed(names)}" for outcome, names in missing.items() if names]
    return f"round {round}: {score}, {received} of {called} uploads counted{''.join(named)}"
