"""The way to the devices and back, by Flower: messages out, answers in by a deadline.

Each message has a waiter of its own, for the grid's own way of waiting takes answers one after the
other, and a slow upload hides those that are there (docs/deployment.md).
"""

import threading
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedcell.core.errors import BadInput, printable
from fedcell.core.showing import shortened

from .arrays import Decoded, array_record
from .profile import Profile
from .strategy import configured

MARGIN = 5.0  # [s] that a message lives longer than anybody waits for its answer
SHARE = 0.1  # of a processor that looking for answers may take
QUICKEST, SLOWEST = 0.01, 1.0  # [s] between two looks for one answer
AGAIN = 60.0  # [s] after which a node that has not introduced itself is asked again
LONGEST = 200  # characters of a reason
PROFILE, CONFIG, ARRAYS, METRICS = "profile", "config", "arrays", "metrics"  # records of messages
Config = Mapping[str, Any]  # of plain values: numbers, texts, flags
GONE = {2: "raised an error", 3: "its message ran out of time", 5: "its node is gone"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What came of a message to a device."""

    client: int
    outcome: str  # "came", or why nothing can be taken from it: see exchange.OUTCOMES
    why: str = ""
    sent: float  # [s since 1970]
    came: float | None = None
    made: float | None = None  # by the device's own clock
    metrics: Config = field(default_factory=dict)
    arrays: Decoded | None = None
    bytes_sent: int = 0
    bytes_received: int | None = None
    repeated: int = 0  # further answers to the same message
    message: Any = None  # as Flower has it


@dataclass(frozen=True)
class Member:
    """A device of the federation: where it is reached, and what it said of itself."""

    node: int
    profile: Profile
    offset: float = 0.0  # what its clock is certainly ahead of ours [s]


@dataclass(frozen=True)
class Introduction:
    """How an introduction went: a member, or why it is none."""

    node: int
    seconds: float
    member: Member | None = None
    why: str = ""


class Link:
    """A grid of nodes: who is there, and messages to them."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._asked: dict[int, float] = {}  # nodes that were asked who they are, and when
        self._said: SimpleQueue[Introduction] = SimpleQueue()
        self._silent: set[int] = set()  # nodes that were asked and have not answered yet

    def nodes(self) -> set[int]:
        """The nodes that are connected."""
        return set(self._grid.get_node_ids())

    def introduce(
        self, known: set[int], config: Config, seconds: float, patience: float
    ) -> list[Introduction]:
        """Asks nodes that are not `known` who they are, which they have so many seconds for, and
        gives what was said since the last time, by whomever: a slow node keeps nobody waiting. It
        waits for the first to speak, no longer than its patience. A node that did not answer is
        asked again after a while."""
        self._ask(known, config, seconds)
        found = []
        with suppress(Empty):
            if self._silent:
                found.append(self._said.get(timeout=patience))
            while True:
                found.append(self._said.get_nowait())
        self._silent -= {introduction.node for introduction in found}
        return found

    def _ask(self, known: set[int], config: Config, seconds: float) -> None:
        now = time.monotonic()
        left = self.nodes() - known - self._silent
        new = [n for n in left if now - self._asked.get(n, -AGAIN) >= AGAIN]
        if not new:
            return
        content = RecordDict({CONFIG: ConfigRecord(dict(config))})
        asked = {node: self._message(content, node, MessageType.QUERY, seconds) for node in new}
        answers = self._push(asked, seconds)
        self._asked |= dict.fromkeys(new, now)
        self._silent |= set(new)

        def listen() -> None:
            for answer in answers:
                self._said.put(_introduced(answer))

        threading.Thread(target=listen, daemon=True).start()

    def send(
        self,
        kind: str,
        arrays: Mapping[str, Any],
        orders: Mapping[int, tuple[Member, Config]],
        seconds: float,
        strategy: Strategy | None = None,
    ) -> Iterator[Answer]:
        """Sends a model and its order to each client, and gives the answers as they come, at the
        latest after so many seconds. The messages are out when this returns. A `strategy` of
        Flower's may add to what they hold."""
        record, messages = array_record(arrays), {}
        if not orders:
            return iter(())
        number = int(next(iter(orders.values()))[1].get("server-round", 0))
        nodes = [member.node for member, _ in orders.values()]
        added = {} if strategy is None else configured(strategy, number, record, nodes)
        for client, (member, config) in orders.items():
            content = RecordDict({ARRAYS: record, CONFIG: ConfigRecord(dict(config))})
            if member.node in added:
                own = added[member.node]
                more = ConfigRecord({**own.get(CONFIG, {}), **config})
                content = RecordDict({**own, CONFIG: more})
            messages[client] = self._message(content, member.node, kind, seconds, str(number))
        return self._push(messages, seconds)

    @staticmethod
    def _message(
        content: RecordDict, node: int, kind: str, seconds: float, group: str = ""
    ) -> Message:
        return Message(content, node, kind, ttl=seconds + MARGIN, group_id=group)

    def _push(self, messages: Mapping[int, Message], seconds: float) -> Iterator[Answer]:
        sent = _Sent(time.time(), time.monotonic() + seconds, seconds, len(messages))
        given = set(self._grid.push_messages(list(messages.values()))) if messages else set()
        return self._answers(messages, given, sent)

    def _answers(
        self, messages: Mapping[int, Message], given: Set[str], sent: "_Sent"
    ) -> Iterator[Answer]:
        """Answers to messages, of which those with a name that was `given` are under way."""
        answers: SimpleQueue[Answer] = SimpleQueue()
        waiting, stop = set(messages), threading.Event()

        def wait(client: int, message: Message) -> None:
            answers.put(self._wait(client, message, sent, stop))

        for client, message in messages.items():
            if message.metadata.message_id in given:
                threading.Thread(target=wait, args=(client, message), daemon=True).start()
            else:
                why = "the message could not be handed over"
                answers.put(Answer(client=client, outcome="failed", why=why, sent=sent.at))
        try:
            while waiting:
                try:
                    answer = answers.get(timeout=max(0.0, sent.left))
                except Empty:
                    break
                waiting.discard(answer.client)
                yield answer
        finally:
            stop.set()
        for client in sorted(waiting):  # in the middle of an upload
            yield _late(client, messages[client], sent)

    def _wait(self, client: int, message: Message, sent: "_Sent", stop: threading.Event) -> Answer:
        """Waits for one answer. How often it looks follows from what a look takes."""
        name = message.metadata.message_id
        while not stop.is_set():
            look = time.perf_counter()
            try:
                found = list(self._grid.pull_messages([name]))
            except Exception as error:  # what a device sends may not even be a message
                why = _told(f"{type(error).__name__}: {error}")
                return Answer(client=client, outcome="malformed", why=why, sent=sent.at)
            if found:
                return _answer(client, message, found, sent.at)
            took = time.perf_counter() - look
            pause = min(max(sent.count * took / SHARE, QUICKEST), SLOWEST)
            left = sent.left
            if left <= 0:
                break
            stop.wait(min(pause, left))
        return _late(client, message, sent)


@dataclass(frozen=True)
class _Sent:
    """When messages were sent, and how long their answers are waited for: the clock on the wall may
    be set meanwhile, and a deadline does not move with it."""

    at: float  # [s since 1970]
    end: float  # [s] of the clock that only goes on
    seconds: float
    count: int

    @property
    def left(self) -> float:
        return self.end - time.monotonic()


def _late(client: int, message: Message, sent: _Sent) -> Answer:
    why, size = f"no answer within {sent.seconds:.3g} s", _bytes_of(message)
    return Answer(client=client, outcome="late", why=why, sent=sent.at, bytes_sent=size)


def _answer(client: int, message: Message, found: list[Message], begin: float) -> Answer:
    came, reply = time.time(), found[0]
    known: dict[str, Any] = {
        "client": client,
        "sent": begin,
        "came": came,
        "bytes_sent": _bytes_of(message),
        "repeated": len(found) - 1,
    }
    if reply.has_error():
        last = (reply.error.reason or "").strip().split("\n")[-1]
        kind = GONE.get(reply.error.code, f"error {reply.error.code}")
        why = _told(f"{kind}: {last}" if last else kind)
        outcome = "late" if reply.error.code == 3 else "failed"
        return Answer(outcome=outcome, why=why, **known)
    content = reply.content
    metrics: dict[str, Any] = {}
    for record in (*content.config_records.values(), *content.metric_records.values()):
        metrics |= dict(record)
    records = list(content.array_records.values())
    return Answer(
        outcome="came",
        made=reply.metadata.created_at,
        metrics=metrics,
        arrays=Decoded(records[0]) if len(records) == 1 else None,
        bytes_received=sum(record.count_bytes() for record in records),
        message=reply,
        **known,
    )


def _told(why: str) -> str:
    """A reason, some of it in the words of a stranger, as it can be shown."""
    return shortened(printable(why[: 2 * LONGEST]), LONGEST)


def _bytes_of(message: Message) -> int:
    if not message.has_content():
        return 0
    return sum(record.count_bytes() for record in message.content.array_records.values())


def _introduced(answer: Answer) -> Introduction:
    node, took = answer.client, (answer.came or time.time()) - answer.sent
    if answer.outcome != "came":
        return Introduction(node, took, why=answer.why)
    try:
        profile = Profile.of(answer.metrics)
    except BadInput as error:
        return Introduction(node, took, why=_told(str(error)))
    offset = 0.0
    if profile.clock is not None and answer.came is not None:
        # It answered between these two moments of ours: a clock outside is off by so much at least.
        offset = profile.clock - min(max(profile.clock, answer.sent), answer.came)
    return Introduction(node, took, Member(node, profile, offset))
