"""What each client does in the joint problem (`solve`), at a length of the round H and a price of
band R.

A client with an upload of length s takes the best x(s), and trains for t = h - s with h = H - m. A
second more of upload, or of training, saves

    beta = v(s) - q,   v = Y / (x s^2), and more where a limit ties x to s;   Y = R y,
    beta = (alpha - 1) w / t^alpha - b.

The first falls in s and the second rises, so they meet once: within the bounds of the clock, or
at one of them, or at the shortest upload, or where another limit begins to act, or before h if
both are 0 there (it finishes early).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.network.physics.power.functions import inverse_m, inverse_phi, m_of, phi
from fedcell.network.physics.power.problem import FreePower

STEPS = 80  # of Newton's method for one client; 3 to 5 are usual
EXACT = 1e-8  # of log s: after a step as short as this the error is that of rounding


@dataclass(frozen=True, eq=False, slots=True)
class Clients:
    """Clients in any order, each with its h and Y."""

    radiated: Array
    on_air: Array
    sending: Array
    airtime: Array
    least: Array
    most: Array
    shortest: Array  # upload
    Y: Array
    q: Array
    b: Array
    w: Array
    alpha: Array
    h: Array

    @classmethod
    def of(cls, power: FreePower, h: Array, R: Array) -> Clients:
        """Return the clients of rounds at a price of band, with the time that each has."""
        terms = power.terms
        return cls(
            *(power.radiated, power.on_air, power.sending, power.airtime, power.least, power.most),
            *(power.floor, R[:, None] * power.y, terms.q, terms.b, terms.w, terms.alpha, h),
        )

    def __getitem__(self, where: Any) -> Clients:
        return Clients(*(getattr(self, name)[where] for name in self.__slots__))

    def take(self, which: Ints) -> Clients:
        """Return some clients, by their places in all rounds."""
        return Clients(*(getattr(self, name).ravel()[which] for name in self.__slots__))

    def saved(self, t: Array) -> tuple[Array, Array]:
        """Return what a second more of training saves, and how much less it is a second later."""
        last = (self.alpha - 1) * self.w / t**self.alpha
        return last - self.b, self.alpha * last / t


@dataclass(frozen=True, eq=False, slots=True)
class Marginal:
    """The best x for uploads of given lengths, what a second more saves, and the derivatives of
    both by log s and log R."""

    x: Array
    v: Array
    v_s: Array
    v_r: Array
    x_s: Array  # of log x
    x_r: Array


def marginal(clients: Clients, s: Array) -> Marginal:
    """Return what a second more of an upload of length s saves, and with which x.

    Without limits x solves E m(x) = D + Y / s, with m(x) = x^2 phi'(x) = 1 + (x - 1) e^x.
    """
    E, D = clients.radiated, clients.on_air
    by_s = clients.Y / s
    wish = inverse_m((D + by_s) / E)
    x = np.minimum(np.maximum(wish, clients.least), clients.most)
    grown = np.exp(x)
    # d log x / d log(Y / s) is (Y / s) over E x m'(x).
    x_r = np.where(x == wish, by_s / (E * x * x * grown), 0.0)
    v = by_s / (x * s)
    found = Marginal(x, v, -v * (2 - x_r), v * (1 - x_r), -x_r, x_r)
    limited = clients.sending * np.expm1(x) > s * x
    tied = (clients.airtime > s * x) & ~limited  # not both: the shortest upload allows some x
    if limited.any():
        _limit(found, clients[limited], s[limited], limited)
    if tied.any():
        _tie(found, clients[tied], s[tied], tied)
    return found


def _limit(found: Marginal, clients: Clients, s: Array, where: Bools) -> None:
    """Set the marginals of clients that send with all the power: phi(x) = s / S."""
    S, by_s = clients.sending, clients.Y / s
    x = np.maximum(inverse_phi(np.maximum(s / S, 1.0)), clients.least)
    m = m_of(x)
    whole = clients.on_air + by_s
    v = by_s / (x * s)
    grows = x * s / (S * m)  # d log x / d log s
    falls = by_s / (S * m) + whole * x * x * np.exp(x) * grows / (S * m * m)
    found.x[where] = x
    found.v[where] = v + np.maximum(whole / (S * m) - clients.radiated / S, 0.0)
    found.v_s[where] = -v * (2 + grows) - falls
    found.v_r[where] = v + by_s / (S * m)
    found.x_s[where], found.x_r[where] = grows, 0.0


def _tie(found: Marginal, clients: Clients, s: Array, where: Bools) -> None:
    """Set the marginals of clients with the largest share that they can use: x s = V."""
    V, E = clients.airtime, clients.radiated
    x = np.minimum(V / s, clients.most)
    found.x[where] = x
    found.v[where] = (E * m_of(x) - clients.on_air) / V
    found.v_s[where] = -E * x * x * np.exp(x) / V
    found.v_r[where], found.x_s[where], found.x_r[where] = 0.0, -1.0, 0.0


@dataclass(frozen=True, eq=False)
class Response:
    """What each client does at given H and R, and how that changes with H and log R."""

    t: Array
    s: Array
    x: Array
    beta: Array
    share: Array
    s_by: tuple[Array, Array]
    beta_by: tuple[Array, Array]
    share_by: tuple[Array, Array]


def respond(power: FreePower, floor: Array, e: Array, R: Array, guess: Array) -> Response:
    """Return the responses of the clients to a length H = floor + e and a price R.

    `guess` are lengths of uploads to start from.
    """
    terms, shortest = power.terms, power.floor
    with np.errstate(all="ignore"):
        h = e[:, None] + (floor[:, None] - terms.m)
        clients = Clients.of(power, h, R)
        own = terms.training_time(np.zeros(1))  # of a client that finishes early
        free = ((terms.alpha - 1) * terms.w / terms.b) ** (1 / terms.alpha)  # the same, no bounds
        free = np.where(free >= terms.shortest, free, np.where(free < 0, np.inf, terms.shortest))
        wish, pinned = _lengths(clients, np.maximum(h - free, shortest), h, guess, trains=True)
        longest = np.maximum(e[:, None] + (floor[:, None] - terms.m - terms.shortest), shortest)
        s = np.maximum(np.minimum(wish, longest), np.maximum(h - terms.longest, shortest))
        fixed = s != wish  # at f_min or f_max
        pinned &= ~fixed
        found = marginal(clients, s)
        spare = e[:, None] + (floor[:, None] - terms.m - own)  # not h - own, for rounding
        early = (spare >= s * (1 - 1e-14)) & (found.v <= terms.q)
        if early.any():
            some = clients[early]
            s[early], pinned[early] = _lengths(
                some, shortest[early], s[early], guess[early], trains=False
            )
            again = marginal(some, s[early])
            for name in Marginal.__slots__:
                getattr(found, name)[early] = getattr(again, name)
        t = np.where(early, own, np.clip(h - s, terms.shortest, terms.longest))
        return _response(power, clients, found, t, s, early, fixed, pinned)


def _response(
    power: FreePower,
    clients: Clients,
    found: Marginal,
    t: Array,
    s: Array,
    early: Bools,
    fixed: Bools,
    pinned: Bools,
) -> Response:
    """Return the response of clients with known t and s: those that finish `early`, those whose
    training is `fixed` in length, and those whose upload is."""
    saved, Z = clients.saved(t)
    X = -found.v_s / s
    s_h = np.where(pinned | early, 0.0, np.where(fixed, 1.0, Z / (X + Z)))
    s_r = np.where(early, found.v_r / X, np.where(fixed, 0.0, found.v_r / (X + Z)))
    s_r = np.where(pinned, 0.0, s_r)
    beta = np.where(early, 0.0, np.where(pinned, saved, found.v - power.terms.q))
    beta_h = np.where(early, 0.0, np.where(pinned, -Z, -X * s_h))
    beta_r = np.where(early | pinned, 0.0, found.v_r - X * s_r)
    share = power.y / (found.x * s)
    x_r = np.where(pinned, 0.0, found.x_r)
    grow = (1 + found.x_s) / s
    return Response(
        t=t,
        s=s,
        x=found.x,
        beta=np.maximum(beta, 0.0),
        share=share,
        s_by=(s_h, s_r),
        beta_by=(beta_h, beta_r),
        share_by=(-share * grow * s_h, -share * (grow * s_r + x_r)),
    )


def corners_of(numbers: FreePower | Clients) -> tuple[Array, Array]:
    """Return the lengths of an upload at which another limit begins to act: with all the power that
    with the highest x, with the largest share that with the least."""
    with np.errstate(divide="ignore", invalid="ignore"):
        by_share = np.where(numbers.airtime > 0, numbers.airtime / numbers.least, 0.0)
    return numbers.sending * phi(numbers.most), by_share


def _corners(clients: Clients) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the corners, and what a second more saves just before and after: it falls there at
    once."""
    E, D, S, V = clients.radiated, clients.on_air, clients.sending, clients.airtime
    by_power, by_share = corners_of(clients)
    for s, x in ((by_power, clients.most), (by_share, clients.least)):
        by_s, m = clients.Y / s, m_of(x)
        after = by_s / (x * s)
        before = after + (D + by_s) / (S * m) - E / S if s is by_power else (E * m - D) / V
        acts = (before > after) & np.isfinite(before) & np.isfinite(s)
        yield np.where(acts, s, -1.0), before, after


