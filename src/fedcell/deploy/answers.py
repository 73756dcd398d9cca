"""What is in answers of devices: uploads, seconds by their clocks, losses on their data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats
from fedcell.learning.learner import Scores

from .exchange import Exchange
from .layout import Layout
from .mail import Answer, told

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
    """A row with what the clocks say. The device's clock is moved by what it is certainly off."""
    known: dict[str, Any] = {
        "measured_bytes_sent": answer.bytes_sent,
        "measured_bytes_received": answer.bytes_received,
        "measured_training": number_of(answer, TRAINING),
    }
    if answer.came is not None:
        known["measured_total"] = max(0.0, answer.came - answer.sent)  # clocks may be set back
    if answer.came is not None and answer.made is not None:
        upload = max(0.0, answer.came - (answer.made - offset))
        known["measured_upload"] = upload
        rest = answer.came - answer.sent - upload - (known["measured_training"] or 0.0)
        known["measured_waiting"] = max(0.0, rest)
    return replace(row, **known)


def weighted_scores(answers: Sequence[Answer], samples: Any) -> Scores:
    """Losses of all devices by q_j (2); NaN where nobody says any."""

    def mean(names: Sequence[str], most: float = inf) -> float:
        said = [(_first(answer, names), float(samples[answer.client])) for answer in answers]
        known = [(v, weight) for v, weight in said if v is not None and v <= most and weight > 0]
        total = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / total if total else float("nan")

    return Scores(mean(LOSSES), mean(("test_loss",)), mean(ACCURACIES, 1.0))


def _first(answer: Answer, names: Sequence[str]) -> float | None:
    values = (number_of(answer, name) for name in names)
    return next((value for value in values if value is not None), None)


def number_of(answer: Answer | None, name: str) -> float | None:
    """A number of an answer's metrics that can be one: finite and not below 0."""
    value = None if answer is None else answer.metrics.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if np.isfinite(value) and value >= 0 else None
