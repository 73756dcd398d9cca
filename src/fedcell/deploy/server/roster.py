"""Who belongs to a federation: devices that introduced themselves, and come and go."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from fedcell.core.errors import BadInput
from fedcell.deploy.exchanges import Exchange
from fedcell.deploy.keys import normal
from fedcell.deploy.options import Config
from fedcell.deploy.wire.messages import told
from fedcell.deploy.wire.profile import Profile

from .admission import Admission
from .link import Introduction, Link, Member
from .presence import Presence, missing_words

ASKING = 30.0  # [s] that a device which joins later has to say who it is
PAUSE = 0.5  # [s] between two looks at who is there
GREETING = 2.0  # [s] between two looks for newcomers while a round waits for answers
MOST_REFUSED = 5  # refused devices that a sentence names


class Members:
    """The devices by client. One that comes back, under another node, takes its place again."""

    def __init__(
        self,
        link: Link,
        config: Config,
        tell: Callable[[Sequence[Exchange]], None] | None = None,
        expected: Presence | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._link, self._config, self._tell = link, config, tell
        self._expected, self._admission = expected or Presence(count=0), admission
        self._members: dict[int, Member] = {}  # by client
        self._places: dict[str, int] = {}  # the client that each name is
        self._known: set[int] = set()  # nodes that are not asked again
        self._refused: dict[int, tuple[str, str]] = {}  # name and reason of the last refusal
        self._connected: set[int] = set()
        self._silent: set[int] = set()  # clients that did not answer when they were last asked

    def gather(self, count: int, seconds: float) -> dict[int, Profile]:
        """Waits until `count` devices have introduced themselves, or for as many as may start when
        the time is over, and says which client each is.

        A device that is refused keeps no place: it is asked again, and another may come instead.
        Whether devices are placed by what they say or by name is settled when one of both kinds is
        complete, not by the first that comes.
        """
        if self._expected.count != count:
            self._expected = Presence(count=count)
        expected, end = self._expected, time.monotonic() + seconds
        found: list[Member] = []
        while not (whole := complete(found, expected)) and (left := end - time.monotonic()) > 0:
            introductions = self._link.introduce(self._known, self._config, left, PAUSE)
            for met in introductions:
                why = self._unfit(met, found, count)
                if met.member is None or why:
                    self._refuse(met, why)
                else:
                    found.append(met.member)
                    self._accept(met, None, "")
            if not introductions:
                time.sleep(PAUSE)
        if not whole and expected.start_with is not None and expected.enough(found):
            whole = found  # all of them are placed
        if not whole:
            raise BadInput(self._too_few(found, seconds))
        for member in found:
            if member not in whole:
                self._known.discard(member.node)
                met = Introduction(member.node, member.profile.name, 0.0)
                self._refuse(met, odd_one(member.profile, expected))
        places = expected.places([member.profile for member in whole])
        for place, member in zip(places, whole, strict=True):
            self._members[place], self._places[member.profile.name] = member, place
        self._connected = self._link.nodes()
        return {place: member.profile for place, member in sorted(self._members.items())}

    def renew(self, round: int, called: Sequence[int] = (), seconds: float = 0.0) -> None:
        """Looks who is there before a round, and asks those that came since who they are. Their
        answers are taken up in a later look: a round waits for an introduction only where none of
        those that are `called` is there, and then for at most that many seconds."""
        end = time.monotonic() + seconds
        self._look(round)
        waited_for = [j for j in called if j in self._members]  # not one that never was there
        while waited_for and not any(map(self.of, called)) and time.monotonic() < end:
            time.sleep(PAUSE)
            self._look(round)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Meanwhile, as long as a round waits for its answers, nodes that come are asked who they
        are, so that their answers are there when the next round begins."""
        stop = threading.Event()

        def ask() -> None:
            with suppress(Exception):  # a grid that is gone is found by those that need it
                while not stop.wait(GREETING):
                    self._link.ask(self._known, self._config, ASKING)

        asker = threading.Thread(target=ask, daemon=True)
        asker.start()
        try:
            yield
        finally:
            stop.set()
            asker.join()

    def _look(self, round: int) -> None:
        self._connected = self._link.nodes()
        for met in self._link.introduce(self._known, self._config, ASKING, 0.0):
            why = self._fault(met)
            if met.member is None or why:  # it may be asked again
                self._refuse(met, why, round)
                continue
            profile = met.member.profile
            place, how = self._places.get(profile.name), "came back"
            if place is None:
                place, how = self._expected.open_place(profile, self._members), "joined under way"
            if place is None:
                self._known.add(met.node)
                why = "joined under way, and is none of those that the run began with"
                self._refuse(met, why, round)
            elif profile.client not in (None, place):
                why = f"says that it is client {profile.client}, and was client {place} before"
                self._refuse(met, why, round)
            elif self.of(place) is not None and place not in self._silent:
                why = f"another device that is called {profile.name} is there"  # until it is silent
                self._refuse(met, why, round)
            else:
                self._members[place], self._places[profile.name] = met.member, place
                self._silent.discard(place)
                self._accept(met, place, how, round)

    def _unfit(self, met: Introduction, found: Sequence[Member], count: int) -> str:
        """Why a node cannot be one of `count` devices beside those that were `found`."""
        if met.member is None:
            return met.why
        if complete(found, self._expected):
            return f"{met.name} came after the {count} devices of this run"
        others = [member.profile for member in found]
        return clash(met.member.profile, others, self._expected) or self._fault(met)

    def _fault(self, met: Introduction) -> str:
        """What is wrong with an introduction by itself."""
        if met.member is None:
            return met.why
        profile, count, why = met.member.profile, self._expected.count, ""
        place = self._expected.place_of(profile)
        if place is not None and place >= count > 0:
            return (
                f"{profile.name} says that it is client {place}, and there are {count}, from 0 on: "
                "check its partition-id"
            )
        if self._admission is not None:
            key = self._link.keys().get(met.node, b"") if self._admission.keys else b""
            why = told(self._admission.fault(profile, normal(key), place))
        return why or self._expected.fault(profile)

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
        return self._expected.title(client) if member is None else member.profile.name

    def _accept(self, met: Introduction, client: int | None, why: str, round: int = 0) -> None:
        self._known.add(met.node)
        self._refused.pop(met.node, None)
        self._told(met, client, "introduced", why, round)

    def _refuse(self, met: Introduction, why: str, round: int = 0) -> None:
        """Says so once: a node that is asked again mostly says the same again."""
        if self._refused.get(met.node) != (met.name, why):
            self._refused[met.node] = met.name, why
            self._told(met, self._places.get(met.name), "refused", why, round)

    def _too_few(self, found: Sequence[Member], seconds: float) -> str:
        """Why a federation does not begin: who is there, who is not, and who was refused."""
        expected, profiles = self._expected, [member.profile for member in found]
        placed = [p for p in profiles if expected.place_of(p) is not None]
        here = placed if placed and 2 * len(placed) >= len(profiles) else _others(profiles, placed)
        sentence = (
            f"{len(here)} of {expected.count} devices introduced themselves within {seconds:.3g} s"
        )
        odd = [(p.name, odd_one(p, expected)) for p in _others(profiles, here)]
        there = {profile.name for profile in profiles}  # a corrected device among them
        late = [(name, why) for name, why in self._refused.values() if name not in there]
        refused = [*odd, *late][:MOST_REFUSED]
        sentence += missing_words(expected, here)
        sentence += "".join(f"; refused: {name}: {why}" for name, why in refused)
        return f"{sentence}: start the others, or wait longer (join-timeout)"

    def _told(
        self, met: Introduction, client: int | None, outcome: str, why: str, round: int
    ) -> None:
        if self._tell is not None:
            row = Exchange(
                round=round,
                client=client,
                name=met.name,
                outcome=outcome,
                why=why,
                measured_total=met.seconds,
                measured_upload=met.upload,
            )
            self._tell([row])