def _lengths(
    clients: Clients, least: Array, most: Array, guess: Array, *, trains: bool
) -> tuple[Array, Bools]:
    """Return the lengths of uploads between `least` and `most` at which a second saves the same on
    both sides, or, unless it `trains`, nothing; and which are at the least, or at a corner.

    Newton's method for log s, between bounds that its signs leave.
    """
    low, high, out, stuck = least, most, least.copy(), np.zeros(least.shape, bool)
    for corner, before, after in _corners(clients):
        wanted = clients.q + (clients.saved(clients.h - corner)[0] if trains else 0.0)
        inside = (corner > low) & (corner < high)
        high = np.where(inside & (before <= wanted), corner, high)
        low = np.where(inside & (after >= wanted), corner, low)
        here = inside & (before > wanted) & (after < wanted)
        out, stuck = np.where(here, corner, out), stuck | here
    pinned = stuck.copy()
    left = np.flatnonzero(~stuck & (high > low))
    pinned.ravel()[np.flatnonzero(~stuck & (high <= low))] = True
    clients, low, high = clients.take(left), low.ravel()[left], high.ravel()[left]
    least = least.ravel()[left]
    s = guess.ravel()[left]
    s = np.where((s > low) & (s < high), s, _middle(low, high))
    flat, at_least = out.ravel(), pinned.ravel()
    for step in range(STEPS):
        found = marginal(clients, s)
        saved, Z = clients.saved(clients.h - s) if trains else (0.0, 0.0)
        wanted = clients.q + saved
        short = found.v > wanted  # s must be longer
        shift = np.log(found.v / wanted) / (s * Z / wanted - found.v_s / found.v)
        # Where `wanted` is hardly above 0 its logarithm is no line, but the difference is.
        shift = np.fmax(shift, np.where(short, (found.v - wanted) / (s * Z - found.v_s), shift))
        done = (np.abs(shift) <= EXACT) | (s <= least) & ~short
        low, high = np.where(short, s, low), np.where(short, high, s)
        done |= (high - low <= 1e-15 * high) | (step == STEPS - 1)
        wish = s * np.exp(np.clip(shift, -30, 30))
        usable = (wish > low) & (wish < high) & (step % 10 != 9)
        below = (wish <= least) & (low <= least) & (least > 0)
        following = np.where(done, s, _middle(low, high))
        following = np.where(usable, wish, np.where(below, least, following))
        flat[left[done]] = following[done]
        at_least[left[done]] = ((following <= least) & ~short)[done]
        s = following
        if done.all():
            break
        if 3 * np.count_nonzero(done) > done.size or step >= 10:
            keep = ~done
            clients, left, least = clients[keep], left[keep], least[keep]
            low, high, s = low[keep], high[keep], s[keep]
    return out, pinned


def _middle(low: Array, high: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(low, 1e-9 * high) * high))
