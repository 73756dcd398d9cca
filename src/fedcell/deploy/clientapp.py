"""The ready ClientApp: built-in data, models and engine, for `flwr run` and for SuperNodes.

The configuration of its node gives its client, `partition-id`; a simulation sets it.
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
    """Reply with the profile of this device."""
    order, node = dict(message.content[CONFIG]), context.node_config
    profile = client.profile_of(node, client.samples_of(order, node))
    return Message(RecordDict({PROFILE: ConfigRecord(profile)}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for one round, and reply with the upload."""
    order, model = dict(message.content[CONFIG]), _model(message)
    upload, metrics = client.train(order, context.node_config, model)
    records: Any = {ARRAYS: array_record({MODEL: upload}), METRICS: MetricRecord(metrics)}
    return Message(RecordDict(records), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Reply with the loss of a model on this device's own samples."""
    order, model = dict(message.content[CONFIG]), _model(message)
    metrics = client.evaluate(order, context.node_config, model)
    return Message(RecordDict({METRICS: MetricRecord(metrics)}), reply_to=message)


def _model(message: Message) -> Any:
    record = message.content[ARRAYS]
    assert isinstance(record, ArrayRecord)
    return np.asarray(record[MODEL].numpy(), np.float32)
