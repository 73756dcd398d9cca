"""The ready ClientApp: built-in data, models and engine, for `flwr run` and for SuperNodes.

Its node says which client it is: `partition-id`, which a simulation sets by itself.
"""

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedcell.deploy.server.link import ARRAYS, CONFIG, METRICS, PROFILE
from fedcell.deploy.wire.arrays import array_record

from . import device as client
from .device import MODEL

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Says who this device is and what it holds."""
    order, node = dict(message.content[CONFIG]), context.node_config
    said = client.profile_of(node, client.samples_of(order, node))
    return Message(RecordDict({PROFILE: ConfigRecord(said)}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of local training."""
    order, model = dict(message.content[CONFIG]), _model(message)
    upload, said = client.train(order, context.node_config, model)
    records: Any = {ARRAYS: array_record({MODEL: upload}), METRICS: MetricRecord(said)}
    return Message(RecordDict(records), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """The loss of a model on this device's own samples."""
    order, model = dict(message.content[CONFIG]), _model(message)
    said = client.evaluate(order, context.node_config, model)
    return Message(RecordDict({METRICS: MetricRecord(said)}), reply_to=message)


def _model(message: Message) -> Any:
    record = message.content[ARRAYS]
    assert isinstance(record, ArrayRecord)
    return np.asarray(record[MODEL].numpy(), np.float32)
