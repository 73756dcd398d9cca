"""The content of replies: uploads, seconds by the devices' clocks, losses on their data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, NamedTuple

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE
from fedcell.core.types import Floats
from fedcell.deploy.exchanges import Exchange, Outcome
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.messages import Reply, bounded, sanitised
from fedcell.learning.learner import Scores

TRAINING = "training-seconds"  # metric with the seconds of a device's training
LOSSES = ("train_loss", "loss", "eval_loss")  # names that devices may give to their metrics
ACCURACIES = ("accuracy", "eval_acc", "acc")


class Fault(NamedTuple):
    """What is wrong with an upload."""

    outcome: Outcome
    why: str


def uploads_of(
    replies: Mapping[int, Reply], layout: Layout, expected: Sequence[int]
) -> tuple[dict[int, Floats], dict[int, Fault]]:
    """Return the uploads that can be read, by client, and the faults of uploads. `expected` are the
    clients that the scenario does not draw as lost."""
    uploads: dict[int, Floats] = {}
    faults: dict[int, Fault] = {}
    for client, reply in replies.items():
        upload, fault = upload_of(reply, layout)
        if upload is not None:
            uploads[client] = upload
        if fault is not None:
            faults[client] = fault
    for client in set(uploads) - set(expected):
        faults.setdefault(client, Fault(Outcome.LOST, "drawn as lost (cell.loss_rate)"))
    return uploads, faults


def upload_of(reply: Reply, layout: Layout) -> tuple[Floats | None, Fault | None]:
    """Return the upload in a reply, if there is one, and what is wrong with it."""
    if not reply.arrived:
        return None, Fault(reply.outcome, reply.why)
    if reply.arrays is None:
        return None, Fault(Outcome.MALFORMED, "has no arrays, or several sets of them")
    if (excess := reply.arrays.excess(layout)) is not None:
        return None, Fault(Outcome.TOO_LARGE, excess)
    try:
        upload = layout.flat(reply.arrays.of(layout))
    except BadInput as error:
        return None, Fault(Outcome.MALFORMED, sanitised(str(error)))
    if not np.isfinite(upload).all():
        return upload, Fault(Outcome.NOT_FINITE, "holds numbers that are not finite")
    return upload, None


def measured(row: Exchange, reply: Reply, offset: float) -> Exchange:
    """Return a row with measured times. The device's clock is corrected by `offset`, and what the
    device claims is bounded by the server's clock: it cannot have trained and uploaded for longer
    than from sending the model to receiving the reply. Training, upload and waiting add up to the
    total."""
    known: dict[str, Any] = {
        "measured_bytes_sent": reply.bytes_sent,
        "measured_bytes_received": reply.bytes_received,
    }
    if reply.came is not None:
        total = max(0.0, reply.came - reply.sent)  # clocks may be set back
        training = bounded(number_of(reply, TRAINING), total)
        left = total - (training or 0.0)
        upload = bounded(reply.transit_seconds(offset), left)
        known |= {
            "measured_total": total,
            "measured_training": training,
            "measured_upload": upload,
            "measured_waiting": None if upload is None else left - upload,
        }
    return replace(row, **known)


def reported(reply: Reply, metrics: Sequence[str] = ()) -> Scores:
    """Return the scores that a device reports for a model; NaN where it reports no valid number."""
    accuracy = _first(reply, ACCURACIES)
    valid = accuracy is not None and accuracy <= 1
    values = (_first(reply, LOSSES), _first(reply, ("test_loss",)), accuracy if valid else None)
    train_loss, test_loss, share = (nan if value is None else value for value in values)
    known = {name: _any_number(reply, name) for name in metrics}
    return Scores(train_loss, test_loss, share, metrics=known)


def _any_number(reply: Reply, name: str) -> float:
    """Return a metric of a reply, which may be below 0; NaN where it is no valid number."""
    value = reply.metrics.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return nan
    return float(value) if abs(value) <= LARGE else nan


def _first(reply: Reply, names: Sequence[str]) -> float | None:
    values = (number_of(reply, name) for name in names)
    return next((value for value in values if value is not None), None)


def number_of(reply: Reply | None, name: str) -> float | None:
    """Return a metric of a reply if it is a valid number: from 0 to what a scenario may have."""
    value = None if reply is None else reply.metrics.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= LARGE else None
