"""From the uploads that arrived to the next model: (4), (28), and normalised weights."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario

from .neural import Floats

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
            f'learning.aggregation = "{rule}" does not go with plan.selection = "{selection}": '
            'take "normalised" or "unbiased" (4) with uniform, "mean" (28) with weighted selection'
        )
    elif rule != "normalised" and _heard_unequally(scenario):
        found.append(
            f'learning.aggregation = "{rule}" is unbiased only where all clients are heard equally '
            "often, and their mean channels differ: those far away sit out more often"
        )
    return found


def _heard_unequally(scenario: Scenario) -> bool:
    cell, table = scenario.cell, scenario.clients.table
    placed = table is not None and (table.gain is not None or table.distance is not None)
    apart = placed or cell.gains is not None or cell.ring[0] != cell.ring[1]
    return apart and cell.gain_threshold > 0


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

    `counts` says how often each client was drawn, `shares` are the q_j of the N that may be
    drawn, and 0 for others. With K_gamma the draws whose upload arrived,

        unbiased    (N / K_gamma) sum q_j w_j      (4), with N/K_gamma for N/K under losses
        mean        sum w_j / K_gamma              (28)
        normalised  sum q_j w_j / sum q_j

    Uploads are summed in the order of the clients and in double precision, so the result
    does not depend on who finishes first. If nothing arrives the model stays as it is.
    """
    total, weight, broken = np.zeros(model.size), 0.0, []
    n, arrived = int(np.count_nonzero(shares)), iter(uploads)
    for client, count in zip(clients, counts, strict=True):
        upload = next(arrived, None)
        if upload is None or np.shape(upload) != model.shape:
            said = "nothing" if upload is None else f"an upload of shape {np.shape(upload)}"
            raise BadInput(
                f"the learner gave {said} for client {client}: expected {model.size} floats"
            )
        if not np.isfinite(upload).all():
            broken.append(client)
            continue
        q = float(shares[client])
        if rule == "unbiased":
            own, part = float(n * q * count), float(count)  # (4)
        elif rule == "mean":
            own, part = float(count), float(count)  # (28)
        else:
            own, part = q * count, q * count
        total += own * np.asarray(upload, float)
        weight += part
    if broken:
        warnings.warn(
            f"round {round + 1}: the uploads of clients {', '.join(map(str, broken))} are not "
            "finite and are left out; lower learning.rate",
            FedcellWarning,
            stacklevel=2,
        )
    if weight == 0:
        return model, len(broken)
    with np.errstate(over="ignore"):
        after = (total / weight).astype(np.float32)
    # The weights of (4) may carry uploads that are near the end of the range beyond it.
    return (after if np.isfinite(after).all() else model), len(broken)
