"""Compute the next model from the uploads that arrived: (4), (28), and normalised weights."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.types import Array, Floats

Rule = Literal["unbiased", "mean", "normalised"]
NOTHING: Any = np.empty(0)  # in place of an upload that the learner does not yield


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
    """Return the next model, and the number of uploads left out because they are not finite.

    With K_gamma the draws whose upload arrived,

        unbiased    (N / K_gamma) sum q_j w_j      (4), with N/K_gamma for N/K under losses
        mean        sum w_j / K_gamma              (28)
        normalised  sum q_j w_j / sum q_j

    Uploads are summed in the order of the clients and in double precision, so the result does not
    depend on which client finishes first. If no upload arrives, the model does not change.

    Parameters
    ----------
    rule : {"unbiased", "mean", "normalised"}
        The weights of the uploads.
    model : array of float32, (parameter,)
        The model of this round.
    clients, counts : sequence of int
        The clients called, and how often each was drawn.
    uploads : iterable of array
        w_j of each client, in the order of `clients`.
    shares : array, (client,)
        q_j of the N clients that can be drawn, and 0 for others.
    round : int
        The round, counted from 0, for the warning.
    may_be_missing : bool
        Whether None is allowed for an upload that did not arrive.
    """
    total, weight, broken = np.zeros(model.size), 0.0, []
    n, arrived = int(np.count_nonzero(shares)), iter(uploads)
    for client, count in zip(clients, counts, strict=True):
        upload = next(arrived, NOTHING)
        if upload is None and may_be_missing:
            continue
        if not _check_upload(upload, client, model):
            broken.append(client)
            continue
        factor, part = _weights(rule, n, float(shares[client]), count)
        total += factor * np.asarray(upload, float)
        weight += part
    if broken:
        _warn_of_broken(round, broken)
    if weight == 0:
        return model, len(broken)
    with np.errstate(over="ignore"):
        after = (total / weight).astype(np.float32)
    # The weights of (4) may carry uploads that are near the end of the range beyond it.
    return (after if np.isfinite(after).all() else model), len(broken)


def aggregate_by_chance(
    model: Floats,
    clients: Sequence[int],
    chances: Sequence[float],
    uploads: Iterable[Floats | None],
    shares: Array,
    round: int,
    called: int,
    may_be_missing: bool = False,
) -> tuple[Floats, int]:
    """Return the next model from clients that were called with known probabilities, and the number
    of uploads left out.

        w + (K / K_gamma) sum (q_j / p_j) (w_j - w)

    Its mean over the draws is the aggregate of all clients. K / K_gamma makes up for lost uploads.

    Parameters
    ----------
    model : array of float32, (parameter,)
        The model w of this round.
    clients : sequence of int
        The clients whose upload is to come.
    chances : sequence of float
        p_j of each of them.
    uploads : iterable of array
        w_j of each client, in the order of `clients`.
    shares : array, (client,)
        q_j of the N clients that can be called, and 0 for others.
    round : int
        The round, counted from 0, for the warning.
    called : int
        K, the clients that were called.
    may_be_missing : bool
        Whether None is allowed for an upload that did not arrive.
    """
    total, arrived, broken, given = np.zeros(model.size), 0, [], iter(uploads)
    for client, chance in zip(clients, chances, strict=True):
        upload = next(given, NOTHING)
        if upload is None and may_be_missing:
            continue
        if not _check_upload(upload, client, model):
            broken.append(client)
            continue
        total += float(shares[client]) / chance * (np.asarray(upload, float) - model)
        arrived += 1
    if broken:
        _warn_of_broken(round, broken)
    if arrived == 0:
        return model, len(broken)
    with np.errstate(over="ignore"):
        after = (model + called / arrived * total).astype(np.float32)
    return (after if np.isfinite(after).all() else model), len(broken)


def _check_upload(upload: Floats | None, client: int, model: Floats) -> bool:
    """Return whether an upload is finite; refuse one that has another shape or type."""
    given = None if upload is NOTHING or upload is None else np.shape(upload)
    if upload is None or given != model.shape:
        what = "nothing" if given is None else f"an upload of shape {given}"
        raise BadInput(f"the learner gave {what} for client {client}: expected {model.size} floats")
    if np.asarray(upload).dtype.kind not in "fiu":
        kind = np.asarray(upload).dtype
        raise BadInput(f"the learner gave {kind} for client {client}: expected floats")
    with np.errstate(over="ignore"):  # beyond a 32-bit float is not finite either
        return bool(np.isfinite(np.asarray(upload, np.float32)).all())


def _weights(rule: Rule, n: int, q: float, count: int) -> tuple[float, float]:
    """Return the factor of an upload in the sum, and its part of the divisor."""
    if rule == "unbiased":
        return float(n * q * count), float(count)  # (4)
    if rule == "mean":
        return float(count), float(count)  # (28)
    return q * count, q * count


def _warn_of_broken(round: int, broken: Sequence[int]) -> None:
    warnings.warn(
        f"round {round + 1}: the uploads of clients {', '.join(map(str, broken))} are not "
        "finite and are left out; lower learning.rate",
        FedcellWarning,
        stacklevel=3,
    )
