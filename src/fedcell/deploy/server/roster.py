"""The roster of a federation: devices that introduced themselves, leave and come back."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from fedcell.core.errors import BadInput
from fedcell.deploy.exchanges import Arrival, Exchange, Outcome
from fedcell.deploy.keys import normalise_key
from fedcell.deploy.options import Config
from fedcell.deploy.wire.messages import sanitised
from fedcell.deploy.wire.profile import Profile

from .admission import Admission
from .link import Introduction, Link, Member
from .presence import Presence, missing_words

INTRODUCTION_TIMEOUT = 30.0  # [s] in which a device that joins later sends its profile
POLL = 0.5  # [s] between two polls for connected nodes
NEWCOMER_POLL = 2.0  # [s] between two polls for new nodes while a round waits for replies
MAX_REFUSED_NAMED = 5  # refused devices that a sentence names


class Roster:
    """The devices by client. One that comes back, under another node, takes its place again."""

    def __init__(
        self,
        link: Link,
        config: Config,
        on_exchanges: Callable[[Sequence[Exchange]], None] | None = None,
        expected: Presence | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._link, self._config, self._on_exchanges = link, config, on_exchanges
        self._expected, self._admission = expected or Presence(count=0), admission
        self._members: dict[int, Member] = {}  # by client
        self._places: dict[str, int] = {}  # client by name
        self._known: set[int] = set()  # nodes that are not asked again
        self._refused: dict[int, tuple[str, str]] = {}  # name and reason of the last refusal
        self._connected: set[int] = set()
        self._silent: set[int] = set()  # clients that did not reply to their last message

    def gather(self, count: int, seconds: float) -> dict[int, Profile]:
        """Wait until `count` devices have introduced themselves, or, when the time is over, for as
        many as the run may start with. Return the profile of each client.

        A refused device keeps no place: it is asked again, and another may come instead. Whether
        devices are placed by partition-id or by name is settled when one of both kinds is complete,
        not by the first that comes.
        """
        if self._expected.count != count:
            self._expected = Presence(count=count)
        expected, end = self._expected, time.monotonic() + seconds
        found: list[Member] = []
        while not (whole := complete(found, expected)) and (left := end - time.monotonic()) > 0:
            introductions = self._link.introductions(self._known, self._config, left, POLL)
            for introduction in introductions:
                why = self._unfit(introduction, found, count)
                if introduction.member is None or why:
                    self._refuse(introduction, why)
                else:
                    found.append(introduction.member)
                    self._accept(introduction, None, Arrival.FIRST)
            if not introductions:
                time.sleep(POLL)
        if not whole and expected.start_with is not None and expected.enough(found):
            whole = found  # all of them are placed
        if not whole:
            raise BadInput(self._too_few(found, seconds))
        for member in found:
            if member not in whole:
                self._known.discard(member.node)
                left_out = Introduction(member.node, member.profile.name, 0.0)
                self._refuse(left_out, placement_fault(member.profile, expected))
        places = expected.places([member.profile for member in whole])
        for place, member in zip(places, whole, strict=True):
            self._members[place], self._places[member.profile.name] = member, place
        self._connected = self._link.nodes()
        return {place: member.profile for place, member in sorted(self._members.items())}

    def refresh(self, round: int, called: Sequence[int] = (), seconds: float = 0.0) -> None:
        """Update which devices are connected before a round, and ask new nodes for their profiles.
        Their replies are taken up by a later call: a round waits for an introduction only where no
        device that is `called` is connected, and for at most `seconds`."""
        end = time.monotonic() + seconds
        self._update(round)
        waited_for = [j for j in called if j in self._members]  # without those that never joined
        while waited_for and not any(map(self.connected, called)) and time.monotonic() < end:
            time.sleep(POLL)
            self._update(round)

    @contextmanager
    def asking_newcomers(self) -> Iterator[None]:
        """Ask nodes that connect meanwhile for their profiles, so that a round that waits for its
        replies does not delay them."""
        stop = threading.Event()

        def ask() -> None:
            with suppress(Exception):  # a grid that is gone raises where its result is needed
                while not stop.wait(NEWCOMER_POLL):
                    self._link.ask(self._known, self._config, INTRODUCTION_TIMEOUT)

        asker = threading.Thread(target=ask, daemon=True)
        asker.start()
        try:
            yield
        finally:
            stop.set()
            asker.join()

    def _update(self, round: int) -> None:
        self._connected = self._link.nodes()
        timeout = INTRODUCTION_TIMEOUT
        for introduction in self._link.introductions(self._known, self._config, timeout, 0.0):
            why = self._fault(introduction)
            if introduction.member is None or why:  # it may be asked again
                self._refuse(introduction, why, round)
            else:
                self._place(introduction, introduction.member, round)

    def _place(self, introduction: Introduction, member: Member, round: int) -> None:
        """Give a device that was introduced during the run its place, or refuse it."""
        profile = member.profile
        place, how = self._places.get(profile.name), Arrival.RETURNED
        if place is None:
            place, how = self._expected.open_place(profile, self._members), Arrival.LATE
        if place is None:
            self._known.add(introduction.node)
            why = "joined during the run, and is none of the devices that the run began with"
            self._refuse(introduction, why, round)
        elif profile.client not in (None, place):
            why = f"says that it is client {profile.client}, and was client {place} before"
            self._refuse(introduction, why, round)
        elif self.connected(place) is not None and place not in self._silent:
            why = f"another device called {profile.name} is connected"
            self._refuse(introduction, why, round)
        else:
            self._members[place], self._places[profile.name] = member, place
            self._silent.discard(place)
            self._accept(introduction, place, how, round)

    def _unfit(self, introduction: Introduction, found: Sequence[Member], count: int) -> str:
        """Say why a node cannot be one of `count` devices beside those in `found`."""
        if introduction.member is None:
            return introduction.why
        if complete(found, self._expected):
            return f"{introduction.name} came after the {count} devices of this run"
        profile, others = introduction.member.profile, [member.profile for member in found]
        return clash(profile, others, self._expected) or self._fault(introduction)

    def _fault(self, introduction: Introduction) -> str:
        """Say what is wrong with an introduction by itself; empty: nothing."""
        if introduction.member is None:
            return introduction.why
        profile, count, why = introduction.member.profile, self._expected.count, ""
        place = self._expected.place_of(profile)
        if place is not None and place >= count > 0:
            return (
                f"{profile.name} says that it is client {place}, and there are {count}, from 0 on: "
                "check its partition-id"
            )
        if self._admission is not None:
            key = self._link.keys().get(introduction.node, b"") if self._admission.keys else b""
            why = sanitised(self._admission.fault(profile, normalise_key(key), place))
        return why or self._expected.fault(profile)

    def note_reply(self, client: int, replied: bool) -> None:
        """Remember whether a device replied to its last message."""
        (self._silent.discard if replied else self._silent.add)(client)

    def connected(self, client: int) -> Member | None:
        """Return the device of a client, if it is connected."""
        member = self._members.get(client)
        return member if member is not None and member.node in self._connected else None

    def all_connected(self) -> dict[int, Member]:
        """Return all connected devices, by client."""
        devices = {client: self.connected(client) for client in sorted(self._members)}
        return {client: member for client, member in devices.items() if member is not None}

    def sets_power(self, client: int) -> bool:
        """Return whether the device of a client can set its transmit power."""
        member = self._members.get(client)
        return member is not None and bool(member.profile.sets_power)

    def name_of(self, client: int) -> str:
        """Return the name of a client."""
        member = self._members.get(client)
        return self._expected.title(client) if member is None else member.profile.name

    def _accept(
        self, introduction: Introduction, client: int | None, how: Arrival, round: int = 0
    ) -> None:
        self._known.add(introduction.node)
        self._refused.pop(introduction.node, None)
        self._record(introduction, client, Outcome.INTRODUCED, str(how), round)

    def _refuse(self, introduction: Introduction, why: str, round: int = 0) -> None:
        """Record a refusal once: a node that is asked again mostly replies the same."""
        node, name = introduction.node, introduction.name
        if self._refused.get(node) != (name, why):
            self._refused[node] = name, why
            self._record(introduction, self._places.get(name), Outcome.REFUSED, why, round)

    def _too_few(self, found: Sequence[Member], seconds: float) -> str:
        """Say why a federation does not begin: which devices are missing or were refused."""
        expected, profiles = self._expected, [member.profile for member in found]
        placed = [p for p in profiles if expected.place_of(p) is not None]
        here = placed if placed and 2 * len(placed) >= len(profiles) else _others(profiles, placed)
        sentence = (
            f"{len(here)} of {expected.count} devices introduced themselves within {seconds:.3g} s"
        )
        odd = [(p.name, placement_fault(p, expected)) for p in _others(profiles, here)]
        there = {profile.name for profile in profiles}  # a corrected device among them
        late = [(name, why) for name, why in self._refused.values() if name not in there]
        refused = [*odd, *late][:MAX_REFUSED_NAMED]
        sentence += missing_words(expected, here)
        sentence += "".join(f"; refused: {name}: {why}" for name, why in refused)
        return f"{sentence}: start the others, or wait longer (join-timeout)"

    def _record(
        self,
        introduction: Introduction,
        client: int | None,
        outcome: Outcome,
        why: str,
        round: int,
    ) -> None:
        if self._on_exchanges is not None:
            row = Exchange(
                round=round,
                client=client,
                name=introduction.name,
                outcome=outcome,
                why=why,
                measured_total=introduction.seconds,
                measured_upload=introduction.upload,
            )
            self._on_exchanges([row])


def complete(found: Sequence[Member], expected: Presence) -> list[Member]:
    """Return the devices that make up a federation: all with a known place, or all without one;
    none where neither kind is complete."""
    for placed in (True, False):
        kind = [m for m in found if (expected.place_of(m.profile) is not None) == placed]
        if len(kind) == expected.count:
            return kind
    return []


def _others(profiles: Sequence[Profile], some: Sequence[Profile]) -> list[Profile]:
    return [profile for profile in profiles if profile not in some]


def placement_fault(profile: Profile, expected: Presence) -> str:
    """Say what is wrong with a device that gives its place where others do not, or the reverse."""
    known = expected.place_of(profile) is not None
    does, do = ("says", "do not") if known else ("does not say", "do")
    return (
        f"{profile.name} {does} which client it is, and others {do}: give all of them a "
        "partition-id, or none"
    )


def clash(profile: Profile, found: Sequence[Profile], expected: Presence) -> str:
    """Say why a device cannot join those that were `found`; empty if it can."""
    if any(profile.name == other.name for other in found):
        return f"another device is called {profile.name}: give each its own name"
    place = expected.place_of(profile)
    if place is not None and any(place == expected.place_of(other) for other in found):
        return (
            f"{profile.name} says that it is client {place}, and so does another: give each its "
            "own partition-id"
        )
    return ""
