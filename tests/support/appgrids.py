"""Grids with nodes that run a ClientApp in this process: federations without other processes."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedcell.deploy.flower import introduce
from fedcell.deploy.wire.arrays import array_record

from .grids import MemoryGrid, Node

Step = Callable[[int, Any, Mapping[str, Any]], Any]  # (place, w, config) -> what is uploaded


class AppGrid(MemoryGrid):
    """Nodes that run an app, each with its own settings; strategies of Flower can use it, too."""

    def __init__(
        self, app: ClientApp, settings: Sequence[Mapping[str, Any]], instant: bool = False
    ) -> None:
        busy = threading.Lock()  # waiters ask all nodes at once, and learners have one thread
        nodes = {
            10 + n: _running(app, 10 + n, dict(one), busy, instant)
            for n, one in enumerate(settings)
        }
        super().__init__(nodes)

    def send_and_receive(self, messages, *, timeout=None):  # noqa: ARG002
        """Return all replies in order."""
        return self.pull_messages(self.push_messages(list(messages)))

    def configs(self, kind: str = "train") -> list[dict[str, Any]]:
        """Return the configurations that were sent, in order."""
        sent = (message for message, _ in self.sent.values())
        return [dict(m.content["config"]) for m in sent if m.metadata.message_type == kind]


def places(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return node settings for the clients of a scenario."""
    return [{"partition-id": j, "num-partitions": count, **more} for j in range(count)]


def _running(
    app: ClientApp, number: int, settings: dict[str, Any], busy: threading.Lock, instant: bool
) -> Node:
    context = Context(1, number, settings, RecordDict(), {})
    done: dict[str, Message] = {}

    def node(message: Message, seconds: float) -> Sequence[Message]:
        name = message.metadata.message_id
        with busy:
            if name not in done:
                done[name] = app(message, context)
                if instant:  # as if it had been sent when it comes: an upload takes no time
                    done[name].metadata.__dict__["_created_at"] += 1e6
        return [done[name]] if seconds >= _claimed(done[name]) else []

    return node


def _claimed(answer: Message) -> float:
    """Return the training time that a reply claims: it does not arrive earlier."""
    if answer.has_error():
        return 0.0
    metrics = answer.content.metric_records.values()
    return max((float(m.get("training-seconds", 0.0)) for m in metrics), default=0.0)


def stepping(
    step: Step,
    samples: Sequence[int],
    seconds: Callable[[int, Mapping[str, Any]], float] | None = None,
    measure: Callable[[Any], Mapping[str, float]] = lambda _w: {},
    **said: Any,
) -> ClientApp:
    """A custom app: an array `w` that each device changes by its own step, and a loss that is its
    square. Devices report `seconds` of training, and what they `measure` of a model; `said` has
    further metrics of some of them."""
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return introduce(message, context, samples=samples[_place(context)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        place, config = _place(context), dict(message.content["config"])
        w = _model(message)
        new = np.asarray(step(place, w, config), w.dtype)
        metrics = {"num-examples": samples[place], **said.get(f"client_{place}", {})}
        if seconds is not None:
            metrics["training-seconds"] = seconds(place, config)
        records = {"arrays": array_record({"w": new}), "metrics": MetricRecord(metrics)}
        return Message(RecordDict(records), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        loss = float((_model(message).astype(float) ** 2).sum())
        metrics = {"num-examples": samples[_place(context)], "train_loss": loss}
        metrics |= measure(_model(message))
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    return app


def _place(context: Context) -> int:
    return int(context.node_config["partition-id"])


def _model(message: Message) -> Any:
    record = message.content["arrays"]
    assert isinstance(record, ArrayRecord)
    return record["w"].numpy()
