"""The exact minimiser of (22) over share, clock and transmit power (`network.physics.power`).

As in `general`, the length of the round H and the price of band R decouple the clients
(`clients`). Left are two sums: the shares y / (x s) fill the band, and the prices beta of
being done by H sum to A. The first falls in R and in H, the second rises in R and falls in H.
Where beta falls at once as H grows, the prices of both sides are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedcell.core.types import Array, Bools
from fedcell.network.physics.power.functions import inverse_m
from fedcell.network.physics.power.problem import FreePower

from .clients import Response, respond

BLOCK = 2**14  # clients solved at a time
TOLERANCE = 1e-11  # of the two sums
ROUNDING = 4e-16  # of a step, relative
STEPS = 60  # of Newton's method for the two sums; 5 to 15 are usual
PRICE_STEPS = 90  # for the price of band at a length of the round; 3 to 6 are usual
STALLED = 9  # steps that have not halved the error of Newton's method: the box is halved
BISECTIONS = 60  # of H, where Newton's method fails
AT_FLOOR = 1e-13  # of the shortest round: no longer than it
NEAR = 0.5  # of the first step to the middle of the box; it doubles
FAR = 40.0  # of the box around the start, in logarithms
UNPAID = 0.999  # of the prices beta, below which a round that could be shorter is not optimal
FILLED = 1e-9  # of the band: what shares may exceed it by, from rounding
TINY = 1e-300
NO_PRICE = 1e-30  # of band, relative to the start, where some is left over
MET = 1e-9  # of the box: what a sum that is met may miss


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
    power = replace(power, terms=power.terms.any_clock())
    shape, flat = power.y.shape, power.flat()
    rounds = max(1, BLOCK // shape[-1])
    given = None if length is None else np.reshape(length, -1)
    parts = []
    for i in range(0, len(flat.y), rounds):
        part = slice(i, i + rounds)
        parts.append(_solve_all(flat[part], None if given is None else given[part]))
    t, s, x, beta, R = (
        np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(JointSplit)
    )
    t, s, x, beta = (values.reshape(shape) for values in (t, s, x, beta))
    return JointSplit(t, s, x, beta, R.reshape(shape[:-1]))


def shortest_rounds(power: FreePower) -> Array:
    """Return what no round is shorter than, with all the band for each client (...) [s]."""
    return np.asarray((power.terms.m + power.terms.shortest + power.floor).max(-1))


def _solve_all(power: FreePower, length: Array | None) -> JointSplit:
    """Return the optimum of rounds with one axis."""
    if length is not None:
        floor = shortest_rounds(power)
        e = np.maximum(length - floor, AT_FLOOR / 2 * floor)
        return _priced(power, floor, e, _start(power, floor)[1])
    found, solved = _solve(power)
    # Prices vanish together where no limit acts any more: Newton's method then stops too late.
    ends = (power.terms.m + found.train + found.upload).max(-1)
    longer = ends > shortest_rounds(power) * (1 + 2 * AT_FLOOR)
    solved &= ~(longer & (found.beta.sum(-1) < UNPAID * power.terms.second))
    if not solved.all():
        rest = np.flatnonzero(~solved)
        other = _bisected(power[rest])
        better = _reached(power[rest], other) <= _reached(power[rest], found, rest)
        for f in fields(JointSplit):
            getattr(found, f.name)[rest[better]] = getattr(other, f.name)[better]
    return found


def _reached(power: FreePower, split: JointSplit, rows: Any = slice(None)) -> Array:
    """Return the objective of a split; infinite where it needs more than the band."""
    t, s, x = (getattr(split, name)[rows] for name in ("train", "upload", "x"))
    fits = (power.y / (x * s)).sum(-1) <= 1 + FILLED
    return np.where(fits, power.value(t, s, x), np.inf)


def _bisected(power: FreePower) -> JointSplit:
    """Return the optimum by bisection of H, with the price of band solved for at each.

    The sum of the prices beta falls in H. Where it jumps, those of both sides are mixed.
    """
    floor, A = shortest_rounds(power), power.terms.second
    z = _start(power, floor)
    low, high = np.log(AT_FLOOR / 2 * floor), z[0] + FAR
    above = _priced(power, floor, np.exp(high), z[1])  # of a round that is too long
    below = _priced(power, floor, np.exp(low), z[1])
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        start = np.where(above.R > 0, np.log(np.maximum(above.R, TINY)), z[1])
        found = _priced(power, floor, np.exp(middle), start)
        shares = (power.y / (found.x * found.upload)).sum(-1)
        more = (found.beta.sum(-1) >= A) | (shares > 1 + FILLED)  # H must be longer
        low, high = np.where(more, middle, low), np.where(more, high, middle)
        below, above = _where(more, found, below), _where(more, above, found)
    return _mixed(above, below, A)


def _priced(power: FreePower, floor: Array, e: Array, z: Array) -> JointSplit:
    """Return the cheapest split of rounds of length floor + e: the price of band at which the
    shares fill it, or no price where they leave some of it over. The search begins at log R = z."""
    t, s, x, beta = (np.empty_like(power.y) for _ in range(4))
    prices, left = np.zeros(len(power.y)), np.arange(len(power.y))
    guess = np.full_like(power.y, np.nan)
    low, high = z - FAR, z + FAR
    # Without a price of band x falls to its least value, or to the best for what is drawn on air.
    none = respond(power, floor, e, np.exp(low), guess)
    finite = (power.least > 0) | (power.on_air > 0) | (power.airtime > 0)
    band_left = (none.share.sum(-1) <= 1) & finite.all(-1)
    too_short = respond(power, floor, e, np.exp(high), guess).share.sum(-1) > 1 + TOLERANCE
    z = np.where(band_left, low, np.where(too_short, high, z))
    ends = band_left | too_short
    for step in range(PRICE_STEPS):
        R = np.exp(z)
        each = respond(power, floor, e, R, guess)
        shares = each.share.sum(-1)
        with np.errstate(all="ignore"):
            newton = np.clip(-np.log(shares) * shares / each.share_by[1].sum(-1), -6, 6)
        low, high = np.where(shares > 1, z, low), np.where(shares > 1, high, z)
        step_end = ROUNDING * np.maximum(1, np.abs(z))
        done = (np.abs(shares - 1) <= TOLERANCE) | ends | (high - low <= 2 * step_end)
        done |= np.abs(newton) <= step_end
        done |= step == PRICE_STEPS - 1
        for values, found in zip((t, s, x, beta), (each.t, each.s, each.x, each.beta), strict=True):
            values[left[done]] = found[done]
        prices[left[done]] = np.asarray(np.where(band_left, 0.0, R))[done]
        if done.all():
            break
        wish = z + newton
        usable = np.isfinite(wish) & (wish > low) & (wish < high) & (step % 6 != 5)
        following = np.where(usable, wish, (low + high) / 2)
        guess = _foreseen(each, np.zeros_like(e), following - z)
        keep = ~done
        power, left, floor, e, guess = power[keep], left[keep], floor[keep], e[keep], guess[keep]
        low, high, z = low[keep], high[keep], following[keep]
        band_left, ends = band_left[keep], ends[keep]
    return JointSplit(t, s, x, beta, prices)


def _mixed(above: JointSplit, below: JointSplit, A: Array) -> JointSplit:
    """Return a split with prices between its own and those of a shorter round, which sum to A."""
    most, least = below.beta.sum(-1), above.beta.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        part = np.nan_to_num(np.clip((A - least) / (most - least), 0, 1))[:, None]
    beta = part * below.beta + (1 - part) * above.beta
    return replace(above, beta=beta, R=part[:, 0] * below.R + (1 - part[:, 0]) * above.R)


def _where(which: Bools, one: JointSplit, other: JointSplit) -> JointSplit:
    """Return some rounds of one split, and the rest of the other."""
    each = which[:, None]
    pairs = [(getattr(one, f.name), getattr(other, f.name)) for f in fields(JointSplit)]
    return JointSplit(*(np.where(each if a.ndim == 2 else which, a, b) for a, b in pairs))


def _solve(power: FreePower) -> tuple[JointSplit, Bools]:
    """Return the optimum of rounds with one axis, and whether it was found, by Newton's method for
    (log(H - floor), log R) within the box that the signs of the two sums leave."""
    t, s, x, beta = (np.empty_like(power.y) for _ in range(4))
    prices, left = np.empty(len(power.y)), np.arange(len(power.y))
    solved = np.zeros(len(power.y), bool)
    floor = shortest_rounds(power)
    z = _start(power, floor)
    known = np.stack((np.zeros(len(floor), bool), _has_band_left(power)))
    z[1] = np.where(known[1], z[1] + np.log(NO_PRICE), z[1])
    # Energy is free: shares have no price to heed.
    free = np.asarray(~(power.radiated.any(-1) | power.on_air.any(-1)))
    low, high = z - FAR, z + FAR
    low[0] = np.maximum(low[0], np.log(AT_FLOOR / 2 * floor))
    guess = np.full_like(power.y, np.nan)
    stall, least = np.zeros(len(floor), int), np.full(len(floor), np.inf)
    for step in range(STEPS):
        e, R = np.exp(z)
        each = respond(power, floor, e, R, guess)
        known[0] |= (e <= AT_FLOOR * floor) & (each.beta.sum(-1) <= power.terms.second)
        left_over = known[0] & free & (each.share.sum(-1) <= 1)
        known[1] |= left_over
        each.beta[left_over] = 0.0  # all but the client that makes the round so long
        miss, newton = _newton(power, each, e, known)
        still = np.abs(newton) <= ROUNDING * np.maximum(1, np.abs(z))  # sums of 100,000 round
        met = (np.abs(miss).max(0) <= TOLERANCE) | still.all(0) | known.all(0)
        done = met | (step == STEPS - 1)
        for values, found in zip((t, s, x, beta), (each.t, each.s, each.x, each.beta), strict=True):
            values[left[done]] = found[done]
        prices[left[done]] = np.asarray(np.where(known[1], 0.0, R))[done]
        solved[left[done]] = met[done]
        if done.all():
            break
        low, high = _narrow(z, miss, low, high)
        last = z
        error = np.abs(miss).max(0)
        stall = np.where(error < least / 2, 0, stall + 1)
        least = np.minimum(least, error)
        ends = np.where(known, z, low), np.where(known, z, high)
        z = _next(z, newton, *ends, step, stall % STALLED == STALLED - 1)
        guess = _foreseen(each, np.exp(z[0]) - e, z[1] - last[1])
        if not (keep := ~done).all():
            power, left, floor, guess = power[keep], left[keep], floor[keep], guess[keep]
            free, stall, least = free[keep], stall[keep], least[keep]
            z, low, high, known = z[:, keep], low[:, keep], high[:, keep], known[:, keep]
    return JointSplit(t, s, x, beta, prices), solved


def _foreseen(each: Response, longer: Array, dearer: Array) -> Array:
    """Return the lengths of uploads after a step, to first order."""
    s_h, s_r = each.s_by
    s = each.s + s_h * longer[:, None] + s_r * dearer[:, None]
    return np.asarray(np.where(s > 0.1 * each.s, s, 0.1 * each.s))


def _narrow(z: Array, miss: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the smaller box after evaluating z, by the signs of the two sums."""
    more = miss >= 0
    alike = more[0] == more[1]  # then z tells of H, else of R
    which = np.stack((alike, ~alike))
    low = np.where(which & more[0], z, low)
    high = np.where(which & ~more[0], z, high)
    for met, sign in ((0, -1), (1, 1)):  # on the curve of one sum, the other tells of both
        here = np.abs(miss[met]) <= TOLERANCE
        longer, dearer = more[1 - met], more[1 - met] if sign > 0 else ~more[1 - met]
        for i, up in enumerate((longer, dearer)):
            low[i] = np.where(here & up, z[i] - MET, low[i])
            high[i] = np.where(here & ~up, z[i] + MET, high[i])
    return low, high


