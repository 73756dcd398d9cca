"""The exact minimiser of (22) with declared radios and devices (`network.physics.terms`).

As in `optimal`, two numbers decouple the clients: the length of the round H, and the price of band
R. Given them a client minimises w / t^(alpha-1) + b t + q s + R u / s over t + s <= h. If the
unconstrained t and s fit into h it finishes early, and its price beta of being done by H is 0.
Else t + s = h, and beta is the root of

    ((alpha - 1) w / (b + beta))^(1 / alpha) + (R u / (q + beta))^(1 / 2) = h,

or, with t at a bound, follows from s = h - t. Left are two sums: the shares u / s fill the band,
and the prices sum to A. The first falls in R and in H, the second rises in R and falls in H.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedcell.core.types import Array, Bools
from fedcell.network.physics.discrete.modes import Modes
from fedcell.network.physics.extras import Extras
from fedcell.network.physics.link import PowerLimit
from fedcell.network.physics.terms import Terms
from fedcell.network.round import Problem

BLOCK = 2**16  # clients solved at a time
TOLERANCE = 1e-11  # of the two sums
MAX_STEPS = 200  # the box is halved each time that Newton's step leaves it
BOX_AFTER = 4  # steps in which Newton's method may leave the box
PRICE_STEPS = 40  # of Newton's method for one price; 4 to 6 are usual
PRICE_TOLERANCE = 1e-13  # of t + s, relative
BISECTIONS = 64  # of one length
LEAST_PRICE = 1e-18  # of time, relative to the highest
FAR = 30.0  # of the box around the start, in logarithms


@dataclass(frozen=True, eq=False)
class Split:
    """Times of each client at the optimum, and the prices that prove it, (round, client)."""

    train: Array  # t [s]
    share: Array  # u / s, with the sum 1
    price: Array  # beta


def split(problem: Problem) -> Split:
    """Return the times of the optimum; the band is filled exactly."""
    shape, flat = problem.band_time.shape, Terms.of(problem).flat()
    rounds = max(1, BLOCK // shape[-1])
    parts = [_solve(flat[i : i + rounds]) for i in range(0, len(flat.u), rounds)]
    t, s, beta = (np.concatenate(columns).reshape(shape) for columns in zip(*parts, strict=True))
    u = problem.band_time
    share = u / s
    return Split(train=t, share=share / share.sum(-1, keepdims=True), price=beta)


def linear_at(problem: Problem, share: Array) -> Problem:
    """Return a problem without power limits that agrees with one with limits at some shares: its
    upload times are in proportion to 1 / a, and a device that sends with power_max draws for as
    long as it sends."""
    extras = problem.extras
    assert extras is not None
    limit = extras.limit
    assert limit is not None
    band_time, send_power = linear_uploads(extras, limit, share)
    free = replace(extras, limit=None, send_power=send_power)
    return replace(problem, band_time=band_time, extras=free)


def linear_uploads(extras: Extras, limit: PowerLimit | Modes, share: Array) -> tuple[Array, Array]:
    """Return the band time [s] and the power drawn while sending [W] of `linear_at`."""
    return limit.upload_time(share) * share, extras.send_power + limit.drawn(share)


def _solve(terms: Terms) -> tuple[Array, Array, Array]:
    """Return t, s and beta of rounds with one axis, by Newton's method for (log(H - floor), log R)
    within the box that the signs of the two sums leave."""
    out = (np.empty_like(terms.u), np.empty_like(terms.u), np.empty_like(terms.u))
    left = np.arange(len(terms.u))
    floor = (terms.m + terms.shortest).max(-1)
    x = _start(terms, floor)
    low, high = x - FAR, x + FAR
    for step in range(MAX_STEPS):
        e, R = np.exp(x)
        each = _respond(terms, (floor + e)[:, None], e, floor, R[:, None])
        miss, newton = _newton(terms, each, e, R)
        done = (np.abs(miss).max(0) <= TOLERANCE) | (step == MAX_STEPS - 1)
        done |= (high - low).max(0) < 1e-15
        for whole, values in zip(out, (each.t, each.s, each.beta), strict=True):
            whole[left[done]] = values[done]
        if done.all():
            break
        same = (miss[0] >= 0) == (miss[1] >= 0)  # then x tells of H, else of R
        which = np.stack((same, ~same))
        low = np.where(which & (miss[0] >= 0), x, low)
        high = np.where(which & (miss[0] < 0), x, high)
        newton = x + np.clip(newton, -4, 4)
        each_halving = 12 if terms.levels is None else 2  # joules of levels have kinks
        unusable = ~np.isfinite(newton).all(0) | (step % each_halving == each_halving - 1)
        if step >= BOX_AFTER:
            unusable |= ((newton <= low) | (newton >= high)).any(0)
        newton = np.where(unusable, (low + high) / 2, newton)
        x = np.clip(newton, low, high)
        keep = ~done
        if not keep.all():
            terms, left, floor = terms[keep], left[keep], floor[keep]
            x, low, high = x[:, keep], low[:, keep], high[:, keep]
    return out


def _start(terms: Terms, floor: Array) -> Array:
    """Return the first (log(H - floor), log R): all pay the same price of time, and upload for
    the same time after the last has trained."""
    share = terms.second[:, None] / terms.u.shape[-1]
    t = terms.training_time(share)
    top = (terms.m + t).max(-1)
    total = terms.u.sum(-1)
    s = total[:, None] + (top[:, None] - terms.m - t)
    R = (terms.second + terms.q.sum(-1)) / (terms.u / s**2).sum(-1)
    return np.asarray(np.log(np.stack((np.maximum(top - floor + total, 1e-12 * top), R))))


@dataclass(frozen=True, eq=False)
class _Response:
    """What each client does at a given H and R, and how that changes with them."""

    t: Array
    s: Array
    beta: Array
    by_length: Array  # ds / dH
    by_price: Array  # ds / dR
    early: Bools


def _respond(terms: Terms, H: Array, e: Array, floor: Array, R: Array) -> _Response:
    """Return the responses of the clients to a length H = floor + e and a price R."""
    u, q = terms.u, terms.q
    h = e[:, None] + (floor[:, None] - terms.m)
    with np.errstate(all="ignore"):
        s_free = np.sqrt(R * u / q)  # infinite where q = 0
        t_free = terms.training_time(np.zeros(1))
        early = t_free + s_free <= h
        t = _equal_time(terms, h, R * u)
        bounded = (t <= terms.shortest) | (t >= terms.longest)
        t = np.minimum(np.maximum(t, terms.shortest), terms.longest)
        t, bounded, shared = _at_levels(terms, h, R * u, t, bounded)
        s = e[:, None] + ((floor[:, None] - terms.m) - t)
        s = np.maximum(s, 1e-16 * H)  # not 0 by rounding
        t, s = np.where(early, t_free, t), np.where(early, s_free, s)
        beta = np.where(early, 0.0, R * u / s**2 - q)
        X = 2 * R * u / s**3
        Y = terms.alpha * (terms.alpha - 1) * terms.w / t ** (terms.alpha + 1)
        by_length = np.where(early | shared, 0.0, np.where(bounded, 1.0, Y / (X + Y)))
        by_price = np.where(bounded, 0.0, u / s**2 / (X + Y))
        by_price = np.where(early | shared, s / (2 * R), by_price)
    return _Response(t, s, beta, by_length, by_price, early)


def _at_levels(
    terms: Terms, h: Array, Ru: Array, t: Array, bounded: Bools
) -> tuple[Array, Bools, Bools]:
    """Return the t of clients that finish at the end, for those with clock levels the best on
    their straight lines: there a second of uploading saves as much as one of training,
    Ru / s^2 = q - slope. With it whether t is at a level or at a bound, and whether in between."""
    shared = np.zeros_like(bounded)
    if terms.levels is None:
        return t, bounded, shared
    fixed = np.broadcast_to(terms.levels.fixed, t.shape)
    best = np.where(fixed, terms.shortest, t)
    for _, end, slope in terms.segments():
        wish = h - np.sqrt(Ru / (terms.q - slope))  # NaN where slope > q: longer is never better
        end = np.minimum(np.maximum(end, terms.shortest), terms.longest)
        here = fixed & (np.fmin(wish, end) > best) & ~np.isnan(wish)
        shared = np.where(here, wish < end, shared)
        best = np.where(here, np.minimum(wish, end), best)
    return best, np.where(fixed, ~shared, bounded), shared


def _equal_time(terms: Terms, h: Array, Ru: Array) -> Array:
    """Return the t of clients that finish at the end, with no bounds: the root of t + s = h."""
    T, S = ((terms.alpha - 1) * terms.w) ** (1 / terms.alpha), np.sqrt(Ru)
    power, b, q = -1 / terms.alpha, terms.b, terms.q
    # At `low` one of t and s alone is h or more; at `high` both are at most half of it.
    high = np.maximum(4 * S * S / (h * h) - q, (2 * T / h) ** terms.alpha - b)
    low = np.maximum(S * S / (h * h) - q, (T / h) ** terms.alpha - b)
    low = np.maximum(low, LEAST_PRICE * high)  # no root above 0: t is at its lower bound
    beta = np.sqrt(low * high)
    t = np.zeros_like(h)
    for _ in range(PRICE_STEPS):
        by_t, by_s = b + beta, q + beta
        t, s = T * by_t**power, S / np.sqrt(by_s)
        over = np.log((t + s) / h)
        low, high = np.where(over > 0, beta, low), np.where(over > 0, high, beta)
        slope = beta * (t / (terms.alpha * by_t) + s / (2 * by_s)) / (t + s)
        wish = beta * np.exp(np.clip(over / slope, -30, 30))
        near = np.abs(over) <= PRICE_TOLERANCE
        usable = (wish > low) & (wish < high)
        beta = np.where(near, beta, np.where(usable, wish, (low + high) / 2))
        if (near | (high - low <= 1e-15 * high) | ~(high > 0)).all():
            break
    return np.asarray(np.where(high > 0, t, 0.0))  # no price: t is at its lower bound


def _newton(terms: Terms, each: _Response, e: Array, R: Array) -> tuple[Array, Array]:
    """Return log(sum a), log(sum beta / A), and Newton's step for (log(H - floor), log R)."""
    u, s, q = terms.u, each.s, terms.q
    a = u / s
    shares, prices = a.sum(-1), each.beta.sum(-1)
    with np.errstate(all="ignore"):
        miss = np.stack((np.log(shares), np.maximum(np.log(prices / terms.second), -700.0)))
        a_by_s = -a / s
        X = np.where(each.early, 0.0, 2 * (each.beta + q) / s)  # -d beta / ds at given R
        direct = np.where(each.early, 0.0, a / s)  # d beta / dR at given s
        aH = (a_by_s * each.by_length).sum(-1) * e / shares
        aR = (a_by_s * each.by_price).sum(-1) * R / shares
        bH = -(X * each.by_length).sum(-1) * e / prices
        bR = (direct - X * each.by_price).sum(-1) * R / prices
        determinant = aH * bR - aR * bH
        step = np.stack((aR * miss[1] - bR * miss[0], bH * miss[0] - aH * miss[1]))
        return miss, step / determinant


