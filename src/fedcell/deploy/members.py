"""Who belongs to a federation: devices that introduced themselves, and come and go."""

import time
from collections.abc import Callable, Sequence

from fedcell.core.errors import BadInput
from fedcell.core.showing import client_title

from .exchange import Exchange
from .link import Introduction, Link, Member
from .profile import Profile, ordered
from .settings import Config

ASKING = 30.0  # [s] that a device which joins later has to say who it is
PAUSE = 0.5  # [s] between two looks at who is there


class Members:
    """The devices by client. One that comes back, under another node, takes its place again."""

    def __init__(
        self, link: Link, config: Config, tell: Callable[[Sequence[Exchange]], None] | None = None
    ) -> None:
        self._link, self._config, self._tell = link, config, tell
        self._members: dict[int, Member] = {}  # by client
        self._places: dict[str, int] = {}  # the client that each name is
        self._known: set[int] = set()  # nodes that have said who they are, or what cannot be
        self._connected: set[int] = set()
        self._silent: set[int] = set()  # clients that did not answer when they were last asked

    def gather(self, count: int, seconds: float) -> dict[int, Profile]:
        """Waits until `count` devices have introduced themselves, and says which client each is."""
        end, refused = time.monotonic() + seconds, ""
        found: list[Member] = []
        while len(found) < count and (left := end - time.monotonic()) > 0:
            introductions = self._link.introduce(self._known, self._config, left, PAUSE)
            for introduction in introductions:
                self._known.add(introduction.node)
                member = introduction.member
                why = introduction.why if member is None else clash(member.profile, found, count)
                if member is None or why:
                    refused = f"; the last that was refused: {why}"
                    self._told(introduction, None, "refused", why)
                else:
                    found.append(member)
                    self._told(introduction, None, "introduced", "")
            if not introductions:
                time.sleep(PAUSE)
        if len(found) < count:
            raise BadInput(
                f"{len(found)} of {count} devices introduced themselves within {seconds:.3g} s"
                f"{refused}: start the others, or wait longer (join-timeout)"
            )
        for place, member in zip(ordered([m.profile for m in found]), found, strict=True):
            self._members[place], self._places[member.profile.name] = member, place
        self._connected = self._link.nodes()
        return {place: member.profile for place, member in sorted(self._members.items())}

    def renew(self, round: int, called: Sequence[int] = (), seconds: float = 0.0) -> None:
        """Looks who is there before a round, and asks those that came since who they are. They are
        waited for where a place is free; where nobody is there who is `called`, so is anybody, for
        so many seconds."""
        end = time.monotonic() + seconds
        self._look(round)
        while called and not any(map(self.of, called)) and time.monotonic() < end:
            time.sleep(PAUSE)
            self._look(round)

    def _look(self, round: int) -> None:
        self._connected = self._link.nodes()
        if not self._connected - self._known:
            return
        free = any(j in self._silent or self.of(j) is None for j in self._members)
        patience = ASKING if free else 0.0
        for introduction in self._link.introduce(self._known, self._config, ASKING, patience):
            if introduction.member is None:  # it may be asked again
                self._told(introduction, None, "refused", introduction.why, round)
                continue
            profile = introduction.member.profile
            place = self._places.get(profile.name)
            if place is None:
                self._known.add(introduction.node)
                why = "joined under way, and is none of those that the run began with"
                self._told(introduction, None, "refused", why, round)
            elif self._members[place].node in self._connected and place not in self._silent:
                why = f"another device that is called {profile.name} is there"  # until it is silent
                self._told(introduction, place, "refused", why, round)
            else:
                self._known.add(introduction.node)
                self._members[place] = introduction.member
                self._silent.discard(place)
                self._told(introduction, place, "introduced", "came back", round)

    def heard(self, client: int, answered: bool) -> None:
        """Remembers whether a device answered when it was last asked."""
        (self._silent.discard if answered else self._silent.add)(client)

    def of(self, client: int) -> Member | None:
        """The device that is a client, if it is connected."""
        member = self._members.get(client)
        return member if member is not None and member.node in self._connected else None

    def everybody(self) -> dict[int, Member]:
        """All that are connected, by client."""
        return {client: m for client in sorted(self._members) if (m := self.of(client)) is not None}

    def name_of(self, client: int) -> str:
        """What a client is called."""
        member = self._members.get(client)
        return client_title(client, None if member is None else member.profile.name)

    def _told(
        self, met: Introduction, client: int | None, outcome: str, why: str, round: int = 0
    ) -> None:
        if self._tell is not None:
            name = "" if met.member is None else met.member.profile.name
            row = Exchange(
                round=round,
                client=client,
                name=name,
                outcome=outcome,
                why=why,
                measured_total=met.seconds,
                measured_upload=met.upload,
            )
            self._tell([row])


def clash(profile: Profile, found: Sequence[Member], count: int) -> str:
    """Why a device cannot be one of `count` beside those that were `found`; empty if it can."""
    others = {member.profile.name: member.profile.client for member in found}
    if profile.name in others:
        return f"another device is called {profile.name}: give each a name of its own"
    if len(others) == count:
        return f"{profile.name} came after the {count} devices of this run"
    place, placed = profile.client, set(others.values()) - {None}
    if others and (place is None) == bool(placed):
        does, do = ("does not say", "do") if place is None else ("says", "do not")
        return (
            f"{profile.name} {does} which client it is, and others {do}: give all of them a "
            "partition-id, or none"
        )
    if place is not None and place >= count:
        return (
            f"{profile.name} says that it is client {place}, and there are {count}, from 0 on: "
            "check its partition-id"
        )
    if place in placed:
        return (
            f"{profile.name} says that it is client {place}, and so does another: give each a "
            "partition-id of its own"
        )
    return ""