def _next(z: Array, newton: Array, low: Array, high: Array, step: int, stalled: Bools) -> Array:
    """Return the next point: that of Newton's method, or towards the middle of the box."""
    wish = z + np.clip(newton, -4, 4)
    unusable = ~np.isfinite(wish).all(0) | stalled
    reach = NEAR * 2.0 ** min(step, 16)
    middle = np.clip((low + high) / 2, z - reach, z + reach)
    return np.clip(np.where(unusable, middle, wish), low, high)


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
    joules = power.radiated.sum(-1) + (terms.w / terms.shortest ** (terms.alpha - 1)).sum(-1)
    second = np.where(terms.second > 0, terms.second, joules / floor)  # 0: time is free
    share = second[:, None] / count
    t = terms.training_time(share)
    late = np.maximum((terms.m + t).max(-1) - floor, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = inverse_m((power.on_air + (terms.q + share) * power.y * count) / power.radiated)
        x = np.clip(x, power.least, power.most)
        limit = np.log1p(power.y * count / power.sending)  # all the power over an even share
        x = np.maximum(np.minimum(x, limit), power.least)
    e = late + (power.y / x).sum(-1)
    R = (second + terms.q.sum(-1)) / (power.y / (x * e[:, None] ** 2)).sum(-1)
    return np.asarray(np.log(np.stack((np.maximum(e, 1e-12 * floor), R))))


def _newton(power: FreePower, each: Response, e: Array, known: Bools) -> tuple[Array, Array]:
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
