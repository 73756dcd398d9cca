"""The exact minimiser of (22) over share, clock and transmit power (`network.physics.free_power`).

As in `general`, the length of the round H and the price of band R decouple the clients. Given
them a client with an upload of length s takes the best x(s), and trains for t = h - s with
h = H - m. A second more of upload, or of training, saves

    beta = v(s) - q,   v = Y / (x s^2), and more where a limit ties x to s;   Y = R y,
    beta = (alpha - 1) w / t^alpha - b.

The first falls in s and the second rises, so they meet once: within the bounds of the clock, or
at one of them, or at the shortest upload, or before h if both are 0 there (it finishes early).
Left are two sums: the shares y / (x s) fill the band, and the prices sum to A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools
from fedcell.network.physics.free_power import FreePower, inverse_m, inverse_phi, m_of, phi

BLOCK = 2**14  # clients solved at a time
TOLERANCE = 1e-11  # of the two sums
MAX_STEPS = 200  # the box is halved each time that Newton's step leaves it
BOX_AFTER = 4  # steps in which Newton's method may leave the box
CLIENT_STEPS = 80  # of Newton's method for one client; 3 to 5 are usual
CLIENT_TOLERANCE = 1e-14  # of log s
SIDE = 1e-12  # of a corner: which limit acts on either side of it
AT_FLOOR = 1e-13  # of the shortest round: no longer than it
FAR = 40.0  # of the box around the start, in logarithms
NO_PRICE = 1e-30  # of band, relative to the start, where some is left over


@dataclass(frozen=True, eq=False)
class JointSplit:
    """Times and x of each client at the optimum, (..., client), and the prices that prove it."""

    train: Array  # t [s]
    upload: Array  # s [s]
    x: Array
    beta: Array
    R: Array  # (...)


def joint_split(power: FreePower, length: Array | None = None) -> JointSplit:
    """Return the optimum; with a `length` of the rounds, (...), the cheapest within it."""
    shape, flat = power.y.shape, power.flat()
    rounds = max(1, BLOCK // shape[-1])
    given = None if length is None else np.reshape(length, -1)
    parts = []
    for i in range(0, len(flat.y), rounds):
        part = slice(i, i + rounds)
        parts.append(_solve(flat[part], None if given is None else given[part]))
    *vectors, R = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    t, s, x, beta = (values.reshape(shape) for values in vectors)
    return JointSplit(t, s, x, beta, R.reshape(shape[:-1]))


def shortest_rounds(power: FreePower) -> Array:
    """Return what no round is shorter than, with all the band for each client (...) [s]."""
    return np.asarray((power.terms.m + power.terms.shortest + power.floor).max(-1))


def _solve(power: FreePower, length: Array | None) -> tuple[Array, ...]:
    """Return t, s, x, beta and R of rounds with one axis, by Newton's method for
    (log(H - floor), log R) within the box that the signs of the two sums leave."""
    out = tuple(np.empty_like(power.y) for _ in range(4))
    prices, left = np.empty(len(power.y)), np.arange(len(power.y))
    floor = shortest_rounds(power)
    z = _start(power, floor)
    known = np.stack((np.full(len(z[0]), length is not None), _has_band_left(power)))
    if length is not None:
        z[0] = np.log(np.maximum(length - floor, 1e-15 * floor))
    z[1] = np.where(known[1], z[1] + np.log(NO_PRICE), z[1])
    low, high = z - FAR, z + FAR
    low[0] = np.maximum(low[0], np.log(AT_FLOOR / 2 * floor))
    s = np.full_like(power.y, np.nan)
    for step in range(MAX_STEPS):
        e, R = np.exp(z)
        each = _respond(power, floor, e, R, s)
        known[0] |= (e <= AT_FLOOR * floor) & (each.beta.sum(-1) <= power.terms.second)
        miss, newton = _newton(power, each, e, known)
        done = (np.abs(miss).max(0) <= TOLERANCE) | (step == MAX_STEPS - 1)
        done |= known.all(0) | ((high - low).max(0) < 1e-14)
        for whole, values in zip(out, (each.t, each.s, each.x, each.beta), strict=True):
            whole[left[done]] = values[done]
        prices[left[done]] = np.where(known[1], 0.0, R)[done]
        if done.all():
            break
        same = (miss[0] >= 0) == (miss[1] >= 0)  # then z tells of H, else of R
        which = np.stack((same, ~same))
        low = np.where(which & (miss[0] >= 0), z, low)
        high = np.where(which & (miss[0] < 0), z, high)
        z = _next(z, newton, np.where(known, z, low), np.where(known, z, high), step)
        s = each.s
        if not (keep := ~done).all():
            power, left, floor, s = power[keep], left[keep], floor[keep], s[keep]
            z, low, high, known = z[:, keep], low[:, keep], high[:, keep], known[:, keep]
    return (*out, prices)


def _next(z: Array, newton: Array, low: Array, high: Array, step: int) -> Array:
    """Return the next point: that of Newton's method, or the middle of the box."""
    wish = z + np.clip(newton, -4, 4)
    unusable = ~np.isfinite(wish).all(0) | (step % 12 == 11)
    if step >= BOX_AFTER:
        unusable |= ((wish < low) | (wish > high)).any(0)
    return np.clip(np.where(unusable, (low + high) / 2, wish), low, high)


