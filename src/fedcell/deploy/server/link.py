"""The way to the devices, by Flower: who is there, who they are, and models to them."""

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
from fedcell.deploy.wire.messages import Answer, bounded, send, told
from fedcell.deploy.wire.profile import Profile, presentable

from .strategy import configured

MARGIN = 5.0  # [s] that a message lives longer than anybody waits for its answer
AGAIN = 15.0  # [s] after which a node that was refused, or did not answer, is asked again
PROFILE, CONFIG, ARRAYS, METRICS = "profile", "config", "arrays", "metrics"  # records of messages


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
    name: str  # as it calls itself, or, where it has no name that can be shown, of its node
    seconds: float
    member: Member | None = None
    why: str = ""
    upload: float | None = None  # seconds that the answer took on its way, without a model


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

    def keys(self) -> dict[int, bytes]:
        """The public key of each node that is connected, as Flower has it. The SuperLink checks
        with every request that a node holds the private one."""
        return {node.node_id: bytes(node.public_key) for node in self._grid.get_nodes()}

    def introduce(
        self, known: set[int], config: Config, seconds: float, patience: float
    ) -> list[Introduction]:
        """Asks nodes that are not `known` who they are, which they have so many seconds for, and
        gives what was said since the last time, by whomever: a slow node keeps nobody waiting. It
        waits for the first to speak, no longer than its patience. A node that did not answer is
        asked again after a while."""
        self.ask(known, config, seconds)
        found = []
        with suppress(Empty):
            if self._silent:
                found.append(self._said.get(timeout=patience))
            while True:
                found.append(self._said.get_nowait())
        self._silent -= {introduction.node for introduction in found}
        return found

    def ask(self, known: set[int], config: Config, seconds: float) -> None:
        """Asks nodes that are not `known` who they are, and does not wait for their answers."""
        now = time.monotonic()
        left = self.nodes() - known - self._silent
        new = [n for n in left if now - self._asked.get(n, -AGAIN) >= AGAIN]
        if not new:
            return
        content = RecordDict({CONFIG: ConfigRecord(dict(config))})
        asked = {node: self._message(content, node, MessageType.QUERY, seconds) for node in new}
        answers = send(self._grid, asked, seconds)
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
        return send(self._grid, messages, seconds)

    @staticmethod
    def _message(
        content: RecordDict, node: int, kind: str, seconds: float, group: str = ""
    ) -> Message:
        return Message(content, node, kind, ttl=seconds + MARGIN, group_id=group)


def _introduced(answer: Answer) -> Introduction:
    node, took = answer.client, max(0.0, (answer.came or time.time()) - answer.sent)
    name = answer.metrics.get("name")
    called = str(name) if presentable(name) else f"node {node}"
    if answer.outcome != "came":
        return Introduction(node, called, took, why=answer.why)
    try:
        profile = Profile.of(answer.metrics)
    except BadInput as error:
        return Introduction(node, called, took, why=told(str(error)))
    offset = 0.0
    if profile.clock is not None and answer.came is not None:
        # It answered between these two moments of ours: a clock outside is off by so much at least.
        offset = profile.clock - min(max(profile.clock, answer.sent), answer.came)
    upload = bounded(answer.seconds_under_way(offset), took)
    return Introduction(node, called, took, Member(node, profile, offset), upload=upload)
