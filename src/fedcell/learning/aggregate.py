"""From the uploads that arrived to the next model: (4), (28), and normalised weights."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import FedcellWarning
from ..measured import Array
from ..scenario import Scenario
from .network import Floats

SENSIBLE = {("uniform", "unbiased"), ("weighted", "mean"), ("uniform", "normalised")}


def rule_of(scenario: Scenario) -> str:
    """The aggregation of a scenario; where it says none, the usual one for its selection."""
    named = scenario.learning.aggregation if scenario.learning is not None else None
    return named or {"uniform": "normalised", "weighted": "mean"}[scenario.plan.selection]


def doubts(scenario: Scenario) -> list[str]:
    """What makes the mean of the aggregate differ from that of all clients (DECISIONS.md, 13)."""
    rule, selection, found = rule_of(scenario), scenario.plan.selection, []
    if (selection, rule) not in SENSIBLE:
        found.append(
            f'learning.aggregation = "{rule}" with plan.selection = "{selection}" is biased: '
            'take "unbiased" (4) or "normalised" with uniform, "mean" (28) with weighted selection'
        )
    return found


def aggregate(
    rule: str,
    model: Floats,
    clients: Sequence[int],
    counts: Sequence[int],
    uploads: Iterable[Floats],
    shares: Array,
    round: int,
) -> tuple[Floats, int]:
    """The next model, and how many uploads were left out because they are not finite.

    `counts` says how often each client was drawn, `shares` are q_j of all N. With K_gamma
    the draws whose upload arrived,

        unbiased    (N / K_gamma) sum q_j w_j      (4), with N/K_gamma for N/K under losses
        mean        sum w_j / K_gamma              (28)
        normalised  sum q_j w_j / sum q_j

    Uploads are summed in the order of the clients and in double precision, so the result
    does not depend on who finishes first. If nothing arrives the model stays as it is.
    """
    total, weight, excluded = np.zeros(model.size), 0.0, 0
    for client, count, upload in zip(clients, counts, uploads, strict=True):
        if not np.isfinite(upload).all():
            excluded += 1
            warnings.warn(
                f"round {round + 1}: the upload of client {client} is not finite and is left out; "
                "lower learning.rate",
                FedcellWarning,
                stacklevel=2,
            )
            continue
        q = float(shares[client])
        if rule == "unbiased":
            own, part = len(shares) * q * count, float(count)  # (4)
        elif rule == "mean":
            own, part = float(count), float(count)  # (28)
        else:
            own, part = q * count, q * count
        total += own * upload.astype(float)
        weight += part
    if weight == 0:
        return model, excluded
    with np.errstate(over="ignore"):
        after = (total / weight).astype(np.float32)
    # The weights of (4) may carry uploads that are near the end of the range beyond it.
    return (after if np.isfinite(after).all() else model), excluded
