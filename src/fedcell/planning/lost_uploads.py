"""What lost uploads leave of a cohort: Lemma 1, and the two kinds of loss (DECISIONS.md, 14)."""

from typing import Any, Literal, get_args

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array

LossKind = Literal["independent", "worst-case", "paper"]
Number = Any  # a number, or an array of them


def effective_cohort(cohort: Number, loss_rate: float, kind: LossKind = "independent") -> Array:
    """The K_gamma that stands for `cohort` uploads of which a share gamma is lost.

    "paper": K (1 - gamma), Lemma 1 (37). "worst-case": the whole number of uploads that then
    arrive. "independent": 1 / E[1 / K_gamma] over the rounds in which any arrive, which is
    less than K (1 - gamma) (DECISIONS.md, 14).
    """
    k = np.asarray(cohort)
    if not np.issubdtype(k.dtype, np.integer) or (k < 1).any():
        raise BadInput(f"a cohort of {cohort}: expected whole numbers above 0")
    if not 0 <= loss_rate < 1 or kind not in get_args(LossKind):
        raise BadInput(f"loss_rate = {loss_rate}, {kind}: expected 0 to below 1, a known kind")
    if kind == "paper":
        return np.asarray(k * (1 - loss_rate))  # (37)
    if kind == "worst-case":
        return np.asarray(k - np.minimum(np.floor(loss_rate * k + 1e-9), k - 1), float)
    arrive = 1 - loss_rate
    exact = int(min(k.max(initial=1), max(1e4, 1e3 / arrive), 1e6))
    inverse = np.empty(exact + 1)  # E[1 / K_gamma; K_gamma > 0]
    inverse[0], none = 0.0, 1.0
    for n in range(1, exact + 1):
        none *= loss_rate
        inverse[n] = loss_rate * inverse[n - 1] + (1 - none) / n
    mean = k * arrive  # many: 1/K_gamma by its series around 1/mean
    series = (1 + loss_rate / mean + loss_rate * (1 + loss_rate) / mean**2) / mean
    mean_inverse = np.where(k <= exact, inverse[np.minimum(k, exact)], series)
    return np.asarray(share_of_rounds_with_arrivals(k, loss_rate, kind) / mean_inverse)


def share_of_rounds_with_arrivals(
    cohort: Number, loss_rate: float, kind: LossKind = "independent"
) -> Array:
    """The share of rounds in which any upload arrives; in the others the model stays."""
    k = np.asarray(cohort)
    return 1 - loss_rate**k if kind == "independent" else np.ones(k.shape)