def _has_band_left(power: FreePower) -> Bools:
    """Return in which rounds clients cannot use the whole band: it has no price then."""
    with np.errstate(divide="ignore"):
        by_snr = power.y / (power.sending * np.expm1(power.least))  # all power, the least SNR
        widest = np.minimum(by_snr, power.y / power.airtime)
    return np.asarray(widest.sum(-1) <= 1)


def _start(power: FreePower, floor: Array) -> Array:
    """Return the first (log(H - floor), log R): all pay the same price of time, send with the SNR
    that is best for even shares, and upload for the same time after the last has trained."""
    terms, count = power.terms, power.y.shape[-1]
    share = terms.second[:, None] / count
    t = terms.training_time(share)
    late = np.maximum((terms.m + t).max(-1) - floor, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = inverse_m((power.on_air + (terms.q + share) * power.y * count) / power.radiated)
        x = np.clip(x, power.least, power.most)
        limit = inverse_phi(np.maximum(2 * power.y * count / power.sending, 1.0))
        x = np.maximum(np.minimum(x, limit), power.least)
        x = np.where(x > 0, x, 1e-3)
    e = late + (power.y / x).sum(-1)
    R = (terms.second + terms.q.sum(-1)) / (power.y / (x * e[:, None] ** 2)).sum(-1)
    return np.asarray(np.log(np.stack((np.maximum(e, 1e-12 * floor), R))))


@dataclass(frozen=True, eq=False)
class _Marginal:
    """The best x for uploads of given lengths, what a second more saves, and the derivatives of
    both by log s and log R."""

    x: Array
    v: Array
    v_s: Array
    v_R: Array
    x_s: Array  # of log x
    x_R: Array


def _marginal(clients: _Clients, s: Array) -> _Marginal:
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
    x_R = np.where(free, by_s / slope, 0.0)
    x_s, v_s, v_R = -x_R, -v * (2 - x_R), v * (1 - x_R)
    if limited.any():  # phi(x) = s / S
        Sm = S * m_of(x)
        more = (D + by_s) / Sm - E / S
        grows = x * s / Sm  # d log x / d log s
        falls = by_s / Sm + (D + by_s) * x * x * np.exp(x) * grows / (Sm * (Sm / S))
        x_s, x_R = np.where(limited, grows, x_s), np.where(limited, 0.0, x_R)
        v_s = np.where(limited, -v * (2 + grows) - falls, v_s)
        v_R = np.where(limited, v + by_s / Sm, v_R)
        v = np.where(limited, v + more, v)
    if (tied := V / s > x).any():  # x s = V: the largest share
        x = np.where(tied, np.minimum(V / s, clients.most), x)
        x_s, x_R = np.where(tied, -1.0, x_s), np.where(tied, 0.0, x_R)
        v = np.where(tied, (E * m_of(x) - D) / V, v)
        v_s = np.where(tied, -E * x * x * np.exp(x) / V, v_s)
        v_R = np.where(tied, 0.0, v_R)
    return _Marginal(x, v, v_s, v_R, x_s, x_R)


@dataclass(frozen=True, eq=False, slots=True)
class _Clients:
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

    def __getitem__(self, where: Any) -> _Clients:
        return _Clients(*(getattr(self, name)[where] for name in self.__slots__))

    def saved(self, t: Array) -> tuple[Array, Array]:
        """Return what a second more of training saves, and how much less it is a second later."""
        last = (self.alpha - 1) * self.w / t**self.alpha
        return last - self.b, self.alpha * last / t


@dataclass(frozen=True, eq=False)
class _Response:
    """What each client does at given H and R, and how that changes with H and log R."""

    t: Array
    s: Array
    x: Array
    beta: Array
    share: Array
    beta_by: tuple[Array, Array]
    share_by: tuple[Array, Array]


def _respond(power: FreePower, floor: Array, e: Array, R: Array, guess: Array) -> _Response:
    """Return the responses of the clients to a length H = floor + e and a price R."""
    terms, shortest = power.terms, power.floor
    with np.errstate(all="ignore"):
        h = e[:, None] + (floor[:, None] - terms.m)
        clients = _Clients(
            *(power.radiated, power.on_air, power.sending, power.airtime, power.least, power.most),
            *(R[:, None] * power.y, terms.q, terms.b, terms.w, terms.alpha, h),
        )
        own = terms.training_time(np.zeros(1))  # of a client that finishes early
        longest = np.maximum(e[:, None] + (floor[:, None] - terms.m - terms.shortest), shortest)
        kink = np.maximum(h - own, shortest)
        roomy = h - own >= shortest  # for its own best training before the shortest upload
        by_upload = _marginal(clients, kink).v - terms.q
        by_training = clients.saved(np.where(roomy, own, h - shortest))[0]
        fast = _marginal(clients, longest).v - terms.q >= clients.saved(terms.shortest)[0]
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


def _corner(clients: _Clients) -> Array:
    """Return the length at which another limit begins to act: with all the power the highest x, or
    with the largest share the least x. What a second saves falls there at once."""
    corner = np.where(
        clients.sending > 0, clients.sending * phi(clients.most), clients.airtime / clients.least
    )
    return np.where(np.isfinite(corner), corner, 0.0)


def _beside(
    clients: _Clients, corner: Array, early: Bools, low: Array, high: Array
) -> tuple[Bools, Array, Array]:
    """Return which uploads end at the corner, and the bounds of the others on their side of it."""
    inside = (corner > low) & (corner < high)
    wanted = clients.q + np.where(early, 0.0, clients.saved(clients.h - corner)[0])
    before = _marginal(clients, corner * (1 - SIDE)).v
    after = _marginal(clients, corner * (1 + SIDE)).v
    shorter, longer = inside & (before <= wanted), inside & (after >= wanted)
    high, low = np.where(shorter, corner, high), np.where(longer, corner, low)
    return inside & ~shorter & ~longer, low, high


def _response(
    power: FreePower,
    clients: _Clients,
    t: Array,
    s: Array,
    early: Bools,
    fixed: Bools,
    floor: Bools,
) -> _Response:
    """Return the response of clients with known t and s: those that finish `early`, whose training
    is `fixed` in length, or whose upload is as short as it can be."""
    found = _marginal(clients, s)
    saved, Z = clients.saved(t)
    X = -found.v_s / s
    s_H = np.where(fixed, 1.0, Z / (X + Z))
    s_R = np.where(fixed, 0.0, found.v_R / (X + Z))
    s_H, s_R = np.where(early, 0.0, s_H), np.where(early, found.v_R / X, s_R)
    s_H, s_R = np.where(floor, 0.0, s_H), np.where(floor, 0.0, s_R)
    beta = np.where(floor, saved, found.v - power.terms.q)
    beta_H = np.where(floor, -Z, -X * s_H)
    beta_R = np.where(floor, 0.0, found.v_R - X * s_R)
    share = power.y / (found.x * s)
    x_R = np.where(floor, 0.0, found.x_R)
    grow = (1 + found.x_s) / s
    return _Response(
        t=t,
        s=s,
        x=found.x,
        beta=np.where(early, 0.0, np.maximum(beta, 0.0)),
        share=share,
        beta_by=(np.where(early, 0.0, beta_H), np.where(early, 0.0, beta_R)),
        share_by=(-share * grow * s_H, -share * (grow * s_R + x_R)),
    )


def _lengths(clients: _Clients, early: Bools, low: Array, high: Array, guess: Array) -> Array:
    """Return the lengths of uploads at which a second saves the same on both sides, by Newton's
    method for log s between two lengths."""
    s = np.where(
        (guess > low) & (guess < high), guess, np.sqrt(np.maximum(low, 1e-9 * high) * high)
    )
    out, left = s.copy(), np.arange(s.size)
    for step in range(CLIENT_STEPS):
        found = _marginal(clients, s)
        saved, Z = clients.saved(clients.h - s)
        wanted = clients.q + np.where(early, 0.0, saved)
        miss = np.log(found.v / wanted)
        slope = found.v_s / found.v - np.where(early, 0.0, s * Z / wanted)
        low, high = np.where(miss > 0, s, low), np.where(miss > 0, high, s)
        wish = s * np.exp(np.clip(-miss / slope, -30, 30))
        middle = np.sqrt(np.maximum(low, 1e-9 * high) * high)
        usable = (wish > low) & (wish < high) & (step % 10 != 9)
        near = np.abs(miss) <= CLIENT_TOLERANCE
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


def _newton(power: FreePower, each: _Response, e: Array, known: Bools) -> tuple[Array, Array]:
    """Return log(sum a), log(sum beta / A), and Newton's step for (log(H - floor), log R).

    Where one of the two is `known`, the other sum is all that is left to meet.
    """
    shares, prices = each.share.sum(-1), each.beta.sum(-1)
    with np.errstate(all="ignore"):
        miss = np.stack((np.log(shares), np.maximum(np.log(prices / power.terms.second), -700.0)))
        aH, aR = (d.sum(-1) / shares for d in each.share_by)
        bH, bR = (d.sum(-1) / prices for d in each.beta_by)
        aH, bH = aH * e, bH * e
        step = np.stack((aR * miss[1] - bR * miss[0], bH * miss[0] - aH * miss[1]))
        step = step / (aH * bR - aR * bH)
        of_length, of_price = known
        nothing = np.zeros_like(e)
        step = np.where(of_length, np.stack((nothing, -miss[0] / aR)), step)
        step = np.where(of_price, np.stack((-miss[1] / bH, nothing)), step)
        first, second = miss
        miss[0] = np.where(of_price, second, first)  # same signs: the next point tells of H
        miss[1] = np.where(of_length, -first, second)  # other signs: it tells of R
        return miss, step
