"""What lost uploads leave of a cohort: Lemma 1, and the two kinds of loss (DECISIONS.md, 14)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args, runtime_checkable

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
    exact = int(min(2 ** int(k.max(initial=1)).bit_length(), max(1e4, 1e3 / arrive), 1e6))
    inverse = _mean_inverses(loss_rate, exact)
    mean = k * arrive  # many: 1/K_gamma by its series around 1/mean
    series = (1 + loss_rate / mean + loss_rate * (1 + loss_rate) / mean**2) / mean
    mean_inverse = np.where(k <= exact, inverse[np.minimum(k, exact)], series)
    some = share_of_rounds_with_arrivals(k, loss_rate, kind)
    return np.maximum(some / mean_inverse, 1.0)  # the series does not know that one arrives


@lru_cache(maxsize=64)
def _mean_inverses(loss_rate: float, most: int) -> Array:
    """E[1 / K_gamma; K_gamma > 0] of 0 to `most` uploads that are lost with a chance each.

    As x[n] = gamma x[n - 1] + (1 - gamma^n) / n, whole stretches of which are sums of
    x[n] gamma^-n. They are short enough that gamma^-n is not too large to be held.
    """
    found = np.zeros(most + 1)
    n = np.arange(1, most + 1)
    if loss_rate < 1e-100:  # nothing that a double can tell from none
        found[1:] = 1 / n
    else:
        gains = -np.expm1(n * np.log(loss_rate)) / n
        stretch = int(min(most, max(1.0, 500 / -np.log(loss_rate))))
        fade = loss_rate ** np.arange(1.0, stretch + 1)
        for first in range(0, most, stretch):
            gained = gains[first : first + stretch]
            here = fade[: gained.size]
            found[first + 1 : first + 1 + gained.size] = here * (
                found[first] + (gained / here).cumsum()
            )
    found.flags.writeable = False
    return found


def share_of_rounds_with_arrivals(
    cohort: Number, loss_rate: float, kind: LossKind = "independent"
) -> Array:
    """The share of rounds in which any upload arrives; in the others the model stays."""
    k = np.asarray(cohort)
    if kind != "independent":
        return np.ones(k.shape)
    with np.errstate(divide="ignore"):  # where none is lost
        return np.asarray(-np.expm1(k * np.log(loss_rate)))


Prediction = tuple[Array, Array, Array]  # mean, low and high
LEVEL = 0.9  # of intervals


@runtime_checkable
class RoundsLaw(Protocol):
    """A law of rounds, as plans use it: rounds to the target over K, E_l and gamma.

    `cohort` (K) and `steps` (E_l) are whole numbers or arrays of them, which broadcast; `loss_rate`
    is gamma, from 0 to below 1; `kind` is how uploads are lost (cell.loss_kind), default: as in
    the runs of the law. `GivenLaw` and `FittedLaw` are such laws.
    """

    @property
    def coefficients(self) -> Array:
        """Return the coefficients of TERMS, (term,)."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Return sentences for users of the law."""
        ...

    def predict(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        runs: float = 1,
        kind: LossKind | None = None,
        level: float = LEVEL,
    ) -> Prediction:
        """Predict the rounds to the target.

        Parameters
        ----------
        cohort, steps, loss_rate, kind
            The settings.
        runs : float
            Runs whose mean the interval is of; infinity: the interval of the expectation.
        level : float
            Probability of the interval.

        Returns
        -------
        mean, low, high : ndarray
            Rounds; infinite where a setting never reaches the target.
        """
        ...

    @property
    def excess(self) -> float:
        """Return how much the mean of a run's rounds is above their median, in logarithms."""
        ...

    def spread(
        self, cohort: Number, steps: Number, loss_rate: float, kind: LossKind | None = None
    ) -> Array:
        """Return the standard deviation of the logarithm of a run's rounds, all doubts included."""
        ...

    def quantile(self, share: float) -> float:
        """Return the quantile of a probability `share`, in these standard deviations."""
        ...

    def share(self, deviations: Array) -> Array:
        """Return the CDF at some of these standard deviations: the inverse of `quantile`."""
        ...

    def draws(
        self,
        cohort: Number,
        steps: Number,
        loss_rate: float,
        count: int,
        seed: int = 0,
        kind: LossKind | None = None,
    ) -> Array:
        """Return joint posterior draws of the mean rounds at several settings: (draw, setting)."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the coefficients by name, and the form of a law that was fitted."""
        ...
