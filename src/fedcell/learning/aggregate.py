"""From the uploads that arrived to the next model: (4), (28), and normalised weights."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.types import Array, Floats

Rule = Literal["unbiased", "mean", "normalised"]
NOTHING: Any = np.empty(0)  # stands for an upload that a learner does not give


def aggregate(
    rule: Rule,
    model: Floats,
    clients: Sequence[int],
    counts: Sequence[int],
    uploads: Iterable[Floats | None],
    shares: Array,
    round: int,
    may_be_missing: bool = False,
) -> tuple[Floats, int]:
    """The next model, and how many uploads were left out because they are not finite.

    `counts` says how often each client was drawn, `shares` are the q_j of the N that may be
    drawn, and 0 for others. With K_gamma the draws whose upload arrived,

        unbiased    (N / K_gamma) sum q_j w_j      (4), with N/K_gamma for N/K under losses
        mean        sum w_j / K_gamma              (28)
        normalised  sum q_j w_j / sum q_j

    Uploads are summed in the order of the clients and in double precision, so the result
    does not depend on who finishes first. If nothing arrives the model stays as it is. Where they
    `may_be_missing`, an upload that is None did not arrive.
    """
    total, weight, broken = np.zeros(model.size), 0.0, []
    n, arrived = int(np.count_nonzero(shares)), iter(uploads)
    for client, count in zip(clients, counts, strict=True):
        upload = next(arrived, NOTHING)
        if upload is None and may_be_missing:
            continue
        given = None if upload is NOTHING or upload is None else np.shape(upload)
        if upload is None or given != model.shape:
            what = "nothing" if given is None else f"an upload of shape {given}"
            raise BadInput(
                f"the learner gave {what} for client {client}: expected {model.size} floats"
            )
        if np.asarray(upload).dtype.kind not in "fiu":
            kind = np.asarray(upload).dtype
            raise BadInput(f"the learner gave {kind} for client {client}: expected floats")
        with np.errstate(over="ignore"):  # beyond a 32-bit float is not finite either
            if not np.isfinite(np.asarray(upload, np.float32)).all():
                broken.append(client)
                continue
        q = float(shares[client])
        if rule == "unbiased":
            factor, part = float(n * q * count), float(count)  # (4)
        elif rule == "mean":
            factor, part = float(count), float(count)  # (28)
        else:
            factor, part = q * count, q * count
        total += factor * np.asarray(upload, float)
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
