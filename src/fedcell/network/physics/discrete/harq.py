"""Retransmissions: how often a block is sent, and how often it is lost for good.

A first try is lost with the probability q. With `combining` ("chase") a receiver adds the SNR of
all tries, so that the i-th try needs an i-th of it; without ("repeat") each try stands alone. The
losses are those of Rayleigh fades of which the sender does not know the depth: a `fade` is new in
each try, or the same in all of them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedcell.core.types import Array

Combining = Literal["repeat", "chase"]
Fade = Literal["new", "same"]


def residual_loss(
    q: Array | float, tries: int, combining: Combining = "chase", fade: Fade = "new"
) -> Array:
    """Return the share of blocks that all tries have lost.

    Parameters
    ----------
    q : float or ndarray
        Share of blocks that the first try loses.
    tries : int
        m, tries of a block.
    combining : {"repeat", "chase"}
        Each try alone, or the sum of their SNR.
    fade : {"new", "same"}
        Fades of the tries of a block.

    Returns
    -------
    ndarray
        q^m; with one fade q, whatever m. With the sum of m exponential fades the gamma
        distribution P(m, -ln(1 - q)); with m times one fade 1 - (1 - q)^(1/m).

    Examples
    --------
    >>> f"{residual_loss(0.1, 3):.3g} {residual_loss(0.1, 3, 'repeat'):.3g}"
    '0.00018 0.001'
    >>> f"{residual_loss(0.1, 3, fade='same'):.3g}"
    '0.0345'
    """
    q = np.asarray(q, float)
    if tries == 0:
        return np.ones(q.shape)
    if combining == "repeat":
        return np.asarray(q**tries) if fade == "new" else q
    with np.errstate(divide="ignore"):
        depth = -np.log1p(-q)  # of the fade below which a try is lost
    if fade == "same":
        return np.asarray(-np.expm1(-depth / tries))
    from scipy.special import gammainc

    return np.asarray(gammainc(tries, depth))


def mean_tries(
    q: float,
    tries: int,
    combining: Combining = "chase",
    fade: Fade = "new",
    *,
    repeats: bool = True,
) -> float:
    """Return how often a block is sent on average.

    A next try follows each loss, up to `tries` of them. If the link layer above `repeats` what all
    tries have lost, a block begins again later, in other fades, until it arrives.

    Parameters
    ----------
    q : float
        Share of blocks that the first try loses.
    tries : int
        m, tries of a block.
    combining : {"repeat", "chase"}
        Each try alone, or the sum of their SNR.
    fade : {"new", "same"}
        Fades of the tries of a block.
    repeats : bool
        Whether a block that all tries lost is sent again.

    Returns
    -------
    float
        The sum of the residual losses after 0 to m - 1 tries, over 1 - q_m if it `repeats`.

    Examples
    --------
    >>> round(mean_tries(0.1, 4, "repeat", repeats=False), 4)  # (1 - q^4) / (1 - q)
    1.111
    >>> round(mean_tries(0.1, 4, "repeat"), 4)  # 1 / (1 - q)
    1.1111
    """
    sent = sum(float(residual_loss(q, i, combining, fade)) for i in range(tries))
    if not repeats:
        return sent
    return sent / (1 - float(residual_loss(q, tries, combining, fade)))


def upload_loss(block_loss: Array | float, blocks: Array | float) -> Array:
    """Return the share of uploads of `blocks` blocks that are lost where no block is repeated: all
    of them must arrive.

    >>> upload_loss(1e-4, 6292).round(2)  # 53 Mbit in code blocks of 8424 bit
    np.float64(0.47)
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(np.asarray(blocks) * np.log1p(-np.asarray(block_loss))))
