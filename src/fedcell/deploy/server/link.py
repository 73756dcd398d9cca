"""The link to the devices, by Flower: which nodes are connected, their profiles, models to them."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedcell.core.errors import BadInput
from fedcell.deploy.options import Config
from fedcell.deploy.wire.arrays import array_record
from fedcell.deploy.wire.messages import Reply, bounded, sanitised, send
from fedcell.deploy.wire.profile import Profile, presentable

from .strategy import configure

TTL_MARGIN = 5.0  # [s] that a message lives longer than the deadline of its reply
ASK_AGAIN_AFTER = 15.0  # [s] until a node that was refused, or did not reply, is asked again
PROFILE, CONFIG, ARRAYS, METRICS = "profile", "config", "arrays", "metrics"  # records of messages


@dataclass(frozen=True)
class Member:
    """A device of the federation: its node and its profile."""

    node: int
    profile: Profile
    offset: float = 0.0  # least seconds that its clock is ahead of the server's


@dataclass(frozen=True)
class Introduction:
    """What a node replied when it was asked for its profile: a member, or why it is none."""

    node: int
    name: str  # from its profile; that of its node where the profile has no printable one
    seconds: float
    member: Member | None = None
    why: str = ""
    upload: float | None = None  # seconds that a reply without a model takes to the server


class Link:
    """The nodes of a grid, and messages to them."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._asked: dict[int, float] = {}  # when each node was last asked for its profile
        self._introductions: SimpleQueue[Introduction] = SimpleQueue()
        self._silent: set[int] = set()  # nodes that were asked and have not replied yet

    def nodes(self) -> set[int]:
        """Return the nodes that are connected."""
        return set(self._grid.get_node_ids())

    def keys(self) -> dict[int, bytes]:
        """Return the public key of each connected node, as Flower has it. The SuperLink checks with
        every request that a node holds the private one."""
        return {node.node_id: bytes(node.public_key) for node in self._grid.get_nodes()}

    def introductions(
        self, known: set[int], config: Config, seconds: float, patience: float
    ) -> list[Introduction]:
        """Ask nodes that are not `known` for their profiles, with `seconds` to reply, and return
        the introductions since the last call. Wait for the first of them for at most `patience`
        seconds, so that a slow node delays no other. A node that did not reply is asked again."""
        self.ask(known, config, seconds)
        found = []
        with suppress(Empty):
            if self._silent:
                found.append(self._introductions.get(timeout=patience))
            while True:
                found.append(self._introductions.get_nowait())
        self._silent -= {introduction.node for introduction in found}
        return found

    def ask(self, known: set[int], config: Config, seconds: float) -> None:
        """Ask nodes that are not `known` for their profiles, without waiting for their replies."""
        now = time.monotonic()
        left = self.nodes() - known - self._silent
        new = [n for n in left if now - self._asked.get(n, -ASK_AGAIN_AFTER) >= ASK_AGAIN_AFTER]
        if not new:
            return
        content = RecordDict({CONFIG: ConfigRecord(dict(config))})
        queries = {node: self._message(content, node, MessageType.QUERY, seconds) for node in new}
        replies = send(self._grid, queries, seconds)
        self._asked |= dict.fromkeys(new, now)
        self._silent |= set(new)

        def collect() -> None:
            for reply in replies:
                self._introductions.put(_introduction(reply))

        threading.Thread(target=collect, daemon=True).start()

    def send(
        self,
        kind: str,
        arrays: Mapping[str, Any],
        orders: Mapping[int, tuple[Member, Config]],
        seconds: float,
        strategy: Strategy | None = None,
    ) -> Iterator[Reply]:
        """Send a model with its order to each client, and yield the replies as they come, within
        `seconds`. The messages are sent when this returns. A `strategy` of Flower may add to their
        content."""
        record, messages = array_record(arrays), {}
        if not orders:
            return iter(())
        number = int(next(iter(orders.values()))[1].get("server-round", 0))
        nodes = [member.node for member, _ in orders.values()]
        added = {} if strategy is None else configure(strategy, number, record, nodes)
        for client, (member, config) in orders.items():
            content = RecordDict({ARRAYS: record, CONFIG: ConfigRecord(dict(config))})
            if member.node in added:
                own = added[member.node]
                more = ConfigRecord({**own.get(CONFIG, {}), **config})
                content = RecordDict({**own, CONFIG: more})
            messages[client] = self._message(content, member.node, kind, seconds, str(number))
        return send(self._grid, messages, seconds)

    @staticmethod
    def _message(
        content: RecordDict, node: int, kind: str, seconds: float, group: str = ""
    ) -> Message:
        return Message(content, node, kind, ttl=seconds + TTL_MARGIN, group_id=group)


def _introduction(reply: Reply) -> Introduction:
    node, took = reply.client, max(0.0, (reply.came or time.time()) - reply.sent)
    given = reply.metrics.get("name")
    name = str(given) if presentable(given) else f"node {node}"
    if not reply.arrived:
        return Introduction(node, name, took, why=reply.why)
    try:
        profile = Profile.of(reply.metrics)
    except BadInput as error:
        return Introduction(node, name, took, why=sanitised(str(error)))
    offset = 0.0
    if profile.clock is not None and reply.came is not None:
        # The device replied between these two times of the server: by this much at least a clock
        # outside of them is off.
        offset = profile.clock - min(max(profile.clock, reply.sent), reply.came)
    upload = bounded(reply.transit_seconds(offset), took)
    return Introduction(node, name, took, Member(node, profile, offset), upload=upload)
