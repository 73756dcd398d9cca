"""Positions and correlated states of clients that move, in any round without the rounds before.

A client flies straight and is reflected by the borders of the ring: its angular momentum stays, so
its distance is in closed form, and clients that are spread evenly stay spread evenly. Shadowing and
sight are Gaussian processes with correlation exp(-d / d_cor) over the way d. Such a process is
Markov: the value half-way between two known ones follows from these two alone, so the rounds form a
tree, and round t needs its thirty ancestors only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, sqrt

import numpy as np

from fedcell.core.streams import MAX_ROUNDS, Purpose, uniform_at
from fedcell.core.types import Array, Ints

TINY = 2.0**-54  # below the smallest uniform number above 0


@dataclass(frozen=True, eq=False)
class Paths:
    """Straight ways through a ring, (client,): a distance is sqrt(closest^2 + along^2)."""

    closest: Array  # of the straight line to the station [m]
    start: Array  # along the line in round 0, from `low` [m]; below 0: towards the station
    low: Array  # smallest and largest |along| in the ring [m]
    high: Array
    move: float  # [m] in a round

    @classmethod
    def of(cls, distance: Array, heading: Array, near: float, far: float, move: float) -> Paths:
        """Return the ways of clients at some distances, for uniform headings in [0, 1)."""
        angle = 2 * np.pi * heading
        closest, along = distance * np.abs(np.sin(angle)), distance * np.cos(angle)
        low = np.sqrt(np.maximum(near**2 - closest**2, 0))
        high = np.sqrt(np.maximum(far**2 - closest**2, 0))
        start = np.copysign(np.maximum(np.abs(along) - low, 0), along)
        return cls(closest, start, low, np.maximum(high, low), move)

    def at(self, rounds: Array, clients: Ints) -> Array:
        """Return the distances in some rounds [m]; both arguments are broadcast."""
        wide = (self.high - self.low)[clients]
        # Back and forth between the borders: a triangular wave of period 2 (high - low).
        way = np.mod(self.start[clients] + self.move * rounds + wide, np.maximum(2 * wide, TINY))
        along = self.low[clients] + np.abs(way - wide)
        return np.asarray(np.hypot(self.closest[clients], along))


def normals(purpose: Purpose, seed: int, rounds: range, clients: Ints, count: int) -> Array:
    """Return standard normal numbers of some of `count` clients, (round, client)."""
    from scipy.special import ndtri

    places = np.broadcast_to(clients, (len(rounds), clients.size))
    return np.asarray(ndtri(uniform_at(purpose, seed, rounds, places, count) + TINY))


def process(
    purpose: Purpose, seed: int, rounds: range, clients: Ints, count: int, step: float
) -> Array:
    """Return a stationary Gaussian process with correlation exp(-step |t - t'|), (round, client).

    Parameters
    ----------
    purpose, seed
        Stream of the random numbers.
    rounds : range
        Rounds to compute; each has the same values in every range.
    clients : ndarray of int
        Some of `count` clients.
    count : int
        Clients of the fleet.
    step : float
        Way of a round over the correlation distance.
    """
    if step == 0:
        first = normals(purpose, seed, range(1), clients, count)
        return np.broadcast_to(first, (len(rounds), clients.size))
    nodes = _with_ancestors(rounds)
    z = np.empty((nodes.size, clients.size))
    inside = np.searchsorted(nodes, rounds.start)
    for i in (*range(inside), *range(inside + len(rounds), nodes.size)):
        t = int(nodes[i])
        z[i] = normals(purpose, seed, range(t, t + 1), clients, count)[0]
    z[inside : inside + len(rounds)] = normals(purpose, seed, rounds, clients, count)
    last = nodes.size - 1  # MAX_ROUNDS, which depends on round 0 alone
    far = exp(-step * MAX_ROUNDS)
    z[last] = far * z[0] + sqrt(-expm1(-2 * step * MAX_ROUNDS)) * z[last]
    half = MAX_ROUNDS // 2
    level = nodes & -nodes
    while half:
        here = np.flatnonzero(level == half)
        left = np.searchsorted(nodes, nodes[here] - half)
        right = np.searchsorted(nodes, nodes[here] + half)
        rho = exp(-step * half)
        spread = sqrt(-expm1(-2 * step * half) / (1 + rho**2))
        z[here] = rho / (1 + rho**2) * (z[left] + z[right]) + spread * z[here]
        half //= 2
    return z[inside : inside + len(rounds)]


def _with_ancestors(rounds: range) -> Ints:
    """Return rounds with all that they depend on, sorted: 0 and MAX_ROUNDS are the roots."""
    known = np.arange(rounds.start, rounds.stop)
    new = known
    while new.size:
        new = new[(new > 0) & (new < MAX_ROUNDS)]
        bit = new & -new
        parents = np.unique(np.concatenate([new - bit, new + bit, [0, MAX_ROUNDS]]))
        new = np.setdiff1d(parents, known, assume_unique=True)
        known = np.union1d(known, new)
    return known
