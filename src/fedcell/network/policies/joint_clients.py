"""What each client does in the joint problem (`joint`), at a length of the round H and a price of
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

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools
from fedcell.network.physics.free_power import FreePower, inverse_m, inverse_phi, m_of, phi

STEPS = 80  # of Newton's method for one client; 3 to 5 are usual
TOLERANCE = 1e-14  # of log s
SIDE = 1e-12  # of a corner: which limit acts on either side of it


@dataclass(frozen=True, eq=False)
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
    E, D, S, V = clients.radiated, clients.on_air, clients.sending, clients.airtime
    by_s = clients.Y / s
    wish = inverse_m((D + by_s) / E)
    x = np.minimum(np.maximum(wish, clients.least), clients.most)
    free = x == wish
    limited = np.zeros(x.shape, bool)
    if S.any():
        most = np.maximum(inverse_phi(np.maximum(s / S, 1.0)), clients.least)
        limited = most < x
        x = np.minimum(x, most)
    v = by_s / (x * s)
    slope = E * x * x * np.exp(x)  # d log x / d log(Y / s) is (Y / s) over it
    x_r = np.where(free, by_s / slope, 0.0)
    x_s, v_s, v_r = -x_r, -v * (2 - x_r), v * (1 - x_r)
    if limited.any():  # phi(x) = s / S
        Sm = S * m_of(x)
        more = (D + by_s) / Sm - E / S
        grows = x * s / Sm  # d log x / d log s
        falls = by_s / Sm + (D + by_s) * x * x * np.exp(x) * grows / (Sm * (Sm / S))
        x_s, x_r = np.where(limited, grows, x_s), np.where(limited, 0.0, x_r)
        v_s = np.where(limited, -v * (2 + grows) - falls, v_s)
        v_r = np.where(limited, v + by_s / Sm, v_r)
        v = np.where(limited, v + more, v)
    if (tied := V / s > x).any():  # x s = V: the largest share
        x = np.where(tied, np.minimum(V / s, clients.most), x)
        x_s, x_r = np.where(tied, -1.0, x_s), np.where(tied, 0.0, x_r)
        v = np.where(tied, (E * m_of(x) - D) / V, v)
        v_s = np.where(tied, -E * x * x * np.exp(x) / V, v_s)
        v_r = np.where(tied, 0.0, v_r)
    return Marginal(x, v, v_s, v_r, x_s, x_r)


@dataclass(frozen=True, eq=False, slots=True)
class Clients:
    """Clients in any order, each with its h and Y."""

    radiated: Array
    on_air: Array
    sending: Array
    airtime: Array
    least: Array
    most: Array
    Y: Array
    q: Array
    b: Array
    w: Array
    alpha: Array
    h: Array

    def __getitem__(self, where: Any) -> Clients:
        return Clients(*(getattr(self, name)[where] for name in self.__slots__))

    def saved(self, t: Array) -> tuple[Array, Array]:
        """Return what a second more of training saves, and how much less it is a second later."""
        last = (self.alpha - 1) * self.w / t**self.alpha
        return last - self.b, self.alpha * last / t


@dataclass(frozen=True, eq=False)
class Response:
    """What each client does at given H and R, and how that changes with H and log R."""

    t: Array
    s: Array
    x: Array
    beta: Array
    share: Array
    beta_by: tuple[Array, Array]
    share_by: tuple[Array, Array]


def respond(power: FreePower, floor: Array, e: Array, R: Array, guess: Array) -> Response:
    """Return the responses of the clients to a length H = floor + e and a price R."""
    terms, shortest = power.terms, power.floor
    with np.errstate(all="ignore"):
        h = e[:, None] + (floor[:, None] - terms.m)
        clients = Clients(
            *(power.radiated, power.on_air, power.sending, power.airtime, power.least, power.most),
            *(R[:, None] * power.y, terms.q, terms.b, terms.w, terms.alpha, h),
        )
        own = terms.training_time(np.zeros(1))  # of a client that finishes early
        longest = np.maximum(e[:, None] + (floor[:, None] - terms.m - terms.shortest), shortest)
        kink = np.maximum(h - own, shortest)
        roomy = h - own >= shortest  # for its own best training before the shortest upload
        by_upload = marginal(clients, kink).v - terms.q
        by_training = clients.saved(np.where(roomy, own, h - shortest))[0]
        fast = marginal(clients, longest).v - terms.q >= clients.saved(terms.shortest)[0]
        early = roomy & (by_upload <= 0)
        pinned = ~early & (by_upload <= by_training)  # at f_min, or at its shortest upload
        fast &= ~early & ~pinned
        low, high = np.where(early, shortest, kink), np.where(early, kink, longest)
        s = np.where(fast, longest, kink)
        corner = _corner(clients)
        stuck = np.zeros(s.shape, bool)
        if ((corner > low) & (corner < high)).any():
            stuck, low, high = _beside(clients, corner, early, low, high)
            stuck &= ~fast & ~pinned
            s = np.where(stuck, corner, s)
        searched = ~fast & ~pinned & ~stuck
        s[searched] = _lengths(
            clients[searched], early[searched], low[searched], high[searched], guess[searched]
        )
        t = np.where(early, own, np.where(fast, terms.shortest, h - s))
        t = np.minimum(np.maximum(t, terms.shortest), terms.longest)
        at_floor = (pinned & ~roomy) | stuck | (early & (s <= shortest * (1 + 1e-14)))
        return _response(power, clients, t, s, early, fast | pinned, at_floor)


def _corner(clients: Clients) -> Array:
    """Return the length at which another limit begins to act: with all the power the highest x, or
    with the largest share the least x. What a second saves falls there at once."""
    corner = np.where(
        clients.sending > 0, clients.sending * phi(clients.most), clients.airtime / clients.least
    )
    return np.where(np.isfinite(corner), corner, 0.0)


def _beside(
    clients: Clients, corner: Array, early: Bools, low: Array, high: Array
) -> tuple[Bools, Array, Array]:
    """Return which uploads end at the corner, and the bounds of the others on their side of it."""
    inside = (corner > low) & (corner < high)
    wanted = clients.q + np.where(early, 0.0, clients.saved(clients.h - corner)[0])
    before = marginal(clients, corner * (1 - SIDE)).v
    after = marginal(clients, corner * (1 + SIDE)).v
    shorter, longer = inside & (before <= wanted), inside & (after >= wanted)
    high, low = np.where(shorter, corner, high), np.where(longer, corner, low)
    return inside & ~shorter & ~longer, low, high


def _response(
    power: FreePower,
    clients: Clients,
    t: Array,
    s: Array,
    early: Bools,
    fixed: Bools,
    floor: Bools,
) -> Response:
    """Return the response of clients with known t and s: those that finish `early`, whose training
    is `fixed` in length, or whose upload is as short as it can be."""
    found = marginal(clients, s)
    saved, Z = clients.saved(t)
    X = -found.v_s / s
    s_h = np.where(fixed, 1.0, Z / (X + Z))
    s_r = np.where(fixed, 0.0, found.v_r / (X + Z))
    s_h, s_r = np.where(early, 0.0, s_h), np.where(early, found.v_r / X, s_r)
    s_h, s_r = np.where(floor, 0.0, s_h), np.where(floor, 0.0, s_r)
    beta = np.where(floor, saved, found.v - power.terms.q)
    beta_H = np.where(floor, -Z, -X * s_h)
    beta_R = np.where(floor, 0.0, found.v_r - X * s_r)
    share = power.y / (found.x * s)
    x_r = np.where(floor, 0.0, found.x_r)
    grow = (1 + found.x_s) / s
    return Response(
        t=t,
        s=s,
        x=found.x,
        beta=np.where(early, 0.0, np.maximum(beta, 0.0)),
        share=share,
        beta_by=(np.where(early, 0.0, beta_H), np.where(early, 0.0, beta_R)),
        share_by=(-share * grow * s_h, -share * (grow * s_r + x_r)),
    )


def _lengths(clients: Clients, early: Bools, low: Array, high: Array, guess: Array) -> Array:
    """Return the lengths of uploads at which a second saves the same on both sides, by Newton's
    method for log s between two lengths."""
    s = np.where(
        (guess > low) & (guess < high), guess, np.sqrt(np.maximum(low, 1e-9 * high) * high)
    )
    out, left = s.copy(), np.arange(s.size)
    for step in range(STEPS):
        found = marginal(clients, s)
        saved, Z = clients.saved(clients.h - s)
        wanted = clients.q + np.where(early, 0.0, saved)
        miss = np.log(found.v / wanted)
        slope = found.v_s / found.v - np.where(early, 0.0, s * Z / wanted)
        low, high = np.where(miss > 0, s, low), np.where(miss > 0, high, s)
        wish = s * np.exp(np.clip(-miss / slope, -30, 30))
        middle = np.sqrt(np.maximum(low, 1e-9 * high) * high)
        usable = (wish > low) & (wish < high) & (step % 10 != 9)
        near = np.abs(miss) <= TOLERANCE
        s = np.where(near, s, np.where(usable, wish, middle))
        done = near | (high - low <= 1e-15 * high)
        done |= usable & (np.abs(miss / slope) <= 1e-9)  # the step is exact by now
        out[left[done]] = s[done]
        if done.all():
            return out
        if 2 * np.count_nonzero(done) > done.size or step > 12:
            keep = ~done
            clients, early, left = clients[keep], early[keep], left[keep]
            low, high, s = low[keep], high[keep], s[keep]
    out[left] = s
    return out
