"""A grid of nodes in memory, for tests of replies and deadlines."""

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.error import Error
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

Node = Callable[[Message, float], Sequence[Message]]  # (message, seconds since) -> what came of it


class MemoryGrid(Grid):  # type: ignore[misc]
    """Nodes are functions that are polled for replies to a message."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes, self.sent = nodes, {}
        self._numbers = count()
        self.refused: set[int] = set()  # nodes with messages that are not taken
        self.keys: dict[int, bytes] = {}  # public keys of nodes, as the SuperLink has them

    def get_node_ids(self):
        """The connected nodes."""
        return list(self.nodes)

    def get_nodes(self):
        """The connected nodes, with the key of each."""
        return [NodeInfo(node_id=n, public_key=self.keys.get(n, b"")) for n in self.nodes]

    def push_messages(self, messages):
        """Accept messages, except those to refused nodes."""
        given = []
        for message in messages:
            name = f"message-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = name
            if message.metadata.dst_node_id in self.refused:
                given.append(None)
                continue
            self.sent[name] = (message, time.monotonic())
            given.append(name)
        return given

    def pull_messages(self, message_ids):
        """Return the replies."""
        found = []
        for name in message_ids:
            message, then = self.sent[name]
            node = self.nodes.get(message.metadata.dst_node_id, silent)
            found += node(message, time.monotonic() - then)
        return found

    def _none(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    create_message = send_and_receive = set_run = _none
    run = property(_none)


def silent(_message: Message, _seconds: float) -> Sequence[Message]:
    """Never reply."""
    return []


def answering(make: Callable[[Message], RecordDict], after: float = 0.0, times: int = 1) -> Node:
    """Reply after some seconds."""

    def node(message: Message, seconds: float) -> Sequence[Message]:
        if seconds < after:
            return []
        return [Message(make(message), reply_to=message) for _ in range(times)]

    return node


def failing(code: int, reason: str) -> Node:
    """Reply with an error."""
    return lambda message, _: [Message(Error(code, reason), reply_to=message)]


def device(name: str, after: float = 0.0, **more: Any) -> Node:
    """Reply with a profile."""
    said = {"name": name, "clock": time.time(), **more}
    return answering(lambda _: RecordDict({"profile": ConfigRecord(said)}), after)
