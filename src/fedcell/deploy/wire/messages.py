"""Send messages to devices and collect their replies by a deadline.

Each message has a thread that waits for its reply: the grid's own `send_and_receive` pulls replies
one after the other, and a slow upload hides those that have arrived (docs/how-to/deploy.md).
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
from fedcell.deploy.exchanges import Outcome
from fedcell.deploy.options import Config

from .arrays import Decoded

POLL_CPU_SHARE = 0.1  # of a processor that polling for replies may take
MIN_POLL, MAX_POLL = 0.01, 1.0  # [s] between two polls for one reply
MAX_REASON_LENGTH = 200  # characters
EXPIRED = 3  # Flower's error code of a message after its time to live
ERROR_TEXTS = {2: "raised an error", EXPIRED: "its message ran out of time", 5: "its node is gone"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reply:
    """What came of a message to a device: its reply, or why there is none."""

    client: int
    outcome: Outcome  # ARRIVED, or why nothing can be taken from it
    why: str = ""
    sent: float  # [s since 1970]
    came: float | None = None
    made: float | None = None  # by the device's own clock
    metrics: Config = field(default_factory=dict)
    arrays: Decoded | None = None
    bytes_sent: int = 0
    bytes_received: int | None = None
    repeated: int = 0  # further replies to the same message
    message: Any = None  # of Flower

    @property
    def arrived(self) -> bool:
        """Whether the device replied with content."""
        return self.outcome == Outcome.ARRIVED

    def transit_seconds(self, offset: float) -> float | None:
        """Return the seconds from making the reply to its arrival, where the device's clock is
        `offset` seconds ahead. Nothing bounds them: see `bounded`."""
        if self.came is None or self.made is None:
            return None
        return self.came - (self.made - offset)


def bounded(seconds: float | None, most: float) -> float | None:
    """Clip seconds that a device claims to what the server's own clock allows; None where they are
    no number."""
    if seconds is None or not isfinite(seconds):
        return None
    return min(max(0.0, seconds), most)


def send(grid: Grid, messages: Mapping[int, Message], seconds: float) -> Iterator[Reply]:
    """Send messages, by client, and yield the replies as they come, within `seconds`. The messages
    are sent when this returns."""
    if not messages:
        return iter(())
    batch = _Batch(dict(messages), time.time(), time.monotonic() + seconds, seconds)
    pushed = set(grid.push_messages(list(messages.values())))
    wait = _poll_together if isinstance(grid, InMemoryGrid) else _poll_each
    return wait(grid, batch, {j for j, m in messages.items() if m.metadata.message_id in pushed})


@dataclass(frozen=True)
class _Batch:
    """Messages that were sent together, and the deadline of their replies, which does not move when
    the wall clock is set."""

    messages: dict[int, Message]
    at: float  # [s since 1970]
    end: float  # [s] of the monotonic clock
    seconds: float

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def undelivered(self, client: int) -> Reply:
        why = "the message could not be handed over"
        return Reply(client=client, outcome=Outcome.FAILED, why=why, sent=self.at)

    def late(self, client: int) -> Reply:
        why, size = f"no answer within {self.seconds:.3g} s", _bytes_of(self.messages[client])
        return Reply(client=client, outcome=Outcome.LATE, why=why, sent=self.at, bytes_sent=size)

    def malformed(self, client: int, error: Exception) -> Reply:
        """Return the reply of a device that sent bytes that are no message."""
        return Reply(
            client=client,
            outcome=Outcome.MALFORMED,
            why=sanitised(f"{type(error).__name__}: {error}"),
            sent=self.at,
            came=time.time(),
            bytes_sent=_bytes_of(self.messages[client]),
        )

    def reply(self, client: int, replies: list[Message]) -> Reply:
        """Return the first of all replies to a message."""
        first = replies[0]
        known: dict[str, Any] = {
            "client": client,
            "sent": self.at,
            "came": time.time(),
            "bytes_sent": _bytes_of(self.messages[client]),
            "repeated": len(replies) - 1,
        }
        if first.has_error():
            last = (first.error.reason or "").strip().split("\n")[-1]
            text = ERROR_TEXTS.get(first.error.code, f"error {first.error.code}")
            outcome = Outcome.LATE if first.error.code == EXPIRED else Outcome.FAILED
            why = sanitised(f"{text}: {last}" if last else text)
            return Reply(outcome=outcome, why=why, **known)
        content = first.content
        metrics: dict[str, Any] = {}
        for record in (*content.config_records.values(), *content.metric_records.values()):
            metrics |= dict(record)
        records = list(content.array_records.values())
        return Reply(
            outcome=Outcome.ARRIVED,
            made=first.metadata.created_at,
            metrics=metrics,
            arrays=Decoded(records[0]) if len(records) == 1 else None,
            bytes_received=sum(record.count_bytes() for record in records),
            message=first,
            **known,
        )


def _poll_each(grid: Grid, batch: _Batch, pushed: set[int]) -> Iterator[Reply]:
    """Yield replies from one waiting thread for each message that was handed over."""
    replies: SimpleQueue[Reply] = SimpleQueue()
    waiting, stop, late = set(pushed), threading.Event(), []

    def wait(client: int) -> None:
        replies.put(_poll_one(grid, client, batch, stop))

    for client in pushed:
        threading.Thread(target=wait, args=(client,), daemon=True).start()
    try:
        yield from map(batch.undelivered, batch.messages.keys() - pushed)
        while waiting:
            try:
                reply = replies.get(timeout=max(0.0, batch.left))
            except Empty:
                break
            waiting.discard(reply.client)
            if reply.came is None and reply.outcome == Outcome.LATE:
                late.append(reply)
            else:
                yield reply
    finally:
        stop.set()
    if late or waiting:
        grid.get_node_ids()  # raises where the SuperLink is gone, and not the devices
    yield from late
    yield from map(batch.late, sorted(waiting))  # in the middle of an upload


def _poll_one(grid: Grid, client: int, batch: _Batch, stop: threading.Event) -> Reply:
    """Wait for one reply. The pause between polls follows from what a poll takes."""
    name = batch.messages[client].metadata.message_id
    while not stop.is_set():
        begin = time.perf_counter()
        try:
            if replies := list(grid.pull_messages([name])):
                return batch.reply(client, replies)
        except Exception as error:  # what a device sends may not even be a message
            return batch.malformed(client, error)
        took = time.perf_counter() - begin
        pause = min(max(len(batch.messages) * took / POLL_CPU_SHARE, MIN_POLL), MAX_POLL)
        if (left := batch.left) <= 0:
            break
        stop.wait(min(pause, left))
    return batch.late(client)


def _poll_together(grid: Grid, batch: _Batch, pushed: set[int]) -> Iterator[Reply]:
    """Yield replies in a simulation, where nothing blocks and one poll for all replies costs what
    a poll for a single one does."""
    yield from map(batch.undelivered, batch.messages.keys() - pushed)
    waiting = {batch.messages[client].metadata.message_id: client for client in pushed}
    while waiting and batch.left > 0:
        replies: dict[str, list[Message]] = {}
        for reply in grid.pull_messages(list(waiting)):
            replies.setdefault(reply.metadata.reply_to_message_id, []).append(reply)
        for name, own in replies.items():
            yield batch.reply(waiting.pop(name), own)
        if waiting:
            time.sleep(MIN_POLL)
    yield from map(batch.late, sorted(waiting.values()))


def sanitised(why: str) -> str:
    """Make a reason printable and short: parts of it come from a device."""
    return shortened(printable(why[: 2 * MAX_REASON_LENGTH]), MAX_REASON_LENGTH)


def _bytes_of(message: Message) -> int:
    if not message.has_content():
        return 0
    return sum(record.count_bytes() for record in message.content.array_records.values())
