"""What is in answers of devices: uploads, seconds by their clocks, losses on their data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE
from fedcell.core.types import Floats
from fedcell.deploy.exchanges import Exchange
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.messages import Answer, bounded, told
from fedcell.learning.learner import Scores

TRAINING = "training-seconds"  # what a device says of its training, in its metrics
LOSSES = ("train_loss", "loss", "eval_loss")  # as devices may call what they evaluate
ACCURACIES = ("accuracy", "eval_acc", "acc")


def uploads_of(
    found: Mapping[int, Answer], layout: Layout, expected: Sequence[int]
) -> tuple[dict[int, Floats], dict[int, tuple[str, str]]]:
    """Uploads that can be used, by client, and what is wrong with others: (outcome, why).
    `expected` are the clients whose uploads the dice do not lose."""
    uploads: dict[int, Floats] = {}
    faults: dict[int, tuple[str, str]] = {}
    for client, answer in found.items():
        upload, outcome, why = upload_of(answer, layout)
        if upload is not None:
            uploads[client] = upload
        if outcome:
            faults[client] = outcome, why
    for client in set(uploads) - set(expected):
        faults.setdefault(client, ("lost", "by the dice of cell.loss_rate"))
    return uploads, faults


def upload_of(answer: Answer, layout: Layout) -> tuple[Floats | None, str, str]:
    """The upload in an answer, if there is one, and what is wrong with it: outcome and why."""
    if answer.outcome != "came":
        return None, answer.outcome, answer.why
    if answer.arrays is None:
        return None, "malformed", "has no arrays, or several sets of them"
    if (excess := answer.arrays.excess(layout)) is not None:
        return None, "too large", excess
    try:
        upload = layout.flat(answer.arrays.of(layout))
    except BadInput as error:
        return None, "malformed", told(str(error))
    fine = np.isfinite(upload).all()
    return (upload, "", "") if fine else (upload, "not finite", "holds numbers that are not finite")


def measured(row: Exchange, answer: Answer, offset: float) -> Exchange:
    """A row with what the clocks say. The device's clock is moved by what it is certainly off, and
    what it claims is bounded by the server's: from sending until the answer was there no device
    has trained and uploaded for longer. Training, upload and waiting add up to the total."""
    known: dict[str, Any] = {
        "measured_bytes_sent": answer.bytes_sent,
        "measured_bytes_received": answer.bytes_received,
    }
    if answer.came is not None:
        total = max(0.0, answer.came - answer.sent)  # clocks may be set back
        training = bounded(number_of(answer, TRAINING), total)
        left = total - (training or 0.0)
        upload = bounded(answer.seconds_under_way(offset), left)
        known |= {
            "measured_total": total,
            "measured_training": training,
            "measured_upload": upload,
            "measured_waiting": None if upload is None else left - upload,
        }
    return replace(row, **known)


def reported(answer: Answer) -> Scores:
    """What a device says that a model is worth; NaN where it says nothing that can be."""
    accuracy = _first(answer, ACCURACIES)
    possible = accuracy is not None and accuracy <= 1
    found = (_first(answer, LOSSES), _first(answer, ("test_loss",)), accuracy if possible else None)
    return Scores(*(nan if value is None else value for value in found))


def _first(answer: Answer, names: Sequence[str]) -> float | None:
    values = (number_of(answer, name) for name in names)
    return next((value for value in values if value is not None), None)


def number_of(answer: Answer | None, name: str) -> float | None:
    """A number of an answer's metrics that can be one: not below 0, nor beyond what a scenario may
    have."""
    value = None if answer is None else answer.metrics.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= LARGE else None
