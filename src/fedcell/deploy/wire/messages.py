"""Messages out, answers in by a deadline.

Each message has a waiter of its own, for the grid's own way of waiting takes answers one after the
other, and a slow upload hides those that are there (docs/deployment.md).
"""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from queue import Empty, SimpleQueue
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid

from fedcell.core.errors import printable
from fedcell.core.showing import shortened
from fedcell.deploy.options import Config

from .arrays import Decoded

SHARE = 0.1  # of a processor that looking for answers may take
QUICKEST, SLOWEST = 0.01, 1.0  # [s] between two looks for one answer
LONGEST = 200  # characters of a reason
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

    def seconds_under_way(self, offset: float) -> float | None:
        """Seconds from its making to its arrival, with the device's clock moved by `offset`, which
        it is ahead; not bounded by anything that the server knows."""
        if self.came is None or self.made is None:
            return None
        return self.came - (self.made - offset)


def bounded(seconds: float | None, most: float) -> float | None:
    """Seconds that a device claims, within what the server's own clock allows; None where they
    are no number."""
    if seconds is None or not isfinite(seconds):
        return None
    return min(max(0.0, seconds), most)


def send(grid: Grid, messages: Mapping[int, Message], seconds: float) -> Iterator[Answer]:
    """Sends messages, by client, and gives the answers as they come, at the latest after so many
    seconds. The messages are out when this returns."""
    if not messages:
        return iter(())
    sent = _Sent(dict(messages), time.time(), time.monotonic() + seconds, seconds)
    given = set(grid.push_messages(list(messages.values())))
    wait = _together if isinstance(grid, InMemoryGrid) else _each
    return wait(grid, sent, {j for j, m in messages.items() if m.metadata.message_id in given})


@dataclass(frozen=True)
class _Sent:
    """Messages that were sent together, and how long their answers are waited for: the clock on the
    wall may be set meanwhile, and a deadline does not move with it."""

    messages: dict[int, Message]
    at: float  # [s since 1970]
    end: float  # [s] of the clock that only goes on
    seconds: float

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def refused(self, client: int) -> Answer:
        why = "the message could not be handed over"
        return Answer(client=client, outcome="failed", why=why, sent=self.at)

    def late(self, client: int) -> Answer:
        why, size = f"no answer within {self.seconds:.3g} s", _bytes_of(self.messages[client])
        return Answer(client=client, outcome="late", why=why, sent=self.at, bytes_sent=size)

    def broken(self, client: int, error: Exception) -> Answer:
        """Something came, and is no message."""
        return Answer(
            client=client,
            outcome="malformed",
            why=told(f"{type(error).__name__}: {error}"),
            sent=self.at,
            came=time.time(),
            bytes_sent=_bytes_of(self.messages[client]),
        )

    def answer(self, client: int, found: list[Message]) -> Answer:
        """What came of a message, from all answers to it."""
        reply = found[0]
        known: dict[str, Any] = {
            "client": client,
            "sent": self.at,
            "came": time.time(),
            "bytes_sent": _bytes_of(self.messages[client]),
            "repeated": len(found) - 1,
        }
        if reply.has_error():
            last = (reply.error.reason or "").strip().split("\n")[-1]
            kind = GONE.get(reply.error.code, f"error {reply.error.code}")
            outcome = "late" if reply.error.code == 3 else "failed"
            return Answer(outcome=outcome, why=told(f"{kind}: {last}" if last else kind), **known)
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


def _each(grid: Grid, sent: _Sent, given: set[int]) -> Iterator[Answer]:
    """Answers by waiters, one for each message that was handed over."""
    answers: SimpleQueue[Answer] = SimpleQueue()
    waiting, stop, late = set(given), threading.Event(), []

    def wait(client: int) -> None:
        answers.put(_wait(grid, client, sent, stop))

    for client in given:
        threading.Thread(target=wait, args=(client,), daemon=True).start()
    try:
        yield from map(sent.refused, sent.messages.keys() - given)
        while waiting:
            try:
                answer = answers.get(timeout=max(0.0, sent.left))
            except Empty:
                break
            waiting.discard(answer.client)
            if answer.came is None and answer.outcome == "late":
                late.append(answer)
            else:
                yield answer
    finally:
        stop.set()
    if late or waiting:
        grid.get_node_ids()  # where that fails, it is not the devices that are gone
    yield from late
    yield from map(sent.late, sorted(waiting))  # in the middle of an upload


def _wait(grid: Grid, client: int, sent: _Sent, stop: threading.Event) -> Answer:
    """Waits for one answer. How often it looks follows from what a look takes."""
    name = sent.messages[client].metadata.message_id
    while not stop.is_set():
        look = time.perf_counter()
        try:
            if found := list(grid.pull_messages([name])):
                return sent.answer(client, found)
        except Exception as error:  # what a device sends may not even be a message
            return sent.broken(client, error)
        took = time.perf_counter() - look
        pause = min(max(len(sent.messages) * took / SHARE, QUICKEST), SLOWEST)
        if (left := sent.left) <= 0:
            break
        stop.wait(min(pause, left))
    return sent.late(client)


def _together(grid: Grid, sent: _Sent, given: set[int]) -> Iterator[Answer]:
    """In a simulation nothing blocks, and one look for all answers costs what one for a single one
    does."""
    yield from map(sent.refused, sent.messages.keys() - given)
    waiting = {sent.messages[client].metadata.message_id: client for client in given}
    while waiting and sent.left > 0:
        found: dict[str, list[Message]] = {}
        for reply in grid.pull_messages(list(waiting)):
            found.setdefault(reply.metadata.reply_to_message_id, []).append(reply)
        for name, replies in found.items():
            yield sent.answer(waiting.pop(name), replies)
        if waiting:
            time.sleep(QUICKEST)
    yield from map(sent.late, sorted(waiting.values()))


def told(why: str) -> str:
    """A reason, some of it in the words of a stranger, as it can be shown."""
    return shortened(printable(why[: 2 * LONGEST]), LONGEST)


def _bytes_of(message: Message) -> int:
    if not message.has_content():
        return 0
    return sum(record.count_bytes() for record in message.content.array_records.values())