def complete(found: Sequence[Member], expected: Presence) -> list[Member]:
    """The devices that make up a federation: all whose place is known, or all whose place is not;
    none where neither are enough."""
    for placed in (True, False):
        kind = [m for m in found if (expected.place_of(m.profile) is not None) == placed]
        if len(kind) == expected.count:
            return kind
    return []


def _others(profiles: Sequence[Profile], some: Sequence[Profile]) -> list[Profile]:
    return [profile for profile in profiles if profile not in some]


def odd_one(profile: Profile, expected: Presence) -> str:
    """What is wrong with a device that is not of the kind of the others."""
    known = expected.place_of(profile) is not None
    does, do = ("says", "do not") if known else ("does not say", "do")
    return (
        f"{profile.name} {does} which client it is, and others {do}: give all of them a "
        "partition-id, or none"
    )


def clash(profile: Profile, found: Sequence[Profile], expected: Presence) -> str:
    """Why a device cannot be one of those expected beside those found; empty if it can."""
    if any(profile.name == other.name for other in found):
        return f"another device is called {profile.name}: give each a name of its own"
    place = expected.place_of(profile)
    if place is not None and any(place == expected.place_of(other) for other in found):
        return (
            f"{profile.name} says that it is client {place}, and so does another: give each a "
            "partition-id of its own"
        )
    return ""
