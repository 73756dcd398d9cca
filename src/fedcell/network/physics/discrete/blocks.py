"""Shares of the band in whole resource blocks or tones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcell.core.types import Array


def whole_blocks(share: Array, blocks: int, sizes: Sequence[int] | None = None) -> Array:
    """Return shares in whole resource blocks: at least one each, the rest by largest remainder.

    Parameters
    ----------
    share : ndarray, shape (..., clients)
        Shares of the band.
    blocks : int
        Resource blocks of the band, at least one for each client.
    sizes : sequence of int, optional
        Numbers of blocks that a client may have, from 1 up; default: any.

    Returns
    -------
    ndarray
        Shares that sum to at most 1; with `sizes` some blocks may be left over.

    Examples
    --------
    >>> whole_blocks(np.array([0.6, 0.33, 0.07]), 10).tolist()
    [0.6, 0.3, 0.1]
    >>> whole_blocks(np.array([0.6, 0.33, 0.07]), 12, (1, 3, 6, 12)) * 12  # tones
    array([6., 3., 3.])
    """
    wish = share / share.sum(-1, keepdims=True) * blocks
    if sizes is not None:
        return _of_sizes(wish, blocks, np.array(sizes, float)) / blocks
    count = np.maximum(np.floor(wish), 1.0)
    for _ in range(blocks):
        spare = blocks - count.sum(-1, keepdims=True)
        if not spare.any():
            break
        need = wish - count
        need = np.where((spare < 0) & (count <= 1), np.inf, need)  # one is kept
        chosen = np.where(spare > 0, need.argmax(-1)[..., None], need.argmin(-1)[..., None])
        here = np.arange(share.shape[-1]) == chosen
        count = count + np.where(here, np.sign(spare), 0.0)
    return np.asarray(count / blocks)


def _of_sizes(wish: Array, blocks: int, sizes: Array) -> Array:
    """Return counts among `sizes`: rounded down, lowered where they are too many in all, then
    raised where the rest allows, in the order of what a client lacks relative to its next size."""
    place = np.maximum(np.searchsorted(sizes, wish * (1 + 1e-12), side="right") - 1, 0)
    clients = np.arange(wish.shape[-1])
    for _ in range(len(sizes) * wish.shape[-1]):
        count = sizes[place]
        over = count.sum(-1, keepdims=True) - blocks
        if not (over > 0).any():
            break
        excess = np.where(place > 0, count / wish, -np.inf)
        here = clients == excess.argmax(-1)[..., None]
        place = np.where((over > 0) & here, place - 1, place)
    for _ in range(len(sizes) * wish.shape[-1]):
        count = sizes[place]
        spare = blocks - count.sum(-1, keepdims=True)
        following = sizes[np.minimum(place + 1, len(sizes) - 1)]
        fits = (place + 1 < len(sizes)) & (following - count <= spare)
        if not fits.any():
            break
        need = np.where(fits, wish / following, -np.inf)
        here = (clients == need.argmax(-1)[..., None]) & fits
        place = np.where(here, place + 1, place)
    return np.asarray(sizes[place])