def training_times(terms: Terms, send: Array) -> Array:
    """Return the best training times for given upload times: until the end of the round, or the
    own best time of a client if that is shorter.

    The length H of the round is where the savings of those that train until its end sum to A.
    """
    own = terms.training_time(np.zeros(1))
    until = terms.m + send
    if not until.any() and (terms.alpha == terms.alpha.flat[0]).all() and terms.levels is None:
        return _same_length(terms, own)

    def is_short(H: Array) -> Array:
        t = np.maximum(H - until, terms.shortest)
        saved = np.where(own > t, terms.savings(t)[0], 0.0)
        total = np.maximum(saved, 0.0).sum(-1, keepdims=True)
        return np.asarray(total > terms.second[..., None])

    low, high = until + terms.shortest, until + own
    H = bisect(is_short, low.max(-1, keepdims=True), high.max(-1, keepdims=True))
    return np.asarray(np.minimum(np.maximum(H - until, terms.shortest), own))


def _same_length(terms: Terms, own: Array) -> Array:
    """Return `training_times` of clients that all begin and end together, with the same alpha:
    T^alpha = (alpha - 1) sum w / (A + sum b) over those that last until T, the first k by `own`."""
    alpha, last = terms.alpha.flat[0], np.argsort(-own, axis=-1)
    w, b, longest = (np.take_along_axis(values, last, -1) for values in (terms.w, terms.b, own))
    above = (alpha - 1) * w.cumsum(-1) / (terms.second[..., None] + b.cumsum(-1))
    T = np.minimum(above ** (1 / alpha), longest).max(-1, keepdims=True)
    T = np.maximum(T, terms.shortest.max(-1, keepdims=True))
    return np.asarray(np.minimum(np.maximum(T, terms.shortest), own))


def bisect(is_short: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return where a condition that holds at small values ends, between `low` and `high`."""
    high = np.maximum(low, high)
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        short = is_short(middle)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
        if (high - low <= 1e-14 * high).all():
            break
    return high
